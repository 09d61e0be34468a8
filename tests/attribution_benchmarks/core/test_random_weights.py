"""A network with shuffled weights: the same values, other places, the same for the same seed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import UNIFORM
from attribution_benchmarks.core.random_weights import (
    NETWORKS,
    RANDOM_WEIGHTS,
    networks,
    with_shuffled_weights,
)


def save(module, function, shape, path, dtype=tf.float32):
    module.call = tf.function(function, input_signature=[tf.TensorSpec((None, *shape), dtype, name="x")])
    tf.saved_model.save(module, str(path), signatures=module.call)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two inputs, two layers and a constant."""
    path, draw, module = tmp_path_factory.mktemp("layers"), tf.random.Generator.from_seed(0), tf.Module()
    module.first, module.second = tf.Variable(draw.normal((6, 8))), tf.Variable(draw.normal((8, 3)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), name="x"), tf.TensorSpec((None, 2), name="extra")])
    def scores(x, extra):
        hidden = tf.nn.relu(tf.matmul(tf.concat([x, extra], 1), module.first) + tf.range(8.0))
        return {"scores": tf.matmul(hidden, module.second)}

    module.call = scores
    tf.saved_model.save(module, str(path), signatures=scores)
    return attribution.load_model(path, score="logits")


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=(3, width)).astype(np.float32) for name, width in (("x", 4), ("extra", 2))}


def test_other_scores_the_same_for_the_same_seed_and_the_file_as_it_was(model, inputs):
    before = model.fingerprint
    scores = [with_shuffled_weights(model.path, seed).scores(inputs) for seed in (0, 0, 1)]
    assert all(np.isfinite(one).all() for one in scores)
    np.testing.assert_array_equal(scores[0], scores[1])
    assert np.abs(scores[0] - model.scores(inputs)).max() > 0.1
    assert np.abs(scores[0] - scores[2]).max() > 0.1
    assert model.fingerprint == before


def test_the_control_asks_one_such_network_about_the_same_block(model, inputs):
    batch = Batch(inputs, ["a", "b", "c"], np.array([0, 1, 2]), explained="x")
    shuffled, asked = RANDOM_WEIGHTS.disturb(model, batch, 0)
    assert asked is batch and RANDOM_WEIGHTS.disturb(model, batch, 0)[0] is shuffled
    np.testing.assert_array_equal(shuffled.scores(inputs), with_shuffled_weights(model.path, 0).scores(inputs))
    probable = attribution.load_model(model.path, score="probabilities")
    other, _ = RANDOM_WEIGHTS.disturb(probable, batch, 1)
    assert other.score == "probabilities" and not np.allclose(other.scores(inputs), shuffled.scores(inputs))
    np.testing.assert_allclose(other.scores(inputs).sum(axis=1), 1, rtol=1e-5)


def test_several_networks_are_controls_of_their_own_and_all_different(model, inputs, monkeypatch):
    found = networks([UNIFORM, RANDOM_WEIGHTS])
    assert [control.name for control in found] == ["uniform", *(f"random_weights#{n + 1}" for n in range(NETWORKS))]
    batch = Batch(inputs, ["a", "b", "c"], np.array([0, 1, 2]), explained="x")
    scores = [control.disturb(model, batch, 0)[0].scores(inputs) for control in found[1:]]
    np.testing.assert_array_equal(scores[0], with_shuffled_weights(model.path, 0).scores(inputs))
    monkeypatch.setattr(tf.graph_util, "import_graph_def", None)  # no function is traced again for another network
    np.testing.assert_array_equal(scores[1], with_shuffled_weights(model.path, 0, number=2).scores(inputs))
    scores.append(model.scores(inputs))
    apart = [np.abs(one - other).max() for i, one in enumerate(scores) for other in scores[:i]]
    assert min(apart) > 0.1
    again = found[3].disturb(model, batch, 0)[0]
    assert again is found[3].disturb(model, batch, 0)[0]  # made once, whatever comes between


