"""How often intervals cover the truth, and how often a family of tests makes a wrong claim.

docs/statistics.md has the same simulations of 1,000 families, and of more designs.
"""

import csv
import importlib.util
import pathlib

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.core.definition import Column
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import matrix, significance
from attribution_benchmarks.report.significance import MARGIN
from attribution_benchmarks.stats.statistics import better_than_every, mean_interval, means

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


@pytest.fixture(scope="module")
def marks():
    """docs/studies/marks.py, whose table is docs/marks.csv."""
    path = pathlib.Path(__file__).resolve().parents[3] / "docs" / "studies" / "marks.py"
    spec = importlib.util.spec_from_file_location("marks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "design",
    [
        {"inputs": 30, "networks": 20, "noise": 0.08, "spread": 0.3, "of_networks": "one in ten fails"},
        {"inputs": 30, "networks": 7, "noise": 0.2, "spread": 0.3, "of_networks": "one in ten fails"},
        {"inputs": 60, "networks": 1, "noise": 0.3, "of_inputs": "rare losses"},
        {"inputs": 60, "networks": 1, "noise": 0.3, "of_inputs": "rare losses", "clusters": "very uneven"},
        {"inputs": 10, "networks": 1, "noise": 1.0, "of_inputs": "zero-inflated"},  # the worst of docs/marks.csv
    ],
)
def test_marks_hold_the_level_where_a_sample_may_contain_no_failure(marks, design):
    families, _ = marks.simulate(200, 0, reached=MARGIN, **design)
    assert families <= 0.05 + noise_of(0.05, 200)
    _, power = marks.simulate(10, 0, inputs=30, networks=10, noise=0.3, spread=0.1, reached=0.3)
    assert power > 0.9


def table(name):
    with open(pathlib.Path(__file__).resolve().parents[3] / "docs" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_design_and_column_holds_the_level():
    """But for the known limit: baselines that differ between networks by half of a method's score."""
    rows = [row for row in table("marks.csv") if row["reached"] == "0.8"]
    held = [float(row["families"]) for row in rows if row["of_baseline"] != "0.5"]
    assert len(held) > 900 and max(held) <= 0.06
    assert all(max(float(row["independent"]), float(row["correlated"])) <= 0.06 for row in table("columns.csv"))


@pytest.mark.parametrize(
    "kind", ["normal", "skewed losses", "lognormal losses", "one in five fails", "one in ten fails"]
)
def test_the_page_has_the_worst_families_and_the_power_of_the_table(kind):
    rows = [row for row in table("marks.csv") if row["of_networks"] == kind and not row["of_baseline"]]
    rows = [row for row in rows if row["reached"] == "0.8" and not row["clusters"]]
    text = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "statistics.md").read_text("utf-8")
    worst = [max(row["families"] for row in rows if row["networks"] == count) for count in ("3", "5", "7", "10", "20")]
    assert f"| {kind} | {' | '.join(worst)} |" in text
    power = [row["methods"] for row in table("marks.csv") if (row["reached"], row["networks"]) == ("0.4", "20")]
    assert f"| {float(power[0]):.2f} |" in next(line for line in text.splitlines() if line.startswith("| 40 % |"))


def test_ranges_of_ranks_cover_the_true_rank():
    random, covered = np.random.default_rng(0), []
    names = [str(number) for number in range(METHODS)]
    for _ in range(20):
        true = random.normal(scale=0.05, size=METHODS)
        drawn = true + random.normal(0, 0.1, (1, 5, METHODS)) + random.normal(0, 0.15, (30, 5, METHODS))
        values = dict(zip(names, np.moveaxis(drawn, 2, 0), strict=True))
        rows = [{"method": name, "metric": "m", "value": column.mean(), "low": 0, "high": 1, "n": 30, "paper": None,
                 "kind": "method"} for name, column in values.items()]  # fmt: skip
        built = matrix.build([{"benchmark": "b", "rows": rows}], [Column("b", "m", "M", "B")])
        group = InputScores({"metric": "m"}, [str(row) for row in range(30)], values)
        ranks = significance.compare_columns(built, {"b": [group]})["b m"].ranks
        covered += [
            ranks[name].low <= rank <= ranks[name].high for name, rank in zip(names, stats.rankdata(-true), strict=True)
        ]
    assert np.mean(covered) >= 0.95
