"""TCAV on directions that are known."""

import json

import numpy as np
import pytest
from scipy import stats

from attribution import cli
from attribution.errors import BadInput
from bim import classifiers, run_tcav, tcav

pytestmark = pytest.mark.usefixtures("load_once")


def clouds(shift, count=200, size=6, seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((2, count, size))
    return first + shift, second


def test_a_cav_points_from_the_counterpart_to_the_concept():
    direction = np.array([3.0, -2.0, 0, 0, 1.0, 0])
    vector, accuracy = tcav.concept_activation_vector(*clouds(direction, count=400))
    assert np.linalg.norm(vector) == pytest.approx(1.0)
    # Two normal clouds at a distance of 3.74 can be told in 96.9 % of the cases.
    assert vector @ direction / np.linalg.norm(direction) > 0.95 and accuracy > 0.9
    back, _ = tcav.concept_activation_vector(*clouds(-direction))
    assert back @ direction < 0


def test_the_score_counts_positive_directional_derivatives():
    gradients = np.array([[1.0, 0.0], [-1.0, 5.0], [2.0, 2.0], [0.0, 1.0]])
    assert tcav.tcav_score(gradients, np.array([1.0, 0.0])) == 0.5
    assert tcav.tcav_score(gradients, np.array([-1.0, 0.0])) == 0.25
    assert tcav.tcav_score(3 * gradients, np.array([0.2, 0.0])) == 0.5
    for some, vector in ((0 * gradients, np.ones(2)), (gradients, np.zeros(2))):
        with pytest.raises(BadInput, match="all directional derivatives are 0"):
            tcav.tcav_score(some, vector)


def test_the_t_test_is_scipys():
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.3, 2.0):
        first, second = rng.random(10) + shift, rng.random(7)
        assert tcav.two_sided_t_test(first, second) == pytest.approx(stats.ttest_ind(first, second).pvalue, rel=1e-9)
    assert tcav.two_sided_t_test(np.ones(5), np.ones(5)) == 1.0
    assert tcav.two_sided_t_test(np.ones(5), np.zeros(5)) == 0.0


def test_gradients_of_the_layers_move_the_logit_as_they_say(sets, tiny_models):
    # The logit is linear in the pooled last layer, so gradient times activation, plus the bias, is the logit.
    import tensorflow as tf

    model = classifiers.load_classifier(tiny_models, "scene")
    images = tcav.load_images(sets, 2)["target"]
    values, gradients = tcav.layer_passes(model, images, 3, tcav.LAYERS, batch_size=2)
    logits = model.scores(classifiers.network_inputs(images, 32))
    bias = next(v for v in tf.saved_model.load(str(model.path)).variables if v.shape == (10,)).numpy()[3]
    linear = (values["block_layer4"] * gradients["block_layer4"]).sum(axis=1)
    np.testing.assert_allclose(linear + bias, logits[:, 3], rtol=1e-3)
    np.testing.assert_allclose(values["final_dense"], logits, rtol=1e-5)
    assert gradients["final_dense"].tolist() == [[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]] * len(images)


def test_a_concept_that_drives_the_class_scores_one_and_is_significant(monkeypatch):
    rng = np.random.default_rng(1)
    names = ["target", "concept", *(f"random_{number}" for number in range(6))]
    activations = {
        name: rng.standard_normal((60, 5)) + (name == "concept") * np.array([4.0, 0, 0, 0, 0]) for name in names
    }
    slopes = np.concatenate([rng.uniform(1, 2, (60, 1)), 0.01 * rng.standard_normal((60, 4))], axis=1)
    monkeypatch.setattr(tcav, "layer_passes", lambda model, name, *_: ({"layer": activations[name]}, {"layer": slopes}))
    (found,) = tcav.score_concept(None, 0, {name: name for name in names}, layers=("layer",))
    assert found.scores.tolist() == [1.0] * 6 and found.accuracies.mean() > 0.9
    assert found.random_scores.mean() < 0.95


def test_the_command_prints_two_models_and_their_contrast(sets, tiny_models, tmp_path, capsys):
    output = tmp_path / "run_tcav.json"
    arguments = ["run_tcav", f"--data_dir={sets}", f"--models_dir={tiny_models}", f"--output={output}"]
    arguments += ["--num_random=3"]
    assert cli.execute(run_tcav.main, run_tcav.FLAGS, run_tcav.__doc__, arguments) == 0
    found = json.loads(output.read_text())
    rows, images = found["rows"], tcav.load_images(sets, 3)
    assert found["manifest"]["data"] == {"tcav": tcav.fingerprint(images)}
    images["concept"][0, 0, 0, 0] ^= 1
    assert found["manifest"]["data"] != {"tcav": tcav.fingerprint(images)}
    assert [row["metric"] for row in rows] == ["tcav"] * 10 + ["tcav_contrast"] * 5
    for row, first, second in zip(rows[10:], rows[:5], rows[5:10], strict=True):
        assert row["value"] == pytest.approx(first["value"] - second["value"])
    printed = capsys.readouterr().out
    assert "TCAV of 'obj' minus 'scene'" in printed and "p (Holm)" in printed


def test_too_few_counterparts_or_images_are_refused(sets):
    with pytest.raises(BadInput, match="at least 2 random"):
        tcav.score_concept(None, 0, {"concept": None, "random_0": None})
    with pytest.raises(BadInput, match="ten random counterparts"):
        tcav.load_images(sets, 11)
    with pytest.raises(BadInput, match="at least 2 images"):
        tcav.concept_activation_vector(np.zeros((1, 3)), np.zeros((4, 3)))


class Layered:
    """A model that has some layers."""

    def __init__(self, *names, default="last"):
        self.names, self.default = names, default

    def layer(self, name):
        if name is None:
            return self.default
        if name not in self.names:
            raise BadInput(f"no layer '{name}'")
        return name


def test_layers_are_the_authors_the_users_or_what_models_share():
    theirs, own, other = Layered(*tcav.LAYERS), Layered("a", "b"), Layered("b", default="end")
    assert tcav.layers_of({"x": theirs, "y": theirs}) == tcav.LAYERS
    assert tcav.layers_of({"x": own}) == ("last", "final_dense")
    assert tcav.layers_of({"x": own, "y": other}) == ("final_dense",)
    assert tcav.layers_of({"x": own, "y": other}, ["b", "final_dense"]) == ("b", "final_dense")
    with pytest.raises(BadInput, match="no layer 'a'"):
        tcav.layers_of({"x": own, "y": other}, ["a"])


def test_tcav_of_the_authors_files(sets, upstream_models, capsys):
    """Their SavedModels have no signature: they are known by tensors, in every command."""
    arguments = ["run_tcav", f"--data_dir={sets}", f"--models_dir={upstream_models}", "--num_random=2"]
    arguments += ["--contrast_with="]

    def run(*more):
        return cli.execute(run_tcav.main, run_tcav.FLAGS, run_tcav.__doc__, [*arguments, *more])

    assert run() == 2
    assert run("--compat=upstream") == 0
    assert "2 random counterparts" in capsys.readouterr().out
