"""Two small benchmarks of known scores, as their commands would write them."""

import numpy as np
import pytest

from attribution_benchmarks.leaderboard import statistics
from attribution_benchmarks.leaderboard.input_scores import InputScores
from attribution_benchmarks.report import matrix, verdicts
from attribution_benchmarks.scoring.benchmark import BOUND, Benchmark, Column
from attribution_benchmarks.scoring.controls import Control

COLUMNS = (
    Column("svea", "roe_test", "ROE test %", "SVEA", percent=True, aside={"template_position": BOUND}),
    Column("svea", "drop", "Drop %", "SVEA", False, percent=True, aside={"template_position": BOUND}),
    Column("bim", "mcs", "MCS", "BIM"),
    Column(
        "clevr_xai", "mass", "mass, simple", "CLEVR-XAI",
        where={"questions": "simple", "ground_truth": "single_object", "pooling": "l2-norm,sq", "subset": "all"},
    ),
)  # fmt: skip
SHIFTS = {"best": 0.3, "good": 0.2, "twin": 0.2, "bad": -0.2}
CONTROLS = {"random": 0.0, "template_position": 0.6}


def values(n, seed, without=()):
    """Values of all methods on n inputs: a common part, the method's shift, and a little of its own."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0.5, 0.2, n)
    drawn = {name: shared + shift + generator.normal(0, 0.05, n) for name, shift in (SHIFTS | CONTROLS).items()}
    return {name: column for name, column in drawn.items() if name not in without}


def rows(groups):
    """Rows of a document from groups of values."""
    return [
        {
            "method": name,
            **group.where,
            **statistics.mean_interval(column)._asdict(),
            "paper": None,
            "kind": "control" if name in CONTROLS else "method",
        }
        for group in groups
        for name, column in group.values.items()
    ]


@pytest.fixture(scope="session")
def groups():
    names = [f"input {i}" for i in range(200)]
    clevr = {"questions": "simple", "ground_truth": "single_object", "subset": "all", "pooling": "l2-norm,sq"}
    drops = {name: -column for name, column in values(200, 2).items()}
    return {
        "svea": [
            InputScores({"metric": "roe_test"}, names, values(200, 1)),
            InputScores({"metric": "drop"}, names, drops),
        ],
        "bim": [InputScores({"metric": "mcs"}, names[:60], values(60, 3, ("twin", "template_position")))],
        "clevr_xai": [
            InputScores(
                {"metric": "mass", **clevr},
                names,
                values(200, 4, ("template_position",)),
                [str(i // 4) for i in range(200)],
            )
        ],
    }


@pytest.fixture(scope="session")
def documents(groups):
    manifest = {
        "versions": {"python": "3"},
        "models": {"network": "ab" * 32},
        "data": {"set": "cd" * 32},
        "seed": 0,
        "command": "python -m benchmark",
    }
    return [{"benchmark": name, "rows": rows(found), "manifest": manifest} for name, found in groups.items()]


@pytest.fixture(scope="session")
def columns():
    return COLUMNS


@pytest.fixture(scope="session")
def definitions():
    titles = {column.benchmark: column.group for column in COLUMNS}
    controls = tuple(Control(name, f"Control {name}", "what it is") for name in CONTROLS)
    return [Benchmark(name, title, f"About {title}.", "A paper", controls=controls) for name, title in titles.items()]


@pytest.fixture(scope="session")
def built(documents):
    return matrix.build(documents, COLUMNS, {("twin", "bim"): "too slow"})


@pytest.fixture(scope="session")
def judged(built, groups):
    return verdicts.judge(built, groups)
