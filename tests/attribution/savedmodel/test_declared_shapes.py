"""Shapes that the graph leaves open are those of the signature; what neither declares is refused in one line."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import attribution
from attribution.errors import BadInput

v1 = tf.compat.v1
KERNEL = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)


def save(path, function, **shapes):
    module = tf.Module()
    specs = {name: tf.TensorSpec(shape, tf.float32, name=name) for name, shape in shapes.items()}
    module.call = tf.function(lambda **inputs: {"scores": function(**inputs)}, autograph=False).get_concrete_function(
        **specs
    )
    tf.saved_model.save(module, str(path), signatures=module.call)
    return path


@pytest.mark.parametrize(
    "function, shapes, name",
    [
        (lambda x: tf.reshape(x, (-1, 8)) @ KERNEL, {"x": None}, "x"),
        (lambda x, extra: x @ KERNEL + tf.reduce_sum(extra), {"x": (None, 8), "extra": None}, "extra"),
        (lambda wave: tf.reduce_mean(tf.abs(wave)) * KERNEL[:1], {"wave": None}, "wave"),
    ],
)
def test_an_input_of_unknown_rank_is_refused_in_one_line(function, shapes, name, tmp_path):
    path = save(tmp_path / "model", function, **shapes)
    line = rf"input '{name}' of '.*' has no declared rank; export it with its shape, as in tf.TensorSpec\(\(None, 8\)"
    with pytest.raises(BadInput, match=line):
        attribution.load_model(path)


def hidden(tensor):
    """Return a tensor of whose shape nothing is known."""
    return tf.ensure_shape(v1.placeholder_with_default(tensor, shape=None), None)


@pytest.mark.parametrize("function", [lambda x: hidden(x @ KERNEL), lambda x: hidden(tf.nn.softmax(x @ KERNEL))])
def test_an_output_of_unknown_rank_is_refused_by_that_reason(function, tmp_path):
    with pytest.raises(BadInput, match=r"does not declare the shape of its output.*tf.ensure_shape"):
        attribution.load_model(save(tmp_path, function, x=(None, 8)))


def test_what_the_signature_alone_declares_counts(tmp_path):
    """A policy with an action (batch, 1) whose graph has forgotten the 1."""

    def policy(x):
        size = tf.cast(tf.reduce_sum(x[:0]), tf.int32) + 1
        return tf.reshape(x @ KERNEL[:, :1], [-1, size])

    save(tmp_path, policy, x=(None, 8))
    path = tmp_path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    (output,) = message.meta_graphs[0].signature_def["serving_default"].outputs.values()
    assert [size.size for size in output.tensor_shape.dim] == [-1, -1]
    output.tensor_shape.dim[1].size = 1
    path.write_bytes(message.SerializeToString())
    model = attribution.load_model(tmp_path)
    np.testing.assert_allclose(model.scores(X), X @ KERNEL[:, :1], rtol=1e-5)
    np.testing.assert_allclose(attribution.explain("gradient", model, X, targets=0), KERNEL[:, :1].T.repeat(4, 0))
