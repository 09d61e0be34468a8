"""Components of variance of scores by method, definition and network."""

import numpy as np
import pytest

from attribution_benchmarks.stats.variance_components import variance_components


def test_a_single_effect_is_its_variance():
    methods = ["a", "a", "b", "b"]
    effects = {
        0: np.array([[0], [0], [2], [2]]) + np.zeros(3),
        1: np.array([[-1], [1], [-1], [1]]) + np.zeros(3),
        2: np.zeros((4, 1)) + np.array([0, 3, 6]),
    }
    for place, scores in effects.items():
        found = variance_components(scores, methods)
        assert np.flatnonzero(found > 1e-12).tolist() == [place]
    assert variance_components(effects[0], methods)[0] == pytest.approx(2)  # of 0 and 2
    assert variance_components(effects[1], methods)[1] == pytest.approx(2)  # of -1 and 1, twice, by 4 - 2 degrees
    assert variance_components(effects[2], methods)[2] == pytest.approx(9)


def test_unequal_numbers_of_definitions_are_unbiased():
    generator = np.random.default_rng(0)
    methods = np.repeat(list("abcdef"), [1, 2, 3, 4, 5, 6])
    _, place = np.unique(methods, return_inverse=True)
    wanted = np.array([4.0, 2.0, 1.0, 3.0, 0.5])
    found = []
    for _ in range(2000):
        method, library, network, crossed, rest = (
            np.sqrt(size) * generator.normal(size=shape)
            for size, shape in zip(wanted, [(6, 1), (21, 1), (1, 4), (6, 4), (21, 4)], strict=True)
        )
        found.append(variance_components(method[place] + library + network + crossed[place] + rest, methods))
    # Cutting off negative estimates raises the means of the components, least where few are negative.
    assert np.median(np.mean(found, axis=0) / wanted) == pytest.approx(1, abs=0.05)
    assert np.mean(found, axis=0) == pytest.approx(wanted, rel=0.15)


@pytest.mark.parametrize("shape, methods", [((2, 1), "ab"), ((2, 3), "aa"), ((2, 3), "ab")])
def test_too_few_classes_are_refused(shape, methods):
    with pytest.raises(ValueError, match="determine no components"):
        variance_components(np.zeros(shape), list(methods))
