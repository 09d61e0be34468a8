"""Measure how the published scores of a benchmark vary, and simulate how often each column would have a wrong mark.

    python docs/studies/columns.py --benchmark=svea --output=docs/columns.csv

reads the scores of every input and network and adds a row for each metric. ``noise`` between
inputs and ``spread`` between networks are standard deviations in shares of a method's mean score, ``skewness`` is that
of the networks' means; all are medians over the methods. ``independent`` and ``correlated`` are the shares of families
of 16 methods with a wrong mark at these numbers, the worst of two kinds of networks; see marks.py.

Cost: a minute a column.
"""

from __future__ import annotations

import csv
import pathlib
import warnings

import numpy as np
from absl import flags
from marks import MARGIN, simulate  # beside this file
from scipy import stats

from attribution import cli
from attribution.errors import print_line
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import published

KEYS = ("column", "networks", "inputs", "clusters", "largest_cluster", "methods", "noise", "spread", "skewness",
        "independent", "correlated")  # fmt: skip
FLAGS = flags.FlagValues()
flags.DEFINE_string("benchmark", "svea", "whose columns are measured", flag_values=FLAGS)
flags.DEFINE_string("output", "docs/columns.csv", "file that rows are added to", flag_values=FLAGS)


def row_of(group: InputScores) -> dict[str, object]:
    """Return the row of a metric's values on several networks."""
    methods = [source.name for source in group.sources if source.method and not source.control]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an input or a network may have no score
        for column in map(group.by_network, methods):
            inputs, networks, size = np.nanmean(column, axis=1), np.nanmean(column, axis=0), abs(np.nanmean(column))
            skewness = stats.skew(networks[np.isfinite(networks)]) if np.nanstd(networks) > 0 else 0.0
            found.append((np.nanstd(inputs) / size, np.nanstd(networks) / size, skewness))
    noise, spread, skewness = np.nanmedian(found, axis=0).tolist()
    sizes = np.ones(len(group.inputs)) if group.clusters is None else np.unique(group.clusters, return_counts=True)[1]
    networks, several = group.by_network(methods[0]).shape[1], {}
    if group.by_network(methods[0]).shape[1] > 2:
        several = {"networks": networks, "spread": spread}
    kinds = ("lognormal losses" if skewness < 0 else "normal", "one in ten fails") if several else ("normal",)
    design = {"networks": 1, "inputs": len(sizes), "noise": noise, "reached": MARGIN, **several}
    wrong = {name: max(simulate(300, 0, **design, of_networks=kind, correlated=name == "correlated")[0]
                       for kind in kinds) for name in ("independent", "correlated")}  # fmt: skip
    facts = (networks, len(group.inputs), len(sizes), int(sizes.max()), len(methods))
    return dict(zip(KEYS[1:6], facts, strict=True)) | {"noise": noise, "spread": spread, "skewness": skewness, **wrong}


def main(flag_values: flags.FlagValues) -> None:
    """Add the rows of a benchmark."""
    groups = [group for one in published.sets([flag_values.benchmark]) for group in one.scores.groups]
    output = pathlib.Path(flag_values.output)
    exists = output.exists()
    with open(output, "a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, KEYS, lineterminator="\n")
        if not exists:
            table.writeheader()
        for column in benchmark_named(flag_values.benchmark).matrix_columns():
            for group in filter(lambda one: column.takes(one.where), groups):
                row = row_of(group)
                shown = {key: f"{cell:.3g}" if isinstance(cell, float) else cell for key, cell in row.items()}
                table.writerow({"column": column.key, **shown})
                file.flush()
    print_line(f"{output} has the columns of {flag_values.benchmark}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
