"""Maps of files that JAX writes follow the file's own gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import jax2tf

import attribution
from attribution.errors import BadInput

RANDOM = np.random.default_rng(0)


def written(path, scores, width, dtype=tf.float32):
    on_tensorflow = jax2tf.convert(scores, polymorphic_shapes=["b, _"], with_gradient=True)
    module = tf.Module()
    module.f = tf.function(
        lambda x: {"scores": on_tensorflow(x)}, input_signature=[tf.TensorSpec((None, width), dtype)], autograph=False
    )
    tf.saved_model.save(module, str(path), signatures=module.f)
    return attribution.load_model(path)


def gated(layers, dtype):
    """Return a network with a gate that passes no gradient; the translation's gradient would be another."""
    weights = [(RANDOM.normal(size=(8, 8)) / 3).astype(np.float32) for _ in range(layers)]

    def scores(x):
        x = x.astype(dtype)
        for weight in weights:
            weight = weight.astype(dtype)
            x = x + jax.nn.relu(x @ weight) * jax.lax.stop_gradient(jax.nn.sigmoid(x @ weight))
        return (x @ jnp.ones((8, 3), dtype)).astype(jnp.float32)

    return scores


@pytest.mark.parametrize("layers", [1, 40])
def test_what_passes_no_gradient_in_the_file_passes_none_here(layers, tmp_path):
    scores, inputs = gated(layers, "float32"), RANDOM.normal(size=(3, 8)).astype(np.float32)
    model = written(tmp_path / "m", scores, 8)
    expected = np.asarray(jax.grad(lambda x: scores(x)[:, 1].sum())(inputs))
    found = attribution.explain("gradient", model, inputs, targets=1)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_refused(dtype, tmp_path):
    with pytest.raises(BadInput, match=f"computes in {dtype}, .*; export it in float32"):
        written(tmp_path / "m", gated(1, dtype), 8)
