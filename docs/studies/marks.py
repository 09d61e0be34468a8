"""Simulate how often a column has a wrong mark, and how often a mark is found.

    python docs/studies/marks.py --output=docs/marks.csv

Every family has 16 methods that are exactly at the margin: a baseline reaches 80 % of their scores on average. A family
with any mark is wrong; at most 5 % should be. Each design has independent methods, and methods that share half of their
variance. Noise between inputs is a standard deviation in shares of the mean score, and so is the spread between
networks. A score cannot be below 0; designs of large losses break that rule, on purpose. Power is the share of methods
with a mark where the baseline reaches less.

Cost: half an hour on one core.
"""

from __future__ import annotations

import csv
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import print_line
from attribution_benchmarks.report.significance import MARGIN
from attribution_benchmarks.stats.statistics import LEVEL, bet

METHODS = 16
AT_ONCE = 50  # families
KINDS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "lognormal": lambda random, shape: random.lognormal(size=shape),
    "skewed losses": lambda random, shape: -random.exponential(size=shape),
    "lognormal losses": lambda random, shape: -random.lognormal(size=shape),
    "rare losses": lambda random, shape: -1.0 * (random.random(shape) < 0.1) * random.exponential(size=shape),
    "rarer losses": lambda random, shape: -1.0 * (random.random(shape) < 0.02) * random.exponential(size=shape),
    "one in ten fails": lambda random, shape: -1.0 * (random.random(shape) < 0.1),
    "one in five fails": lambda random, shape: -1.0 * (random.random(shape) < 0.2),
    "binary": lambda random, shape: 1.0 * (random.random(shape) < 0.5),
    "zero-inflated": lambda random, shape: (random.random(shape) < 0.3) * random.exponential(size=shape),
    "bimodal": lambda random, shape: np.where(random.random(shape) < 0.8, 0.25, -1.0) + random.normal(0, 0.05, shape),
}
CLUSTERS = {"single": [1] * 60, "of 4": [4] * 60, "very uneven": [1] * 40 + [2] * 20 + [5] * 8 + [20] * 2 + [40]}
FLAGS = flags.FlagValues()
flags.DEFINE_string("output", "docs/marks.csv", "file of the table", flag_values=FLAGS)
flags.DEFINE_integer("families", 1000, "simulated families of a design", lower_bound=1, flag_values=FLAGS)
cli.define_common_flags(FLAGS, seed=0)


@functools.cache
def moments(kind: str) -> tuple[float, float]:
    """Return mean and standard deviation of a kind."""
    found = KINDS[kind](np.random.default_rng(0), 1_000_000)
    return float(found.mean()), float(found.std())


def effects(random: np.random.Generator, kind: str, shape: tuple[int, ...], correlated: bool) -> np.ndarray:
    """Return effects of mean 0 and variance 1, (..., families, methods); correlated ones share half of the variance."""
    mean, deviation = moments(kind)

    def draw(size: tuple[int, ...]) -> np.ndarray:
        return np.asarray((KINDS[kind](random, size) - mean) / deviation)

    found = draw((*shape, METHODS))
    return (found + draw((*shape, 1))) * np.sqrt(0.5) if correlated else found


