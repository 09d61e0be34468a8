"""Paired tests are computed once: kept ones are the same numbers, and only new ones are computed."""

import itertools

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.stats import comparisons
from attribution_benchmarks.stats.comparisons import CachedTests, compare_pairs

DRAWS = 499
METHODS = 9


@pytest.fixture
def values():
    generator = np.random.default_rng(0)
    found = {f"method {n}": generator.normal(0.2 * n, 1, 40) for n in range(METHODS - 2)}
    found["missing"] = np.where(np.arange(40) % 10 == 1, np.nan, generator.normal(size=40))
    found["of few"] = np.where(np.arange(40) < 1, generator.normal(size=40), np.nan)  # an interval without ends
    return found


@pytest.fixture
def counted(monkeypatch):
    """How many pairs were tested at a time."""
    found, test = [], comparisons._test

    def counting(sums, *arguments):
        found.append(sums.shape[1])
        return test(sums, *arguments)

    monkeypatch.setattr(comparisons, "_test", counting)
    return found


def cache_in(directory):
    return CachedTests(ScoreStore(str(directory)).series(tests="of a test"))


@pytest.mark.parametrize("clusters", [None, np.arange(40) // 3])
def test_a_method_that_is_added_has_its_own_pairs_tested_alone_and_the_numbers_are_the_same(
    values, counted, clusters, tmp_path
):
    pairs = list(itertools.combinations(values, 2))
    fresh = np.array([test[2:] for test in compare_pairs(values, pairs, clusters, DRAWS)])
    counted.clear()
    before = [pair for pair in pairs if "method 0" not in pair]
    compare_pairs(values, before, clusters, DRAWS, cache=cache_in(tmp_path))
    assert sum(counted) == len(before)
    found = compare_pairs(values, pairs, clusters, DRAWS, cache=cache_in(tmp_path))
    assert sum(counted) == len(pairs)
    np.testing.assert_array_equal(np.array([test[2:] for test in found]), fresh)
    compare_pairs(values, pairs, clusters, DRAWS, cache=cache_in(tmp_path))
    assert sum(counted) == len(pairs)
    values["method 3"] = values["method 3"] + 1e-9
    compare_pairs(values, pairs, clusters, DRAWS, cache=cache_in(tmp_path))
    assert sum(counted) == len(pairs) + METHODS - 1


def test_a_pair_has_the_same_digits_beside_whichever_others(values):
    pairs = list(itertools.permutations(list(values)[:-1], 2))
    together = compare_pairs(values, pairs, draws=DRAWS)
    for place in (0, 17, len(pairs) - 1):
        alone = compare_pairs(values, pairs[place : place + 1], draws=DRAWS)[0]
        assert alone._replace(p_corrected=0) == together[place]._replace(p_corrected=0)


def test_what_is_no_test_is_refused(values, tmp_path):
    pairs = [("method 0", "method 1")]
    compare_pairs(values, pairs, draws=DRAWS, cache=cache_in(tmp_path / "right"))
    names = ScoreStore(tmp_path / "right").series(tests="of a test")
    ScoreStore(tmp_path / "wrong").series(tests="of a test").append(dict.fromkeys(names, ["x"] * 7))
    with pytest.raises(BadInput, match="holds no paired tests; remove it to compute them again"):
        compare_pairs(values, pairs, draws=DRAWS, cache=cache_in(tmp_path / "wrong"))
