"""Simulate how often intervals cover the truth and tests claim what is not true; write the table of docs/statistics.md.

    python -m tools.docs.simulate_statistics

Cost: 4 CPU minutes, and 4 for the marks, which alone are simulated again with ``--marks``.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np
from scipy.stats import rankdata

from attribution_benchmarks.core import tables
from attribution_benchmarks.core.definition import Column
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report import matrix, significance
from attribution_benchmarks.report.significance import MARGIN
from attribution_benchmarks.stats.statistics import MIN_NETWORKS, better_than_every, compare_pairs, mean_interval, means

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "statistics_simulated.json"
METHODS = 16  # of a family: they share a baseline, half of the variance of their differences from it
SIZES = (15, 30, 60)
DESIGNS = ((1, 0), (3, 1), (3, 3), (5, 0), (5, 1), (5, 3), (5, 7))  # networks; their deviation in errors of the inputs
KINDS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "ties": lambda random, shape: np.round(1.5 * random.normal(size=shape)),
    "gains": lambda random, shape: random.exponential(size=shape) - 1,
    "losses": lambda random, shape: 1 - random.exponential(size=shape),
    "large losses": lambda random, shape: np.exp(0.5) - np.exp(random.normal(size=shape)),
    "rare losses": lambda random, shape: 0.1 - (random.random(shape) < 0.1) * random.exponential(size=shape),
}
RARER = {  # losses on a smaller share of the inputs
    share: lambda random, shape, share=share: share - (random.random(shape) < share) * random.exponential(size=shape)
    for share in (0.05, 0.02)
}
# Deviations of the networks' scores from their mean, of standard deviation 1, with large losses.
NETWORKS = {
    "normal": KINDS["normal"],
    "skewed": KINDS["losses"],
    "lognormal": lambda random, shape: KINDS["large losses"](random, shape) / np.sqrt((np.e - 1) * np.e),
    "one in five fails": lambda random, shape: (0.2 - (random.random(shape) < 0.2)) / 0.4,
    "one in ten fails": lambda random, shape: (0.1 - (random.random(shape) < 0.1)) / 0.3,
}
COUNTS = (3, 5, 10, 20)  # of networks
# Standard deviation between networks, in standard errors over the inputs, and as a share of a method's score.
CELLS = ((1, 0.1), (3, 0.1), (7, 0.1), (7, 0.2))
RATES = (0.02, 0.1, 0.5, 0.9, 0.98)


def simulate(
    kind: str | float, n: int, networks: int, ratio: float, families: int, members: int = 1
) -> tuple[float, float]:
    """Return the coverage of 95 % intervals of a mean of zero, and the share of families with a wrong claim.

    Parameters
    ----------
    kind
        Of ``KINDS`` or ``RARER``: the distribution of the effects of inputs, and of the residuals.
    n, networks
        Inputs and networks.
    ratio
        Standard deviation between networks, in standard errors over the inputs.
    families
        How many to simulate, each of ``METHODS`` methods against one baseline that is as good.
    members
        Mean size of the clusters of inputs, whose sizes differ; half of the variance is common to a cluster.
    """
    random = np.random.default_rng([n, networks, int(ratio), members, *map(ord, str(kind))])
    draw = {**KINDS, **RARER}[kind]
    deviation = draw(random, 100_000).std()

    def effects(shape: tuple[int, ...], draw: Any) -> np.ndarray:
        of_baseline = np.repeat(draw(random, (*shape, families)), METHODS, axis=-1)
        return (of_baseline + draw(random, (*shape, families * METHODS))) * np.sqrt(0.5)

    values, clusters = effects((n, 1), draw), None
    if members > 1:
        clusters = np.concatenate([np.arange(n), random.integers(n, size=n * (members - 1))])
        values = (values[clusters] + effects((len(clusters), 1), draw)) * np.sqrt(0.5)
    if networks > 1:
        values = (values + effects((len(values), networks), draw)) * np.sqrt(0.5)
        values = values + effects((1, networks), KINDS["normal"]) * ratio * deviation / np.sqrt(n)
    found = means(values, clusters)
    low, high = found.intervals()
    claims = np.where(found.mean > 0, found.p_values(), 1.0).reshape(families, METHODS)
    names = [str(number) for number in range(METHODS)]
    wrong = [min(better_than_every(names, family).values()) < 0.05 for family in claims.tolist()]
    return float(np.mean((low <= 0) & (high >= 0))), float(np.mean(wrong))


def simulate_rate(rate: float, n: int, networks: int, trials: int) -> float:
    """Return the coverage of the intervals of a rate over inputs and networks.

    Half of the variance of the log odds is that of the inputs, an eighth that of the networks.
    """
    random = np.random.default_rng([n, networks, int(1000 * rate)])
    log_odds = np.log(rate / (1 - rate))

    def chances(size: int) -> tuple[np.ndarray, np.ndarray]:
        return random.normal(size=(size, 1)) * np.sqrt(0.5), random.normal(size=networks) * np.sqrt(0.125)

    of_inputs, of_networks = (
        random.normal(size=(100_000, 1)) * np.sqrt(0.5),
        random.normal(size=100_000) * np.sqrt(0.125),
    )
    if networks == 1:
        truth = rate
    else:
        truth = float(np.mean(1 / (1 + np.exp(-log_odds - of_inputs[:, 0] - of_networks))))
    covered = []
    for _ in range(trials):
        of_inputs, of_networks = chances(n)
        odds = log_odds + (of_inputs + of_networks if networks > 1 else np.zeros((n, 1)))
        found = mean_interval(1.0 * (random.random((n, networks)) < 1 / (1 + np.exp(-odds))), rate=1.0)
        covered.append(found.low <= truth <= found.high)
    return float(np.mean(covered))


def looks(first: int, last: int, step: int, trials: int) -> float:
    """Return the chance of at least one wrong claim where growing data are tested again and again."""
    random = np.random.default_rng(0)
    values = random.normal(size=(last, trials))
    wrong = np.zeros(trials, bool)
    for n in range(first, last + 1, step):
        wrong |= means(values[:n]).p_values() < 0.05
    return float(wrong.mean())


def family(kind: str, networks: int, ratio: float, spread: float, share: float, seed: int, inputs: int = 30) -> dict:
    """Return the scores of ``METHODS`` methods and of a baseline that reaches a share of them, (inputs, networks) each.

    ``kind`` is of ``NETWORKS``, and independent for each method. At the margin, and with a ``spread`` of 0.1, a method
    is as good as the baseline on a network on which it fails; with 0.2 it is worse.
    """
    random = np.random.default_rng([seed, networks, int(ratio), int(100 * spread), int(100 * share), *map(ord, kind)])
    deviation = spread * np.sqrt(inputs) / ratio

    def noise() -> np.ndarray:
        return deviation * (random.normal(size=(inputs, 1)) + random.normal(size=(inputs, networks))) / np.sqrt(2)

    found = {f"m{n}": 1 + noise() + spread * NETWORKS[kind](random, (1, networks)) for n in range(METHODS)}
    return found | {"baseline": share + noise()}


def column_tests(values: dict) -> significance.ColumnTests:
    """Return the tests of a column whose methods and baseline have some values."""
    rows = [
        {"method": name, "metric": "m", "value": float(column.mean()), "low": 0, "high": 1, "n": len(column),
         "paper": None, "kind": "control" if name == "baseline" else "method"}
        for name, column in values.items()
    ]  # fmt: skip
    built = matrix.build([{"benchmark": "b", "rows": rows}], [Column("b", "m", "M", "B")])
    group = InputScores({"metric": "m"}, [str(row) for row in range(len(values["baseline"]))], values)
    return significance.compare_columns(built, {"b": [group]})["b m"]


def marks(kind: str, networks: int, ratio: float, spread: float, share: float, families: int) -> tuple[float, float]:
    """Return the share of families with a mark, at the margin, or of methods with one, below it; of Holm's tests, too.

    Holm's tests of the networks that were sampled are what marks would be without a network more that fails.
    """
    of_tests, of_marks = [], []
    for seed in range(families):
        values = family(kind, networks, ratio, spread, share, seed)
        names = [name for name in values if name != "baseline"]
        tests = compare_pairs(values, [(name, "baseline") for name in names], scales=[(MARGIN, 1.0)] * len(names))
        claims = better_than_every(names, [one.p_value if one.difference > 0 else 1.0 for one in tests])
        of_tests.append([value < 0.05 for value in claims.values()])
        few = significance.too_few_networks(networks, METHODS)
        found = None if few else column_tests(values)
        of_marks.append([found is not None and found.passes(name) for name in names])
    summary = np.any if share == MARGIN else np.mean
    return float(np.mean(summary(of_tests, axis=1))), float(np.mean(summary(of_marks, axis=1)))


def rank_coverage(kind: str, networks: int, ratio: float, families: int) -> float:
    """Return how often the range of a method's rank contains its true rank; true scores differ by 5 %, normal."""
    covered = []
    for seed in range(families):
        values = family(kind, networks, ratio, 0.1, 0.0, seed)
        true = np.random.default_rng(seed).normal(scale=0.05, size=METHODS)
        names = [name for name in values if name != "baseline"]
        values |= {name: values[name] + level for name, level in zip(names, true, strict=True)}
        found = column_tests(values).ranks
        covered += [
            found[name].low <= rank <= found[name].high for name, rank in zip(names, rankdata(-true), strict=True)
        ]
    return float(np.mean(covered))


