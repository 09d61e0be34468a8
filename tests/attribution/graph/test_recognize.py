"""What JAX and PyTorch write as arithmetic becomes the operation of TensorFlow; what is almost that does not."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from attribution.graph.recognize import recognize

ROWS = 3
IGNORED = ("Const", "Placeholder", "Identity")


def graph_of(function, *shapes, dtype=tf.float32):
    """Return a graph with inputs ``x0`` and so on and the output ``scores``."""
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(dtype, shape, f"x{number}") for number, shape in enumerate(shapes)]
        tf.identity(function(*inputs), name="scores")
    return graph.as_graph_def()


def values(graph_def, arrays):
    function = tf.function(
        lambda: tf.graph_util.import_graph_def(
            graph_def, {f"x{number}:0": tf.constant(array) for number, array in enumerate(arrays)}, ["scores:0"]
        )
    )
    return function()[0].numpy()


def operations(graph_def):
    return collections.Counter(node.op for node in graph_def.node if node.op not in IGNORED)


def arrays_of(shapes, dtype, rows=ROWS):
    random = np.random.default_rng(0)
    sizes = [[rows if size is None else size for size in shape] for shape in shapes]
    if dtype.is_integer:
        return [random.integers(0, 5, size).astype(dtype.as_numpy_dtype) for size in sizes]
    return [(3 * random.standard_normal(size)).astype(dtype.as_numpy_dtype) for size in sizes]


def check(written, wanted, *shapes, dtype=tf.float32, rtol=2e-6):
    """Check that a function becomes another's operations, and computes what it did."""
    graph_def = graph_of(written, *shapes, dtype=dtype)
    found = recognize(graph_def, {}, ["scores"])
    assert operations(found) == operations(graph_of(wanted, *shapes, dtype=dtype))
    arrays = arrays_of(shapes, dtype)
    before, after = values(graph_def, arrays), values(found, arrays)
    np.testing.assert_allclose(after, before, rtol=rtol, atol=rtol * np.abs(before).max())


def check_unchanged(written, *shapes, dtype=tf.float32):
    graph_def = graph_of(written, *shapes, dtype=dtype)
    assert operations(recognize(graph_def, {}, ["scores"])) == operations(graph_def)


# Functions of one variable, as the modules of JAX have them

ERFC_NEAR = (2.326820e-2, -1.387039e-1, 3.687424e-1, -5.824733e-1, 6.210004e-1, -4.944515e-1, 3.404880e-1, -2.741127e-1,
             5.638259e-1)  # fmt: skip
ERFC_FAR = (-1.0477664e1, 1.2977199e1, -7.495518, 2.921019, -1.0152652, 4.2184633e-1, -2.8207675e-1, 5.641895e-1)
ERF = (7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2, 1.128358514861418e-1,
       -3.761262582423300e-1, 1.128379165726710)  # fmt: skip


def polynomial(x, coefficients):
    total = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        total = (total + coefficient) * x
    return total + coefficients[-1]


def erfc(x, near_zero=ERF):
    square = x * x
    inverse = 1 / square
    far = tf.exp(-square) * (1 / tf.abs(x))
    far *= tf.where(tf.abs(x) < 2.0, polynomial(inverse, ERFC_NEAR), polynomial(inverse, ERFC_FAR))
    far = tf.where(-square < -88.72284, 0.0, far)
    return tf.where(tf.abs(x) < 1.0, 1 - x * polynomial(square, near_zero), tf.where(x < 0.0, 2 - far, far))


def gelu(x, half=0.5, near_zero=ERF):
    return half * x * erfc(-x * 0.70710677, near_zero)


def tanh_gelu(x, cubic=0.044715):
    return x * (0.5 * (1 + tf.tanh(0.7978846 * (x + cubic * (x * x * x)))))


def sigmoid(x):
    return 1 / (1 + tf.exp(-x))


def expm1_below(x):
    return tf.math.expm1(tf.where(x > 0.0, 0.0, x))


