"""Write the shares of variance, and how many networks a mark needs, into docs/statistics.md.

    python scripts/reproduce_tables.py --output_dir=report --networks=20
    python -m tools.docs.document_variance report

Several reports can be given; of a benchmark that is in several, the last counts. The components of each score are in
docs/variance.json, which keeps those of benchmarks that no report has; without a report the tables are written from it.
Those of docs/statistics.md are of three folders, ``twenty`` and ``ten`` as in docs/results.md, and ``others``, which a
command fills for each network of CLEVR-XAI:

    python -m clevr_xai.evaluate --num_questions=40 --methods=METHODS --model=DIR --input_scores=FILE --subset=all
        --ground_truth=single_object --controls=uniform --random_networks=0

METHODS are those that docs/variance.json lists. FILE is others/work/clevr_xai_simple.values.json, of the second network
clevr_xai_simple_network1.values.json, and so on.

Cost: seconds, and the report.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.files import atomic_write
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.report.significance import MARGIN, networks_for_mark
from attribution_benchmarks.stats.variance import Components, components
from tools.docs.page_parts import ROOT, replace_parts

FILE, PAGE = ROOT / "docs" / "variance.json", ROOT / "docs" / "statistics.md"
METHODS = 16  # of a family
SHARES = (0.0, 0.2, 0.4, 0.6, 0.7)  # that a baseline reaches
SPREADS = (0.05, 0.1, 0.2, 0.3)  # standard deviation of a method's score between networks, as a share of it
_SHOWN = (0.4, 0.6)  # shares in the table of benchmarks
_MANY = 200  # networks; more are not counted


def by_network(report: pathlib.Path) -> dict[str, list[list[InputScores]]]:
    """Return benchmark -> the scores of its inputs on each network, from the files of a report."""
    found: dict[str, dict[int, list[InputScores]]] = {}
    for path in sorted((report / "work").glob("*.values.json")):
        number = re.search(r"_network(\d+)\.values", path.name)
        benchmark = json.loads(path.read_text("utf-8"))["benchmark"]
        found.setdefault(benchmark, {}).setdefault(int(number[1]) if number else 0, []).extend(input_scores.load(path))
    return {name: [groups for _, groups in sorted(each.items())] for name, each in found.items()}


def measured(reports: Sequence[pathlib.Path]) -> list[dict[str, Any]]:
    """Return the components of the variance of each column with several networks, in the order of the benchmarks."""
    scores = {name: each for report in reports for name, each in by_network(report).items()}
    rows = [row for name in REPORTED if name in scores for row in _of_benchmark(name, scores[name])]
    if not rows:
        raise ValueError(f"no scores of several networks in {', '.join(map(str, reports))}")
    return rows


def with_new(rows: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return new rows, and the old ones of benchmarks without new ones, in the order of the benchmarks."""
    measured_again = {row["benchmark"] for row in new}
    order = [benchmark_named(name).title for name in REPORTED]
    every = [*(row for row in rows if row["benchmark"] not in measured_again), *new]
    return sorted(every, key=lambda row: order.index(row["benchmark"]))


def _of_benchmark(name: str, networks: Sequence[Sequence[InputScores]]) -> Iterator[dict[str, Any]]:
    benchmark = benchmark_named(name)
    controls = {control.name for control in benchmark.controls}
    for column in benchmark.matrix_columns():
        groups = [group for each in networks for group in each if column.takes(group.where)]
        if len(groups) > 1:
            methods, table = _complete(input_scores.stack(groups), controls)
            yield {
                "benchmark": benchmark.title, "score": column.label, "inputs": len(table), "networks": table.shape[1],
                "methods": methods, "mean": float(table.mean()), "components": components(table)._asdict(),
            }  # fmt: skip


def _complete(group: InputScores, controls: Container[str]) -> tuple[list[str], np.ndarray]:
    """Return the methods that every network has, and their scores of the inputs that all have, (N, K, M)."""
    values = {name: group.by_network(name) for name in group.values if "/" not in name and name not in controls}
    methods = [name for name, scores in values.items() if np.isfinite(scores).any(axis=0).all()]
    table = np.stack([values[name] for name in methods], axis=2)
    return methods, table[np.isfinite(table).all(axis=(1, 2))]


def shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the shares of the variance of one score, in percent, without the differences of the methods' levels."""
    parts = Components(**row["components"])
    found = {
        "inputs": parts.inputs,
        "networks": parts.networks,
        "method x input": parts.methods_inputs,
        "method x network": parts.methods_networks,
        "rest": parts.inputs_networks + parts.residual,
    }
    total = sum(found.values())
    return {name: 100 * each / total for name, each in found.items()}


def spread(row: Mapping[str, Any]) -> float:
    """Return the standard deviation of a method's score between networks, as a share of the mean score."""
    parts = Components(**row["components"])
    return float(np.sqrt(parts.networks + parts.methods_networks) / abs(row["mean"]))


def of_networks(row: Mapping[str, Any]) -> float:
    """Return the share of networks in the variance of the difference of two methods' means, in percent."""
    parts = Components(**row["components"]).of_difference(row["inputs"], row["networks"])
    return 100 * parts[1] / sum(parts)


def needed(share: float, spread: float, methods: int = METHODS) -> str:
    """Return the number of networks at which a mark is expected, "11"; "more than 200" where that is not enough."""
    count = networks_for_mark(methods, share, MARGIN * spread, _MANY)
    return f"more than {_MANY}" if count is None else str(count)


def share_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the shares of variance as Markdown, and what follows for the number of networks."""
    body = [
        [row["score"], str(row["inputs"]), str(row["networks"]), str(len(row["methods"])),
         *(f"{each:.1f}" for each in shares(row).values()), f"{of_networks(row):.0f}", f"{100 * spread(row):.0f}",
         " / ".join(needed(share, spread(row), len(row["methods"])) for share in _SHOWN)]
        for row in rows
    ]  # fmt: skip
    header = ["score", "inputs", "networks", "methods", *shares(rows[0]), "of a difference", "sd", "mark"]
    return markdown_table(header, body)


def needed_table() -> str:
    """Return how many networks a mark needs as Markdown, by the baseline's share and the spread between networks."""
    body = [[f"{100 * share:.0f} %", *(needed(share, each) for each in SPREADS)] for share in SHARES]
    return markdown_table(["a baseline reaches", *(f"sd {100 * each:.0f} %" for each in SPREADS)], body)


def main(*reports: str) -> None:
    """Write the components of variance, if there are reports, and the tables."""
    rows = json.loads(FILE.read_text("utf-8"))
    if reports:
        rows = with_new(rows, measured([pathlib.Path(each) for each in reports]))
        atomic_write(FILE, json.dumps(rows, indent=1) + "\n")
    replace_parts(PAGE, {"shares of variance": share_table(rows), "networks needed": needed_table()})


if __name__ == "__main__":
    main(*sys.argv[1:])
