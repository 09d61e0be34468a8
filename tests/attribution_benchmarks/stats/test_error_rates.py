"""How often intervals cover the truth, and how often a family of tests makes a wrong claim.

docs/statistics.md has the same simulations of 1,000 families, and of more designs.
"""

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.core.definition import Column
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import matrix, significance
from attribution_benchmarks.report.significance import MARGIN
from attribution_benchmarks.stats.statistics import better_than_every, compare_pairs, mean_interval, means

METHODS = 16  # of a family: they share a baseline, half of the variance of their differences from it
KINDS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "ties": lambda random, shape: np.round(1.5 * random.normal(size=shape)),
    "gains": lambda random, shape: random.exponential(size=shape) - 1,
    "losses": lambda random, shape: 1 - random.exponential(size=shape),
    "rare losses": lambda random, shape: 0.1 - (random.random(shape) < 0.1) * random.exponential(size=shape),
}


def noise_of(share, count):
    """Three standard errors of a share found in so many simulations."""
    return 3 * np.sqrt(share * (1 - share) / count)


def simulate(kind, n, networks, ratio, families):
    """Return the coverage of 95 % intervals of a mean of zero, and the share of families with a wrong claim.

    ``ratio`` is the standard deviation between networks, in standard errors over the ``n`` inputs.
    """
    random = np.random.default_rng([n, networks, int(ratio), *map(ord, kind)])
    draw = KINDS[kind]
    deviation = draw(random, 100_000).std()

    def effects(shape, draw):
        of_baseline = np.repeat(draw(random, (*shape, families)), METHODS, axis=-1)
        return (of_baseline + draw(random, (*shape, families * METHODS))) * np.sqrt(0.5)

    values = effects((n, 1), draw)
    if networks > 1:
        values = (values + effects((n, networks), draw)) * np.sqrt(0.5)
        values = values + effects((1, networks), KINDS["normal"]) * ratio * deviation / np.sqrt(n)
    found = means(values)
    low, high = found.intervals()
    claims = np.where(found.mean > 0, found.p_values(), 1.0).reshape(families, METHODS)
    names = [str(number) for number in range(METHODS)]
    wrong = [min(better_than_every(names, family).values()) < 0.05 for family in claims.tolist()]
    return np.mean((low <= 0) & (high >= 0)), np.mean(wrong)


@pytest.mark.parametrize(("networks", "ratio"), [(3, 3), (5, 0), (5, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_several_networks_hold_the_level_whatever_the_distribution(kind, networks, ratio):
    coverage, wrong = simulate(kind, 30, networks, ratio, families=100)
    assert coverage >= 0.95 - noise_of(0.05, 200) and wrong <= 0.05 + noise_of(0.05, 100)


def test_one_network_is_deceived_by_rare_losses_that_few_inputs_do_not_show():
    """The known limit: what a sample does not contain no test sees. Therefore a mark takes 60 inputs there."""
    few, more = (simulate("rare losses", n, 1, 0, families=200)[1] for n in (15, significance.INPUTS_FOR_MARK))
    assert few > 0.15 and more <= 0.05


@pytest.mark.parametrize(("rate", "n", "networks"), [(0.98, 60, 5), (0.5, 15, 1)])
def test_intervals_of_rates_cover_the_truth(rate, n, networks):
    """Half of the variance of the log odds is that of the inputs, an eighth that of the networks."""
    random, log_odds, covered = np.random.default_rng(0), np.log(rate / (1 - rate)), []
    of_inputs, of_networks = random.normal(size=(2, 100_000)) * np.sqrt([[0.5], [0.125]])
    truth = np.mean(1 / (1 + np.exp(-log_odds - of_inputs - of_networks))) if networks > 1 else rate
    for _ in range(200):
        odds = np.full((n, networks), log_odds)
        if networks > 1:
            odds += random.normal(size=(n, 1)) * np.sqrt(0.5) + random.normal(size=networks) * np.sqrt(0.125)
        found = mean_interval(1.0 * (random.random((n, networks)) < 1 / (1 + np.exp(-odds))), rate=1.0)
        covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) >= 0.95 - noise_of(0.05, 200)


def family(networks, share, seed, fails=0.0, inputs=30, spread=0.1, ratio=3):
    """Return the scores of methods and of a baseline that reaches a share of them, (inputs, networks) each.

    Each method fails on a share of the networks: there it is as good as the baseline at the margin. Otherwise networks
    differ by normal effects.
    """
    random = np.random.default_rng([seed, networks, int(100 * share), int(100 * fails)])
    deviation = spread * np.sqrt(inputs) / ratio

    def noise():
        return deviation * (random.normal(size=(inputs, 1)) + random.normal(size=(inputs, networks))) / np.sqrt(2)

    def effects():
        failed = (fails - (random.random((1, networks)) < fails)) / np.sqrt(max(fails * (1 - fails), 1e-9))
        return failed if fails else random.normal(size=(1, networks))

    found = {f"m{n}": 1 + noise() + spread * effects() for n in range(METHODS)}
    return found | {"baseline": share + noise()}


def column_tests(values):
    """Return the tests of a column whose methods and baseline have some values."""
    rows = [
        {"method": name, "metric": "m", "value": float(column.mean()), "low": 0, "high": 1, "n": len(column),
         "paper": None, "kind": "control" if name == "baseline" else "method"}
        for name, column in values.items()
    ]  # fmt: skip
    built = matrix.build([{"benchmark": "b", "rows": rows}], [Column("b", "m", "M", "B")])
    group = InputScores({"metric": "m"}, [str(row) for row in range(len(values["baseline"]))], values)
    return significance.compare_columns(built, {"b": [group]})["b m"]


def marked(values):
    """Return whether each method has a mark, and whether Holm's tests of the sampled networks alone would give one."""
    names = [name for name in values if name != "baseline"]
    found = column_tests(values)
    tests = compare_pairs(values, [(name, "baseline") for name in names], scales=[(MARGIN, 1.0)] * len(names))
    alone = better_than_every(names, [one.p_value if one.difference > 0 else 1.0 for one in tests])
    return [found.passes(name) for name in names], [value < 0.05 for value in alone.values()]


def test_marks_hold_the_level_where_one_network_in_five_fails_and_have_power():
    """Without the additional network that fails, many families have a wrong mark."""
    wrong = np.array([np.any(marked(family(10, MARGIN, seed, fails=0.2, ratio=7)), axis=1) for seed in range(40)])
    marks, alone = wrong.mean(axis=0)
    assert marks <= 0.05 + noise_of(0.05, 40) and alone > 0.2
    assert np.mean([marked(family(10, 0.4, seed))[0] for seed in range(5)]) > 0.9


def test_ranges_of_ranks_cover_the_true_rank():
    covered = []
    for seed in range(20):
        values, true = family(5, 0.0, seed), np.random.default_rng(seed).normal(scale=0.05, size=METHODS)
        names = [name for name in values if name != "baseline"]
        values |= {name: values[name] + level for name, level in zip(names, true, strict=True)}
        ranks = column_tests(values).ranks
        covered += [
            ranks[name].low <= rank <= ranks[name].high for name, rank in zip(names, stats.rankdata(-true), strict=True)
        ]
    assert np.mean(covered) >= 0.95
