"""What a frozen graph is not known to compute as the file does is refused by name."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.savedmodel import _gradient_support, freeze

KERNEL = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


@tf.custom_gradient
def tripled(x):
    return x * x, lambda upstream: 3 * upstream


def loop(x):
    """A loop whose body has a gradient of its own, which a frozen loop cannot have."""
    _, x = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, tripled(x)), (0, x), maximum_iterations=2)
    return tf.matmul(x, KERNEL)


def test_recurrent_networks_of_a_gpu_are_random_by_dropout_alone():
    def first_random(dropout):
        with tf.Graph().as_default() as graph:
            x = tf.zeros((5, 2, 3))
            state = tf.zeros((1, 2, 4))
            tf.raw_ops.CudnnRNNV3(
                input=x, input_h=state, input_c=state, params=tf.zeros(9), sequence_lengths=[5, 5], dropout=dropout
            )
        return _gradient_support.first_random(graph.as_graph_def(), ())

    assert first_random(0.0) is None and "CudnnRNNV3" in first_random(0.5)


def test_a_gradient_that_cannot_be_taken_out_of_the_file_is_refused_by_name(from_function):
    model = from_function(loop, 4)
    scores = X**4 @ KERNEL
    np.testing.assert_allclose(model.scores(X, batch_size=2), scores, rtol=1e-5)
    assert attribution.explain("occlusion", model, X).shape == X.shape
    for method in ("gradient", "integrated_gradients"):
        with pytest.raises(BadInput, match=r"^the gradient of IdentityN \('.*'\) cannot be taken out of the file"):
            attribution.explain(method, model, X)
    for method in ("deeplift", "lrp_epsilon"):  # which distribute values, whatever the gradient
        maps = attribution.explain(method, model, X, 1)
        np.testing.assert_allclose(maps.sum(axis=1), scores[:, 1], rtol=1e-4)


def test_loops_of_plain_operations_stay_in_the_graph(models):
    assert any(node.op == "While" for node in models["two_inputs"].graph.nodes.values())


@pytest.mark.parametrize(
    ("build", "named"),
    [(lambda x: x * tf.random.uniform(tf.shape(x)), "RandomUniform"), (lambda x: tf.nn.dropout(x, 0.5), "Random")],
)
def test_what_gives_other_scores_at_every_call_is_refused(build, named, from_function):
    with pytest.raises(BadInput, match=f"gives other scores at every call, because of the operation .*{named}"):
        from_function(lambda x: tf.ensure_shape(build(x), (None, 4)), 4)


def test_numbers_drawn_from_a_fixed_seed_are_no_reason(from_function):
    model = from_function(lambda x: x * tf.random.stateless_uniform((4,), (1, 2)), 4)
    np.testing.assert_array_equal(model.scores(X), model.scores(X))


@pytest.mark.parametrize("layer", ["dropout", "flip", "rotation"])
def test_layers_that_draw_at_every_call_are_refused(layer, tmp_path):
    layers = keras.layers
    drawing = {"dropout": layers.Dropout(0.5), "flip": layers.RandomFlip(), "rotation": layers.RandomRotation(0.1)}
    image = keras.Input((8, 8, 3))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(drawing[layer](image, training=True)))
    keras.Model(image, layers.Dense(3)(x)).export(tmp_path, verbose=False)
    with pytest.raises(BadInput, match=r"gives other scores at every call.*dropout and augmentation off"):
        attribution.load_model(tmp_path)


def test_state_that_is_written_beside_the_scores_does_not_matter(tmp_path, oracle):
    module = tf.Module()
    module.calls = tf.Variable(0, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def scores(x):
        module.calls.assign_add(1)
        return {"scores": tf.matmul(x, KERNEL)}

    module.call = scores
    tf.saved_model.save(module, str(tmp_path), signatures=scores)
    model = attribution.load_model(tmp_path)
    np.testing.assert_allclose(attribution.explain("gradient", model, X, 1), np.tile(KERNEL[:, 1], (5, 1)), rtol=1e-6)


WRITTEN = {  # to a variable, of its value, another variable's, and the inputs
    "as it was": lambda mean, other, x: tf.identity(mean),
    "as computed": lambda mean, other, x: mean * 1.0,
    "another": lambda mean, other, x: tf.identity(other),
    "a drift": lambda mean, other, x: 0.9 * mean + 0.1 * tf.reduce_mean(x, axis=0),
    "as it was, and more": lambda mean, other, x: tf.identity(mean),
    "as it was, and more by a branch": lambda mean, other, x: tf.identity(mean),
    "as it was, and a part of it": lambda mean, other, x: tf.identity(mean),
    "a drift, and as it was by a function": lambda mean, other, x: 0.9 * mean + 0.1 * tf.reduce_mean(x, axis=0),
}
FURTHER = {  # writes
    "as it was, and more": lambda variable: variable.assign_add(tf.ones(4)),
    "as it was, and more by a branch": lambda variable: tf.cond(
        variable[0] > 0, lambda: variable.assign_add(tf.ones(4)), variable.read_value
    ),
    "as it was, and a part of it": lambda variable: variable.scatter_nd_add([[0]], [1.0]),
    "a drift, and as it was by a function": lambda variable: tf.function(
        lambda: variable.assign(variable.read_value()), jit_compile=True
    )(),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_state_that_each_call_writes_back_as_it_was_is_no_reason_and_state_that_drifts_is(
    written, tmp_path, monkeypatch
):
    """Keras on JAX exports the moving statistics of a trained network so."""
    module = tf.Module()
    module.mean = tf.Variable(np.ones(4, np.float32))
    module.other = tf.Variable(np.full(4, 2, np.float32))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def scores(x):
        found = tf.matmul(x - module.mean, KERNEL)
        module.mean.assign(WRITTEN[written](module.mean.read_value(), module.other.read_value(), x))
        FURTHER.get(written, lambda _: None)(module.mean)
        return {"scores": found}

    module.call = scores
    tf.saved_model.save(module, str(tmp_path), signatures=scores)
    if written == "as it was":  # which the graph shows
        monkeypatch.setattr(freeze, "_leaves_state", lambda *_: pytest.fail("called to find out"))
    if written not in ("as it was", "as computed"):
        with pytest.raises(BadInput, match=r"gives other scores at every call, because of.*stateful=True"):
            attribution.load_model(tmp_path)
    else:
        model = attribution.load_model(tmp_path)
        np.testing.assert_allclose(model.scores(X), (X - 1) @ KERNEL, rtol=1e-5)
        expected = np.tile(KERNEL[:, 1], (5, 1))
        np.testing.assert_allclose(attribution.explain("gradient", model, X, 1), expected, rtol=1e-6)


def test_a_variable_that_is_changed_and_changed_back_is_refused(tmp_path):
    """Every call gives the same scores, but not those of the variable as it is before a call."""
    module = tf.Module()
    module.mean = tf.Variable(np.ones(4, np.float32))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def scores(x):
        before = module.mean.read_value()
        module.mean.assign_add(tf.ones(4))
        found = tf.matmul(x - module.mean, KERNEL)
        module.mean.assign(before)
        return {"scores": found}

    module.call = scores
    tf.saved_model.save(module, str(tmp_path), signatures=scores)
    with pytest.raises(BadInput, match="reads what each call changes"):
        attribution.load_model(tmp_path)
