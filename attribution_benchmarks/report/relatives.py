"""A custom method minus its relatives, metric by metric: the lines of a forest plot."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence
from typing import Any

from attribution_benchmarks.report import charts
from attribution_benchmarks.report.formatting import count_of, enumeration, signed
from attribution_benchmarks.report.matrix import Matrix
from attribution_benchmarks.report.significance import ColumnTests, kind_of
from attribution_benchmarks.stats.comparisons import LEVEL, PairComparison

_AT_MOST = 5  # relatives on one metric


def forest(
    name: str, matrix: Matrix, tests: Mapping[str, ColumnTests], names: Any, parents: Sequence[str] = ()
) -> dict | None:
    """Return the forest plot of a method; None if no metric has enough inputs.

    Parameters
    ----------
    name
        The method.
    matrix
        Of all methods.
    tests
        Column key -> comparisons.
    names
        ``formatting.Names``.
    parents
        Methods that it varies. Relatives are these and the methods of its family; without any, the best method.

    Returns
    -------
    dict
        ``panels``, one for each metric, with a line for each relative and for the strongest baseline; ``sentences``;
        ``related``, whether the method has relatives. Differences are positive where the method is better.
    """
    tested = [one for one in tests.values() if name in one.tested and one.has_power()]
    relatives = _relatives(name, matrix, names, parents)
    panels = [_panel(name, one, relatives, matrix, names) for one in tested]
    if not panels:
        return None
    found: dict[str, collections.Counter] = {}
    for panel in panels:
        for line in panel["lines"]:
            other = line["title"] if relatives else "the best other method"
            who = "the strongest baseline" if line["baseline"] else other
            found.setdefault(who, collections.Counter())[line["verdict"]] += 1
    return {"panels": panels, "sentences": list(map(_sentence, found, found.values())), "related": bool(relatives)}


def _relatives(name: str, matrix: Matrix, names: Any, parents: Sequence[str]) -> list[str]:
    """Return the methods that a method varies, then the others of its family."""
    others = [one for one in matrix.methods if one not in (*parents, name)]
    return [
        *(one for one in parents if one in matrix.methods),
        *(one for one in others if names.family(one) == names.family(name)),
    ]


def _panel(name: str, tests: ColumnTests, relatives: Sequence[str], matrix: Matrix, names: Any) -> dict:
    """Return the lines of one metric, all with one scale."""
    column, strongest = tests.column, _strongest_baseline(tests, matrix)
    others = [one for one in tests.tested if one != name]
    shown = [one for one in relatives if one in others][:_AT_MOST] if relatives else others[:1]
    pairs = [test for one in (*shown, *strongest) if (test := tests.lead(name, one)) and math.isfinite(test.difference)]
    rows = [
        {"value": test.difference, "low": test.low, "high": test.high,
         "kind": "control" if test.second in strongest else "own"}
        for test in pairs
    ]  # fmt: skip
    scale = charts.scale_of(rows, percent=False)
    return {
        "title": column.label, "scale": str(scale), "less": not column.higher_is_better,
        "lines": [
            {
                "title": names(kind_of(test.second)), "baseline": test.second in strongest, "verdict": _verdict(test),
                "svg": charts.difference(row, scale), "text": signed(test.difference, column),
                "interval": f"{signed(test.low, column)} to {signed(test.high, column)}",
            }
            for test, row in zip(pairs, rows, strict=True)
        ],
    }  # fmt: skip


def _strongest_baseline(tests: ColumnTests, matrix: Matrix) -> list[str]:
    """Return the name of the best of the baselines that methods are compared with; empty without any."""
    best = max if tests.column.higher_is_better else min
    values = {test.second: matrix.cells[test.second, tests.column.key]["value"] for test in tests.leads}
    return [best(values, key=values.__getitem__)] if values else []


def _verdict(test: PairComparison) -> str:
    if not test.p_corrected < LEVEL:
        return "undecided"
    return "better" if test.difference > 0 else "worse"


def _sentence(who: str, counts: collections.Counter) -> str:
    """Return "Against Grad-CAM: better on 3 metrics, undecided on 2 metrics"."""
    said = [f"{verdict} on {count_of(counts[verdict], 'metric')}" for verdict in ("better", "worse", "undecided")
            if counts[verdict]]  # fmt: skip
    return f"Against {who}: {enumeration(said)}."
