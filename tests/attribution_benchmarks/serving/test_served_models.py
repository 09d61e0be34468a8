"""models.config and the committed files with explanations fit each other and the originals."""

import pathlib
import re
import shutil

import numpy as np
import pytest
from stand_in import StandIn, load_versions, read_models_config

import attribution
from attribution import cli, export
from attribution.errors import BadInput
from attribution_benchmarks import serving
from attribution_benchmarks.serving import serve as serve_command

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAVED_MODELS = ROOT / "saved_models"


def originals():
    """Name of each committed model on a server -> its directory."""
    return {
        f"{directory.parent.name}_{directory.name}": directory
        for directory in sorted(SAVED_MODELS.glob("*/*/"))
        # Networks of exact truth and of parts are not served, nor further ones of SVEA.
        if directory.parent.name not in ("served", "exact", "parts")
        and (directory / "MODEL_CARD.md").is_file()
        and not re.fullmatch("baseline_seed([5-9]|1.)", directory.name)
    }


def test_every_committed_model_is_served_under_its_name():
    served = read_models_config(str(SAVED_MODELS / "models.config"))
    # A model that is missing here needs a line in saved_models/models.config.
    assert served == {name: f"/models/served/{name}" for name in originals()}


def committed():
    lines = (SAVED_MODELS / "served" / ".gitignore").read_text().splitlines()
    names = [line.removeprefix("!/") for line in lines if line.startswith("!/")]
    return [name for name in names if name not in (".gitignore", "MODEL_CARD.md")]


def test_committed_explanations_were_made_from_the_originals():
    assert committed()
    for name in committed():
        content = (SAVED_MODELS / "served" / name / "1" / "saved_model.pb").read_bytes()
        model = attribution.load_model(originals()[name], score="probabilities")
        assert model.fingerprint.encode() in content, f"export saved_models/served/{name} again"


def test_a_committed_file_explains_itself_by_both_protocols():
    inputs = np.random.default_rng(0).normal(size=(3, 40, 1)).astype(np.float32)
    model = attribution.load_model(originals()["svea_baseline"], score="probabilities")
    methods = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam"]
    local = attribution.explain_many(methods, model, inputs)
    versions = load_versions(str(SAVED_MODELS / "served" / "svea_baseline"))
    with StandIn({"svea_baseline": versions}) as server:
        for address in (server.grpc_address, server.rest_address):
            with serving.Client(address) as client:
                asked = serving.ServedModel(client, "svea_baseline", score="probabilities")
                np.testing.assert_allclose(asked.scores(inputs), model.scores(inputs), atol=1e-5)
                served = attribution.explain_many([serving.as_served(name) for name in methods], asked, inputs)
                for name in methods:
                    assert export.relative_difference(served[name], local[name]) <= 1e-5
                with pytest.raises(BadInput, match="explains probabilities, not logits"):
                    serving.ServedModel(client, "svea_baseline", score="logits")


def model_at(directory, version=1, content=b""):
    """Write what looks like a version of a model."""
    (directory / str(version)).mkdir(parents=True)
    (directory / str(version) / "saved_model.pb").write_bytes(content)


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Two networks without a ReLU, whose second has no gradients, and the first one with explanations."""
    import tensorflow as tf

    folder, layers = tmp_path_factory.mktemp("networks"), tf.keras.layers
    plain = tf.keras.Sequential([tf.keras.Input((6,)), layers.Dense(5, activation="gelu"), layers.Dense(3)])
    plain.export(folder / "plain", verbose=False)
    numbers = tf.keras.Input((6,), dtype="int32")
    table = tf.keras.Model(numbers, tf.keras.ops.one_hot(numbers[:, 0], 3))
    table.export(folder / "table", verbose=False)
    export.export(folder / "plain", folder / "explained", ["gradient"])
    return folder


def export_only(models, *flags):
    """Return the exit code of an export in this process."""
    arguments = ["serve", f"--models={models}", "--export_only", *flags]
    return cli.execute(serve_command.main, serve_command.FLAGS, "", arguments)


def test_models_at_any_depth_are_served_without_the_methods_that_do_not_fit(networks, tmp_path, capsys):
    for name in ("digits", "own/digits", "own/seed1/digits"):
        shutil.copytree(networks / "plain", tmp_path / name / "3")
    shutil.copytree(networks / "table", tmp_path / "own/table/1")
    shutil.copytree(networks / "explained/1", tmp_path / "done/2")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "own/empty/1").mkdir(parents=True)
    assert export_only(tmp_path, "--methods=gradient,guided_backprop,deeplift") == 0
    printed = capsys.readouterr().err
    names = ["digits", "own_digits", "own_seed1_digits"]
    for name in names:
        assert printed.count(f"\n{name}: 'guided_backprop' is skipped: ") == 1
        assert (tmp_path / "served" / name / "3/saved_model.pb").is_file()
    assert printed.count("own_table: it is skipped: ") == 1
    assert printed.startswith("4 models to export") and f"exporting {tmp_path / 'served/own_table'}, 4 of 4" in printed
    served = {name: f"/models/served/{name}" for name in names} | {"done": "/models/done"}
    assert read_models_config(str(tmp_path / "served/models.config")) == served
    assert {"explain_gradient", "explain_deeplift"} <= set(load_versions(str(tmp_path / "served/own_digits"))[3])
    assert export_only(tmp_path) == 0
    assert "exporting" not in capsys.readouterr().err.replace("exporting " + str(tmp_path / "served/own_table"), "")


def test_where_nothing_can_be_exported_the_code_is_2(networks, tmp_path, capsys):
    shutil.copytree(networks / "table", tmp_path / "own/table/1")
    assert export_only(tmp_path) == 2
    assert (
        capsys.readouterr().err.splitlines()[-1].startswith("error: 1 of 1 models could not be exported: 'own_table'")
    )


def config_of(directory, *paths):
    entries = (f'config {{ name: "m{n}" base_path: "{p}" model_platform: "tensorflow" }}' for n, p in enumerate(paths))
    (directory / "models.config").write_text(f"# base_path: '/none'\nmodel_config_list {{ {' '.join(entries)} }}")


def test_only_what_models_config_lists_is_exported(networks, tmp_path, capsys):
    for name in ("one", "two", "three"):
        shutil.copytree(networks / "plain", tmp_path / name / "1")
    config_of(tmp_path, "/models/served/one", "/models/two")
    assert export_only(tmp_path, "--methods=gradient") == 0
    assert [path.name for path in (tmp_path / "served").iterdir()] == ["one"]


def test_what_models_config_lists_must_be_there_before_anything_is_exported(tmp_path, capsys):
    model_at(tmp_path / "own/digits")
    for path, words in [
        ("/models/served/digits", "/models/served/digits is not a model; the models in"),
        ("/models/../digits", "expected /models/..."),
    ]:
        config_of(tmp_path, path)
        assert export_only(tmp_path) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1
    config_of(tmp_path, "/models/served/own_digits")  # an empty file, which cannot be exported
    assert export_only(tmp_path) == 2
    assert "lists what could not be exported: 'own_digits'; remove" in capsys.readouterr().err


def test_models_of_one_name_are_refused(tmp_path, capsys):
    model_at(tmp_path / "a_b/c")
    model_at(tmp_path / "a/b_c")
    assert export_only(tmp_path) == 2
    assert "would both be served as 'a_b_c'; rename one" in capsys.readouterr().err
    assert export_only(tmp_path / "a/b_c") == 2
    assert "is a model itself; name the directory that holds it" in capsys.readouterr().err
