"""BIM's methods held against their own maps on networks of random weights, in place of each member's network."""

import json
import os
import shutil

import numpy as np
import pytest

from attribution import cli, explain
from attribution_benchmarks.core.controls import RANDOM, WRONG_CLASS
from attribution_benchmarks.core.evaluation import evaluated
from attribution_benchmarks.core.random_weights import MOST, network, with_shuffled_weights
from attribution_benchmarks.core.scores import Scores
from bim import classifiers, members, metrics
from bim.definition import BENCHMARK
from bim.methods import on_random_networks

pytestmark = pytest.mark.usefixtures("load_once")


def run(tmp_path, *flags, code=0):
    arguments = ["metrics", f"--scores_dir={tmp_path / 'scores'}", "--nocontrols", "--num_imgs=6", *flags]
    assert cli.execute(metrics.main, metrics.FLAGS, metrics.__doc__, arguments) == code


def test_a_model_against_itself_has_no_contrast_but_its_random_networks_have(predicted, tiny_models, tmp_path, bim_run):
    """Step by step: the network with other weights, none drawn twice, asked for the class of the trained one."""
    own = os.path.join(tiny_models, "obj")
    bench = bim_run(
        f"--data_dir={predicted}", f"--models_dir={tiny_models}", f"--scores_dir={tmp_path}", "--methods=gradient",
        "--num_imgs=6", "--random_networks=2", f"--models=obj={own},scene={own}", "--nocontrols", "--metrics=MCS",
    )  # fmt: skip
    found = evaluated(bench).groups[0].values
    assert set(found) == {"gradient", "gradient/random_weights#1", "gradient/random_weights#2"}
    assert not found["gradient"].any()
    for number in (1, 2):
        sides = []
        for place, name in enumerate(("obj", "scene")):
            member = bench.member(name, name)
            batch = member.batch(bench.drawn(name))
            other = with_shuffled_weights(member.model.path, 0, "logits", number=number + MOST * place)
            maps = explain("gradient", other, batch.inputs, member.model.predict(batch.inputs))
            sides.append(members.OBJECT.function(maps, batch, None)[:, 0])
        contrast = found[f"gradient/random_weights#{number}"]
        np.testing.assert_allclose(contrast, sides[0] - sides[1], atol=1e-6)
        assert np.abs(contrast).max() > 1e-3


def test_rows_files_and_words_agree(predicted, tiny_models, tmp_path, capsys):
    own = os.path.join(tiny_models, "obj")
    flags = [
        f"--data_dir={predicted}", f"--models_dir={tiny_models}", f"--models=obj={own},scene={own}", "--metrics=MCS",
        "--methods=gradient", "--random_networks=2",
    ]  # fmt: skip
    run(tmp_path, *flags, f"--output={tmp_path / 'o.json'}")
    printed = " ".join(capsys.readouterr().out.split())
    written = json.loads((tmp_path / "o.json").read_text())
    assert written["manifest"]["models"] == dict.fromkeys(("obj", "scene"), classifiers.classifier_at(own).fingerprint)
    asked, row = written["rows"]
    assert asked["n"] > 0 and asked["value"] == 0
    assert "of" not in asked and (row["of"], row["control"]) == ("gradient", "random_weights")
    (group,) = Scores.load(tmp_path / "o.json").groups
    means = [np.mean(group.values[f"gradient/random_weights#{number}"]) for number in (1, 2)]
    assert row["networks"] == pytest.approx(means) and row["value"] == pytest.approx(np.mean(means))
    assert f"Vanilla Gradient {row['value']:.3f} [{min(means):.3f}, {max(means):.3f}]" in printed


def test_a_wrong_class_is_a_control_and_a_map_without_a_network_is_no_baseline(
    predicted, tiny_models, tmp_path, capsys
):
    """A model against itself has no contrast for any class; without a network there is none by definition."""
    own = os.path.join(tiny_models, "obj")
    flags = [
        f"--data_dir={predicted}", f"--models_dir={tiny_models}", f"--models=obj={own},scene={own}",
        "--metrics=MCS,roc_auc", "--methods=gradient", "--random_networks=1", "--controls",
    ]  # fmt: skip
    run(tmp_path, *flags, f"--output={tmp_path / 'i.json'}")
    printed = " ".join(capsys.readouterr().out.split())
    contrast, shared = Scores.load(tmp_path / "i.json").groups
    assert not np.any(contrast.values["gradient/wrong_class"]) and np.any(contrast.values["gradient/random_weights#1"])
    assert np.any(shared.values["gradient/wrong_class"] != shared.values["gradient"])
    assert "MCS, wrong class MCS, random nets" in printed and "Vanilla Gradient 0.000" in printed
    assert {"random", "centre_prior", "edge_detector"} <= BENCHMARK.excluded("mcs").keys()


def test_costly_methods_are_not_asked_about_all_networks():
    names = ["gradient", "score_cam", "integrated_gradients_smoothgrad"]
    assert on_random_networks(network(1), names) == ["gradient", "score_cam"]
    assert on_random_networks(network(2), names) == on_random_networks(RANDOM, names) == ["gradient"]
    assert on_random_networks(network(1, place=2), names) == ["gradient", "score_cam"]
    assert on_random_networks(WRONG_CLASS, names) == ["gradient", "score_cam"]


def test_a_network_without_variables_is_held_against_none(predicted, tiny_models, tmp_path, bim_run):
    own = shutil.copytree(os.path.join(tiny_models, "obj"), tmp_path / "own")
    bench = bim_run(
        f"--data_dir={predicted}", f"--models_dir={tiny_models}", f"--scores_dir={tmp_path}", "--methods=gradient",
        "--random_networks=2", f"--models=obj={own}", "--nocontrols", "--metrics=MCS",
    )  # fmt: skip
    member = bench.member("obj", "obj")
    assert len(bench.explainer_of(member).sources) == 3
    for variables in own.rglob("variables"):
        shutil.rmtree(variables)
    assert len(bench.explainer_of(member).sources) == 1


@pytest.mark.parametrize("flag", ["--server=grpc://localhost:1", "--precomputed_maps=maps", "--compat=upstream"])
def test_networks_that_have_no_weights_here_are_refused(tmp_path, capsys, flag):
    run(tmp_path, "--random_networks=1", flag, code=2)
    told = capsys.readouterr().err
    assert "--random_networks" in told and flag.partition("=")[0] in told