@pytest.mark.parametrize("given", ["a file", "a live model", "a live subclassed model"])
def test_the_live_network_of_a_keras_model_has_the_shuffled_weights(given, tmp_path):
    """Dropout has a variable that is no weight."""
    layers = [keras.Input((4,)), keras.layers.Dense(6), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
    network = Subclassed() if given == "a live subclassed model" else keras.Sequential(layers)
    x = np.eye(4, dtype=np.float32)
    before = np.asarray(network(x))
    if given == "a file":
        network.save(tmp_path / "network.keras")
    own = attribution.load_model(tmp_path / "network.keras" if given == "a file" else network)
    shuffled, _ = RANDOM_WEIGHTS.disturb(own, Batch({"x": x}, list("abcd"), np.zeros(4, np.int64)), 0)
    assert np.abs(shuffled.scores(x) - own.scores(x)).max() > 0.1
    for model in (shuffled, own):

        def live_scores(queries):
            return np.repeat(np.asarray(queries.keras_model(queries.inputs)).sum(axis=1, keepdims=True), 4, axis=1)

        maps = attribution.explain(live_scores, model, x, 0)
        np.testing.assert_allclose(maps[:, 0], model.scores(x).sum(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(network(x), before)  # the caller's


def test_what_no_order_can_change_stays(tmp_path):
    """A variable of one value many times, and constants that are no variables."""

    module = tf.Module()
    module.kernel = tf.Variable(tf.fill((4, 2), 0.5))
    save(module, lambda x: {"scores": tf.matmul(x + [[1.0, 2.0, 3.0, 4.0]], module.kernel)}, (4,), tmp_path)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = (x + [1, 2, 3, 4]).sum(axis=1, keepdims=True) * [0.5, 0.5]
    np.testing.assert_allclose(with_shuffled_weights(tmp_path, 0).scores(x), expected)


class Subclassed(keras.Model):
    """A network whose layers Keras knows by their attributes alone."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first, self.second = keras.layers.Dense(6), keras.layers.Dense(3)

    def call(self, x):
        """Return the logits."""
        return self.second(self.first(x))


def test_a_model_without_variables_is_refused(tmp_path):
    save(tf.Module(), lambda x: {"y": x}, (2,), tmp_path)
    with pytest.raises(BadInput, match="has no variables that could be shuffled; leave random_weights out"):
        with_shuffled_weights(tmp_path, 0)
    with pytest.raises(BadInput, match="is no SavedModel on disk; leave random_weights out"):
        with_shuffled_weights("http://localhost:8501/mine", 0)


def test_its_file_is_written_when_asked_for_and_holds_the_same_weights(model, inputs):
    """One that was made meanwhile, of what was loaded once, changes nothing."""
    shuffled = with_shuffled_weights(model.path, 3)
    scores = shuffled.scores(inputs)
    drawn = with_shuffled_weights(model.path, 4)
    assert np.abs(drawn.scores(inputs) - scores).max() > 0.1
    assert shuffled.path != model.path and shuffled.path == shuffled.path
    np.testing.assert_array_equal(attribution.load_model(shuffled.path).scores(inputs), scores)
    np.testing.assert_array_equal(shuffled.scores(inputs), scores)
    assert drawn.fingerprint != shuffled.fingerprint != model.fingerprint


def test_a_network_that_computes_with_what_was_loaded_keeps_its_weights(tmp_path):
    """Here it needs its table, so that nothing else is made of what was loaded for it."""

    module = tf.Module()
    names = tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), tf.constant([2.0, 0.5, 1.0]))
    module.table, module.kernel = tf.lookup.StaticHashTable(names, 0.0), tf.Variable(tf.reshape(tf.range(6.0), (3, 2)))
    save(module, lambda x: {"scores": tf.matmul(module.table.lookup(x), module.kernel)}, (3,), tmp_path, tf.int64)
    x = np.array([[0, 1, 2], [1, 1, 0]])
    first = with_shuffled_weights(tmp_path, 0)
    before = first.scores(x)
    other = with_shuffled_weights(tmp_path, 1)
    assert np.abs(other.scores(x) - before).max() > 0.1
    np.testing.assert_array_equal(first.scores(x), before)