def p_values(
    random: np.random.Generator, families: int, inputs: int, networks: int, reached: float, *, correlated: bool = False,
    noise: float = 0.3, of_inputs: str = "normal", spread: float = 0.0, of_networks: str = "normal",
    clusters: str = "single", of_baseline: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """Return the p-values of some families, (families, methods); inputs of a cluster have the same effect.

    ``of_baseline`` is the spread of baselines that are better on some networks, each method's own.
    """
    sizes = np.resize(CLUSTERS[clusters], inputs)

    def scores(shared: bool) -> np.ndarray:
        own = effects(random, of_inputs, (inputs, 1, families), correlated)
        if networks > 1:
            own = (own + effects(random, of_inputs, (inputs, networks, families), correlated)) * np.sqrt(0.5)
        return np.asarray(own[..., :1] if shared else own)

    method = 1 + noise * scores(False)
    if networks > 1:
        method = method + spread * effects(random, of_networks, (1, networks, families), correlated)
    baseline = np.broadcast_to(reached * (1 + noise * scores(True)), method.shape)
    if of_baseline:
        baseline = baseline - of_baseline * effects(random, of_networks, (1, networks, families), correlated)
    own, other = (np.repeat(side.reshape(inputs, networks, -1), sizes, axis=0) for side in (MARGIN * method, -baseline))
    return bet(own, other, 0.0, np.repeat(np.arange(inputs), sizes)).reshape(families, METHODS)


def simulate(families: int, seed: int, **design: Any) -> tuple[float, float]:
    """Return the share of families with a mark, and of methods, after Bonferroni's correction."""
    random, found = np.random.default_rng([seed, *map(ord, str(sorted(design.items())))]), []
    for start in range(0, families, AT_ONCE):
        found.append(p_values(random, min(AT_ONCE, families - start), **design) * METHODS < LEVEL)
    marks = np.concatenate(found)
    return float(marks.any(axis=1).mean()), float(marks.mean())


def designs() -> Iterator[dict[str, Any]]:
    """Yield the designs of the table."""
    of_networks = ("normal", "skewed losses", "lognormal losses", "one in five fails", "one in ten fails")
    for correlated in (False, True):
        for kind, networks, spread, ratio in itertools.product(
            of_networks, (3, 5, 7, 10, 20), (0.1, 0.2, 0.3), (1, 7, 20)
        ):  # the ratio is that of the spread to the standard error over the inputs
            yield {"inputs": 30, "networks": networks, "noise": spread * 30**0.5 / ratio, "spread": spread,
                   "of_networks": kind, "correlated": correlated, "reached": MARGIN}  # fmt: skip
        for kind, inputs, noise in itertools.product(KINDS, (10, 15, 30, 60, 100, 200), (0.1, 0.3, 1.0)):
            yield {"inputs": inputs, "networks": 1, "noise": noise, "of_inputs": kind, "correlated": correlated,
                   "reached": MARGIN}  # fmt: skip
        for kind, clusters, networks in itertools.product(KINDS, ("of 4", "very uneven"), (1, 10)):
            yield {"inputs": 60, "networks": networks, "noise": 0.3, "of_inputs": kind, "clusters": clusters,
                   "spread": 0.05, "correlated": correlated, "reached": MARGIN}  # fmt: skip
    for kind, networks, spread in itertools.product(of_networks, (5, 7, 10, 20), (0.1, 0.2, 0.3, 0.5)):
        yield {"inputs": 30, "networks": networks, "noise": 0.1, "of_networks": kind, "of_baseline": spread,
               "reached": MARGIN}  # fmt: skip
    for reached, networks in itertools.product((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (3, 5, 10, 20)):
        yield {"inputs": 30, "networks": networks, "noise": 0.3, "spread": 0.1, "reached": reached}
    for reached, inputs in itertools.product((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (15, 30, 60, 200)):
        yield {"inputs": inputs, "networks": 1, "noise": 0.5, "reached": reached}


def main(flag_values: flags.FlagValues) -> None:
    """Simulate all designs and write the table."""
    keys = ["networks", "inputs", "clusters", "of_inputs", "noise", "of_networks", "spread", "of_baseline",
            "correlated", "reached", "families", "methods"]  # fmt: skip
    every = list(designs())
    with open(flag_values.output, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(keys)
        for design in every:
            families, methods = simulate(flag_values.families, flag_values.seed, **design)
            cells = {**design, "families": f"{families:.3f}", "methods": f"{methods:.3f}"}
            table.writerow([f"{cell:.3g}" if isinstance(cell := cells.get(key, ""), float) else cell for key in keys])
            file.flush()
    print_line(f"{len(every)} designs in {flag_values.output}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