def simulated_marks(families: int) -> dict[str, list[dict]]:
    """Return the simulations of marks and of ranges of ranks, the worst over ``CELLS``."""
    found: dict[str, list[dict]] = {"marks": [], "power": [], "ranks": []}
    for kind in NETWORKS:
        wrong = [
            np.max([marks(kind, count, *cell, MARGIN, families) for cell in CELLS], axis=0).tolist() for count in COUNTS
        ]
        found["marks"].append({"kind": kind, "found": wrong})
        covered = [min(rank_coverage(kind, count, ratio, families // 10) for ratio in (1, 7)) for count in COUNTS]
        found["ranks"].append({"kind": kind, "found": covered})
        print(kind, wrong, covered, flush=True)
    for share in (0.2, 0.4, 0.6):
        power = [marks("normal", count, 3, 0.1, share, families // 10) for count in COUNTS]
        found["power"].append({"share": share, "found": power})
    return found


def marks_table(document: dict) -> str:
    """Return the wrong marks as Markdown: before, of Holm's tests alone, and after; "too few" where none is made."""
    few = [significance.too_few_networks(count, METHODS) for count in COUNTS]
    header = ["networks that differ", *(f"{count} networks" for count in COUNTS)]
    body = [
        [row["kind"], *(f"{tests:.3f} → {'too few' if none else f'{marked:.3f}'}"
                        for none, (tests, marked) in zip(few, row["found"], strict=True))]
        for row in document["marks"]
    ]  # fmt: skip
    return tables.markdown_table(header, body)


def power_table(document: dict) -> str:
    """Return the share of methods with a mark as Markdown, before and after, and the coverage of ranges of ranks."""
    header = ["", *(f"{count} networks" for count in COUNTS)]
    body = [
        [
            f"a baseline reaches {100 * row['share']:.0f} %",
            *(f"{tests:.2f} → {marked:.2f}" for tests, marked in row["found"]),
        ]
        for row in document["power"]
    ]
    least = np.min([row["found"] for row in document["ranks"]], axis=0)
    body.append(["range of a rank covers it, at least", *(f"{value:.3f}" for value in least)])
    return tables.markdown_table(header, body)


def table(document: dict) -> str:
    """Return the recorded simulations as Markdown: coverage and share of families with a wrong claim, by inputs.

    "too few": marks are withheld there.
    """

    def cell(networks: int, n: int, coverage: float, wrong: float) -> str:
        withheld = networks < MIN_NETWORKS and n < significance.INPUTS_FOR_MARK
        return f"{coverage:.3f} / {wrong:.3f}{' → too few' if withheld else ''}"

    header = ["networks", "between networks", "differences", *(f"{n} inputs" for n in SIZES)]
    body = [
        [str(row["networks"]), str(row["ratio"]), row["kind"] + (", clusters" if row["members"] > 1 else ""),
         *(cell(row["networks"], n, *found) for n, found in zip(SIZES, row["found"], strict=True))]
        for row in document["means"]
    ]  # fmt: skip
    return tables.markdown_table(header, body)


def main() -> None:
    """Simulate everything and write the file."""
    families = 1000
    document = json.loads(FILE.read_text("utf-8")) if "--marks" in sys.argv else of_means(families)
    document |= simulated_marks(200)
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(table(document), marks_table(document), power_table(document), sep="\n")


def of_means(families: int) -> dict[str, Any]:
    """Return the simulations of means, rates and repeated looks."""
    designs = [(kind, networks, ratio, 1) for networks, ratio in DESIGNS for kind in KINDS]
    designs += [(kind, networks, ratio, 3) for networks, ratio in ((1, 0), (5, 3)) for kind in ("normal", "losses")]
    return {
        "families": families,
        "means": [
            {"kind": kind, "networks": networks, "ratio": ratio, "members": members,
             "found": [simulate(kind, n, networks, ratio, families, members) for n in SIZES]}
            for kind, networks, ratio, members in designs
        ],
        "rates": [
            {"rate": rate, "networks": networks, "found": [simulate_rate(rate, n, networks, families) for n in SIZES]}
            for networks in (1, 5) for rate in RATES
        ],
        "rarer": [
            {"share": share, "found": [simulate(share, n, 1, 0, families) for n in (60, 200)]} for share in RARER
        ],
        "looks": looks(15, 150, 15, 4000),
    }  # fmt: skip


if __name__ == "__main__":
    main()
