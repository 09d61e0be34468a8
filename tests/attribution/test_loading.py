"""What is tried when a model is loaded: rows that depend on each other, a first axis that is not a batch axis."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

WEIGHTS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)


def save(path, function, *specs):
    module = tf.Module()
    module.call = tf.function(function, input_signature=list(specs), autograph=False)
    tf.saved_model.save(module, str(path), signatures=module.call)
    return path


def spec(*shape, dtype=tf.float32, name="x"):
    return tf.TensorSpec(shape, dtype, name=name)


COUNT = "number of rows"
MIXED = {
    "centered": lambda x: tf.matmul(x - tf.reduce_mean(x, axis=0), WEIGHTS),
    "whitened": lambda x: tf.matmul(x, WEIGHTS) / tf.math.reduce_std(x),
    "normalized as a whole": lambda x: tf.math.l2_normalize(tf.matmul(x, WEIGHTS)),
    "attention among rows": lambda x: tf.matmul(
        tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), tf.matmul(x, WEIGHTS)
    ),
    COUNT: lambda x: tf.matmul(x, WEIGHTS) / tf.cast(tf.shape(x)[0], tf.float32),
    "running sum": lambda x: tf.cumsum(tf.matmul(x, WEIGHTS), reverse=True),
    "softmax over rows": lambda x: tf.nn.softmax(tf.matmul(x, WEIGHTS), axis=0),
    "recurrent over rows": lambda x: tf.scan(lambda h, a: tf.tanh(0.5 * h + a), tf.matmul(x, WEIGHTS)),
    "number of the row": lambda x: tf.matmul(x, WEIGHTS) + tf.range(tf.cast(tf.shape(x)[0], tf.float32))[:, tf.newaxis],
    "in groups of two": lambda x: tf.matmul(
        tf.reshape((r := tf.reshape(x, (-1, 2, 6))) - tf.reduce_mean(r, 1, keepdims=True), (-1, 6)), WEIGHTS
    ),
    "neighbor": lambda x: tf.matmul(x, WEIGHTS) + 0.01 * tf.roll(tf.matmul(x, WEIGHTS), 1, axis=0),
    "two rows as one": lambda x: tf.reshape(tf.concat([x, x], 0), (-1, 12))[:, :6] @ WEIGHTS,
    "last row first": lambda x: tf.matmul(x, WEIGHTS)[::-1],
    "another row": lambda x: tf.gather(tf.matmul(x, WEIGHTS), tf.argmax(x[:, :2], axis=1)),
    "sum over all rows of another": lambda x: tf.einsum("ab,cb->ab", tf.matmul(x, WEIGHTS), tf.matmul(x, WEIGHTS)),
    "softmax of one number a row": lambda x: tf.nn.softmax(tf.reduce_sum(x, axis=1))[:, tf.newaxis] * WEIGHTS[:1],
    "kernel of the rows": lambda x: tf.matmul(x, WEIGHTS) @ tf.matmul(x, x @ WEIGHTS, transpose_a=True)[:3],
    "numbered by a sum of ones": lambda x: tf.matmul(x, WEIGHTS) + tf.cumsum(tf.ones((tf.shape(x)[0], 1))),
}


# A number of rows that the file fixes is a constant.
@pytest.mark.parametrize(
    ("network", "rows"), [(network, rows) for network in MIXED for rows in (None, 4) if (network, rows) != (COUNT, 4)]
)
def test_scores_that_depend_on_other_rows_are_refused(network, rows, tmp_path):
    save(tmp_path, lambda x: {"scores": MIXED[network](x)}, spec(rows, 6))
    with pytest.raises(BadInput, match=r"depend on the other inputs of its batch.*export the model for inference"):
        attribution.load_model(tmp_path)


def batch_normalized(x, axis):
    return keras.layers.BatchNormalization(axis=axis)(x, training=True)


@pytest.mark.parametrize("place", ["after a dense layer", "channels first", "in the middle"])
def test_batch_normalization_in_training_mode_is_refused(place, tmp_path):
    inputs = keras.Input((6,)) if place == "after a dense layer" else keras.Input((4, 5, 2))
    if place == "after a dense layer":
        outputs = batch_normalized(keras.layers.Dense(2)(inputs), -1)
    else:
        normalized = batch_normalized(inputs, 1 if place == "channels first" else -1)
        outputs = keras.layers.Dense(3)(keras.layers.GlobalMaxPooling2D()(keras.layers.ReLU()(normalized)))
    keras.Model(inputs, outputs).export(tmp_path, verbose=False)
    with pytest.raises(BadInput, match="batch normalization off training mode"):
        attribution.load_model(tmp_path)


def convolutions(x):
    kernel = np.random.default_rng(2).normal(size=(3, 3, 2, 6)).astype(np.float32)
    x = tf.nn.conv2d(tf.reshape(x, (-1, 8, 8, 2)), kernel, 1, "SAME")
    x = tf.compat.v1.nn.fused_batch_norm(x, *np.ones((4, 6), np.float32), is_training=False)[0]
    x = tf.nn.conv2d_transpose(x, kernel, (tf.shape(x)[0], 16, 16, 2), 2)
    return tf.nn.softmax(tf.reduce_mean(tf.nn.max_pool(x, 2, 2, "VALID"), (1, 2)))


APART = {
    "convolutions": (convolutions, spec(None, 128)),
    "words": (lambda x: tf.reduce_sum(tf.gather(WEIGHTS, x), 1), spec(None, 4, dtype=tf.int32)),
    "linear": (lambda x: tf.matmul(x, WEIGHTS), spec(None, 6)),
    "double precision": (lambda x: tf.matmul(x, tf.cast(WEIGHTS, tf.float64)), spec(None, 6, dtype=tf.float64)),
    "normalized rows": (lambda x: tf.math.l2_normalize(tf.matmul(x, WEIGHTS), axis=1), spec(None, 6)),
    "a token in front": (
        lambda x: tf.concat([tf.tile(WEIGHTS[:1], (tf.shape(x)[0], 1)), x @ WEIGHTS], 1), spec(None, 6)
    ),
    "one row at a time": (lambda x: tf.matmul(x, WEIGHTS), spec(1, 6)),
    "identifiers": (lambda x: tf.reduce_sum(tf.gather(WEIGHTS, x), 1), spec(None, None, dtype=tf.int32)),
    "not a number": (lambda x: tf.math.log(tf.matmul(x, WEIGHTS)), spec(None, 6)),
    "another size than is tried": (lambda x: tf.matmul(tf.reshape(x, (-1, 6)), WEIGHTS), spec(None, None)),
}  # fmt: skip
BY_OPERATIONS = [*APART][:6]


@pytest.mark.parametrize("network", APART)
def test_rows_of_their_own_load(network, tmp_path, monkeypatch):
    if network in BY_OPERATIONS:
        monkeypatch.setattr(attribution.loading, "_check_rows", None)  # they are not tried
    function, wanted = APART[network]
    model = attribution.load_model(save(tmp_path, lambda x: {"scores": function(x)}, wanted))
    assert model.counts == {}  # trials are not counted


def test_rows_with_switches_and_other_inputs_load(tmp_path):
    path = save(
        tmp_path,
        lambda x, mask, training, scale: {
            "scores": tf.matmul(tf.where(mask, x, tf.zeros_like(x)), WEIGHTS)
            * tf.where(training, tf.constant(2.0), tf.constant(1.0))
            * scale
        },
        spec(None, 6),
        spec(None, 6, dtype=tf.bool, name="mask"),
        spec(dtype=tf.bool, name="training"),
        spec(dtype=tf.float32, name="scale"),
    )
    model = attribution.load_model(path)
    feed = {"x": X, "mask": np.ones((4, 6), bool), "scale": np.float32(3)}
    np.testing.assert_allclose(model.scores(feed), 3 * X @ WEIGHTS, rtol=1e-5)


NO_BATCH = {
    "one image": (lambda x: tf.reduce_mean(x, [0, 1])[:3], spec(16, 16, 6)),
    "one image, a row of scores": (lambda x: tf.reduce_mean(x, [0, 1])[tf.newaxis], spec(32, 32, 3)),
    "open sizes": (lambda x: tf.reduce_mean(x, [0, 1]), spec(None, None, 3)),
    "sound": (lambda x: tf.abs(tf.signal.rfft(tf.signal.frame(x, 400, 160)))[:, :3], spec(None)),
    "long windows": (lambda x: tf.reshape(x[:8_000], (5, 1_600))[:, :3], spec(None)),
    "nodes": (lambda x: tf.reduce_sum(tf.matmul(x, WEIGHTS), 0, keepdims=True), spec(None, 6)),
}


@pytest.mark.parametrize("network", NO_BATCH)
def test_a_first_axis_that_is_not_a_batch_axis_is_refused(network, tmp_path):
    function, wanted = NO_BATCH[network]
    save(tmp_path, lambda x: {"scores": function(x)}, wanted)
    with pytest.raises(BadInput, match=r"rows of scores for \d+ inputs, .* is not a batch axis; .*tf.map_fn"):
        attribution.load_model(tmp_path)


def test_the_advice_for_a_network_without_a_batch_works(tmp_path):
    network = lambda x: tf.reduce_mean(tf.abs(tf.signal.rfft(tf.signal.frame(x, 8, 4))), 0)[:3]  # noqa: E731
    path = save(tmp_path, lambda x: {"scores": tf.map_fn(network, x)}, spec(None, 64))
    x = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    model = attribution.load_model(path)
    for row in range(3):
        np.testing.assert_allclose(model.scores(x)[row], network(x[row]), rtol=1e-5)


OF_OTHER_TYPES = {
    "complex": lambda z: tf.complex(z, z),
    "strings": tf.strings.as_string,
    "class numbers": lambda z: tf.argmax(z, axis=1),
    "counts": lambda z: tf.cast(z, tf.int32),
    "bytes": lambda z: tf.cast(tf.clip_by_value(z, 0, 255), tf.uint8),
    "decisions": lambda z: z > 0,
}


@pytest.mark.parametrize("kind", OF_OTHER_TYPES)
def test_outputs_that_are_no_real_scores_are_refused(kind, tmp_path):
    save(tmp_path, lambda x: {"scores": OF_OTHER_TYPES[kind](tf.matmul(x, WEIGHTS))}, spec(None, 6))
    with pytest.raises(BadInput, match=r"output is of type .*; scores of floating point are needed"):
        attribution.load_model(tmp_path)


def test_a_loop_that_ends_for_the_networks_inputs_alone_loads(tmp_path):
    """A square root by Newton's method never converges for a negative number."""

    def root(x):
        return tf.while_loop(
            lambda y: tf.reduce_any(tf.abs(y * y - x) > 1e-4), lambda y: (0.5 * (y + x / y),), [tf.ones_like(x)]
        )[0]

    path = save(tmp_path, lambda x: {"scores": tf.matmul(root(x), WEIGHTS)}, spec(None, 6))
    np.testing.assert_allclose(attribution.load_model(path).scores(X**2), np.abs(X) @ WEIGHTS, atol=1e-2)
