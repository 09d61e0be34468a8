"""How often the tests claim what is not, and how often the intervals miss: simulated where the truth is known.

Methods that are alike give differences that are symmetric about zero; a constant control gives skewed ones. Simulated
families share the draws of a test, as a benchmark's columns do; they differ in their data.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.stats import comparisons, correlation, statistics

FAMILIES = 300
METHODS = 4
SIZES = (8, 15, 30, 60)
MEMBERS = 3  # of a cluster
DRAWS = 499  # the test holds its level for any number of draws; Holm needs p-values below 0.05 / 6
KINDS = {
    "normal": lambda generator, shape: generator.normal(size=shape),
    "skewed": lambda generator, shape: generator.lognormal(size=shape) - np.exp(0.5),
    "binary": lambda generator, shape: (generator.random(shape) < 0.8) - 0.8,
}


def noise_of(share, count=FAMILIES):
    """Three standard errors of a share found in so many simulations."""
    return 3 * np.sqrt(share * (1 - share) / count)


def drawn(kind, n, clustered, columns, seed=0):
    """Values of mean zero, (inputs, columns), and their clusters: n inputs, or n clusters whose members are alike."""
    generator = np.random.default_rng((seed, n, *map(ord, kind)))
    values = KINDS[kind](generator, (n, columns))
    if not clustered:
        return values, None
    # Of one cluster's members two thirds are the same value, the others their own.
    own = KINDS[kind](generator, (n * MEMBERS, columns))
    same = generator.random((n * MEMBERS, columns)) < 2 / 3
    return np.where(same, np.repeat(values, MEMBERS, axis=0), own), np.repeat(np.arange(n), MEMBERS)


def compared(values, pairs, clusters):
    columns = {name: values[:, name] for name in range(values.shape[1])}
    return comparisons.compare_pairs(columns, pairs, clusters, draws=DRAWS)


def families_of_pairs(kind, n, clustered, clusters_known=True):
    """P-values of all pairs of alike methods, (families, pairs)."""
    values, clusters = drawn(kind, n, clustered, FAMILIES * METHODS)
    pairs = [
        (METHODS * family + first, METHODS * family + second)
        for family in range(FAMILIES)
        for first, second in itertools.combinations(range(METHODS), 2)
    ]
    found = compared(values, pairs, clusters if clusters_known else None)
    return np.array([test.p_value for test in found]).reshape(FAMILIES, -1)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_of_methods_that_are_alike_few_families_claim_a_difference(n, kind, clustered):
    p_values = families_of_pairs(kind, n, clustered)
    claimed = [min(comparisons.holm(family)) < comparisons.LEVEL for family in p_values]
    assert np.mean(claimed) <= 0.05 + noise_of(0.05)
    assert np.mean(p_values[:, 0] < 0.05) <= 0.05 + noise_of(0.05)


def test_the_simulation_would_find_a_test_that_ignores_the_clusters():
    p_values = families_of_pairs("normal", 30, clustered=True, clusters_known=False)
    assert np.mean(p_values[:, 0] < 0.05) > 0.05 + noise_of(0.05)


def claims_above(values, control, clusters):
    """In what share of families a method is called better than the control; values (inputs, families * methods)."""
    pairs = [(column, values.shape[1] + column // METHODS) for column in range(values.shape[1])]
    found = compared(np.concatenate([values, control], axis=1), pairs, clusters)
    families = (comparisons.better_than_every(found[i : i + METHODS]) for i in range(0, len(found), METHODS))
    return np.mean([min(test.p_corrected for test in family) < comparisons.LEVEL for family in families])


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_of_methods_as_good_as_a_control_few_families_claim_one_to_be_better(n, kind, clustered):
    """The control is a constant, as a uniform map nearly is; under a rate it has hits and misses of its own."""
    values, clusters = drawn(kind, n, clustered, FAMILIES * METHODS, seed=1)
    if kind == "binary":
        control, _ = drawn(kind, n, clustered, FAMILIES, seed=2)
    else:
        control = np.zeros((len(values), FAMILIES))
    assert claims_above(values, control, clusters) <= 0.05 + noise_of(0.05)


def test_rare_large_losses_deceive_few_inputs():
    """The known limit: what a sample does not hold no test sees. With 60 inputs little of it is left."""
    found = {}
    for n in (15, 60):
        generator = np.random.default_rng(n)
        values = 1 - generator.exponential(size=(n, FAMILIES * METHODS))
        found[n] = claims_above(values, np.zeros((n, FAMILIES)), None)
    assert found[15] <= 0.12 and found[60] <= 0.05 + noise_of(0.05)


# How much less than 95 % an interval may cover, for that many inputs or clusters.
MARGINS = {
    "normal": {8: 0.02, 15: 0.01, 30: 0.01, 60: 0.01},
    "skewed": {8: 0.10, 15: 0.06, 30: 0.04, 60: 0.03},
}


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("kind", MARGINS)
@pytest.mark.parametrize("n", SIZES)
def test_intervals_of_means_hold_the_truth(n, kind, clustered):
    values, clusters = drawn(kind, n, clustered, 1500, seed=2)
    low, high = statistics.column_intervals(values, clusters, resamples=999)
    covered = np.mean((low <= 0) & (high >= 0))
    assert covered >= 0.95 - MARGINS[kind][n] - noise_of(0.05, 1500)
    assert covered <= 0.995


@pytest.mark.parametrize(("n", "p", "least"), [
    (8, 0.5, 0.92), (15, 0.5, 0.94), (30, 0.5, 0.94), (60, 0.5, 0.94), (8, 0.9, 0.94), (15, 0.9, 0.94), (30, 0.9, 0.94),
    (60, 0.9, 0.94), (15, 0.98, 0.94), (30, 0.98, 0.94), (60, 0.98, 0.94), (60, 0.99, 0.94),
])  # fmt: skip
def test_intervals_of_rates_hold_the_truth(n, p, least):
    """Exactly, by the binomial distribution."""
    found = [statistics.mean_interval(np.arange(n) < hits) for hits in range(n + 1)]
    holds = np.array([estimate.low <= p <= estimate.high for estimate in found])
    assert stats.binom.pmf(np.arange(n + 1), n, p)[holds].sum() >= least


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("n", [15, 60])
def test_intervals_of_clustered_rates_hold_the_truth(n, p):
    generator = np.random.default_rng((n, int(100 * p)))
    clusters = np.repeat(np.arange(n), 4)
    covered = []
    for _ in range(600):
        of_cluster = generator.beta(2 * p, 2 * (1 - p), n)  # members correlate by 1/3
        found = statistics.mean_interval(generator.random(4 * n) < of_cluster[clusters], clusters=clusters)
        covered.append(found.low <= p <= found.high)
    assert np.mean(covered) >= 0.95 - 0.03 - noise_of(0.05, 600)


@pytest.mark.parametrize("families", [np.arange(15), np.repeat(np.arange(7), [5, 4, 2, 1, 1, 1, 1])])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_intervals_of_kendalls_w_hold_that_of_all_methods(families, rho):
    generator = np.random.default_rng((len(set(families)), int(10 * rho)))
    judges, count = 3, families.max() + 1
    truth = (1 + (judges - 1) * 6 / np.pi * np.arcsin(rho / 2)) / judges
    covered = []
    for _ in range(250):
        ideas, own = (
            np.sqrt(rho) * generator.normal(size=(size, 1)) + np.sqrt(1 - rho) * generator.normal(size=(size, judges))
            for size in (count, 15)
        )
        scores = ideas if count == 15 else np.sqrt(0.9) * ideas[families] + np.sqrt(0.1) * own
        found = correlation.kendalls_w(scores, permutations=1, families=families)
        covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) >= 0.95 - (0.02 if count == 15 else 0.05) - noise_of(0.05, 250)