def softplus(x):
    difference = x - 0.0
    return tf.where(tf.not_equal(difference, difference), x + 0.0, tf.nn.relu(x) + tf.math.log1p(tf.exp(-tf.abs(x))))


def hard_sigmoid(x):
    return tf.minimum(tf.nn.relu(x + 3), 6.0) / 6.0


def swish(x):
    return x * tf.sigmoid(x)


def mish(x):
    return x * tf.tanh(tf.nn.softplus(x))


def tensorflows_hard_sigmoid(x):
    return tf.nn.relu6(x + 3) / 6.0


FUNCTIONS = {
    "relu": (lambda x: tf.maximum(x, 0.0), tf.nn.relu),
    "relu by a choice": (lambda x: tf.where(x > 0.0, x, 0.0), tf.nn.relu),
    "relu6": (lambda x: tf.minimum(tf.nn.relu(x), 6.0), tf.nn.relu6),
    "leaky relu": (lambda x: tf.where(x >= 0.0, x, 0.3 * x), lambda x: tf.nn.leaky_relu(x, 0.3)),
    "elu": (lambda x: tf.where(x > 0.0, x, 1.0 * expm1_below(x)), tf.nn.elu),
    "selu": (lambda x: 1.050701 * tf.where(x > 0.0, x, 1.6732632 * expm1_below(x)), tf.nn.selu),
    "softplus": (softplus, tf.nn.softplus),
    "softsign": (lambda x: x / (tf.abs(x) + 1), tf.nn.softsign),
    "sigmoid": (sigmoid, tf.sigmoid),
    "sigmoid of a sum": (lambda x: sigmoid(x + x), lambda x: tf.sigmoid(x + x)),
    "complement of a gate": (lambda x: 1 - sigmoid(x), lambda x: 1 - tf.sigmoid(x)),
    "log sigmoid": (lambda x: -softplus(-x), tf.math.log_sigmoid),
    "swish": (lambda x: x * sigmoid(x), swish),
    "quick gelu": (lambda x: x * sigmoid(1.702 * x), lambda x: x * tf.sigmoid(1.702 * x)),
    "gelu": (gelu, lambda x: tf.nn.gelu(x, approximate=False)),
    "gelu by tanh": (tanh_gelu, lambda x: tf.nn.gelu(x, approximate=True)),
    "erfc": (erfc, tf.math.erfc),
    "mish": (lambda x: x * tf.tanh(softplus(x)), mish),
    "hard sigmoid": (hard_sigmoid, tensorflows_hard_sigmoid),
    "hard swish": (lambda x: x * hard_sigmoid(x), lambda x: x * tensorflows_hard_sigmoid(x)),
    "hard tanh": (lambda x: tf.minimum(tf.maximum(x, -1.0), 1.0), lambda x: tf.clip_by_value(x, -1.0, 1.0)),
    "square": (lambda x: tf.pow(x, 2.0), tf.square),
    "nearly gelu": (lambda x: gelu(x, half=0.5001), lambda x: 0.5001 * x * tf.math.erfc(-x * 0.70710677)),
    "inside others": (lambda x: tf.exp(gelu(2 * x)), lambda x: tf.exp(tf.nn.gelu(2 * x, approximate=False))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_variable(name):
    check(*FUNCTIONS[name], (None, 200))


NEAR_MISSES = {
    "swish of another slope": lambda x: x * tf.sigmoid(1.1 * x),
    "gelu with one digit changed": lambda x: gelu(x, near_zero=(*ERF[:-1], 1.128389165726710)),
    "gelu by tanh, another cubic": lambda x: tanh_gelu(x, 0.0448),
    "relu6 up to 6.01": lambda x: tf.minimum(tf.nn.relu(x), 6.01),
    "maximum with a tensor": lambda x: tf.maximum(x, x[:, ::-1]),
    "relu of a shift": lambda x: tf.maximum(x, 1e-3),
    "a leaky relu with a step": lambda x: tf.where(x >= 1.0, x, 0.3 * x),
    "a leaky relu with an offset": lambda x: tf.where(x >= 0.0, x, 0.3 * x + 1e-3),
    "elu with an offset": lambda x: tf.where(x > 0.0, x, 1.0001 * expm1_below(x)),
    "softplus that overflows": lambda x: tf.math.log(1 + tf.exp(x)),
    "softplus, sharpened": lambda x: tf.math.log1p(tf.exp(-tf.abs(2 * x))) + tf.nn.relu(x),
    "truncated in between": lambda x: x / (1 + tf.abs(tf.cast(tf.cast(x, tf.int32), tf.float32))),
    "sigmoid of two tensors": lambda x: 1 / (1 + tf.exp(-x) * x[:, ::-1]),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_is_almost_a_known_function_stays(name):
    check_unchanged(NEAR_MISSES[name], (None, 200))


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16])
def test_other_resolutions(dtype):
    zero = np.zeros((), dtype.as_numpy_dtype)
    check(lambda x: x * sigmoid(x), swish, (None, 50), dtype=dtype, rtol=0.02)
    check(lambda x: tf.maximum(x, zero), tf.nn.relu, (None, 50), dtype=dtype)


def test_a_function_between_types_keeps_both():
    check(
        lambda x: tf.cast(sigmoid(tf.cast(x, tf.float32)), tf.float16),
        lambda x: tf.cast(tf.sigmoid(tf.cast(x, tf.float32)), tf.float16),
        (None, 50),
        dtype=tf.float16,
    )


# Softmax, means and normalization


def softmax(x, axis=-1, summed=None, largest=None):
    axis %= x.shape.rank
    largest = tf.reduce_max(x if largest is None else largest, [axis])
    power = tf.exp(x - tf.expand_dims(largest, axis))
    summed = axis if summed is None else summed
    return power / tf.expand_dims(tf.reduce_sum(power, [summed]), summed)


def log_softmax(x):
    shifted = x - tf.stop_gradient(tf.expand_dims(tf.reduce_max(x, [1]), 1))
    return shifted - tf.math.log(tf.expand_dims(tf.reduce_sum(tf.exp(shifted), [1]), 1))


@pytest.mark.parametrize(("axis", "shape"), [(-1, (None, 5)), (-1, (None, 4, 6, 5)), (1, (None, 4, 5))])
def test_softmax(axis, shape):
    # TensorFlow computes the order of axes in the graph.
    found = recognize(graph_of(lambda x: softmax(x, axis), shape), {}, ["scores"])
    assert set(operations(found)) - {"Sub", "Range", "Pack", "ConcatV2"} == {"Softmax"} | (
        {"Transpose"} if axis == 1 else set()
    )
    arrays = arrays_of([shape], tf.float32)
    np.testing.assert_allclose(values(found, arrays), tf.nn.softmax(arrays[0], axis), rtol=1e-5, atol=1e-7)


def test_log_softmax():
    check(log_softmax, tf.nn.log_softmax, (None, 7), rtol=1e-5)


@pytest.mark.parametrize(
    "written",
    [
        lambda x: softmax(x, -1, summed=1),
        lambda x: softmax(x, -1, largest=x[:, ::-1] * 2),
        lambda x: tf.exp(x) / (1 + tf.reduce_sum(tf.exp(x), -1, keepdims=True)),
    ],
)
def test_what_is_almost_softmax_stays(written):
    graph_def = graph_of(written, (None, 5, 5))
    assert "Softmax" not in operations(recognize(graph_def, {}, ["scores"]))


def test_means():
    check(lambda x: tf.reduce_sum(x, [1, 2]) / 20.0, lambda x: tf.reduce_mean(x, [1, 2]), (None, 4, 5, 6))
    check(
        lambda x: tf.expand_dims(tf.expand_dims(tf.reduce_sum(x, [1, 2]), 1), 2) * 0.05,
        lambda x: tf.reduce_mean(x, [1, 2], keepdims=True),
        (None, 4, 5, 6),
    )


def test_a_sum_over_another_number_is_no_mean():
    check_unchanged(lambda x: tf.reduce_sum(x, [1, 2]) / 21.0, (None, 4, 5, 6))
    check_unchanged(lambda x: tf.reduce_sum(x, [0, 1]) / 4.0, (None, 4, 5, 6))


def layer_norm(x, variance):
    mean = tf.expand_dims(tf.reduce_sum(x, [2]), 2) / 6.0
    scale = tf.math.rsqrt(variance(x, mean) + 1e-3) * np.linspace(1, 2, 6).astype(np.float32)
    return x * scale + (-mean * scale + np.ones(6, np.float32))


def test_layer_normalization():
    def written(x, mean):
        square = tf.pow(x - mean, 2.0)
        return tf.expand_dims(tf.reduce_sum(square, [2]), 2) / 6.0

    def moments(x):
        mean, variance = tf.nn.moments(x, [2], keepdims=True)
        scale = tf.math.rsqrt(variance + 1e-3) * np.linspace(1, 2, 6).astype(np.float32)
        return x * scale + (-mean * scale + np.ones(6, np.float32))

    check(lambda x: layer_norm(x, written), moments, (None, 4, 6), rtol=1e-5)


def test_layer_normalization_with_its_weights_last():
    scale, shift = weights(6), weights(6)

    def written(x, mean, root):
        return (x * root + -mean * root) * scale + shift

    def wanted(x, mean, root):
        return x * (root * scale) + (-mean * (root * scale) + shift)

    check(written, wanted, (None, 4, 6), (None, 4, 1), (None, 4, 1), rtol=1e-5)


def test_the_mean_of_other_differences_is_no_variance():
    def written(x):
        mean = tf.reduce_mean(x, [1], keepdims=True)
        return tf.reduce_mean(tf.square(x - mean), [2], keepdims=True)

    check_unchanged(written, (None, 4, 6))


# Layers, attention and moves


def weights(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def einsum(equation, *factors):
    return tf.raw_ops.Einsum(inputs=list(factors), equation=equation)


@pytest.mark.parametrize(("shape", "kept"), [((1, None, 2, 4, 4), (-1, 2, 4, 4)), ((None, 1, 1, 5), (-1, 5))])
def test_softmax_of_attention_and_of_classes_has_no_other_axes(shape, kept):
    found = recognize(graph_of(softmax, shape), {}, ["scores"])
    (one,) = (node for node in found.node if node.op == "Softmax")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(found, name="")
    assert graph.get_tensor_by_name(f"{one.name}:0").shape.rank == len(kept)
    (array,) = arrays_of([shape], tf.float32)
    wanted = tf.reshape(tf.nn.softmax(tf.reshape(array, kept)), array.shape)
    np.testing.assert_allclose(values(found, [array]), wanted, rtol=1e-5, atol=1e-7)


def test_a_variance_from_squares():
    def written(x):
        mean = tf.reduce_mean(x, [1, 2], keepdims=True)
        return tf.reduce_mean(tf.square(x), [1, 2], keepdims=True) - tf.square(mean)

    check(written, lambda x: tf.nn.moments(x, [1, 2], keepdims=True)[1], (None, 4, 4, 3), rtol=1e-5)
    check_unchanged(lambda x: tf.reduce_mean(tf.square(x), [1], keepdims=True) - tf.square(x), (None, 4, 3))


def test_a_step_of_a_recurrent_cell():
    kernel, recurrent, bias = weights(3, 4), weights(2, 4), weights(4)

    def written(x, h):
        return (einsum("abc,cd->abd", x, kernel) + bias)[1] + h @ recurrent

    def copied(x, h):
        return (einsum("abc,acd->abd", x, tf.broadcast_to(kernel, (5, 3, 4))) + bias)[1] + h @ recurrent

    for each in (written, copied):
        check(each, lambda x, h: x[1] @ kernel + h @ recurrent + bias, (5, ROWS, 3), (ROWS, 2))
    check_unchanged(lambda x, h: (x @ kernel + bias) + h @ recurrent, (ROWS, 3), (ROWS, 2))


def test_batch_normalization_with_the_mean_first():
    mean, scale, shift = (np.float32(number) * weights(1, 1, 1, 4) for number in (1, 2, 3))
    check(
        lambda x: (x - mean) * scale + shift,
        lambda x: x * scale + (tf.convert_to_tensor(shift) - tf.convert_to_tensor(mean) * scale),
        (None, 8, 8, 4),
        rtol=1e-5,
    )


def test_a_lookup_without_its_nan_outside_the_table():
    def lookup(indices, other):
        found = tf.gather(weights(5, 3), indices)
        return tf.where(tf.expand_dims(indices < 5, -1), found, other)

    check(lambda i: lookup(i, np.nan), lambda i: tf.gather(weights(5, 3), i), (None, 7), dtype=tf.int32)
    check_unchanged(lambda i: lookup(i, 0.0), (None, 7), dtype=tf.int32)


def resizing(size, wanted, change=0.0):
    matrix = tf.image.resize(np.eye(size, dtype=np.float32)[..., np.newaxis], (size, wanted)).numpy()[..., 0]
    matrix[0, 0] += change
    return matrix


@pytest.mark.parametrize("change", [0, 0.01])
def test_bilinear_interpolation(change):
    matrices = resizing(4, 8), resizing(5, 10, change)

    def written(x):
        rows = einsum("ha,nhwc->anwc", matrices[0], x)
        return tf.transpose(einsum("anwc,wb->ancb", rows, matrices[1]), [1, 0, 3, 2])

    found = recognize(graph_of(written, (None, 4, 5, 3)), {}, ["scores"])
    assert ("ResizeBilinear" in operations(found)) == (change == 0)


@pytest.mark.parametrize("change", [0, 0.01])
def test_bilinear_interpolation_by_windows(change):
    """As Keras on PyTorch writes it: two neighbors along either axis, times their weights."""
    starts = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    weights = np.stack([resizing(4, 8, change)[starts + step, np.arange(8)] for step in (0, 1)], axis=1)
    places = np.stack(np.meshgrid(starts, starts, indexing="ij"), -1)[:, :, np.newaxis, np.newaxis]
    places = places + np.stack(np.meshgrid([0, 1], [0, 1], indexing="ij"), -1)

    def written(x):
        windows = tf.gather_nd(tf.transpose(x, [1, 2, 0, 3]), places)
        return tf.transpose(einsum("hawb,hwabnc->whnc", einsum("ha,wb->hawb", weights, weights), windows), [2, 1, 0, 3])

    found = recognize(graph_of(written, (None, 4, 4, 3)), {}, ["scores"])
    assert ("ResizeBilinear" in operations(found)) == (change == 0)


def test_rolls():
    check(lambda x: tf.concat([x[:, 1:], x[:, :1]], 1), lambda x: tf.roll(x, 3, 1), (None, 4, 6))
    check_unchanged(lambda x: tf.concat([x[:, 1:], x[:, 1:2]], 1), (None, 4, 6))


def test_identities_inside_go():
    graph_def = graph_of(lambda x: tf.nn.relu(tf.identity(tf.identity(x * x) + 1.0)) + 2.0, (None, 4))
    found = recognize(graph_def, {}, ["scores"])
    assert [node.name for node in found.node if node.op == "Identity"] == ["scores"]
    arrays = arrays_of([(None, 4)], tf.float32)
    np.testing.assert_array_equal(values(found, arrays), values(graph_def, arrays))


def test_names_of_outputs_stay_and_a_graph_of_tensorflow_does_not_change():
    kernel = weights(3, 3, 2, 4)

    def written(x):
        x = tf.nn.gelu(tf.nn.conv2d(x, kernel, 1, "SAME"))
        return tf.nn.softmax(tf.reduce_mean(x, [1, 2]) @ weights(4, 5))

    graph_def = graph_of(written, (None, 8, 8, 2))
    assert sorted(map(str, recognize(graph_def, {}, ["scores"]).node)) == sorted(map(str, graph_def.node))
