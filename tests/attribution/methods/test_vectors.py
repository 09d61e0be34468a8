"""The features of a vector are removed one by one; a table's columns are not neighbors."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

METHODS = ("kernel_shap", "shapley_sampling", "lime", "occlusion")


def linear(from_function, *shape):
    """Return a linear network, an input, and the input times its weights."""
    weights = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    axes = tuple(range(1, len(shape) + 1))
    model = from_function(lambda x: tf.reduce_sum(x * weights, axes)[:, np.newaxis], *shape)
    x = np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32)
    return model, x, x * weights


@pytest.fixture(scope="module", params=[9, 51, 60, 300])
def table(request, from_function):
    return linear(from_function, request.param)


@pytest.mark.parametrize("method", METHODS)
def test_every_feature_has_its_value(method, table):
    model, x, expected = table
    options = {"permutations": 1} if method == "shapley_sampling" else {"ridge": 0.0} if method == "lime" else {}
    maps = attribution.explain(method, model, x, targets=0, **options)
    np.testing.assert_allclose(maps, expected, atol=1e-4)


def test_rise_masks_every_feature_alone(from_function):
    """With few features it is the exact expectation: a feature's share, and half of all others'."""
    model, x, shares = linear(from_function, 9)
    maps = attribution.explain("rise", model, x, targets=0)
    np.testing.assert_allclose(maps, (shares + shares.sum(axis=1, keepdims=True)) / 2, atol=1e-4)
    cells = attribution.explain("rise", model, x, targets=0, cells=3, masks=50)
    assert not np.allclose(cells, maps, atol=0.1)


@pytest.mark.parametrize(
    ("shape", "method", "values"),
    [((40, 1), "occlusion", 8), ((40, 1), "kernel_shap", 40), ((60, 1), "kernel_shap", 8), ((16, 8, 1), "lime", 64)],
)
def test_signals_and_images_keep_their_patches(shape, method, values, from_function):
    model, x, _ = linear(from_function, *shape)
    maps = attribution.explain(method, model, x, targets=0)
    assert all(len(np.unique(one)) == values for one in maps)


@pytest.mark.parametrize("method", [*METHODS, "rise"])
def test_a_long_vector_needs_a_choice(method, from_function):
    model, x, shares = linear(from_function, 4000)
    with pytest.raises(BadInput, match=r"4,000 features has too many .* set groups='patches' for eighths"):
        attribution.explain(method, model, x, targets=0)
    maps = attribution.explain("kernel_shap", model, x, targets=0, groups="patches")
    np.testing.assert_allclose(maps[:, ::500] * 500, shares.reshape(2, 8, 500).sum(axis=2), atol=1e-3)


@pytest.mark.parametrize("samples", [2, 6, 10])
@pytest.mark.parametrize(("method", "options"), [("kernel_shap", {}), ("lime", {"ridge": 0})])
def test_samples_that_leave_values_undetermined_are_refused(method, options, samples, from_function):
    model, x, _ = linear(from_function, 12)
    with pytest.raises(BadInput, match=f"{samples} samples do not determine .* 12 groups; set samples=500, or omit"):
        attribution.explain(method, model, x, targets=0, samples=samples, **options)


@pytest.mark.parametrize("samples", [0, True, 2.5, "many", 10**8])
@pytest.mark.parametrize("method", ["kernel_shap", "lime"])
def test_samples_that_are_no_number_are_refused(method, samples, from_function):
    model, x, _ = linear(from_function, 12)
    with pytest.raises(BadInput, match=f"{method} needs a number of samples from . to 10,000,000, or None"):
        attribution.explain(method, model, x, targets=0, samples=samples)
