"""Components of variance are those that scores were made of."""

import numpy as np
import pytest

from attribution_benchmarks.stats.variance import Components, components

KNOWN = Components(9.0, 4.0, 1.0, 2.0, 0.5, 0.25, 1.5)
_AXES = {"methods": (2,), "inputs": (0,), "networks": (1,), "methods_inputs": (0, 2), "methods_networks": (1, 2),
         "inputs_networks": (0, 1), "residual": (0, 1, 2)}  # fmt: skip


def scores(known, shape, seed):
    """Return scores with known components of variance."""
    random = np.random.default_rng(seed)
    return sum(
        np.sqrt(getattr(known, name))
        * random.normal(size=[size if axis in axes else 1 for axis, size in enumerate(shape)])
        for name, axes in _AXES.items()
    )


def test_the_mean_of_many_estimates_is_the_known_variance():
    """Nearly unbiased: a negative estimate is 0, which is rare with these numbers."""
    found = np.mean([components(scores(KNOWN, (30, 12, 8), seed)) for seed in range(400)], axis=0)
    np.testing.assert_allclose(found, KNOWN, rtol=0.08)


def test_a_component_that_is_not_there_is_nearly_zero():
    alone = Components(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01)
    found = components(scores(alone, (200, 10, 6), 0))
    assert found.residual == pytest.approx(0.01, rel=0.05)
    assert max(found[1:-1]) < 0.001 < found.methods


def test_two_crossed_factors_have_the_mean_squares_of_the_textbook():
    """With equal methods, the components of inputs and networks are those of the two-way table of their means."""
    values = np.arange(12.0).reshape(4, 3) ** 2
    found = components(np.repeat(values[..., np.newaxis], 2, axis=2))
    rows, columns = (values.mean(axis=axis) for axis in (1, 0))
    rest = ((values - rows[:, None] - columns + values.mean()) ** 2).sum() / 6
    assert found.inputs_networks == pytest.approx(rest)
    assert found.inputs == pytest.approx((3 * rows.var(ddof=1) - rest) / 3)
    assert found.networks == pytest.approx(max((4 * columns.var(ddof=1) - rest) / 4, 0))
    assert found.methods == found.methods_networks == found.residual == 0


def test_the_variance_of_a_difference_of_means_is_that_of_repeated_samples():
    fixed = KNOWN._replace(methods=0.0)
    differences = [np.diff(scores(fixed, (20, 5, 2), seed).mean(axis=(0, 1)))[0] for seed in range(3000)]
    assert np.var(differences) == pytest.approx(sum(KNOWN.of_difference(20, 5)), rel=0.08)


def test_inputs_with_a_missing_value_do_not_count():
    values = scores(KNOWN, (10, 4, 3), 0)
    more = np.concatenate([values, np.full((1, 4, 3), np.nan)])
    more[-1, 0, 0] = 7.0
    assert components(more) == components(values)
    with pytest.raises(ValueError, match="at least two of each"):
        components(values[:, :1])
