"""Sanity: the class explained, the order of variables, what is shuffled, closed forms, methods that pass and fail."""

import numpy as np
import pytest
import tensorflow as tf
from skimage.metrics import structural_similarity

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, MapSource
from attribution_benchmarks.core.controls import EDGE_DETECTOR, WRONG_CLASS
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import Explainer, SavedMaps
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, graph_order, networks
from attribution_benchmarks.metrics import sanity
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics

NAMES = [metric.name for metric in sanity.METRICS]


class Backwards(tf.Module):
    """Three layers whose variables are made, and so lie in the file, from the last to the first."""

    def __init__(self):
        draw = tf.random.Generator.from_seed(1)
        self.last = tf.Variable(draw.normal((16, 3)))
        self.middle = tf.Variable(draw.normal((3, 3, 4, 4)))
        self.first = tf.Variable(draw.normal((3, 3, 1, 4)))

    @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 1), name="picture")])
    def __call__(self, picture):
        hidden = tf.nn.relu(tf.nn.conv2d(picture, self.first, 2, "SAME"))
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, self.middle, 2, "SAME"))
        return {"logits": tf.matmul(tf.reshape(hidden, (-1, 16)), self.last)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path, module = tmp_path_factory.mktemp("backwards"), Backwards()
    tf.saved_model.save(module, str(path), signatures=module.__call__)
    return attribution.load_model(path)


@pytest.fixture(scope="module")
def scored(model):
    """Return the numbers of a gradient and of a method that never looks at the network."""
    pictures = np.random.default_rng(0).random((6, 8, 8, 1)).astype(np.float32)

    def edges(passes):
        return EDGE_DETECTOR.maps(Batch(passes.inputs, list(range(len(passes)))), 0)

    explainer = Explainer(model, {"gradient": attribution.METHODS["gradient"], "edges": (edges, {})}, batch_size=6)
    run = Evaluator(explainer, [METRIC_REGISTRY[name].measure for name in NAMES], {})
    found = run.run(Examples(pictures).batches(6))
    return {
        (label.name, name): found.of(label, METRIC_REGISTRY[name].measure) for label in found.sources for name in NAMES
    }


def shapes(model):
    loaded = tf.saved_model.load(str(model.path))  # holds the variables, which functions name weakly
    return [tuple(variable.shape) for variable in loaded.signatures["serving_default"].variables]


def test_variables_come_in_the_order_of_the_graph_not_of_the_file(model):
    ordered = [shapes(model)[place] for place in graph_order(model)]
    assert ordered == [(3, 3, 1, 4), (3, 3, 4, 4), (16, 3)]


def test_stages_shuffle_from_the_output_on_and_leave_the_rest(model):
    """With three variables the first stage is the last layer alone: the hidden layers, and so CAM, stay as they are."""
    pictures = np.random.default_rng(1).random((2, 8, 8, 1)).astype(np.float32)
    first, alone, whole = (sanity.randomised(model, *which) for which in ((1,), (3, True), (3,)))
    stored = {name: shuffled_shapes(model, one) for name, one in (("first", first), ("alone", alone), ("whole", whole))}
    assert stored == {
        "first": {(16, 3)}, "alone": {(3, 3, 1, 4)}, "whole": {(16, 3), (3, 3, 4, 4), (3, 3, 1, 4)},
    }  # fmt: skip
    for one in (first, alone, whole):
        assert np.abs(one.scores(pictures) - model.scores(pictures)).max() > 0.01


def shuffled_shapes(model, other):
    """Return the shapes of the constants of a model that another has in another order."""

    def constants(one):
        nodes = [node for node in one.graph.graph_def.node if node.op == "Const"]
        found = {node.name: tf.make_ndarray(node.attr["value"].tensor) for node in nodes} | dict(one.graph.weights)
        return {np.asarray(each).shape: np.asarray(each) for each in found.values()}

    before, after = constants(model), constants(other)
    changed = {shape for shape in shapes(model) if not np.array_equal(before[shape], after[shape])}
    for shape in changed:
        np.testing.assert_array_equal(np.sort(before[shape].ravel()), np.sort(after[shape].ravel()))
    return changed


def test_a_map_that_asks_no_network_fails_and_a_gradient_passes(scored):
    for name in ("randomisation", "randomisation_ssim", "randomisation_independent", "smprt", "other_class"):
        np.testing.assert_allclose(scored["edges", name][:, 0], 1, rtol=1e-9)
        assert scored["gradient", name][:, 0].mean() < 0.8, name
    np.testing.assert_array_equal(scored["edges", "emprt"], 0)
    assert (scored["edges", "max_sensitivity"] > 0).all() and (scored["gradient", "max_sensitivity"] >= 0).all()


def test_each_stage_is_kept_and_the_mean_comes_first(scored):
    numbers = scored["gradient", "randomisation"]
    assert numbers.shape == (6, 1 + sanity.STAGES)
    assert np.isnan(numbers[:, 4]).all()  # three variables make three stages
    np.testing.assert_allclose(numbers[:, 0], numbers[:, 1:4].mean(axis=1), rtol=1e-5)


def test_similarity_in_closed_form():
    generator = np.random.default_rng(2)
    first = generator.random((3, 12, 10))
    np.testing.assert_allclose(sanity.spearman(first, first**3), 1)
    np.testing.assert_allclose(sanity.spearman(first, -first), -1)
    np.testing.assert_array_equal(sanity.spearman(first, np.ones_like(first)), 0)
    np.testing.assert_allclose(sanity.ssim(first, first), 1)
    halves = np.repeat([[0.0, 1.0]], 8, axis=0).reshape(1, 16)
    np.testing.assert_allclose(sanity.complexity(halves), np.log(2))
    assert sanity.complexity(np.zeros((1, 16))) == 0


def test_structural_similarity_is_of_maps_divided_by_their_own_largest_value(monkeypatch):
    first, second = np.random.default_rng(2).random((2, 3, 12, 10)) * [[[1.0]], [[10]], [[100]]]
    monkeypatch.setattr(sanity, "_cascade", lambda *_: [second])
    found = METRIC_REGISTRY["randomisation_ssim"].measure.function(first, Batch(first[..., None], "abc"), None)
    pairs = [(a / a.max(), b / b.max()) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(found[:, 0], [structural_similarity(*pair, data_range=1) for pair in pairs], rtol=1e-9)


def test_entropy_that_all_random_weights_double_has_grown_by_one(monkeypatch):
    halves, quarters = (np.arange(16.0).reshape(1, 4, 4) // size for size in (8, 4))
    monkeypatch.setattr(sanity, "_cascade", lambda *_: [halves, quarters])
    found = METRIC_REGISTRY["emprt"].measure.function(halves, Batch(halves[..., None], ["0"]), None)
    assert found == pytest.approx(1)  # from ln 2 to ln 4


def test_sensitivity_by_hand(monkeypatch):
    """Maps are the inputs. Noise of 4 turns the map by a right angle, of distance √2; scaling it moves nothing."""
    inputs = np.array([[3.0, 0, 0], [0, 0, 0]])
    batch = Batch(inputs, ["0", "1"])
    copies = [batch.with_pictures(np.array([row, row])) for row in ([0.0, 4, 0], [9.0, 0, 0])]
    monkeypatch.setattr(sanity, "_noisy", lambda *_: [Batch(one, batch.seeds) for one in copies])
    for name, value in (("max_sensitivity", 2**0.5), ("avg_sensitivity", 2**-0.5), ("local_lipschitz", 2**0.5 / 5)):
        found = METRIC_REGISTRY[name].measure.function(inputs, batch, lambda copy: copy.pictures)
        np.testing.assert_allclose(found, [value, np.nan], err_msg=name)  # a map of zeros has no direction


def test_saved_maps_cannot_be_made_again(tmp_path):
    with pytest.raises(BadInput, match="--precomputed_maps computes no maps"):
        SavedMaps({"mine": tmp_path}).explain_function(MapSource("mine"))


def on_blocks_of_its_own(maps, batch, explain):
    """A metric that forgets the targets."""
    return explain(Batch(batch.inputs, batch.seeds), sanity.randomised(explain.model, 1)).reshape(len(batch), -1)[:, 0]


EXPLAINING = {
    name: metric.measure
    for name, metric in METRIC_REGISTRY.items()
    if metric.measure.needs_explainer and not metric.measure.check
}
EXPLAINING["on_blocks_of_its_own"] = PerSampleMetric("own", on_blocks_of_its_own, needs_explainer=True)
COUNT = 300


@pytest.fixture(scope="module")
def classes(model):
    """Return a function from measures and controls to the classes that a run without targets explains, call by call.

    Its second result are the classes that the trained network scores highest, and the runners-up.
    """
    pictures = np.random.default_rng(3).random((COUNT, 8, 8, 1)).astype(np.float32)
    ranked = np.argsort(-model.scores(pictures, COUNT), axis=1)

    def explained(measures=(), controls=()):
        found = []

        def recording(passes):
            found.append(np.array(passes.targets))
            return passes.inputs

        explainer = Explainer(model, {"recording": (recording, {})}, controls, batch_size=COUNT)
        Evaluator(
            explainer, [PerSampleMetric("first", lambda maps, batch, scores: maps[:, 0, 0, 0]), *measures], {}
        ).run(Examples(pictures).batches(COUNT))
        return np.stack(found), ranked[:, 0], ranked[:, 1]

    return explained


@pytest.mark.parametrize("name", EXPLAINING)
def test_every_metric_explains_the_class_of_the_trained_network(classes, name):
    """Networks with random weights and noisy inputs are classified otherwise, and that class must not be explained."""
    found, first, second = classes([EXPLAINING[name]])
    assert len(found) > 1
    np.testing.assert_array_equal(found[0], first)
    for other in found[1:]:
        np.testing.assert_array_equal(other, second if name == "other_class" else first)


def test_every_control_explains_the_class_of_the_trained_network_or_its_runner_up(classes):
    found, first, second = classes(controls=networks([WRONG_CLASS, RANDOM_WEIGHTS], 2))
    np.testing.assert_array_equal(found, [first, second, first, first])


def test_random_networks_and_noise_change_the_predicted_class(model):
    """So the two tests above can fail."""
    pictures = np.random.default_rng(3).random((COUNT, 8, 8, 1)).astype(np.float32)
    predicted = model.predict(pictures)
    for stage in (1, 2, 3):
        assert (sanity.randomised(model, stage).predict(pictures) != predicted).any()
    noisy = pictures + sanity.NOISE * np.random.default_rng(4).standard_normal(pictures.shape).astype(np.float32)
    assert (model.predict(noisy) != predicted).any()


class Explained:
    """Explains by a function of inputs."""

    def __init__(self, function):
        self.function = function

    def __call__(self, batch, model=None):
        return self.function(batch.pictures)


def sensitivity(function, pictures):
    (metric,) = select_metrics(["max_sensitivity"], {}).values()
    batch = Batch(pictures, list(range(len(pictures))), np.zeros(len(pictures), np.int64))
    return metric.measure.function(function(pictures), batch, Explained(function))


def test_max_sensitivity_in_closed_form():
    pictures = np.random.default_rng(5).random((4, 8, 8, 1))

    def is_noisy(inputs):
        return (inputs != pictures).any(axis=(1, 2, 3)).reshape(-1, 1, 1, 1)

    ones, left = np.ones_like(pictures), (np.arange(8) < 4)[:, None] * np.ones_like(pictures)
    for clean, noisy, distance in (
        (ones, 3 * ones, 0), (ones, -ones, 2), (left, 1 - left, np.sqrt(2)),
        (ones, 0 * ones, 1), (0 * ones, ones, np.nan),
    ):  # fmt: skip
        found = sensitivity(lambda inputs, a=clean, b=noisy: np.where(is_noisy(inputs), b, a), pictures)
        np.testing.assert_allclose(found, distance, rtol=1e-12)
