"""Simulate how often intervals cover the truth and tests claim what is not true; write the table of docs/statistics.md.

    python tools/docs/simulate_statistics.py

Cost: 4 CPU minutes.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

from attribution_benchmarks.core import tables
from attribution_benchmarks.stats.statistics import better_than_every, mean_interval, means

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
RATES = (0.02, 0.1, 0.5, 0.9, 0.98)


def simulate(kind: str, n: int, networks: int, ratio: float, families: int, members: int = 1) -> tuple[float, float]:
    """Return the coverage of 95 % intervals of a mean of zero, and the share of families with a wrong claim.

    Parameters
    ----------
    kind
        Of ``KINDS``: the distribution of the effects of inputs, and of the residuals.
    n, networks
        Inputs and networks.
    ratio
        Standard deviation between networks, in standard errors over the inputs.
    families
        How many to simulate, each of ``METHODS`` methods against one baseline that is as good.
    members
        Mean size of the clusters of inputs, whose sizes differ; half of the variance is common to a cluster.
    """
    random = np.random.default_rng([n, networks, int(ratio), members, *map(ord, kind)])
    draw = KINDS[kind]
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


def table(document: dict) -> str:
    """Return the recorded simulations as Markdown: coverage and share of families with a wrong claim, by inputs."""
    header = ["networks", "between networks", "differences", *(f"{n} inputs" for n in SIZES)]
    body = [
        [str(row["networks"]), str(row["ratio"]), row["kind"] + (", clusters" if row["members"] > 1 else ""),
         *(f"{coverage:.3f} / {wrong:.3f}" for coverage, wrong in row["found"])]
        for row in document["means"]
    ]  # fmt: skip
    return tables.markdown_table(header, body)


def main() -> None:
    """Simulate everything and write the file."""
    families = 1000
    designs = [(kind, networks, ratio, 1) for networks, ratio in DESIGNS for kind in KINDS]
    designs += [(kind, networks, ratio, 3) for networks, ratio in ((1, 0), (5, 3)) for kind in ("normal", "losses")]
    document = {
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
        "looks": looks(15, 150, 15, 4000),
    }  # fmt: skip
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(table(document))


if __name__ == "__main__":
    main()
