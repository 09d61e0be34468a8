"""The matrix of methods by metrics: scores, ranks, and reasons of blanks.

Everything is computed from the documents that the benchmarks write with ``--output=FILE.json``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from attribution_benchmarks.core.definition import ORACLE, Column
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.stats import statistics

NOT_SCORED = "not scored in this benchmark"


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Scores of all methods on all columns."""

    columns: tuple[Column, ...]  # those with at least one row
    methods: tuple[str, ...]  # those of ``common`` first, then the others, each by mean rank
    controls: tuple[str, ...]
    common: tuple[str, ...]  # the methods that every comparable column has
    cells: Mapping[tuple[str, str], Mapping]  # (name, column key) -> row of the benchmark's document, if it has a value
    # (method, column key) -> rank among the column's methods, 1 is best, ties share the mean.
    ranks: Mapping[tuple[str, str], float]
    blanks: Mapping[tuple[str, str], str]  # (method, column key) -> why there is no value

    def baseline_on_top(self, column: Column) -> str | None:
        """Return the control that no method beats on a column; None if a method is best.

        It has the trivial maximum, or a higher score than every method. Oracles do not count.
        """
        best = max(self._good(name, column) for name in self.methods)
        top = max((name for name in self.controls if column.excluded.get(name) != ORACLE), default=None,
                  key=lambda name: (self._good(name, column), name in column.excluded))  # fmt: skip
        if top is None or not np.isfinite(best):
            return None
        score = self._good(top, column)
        return top if score > best or (score == best and top in column.excluded) else None

    def best_baseline(self, column: Column) -> str:
        """Return the control with the best score of those that methods are compared with; empty without any."""
        scored = [name for name in self.controls if name not in column.excluded and (name, column.key) in self.cells]
        return max(scored, key=lambda name: self._good(name, column), default="")

    def ranked(self, column: Column) -> list[str]:
        """Return the methods with a score on a column, the best first."""
        scored = [name for name in self.methods if (name, column.key) in self.ranks]
        return sorted(scored, key=lambda name: self.ranks[name, column.key])

    def rows_of(self, column: Column) -> dict[str, Mapping]:
        """Return the rows of a column by name: methods, the best first, then controls."""
        names = (*self.ranked(column), *self.controls)
        return {name: self.cells[name, column.key] for name in names if (name, column.key) in self.cells}

    def headroom_share(self, name: str, column: Column) -> float:
        """Return how far a score is from the best baseline's towards the oracle's: 0 at the baseline, 1 at the oracle.

        NaN without a score, an oracle or a baseline, and where the oracle is no better than the baseline.
        """
        oracles = [self._good(one, column) for one in self.controls if column.excluded.get(one) == ORACLE]
        most, least = max(oracles, default=-np.inf), self._good(self.best_baseline(column), column)
        if not (np.isfinite(most) and np.isfinite(least) and most > least):
            return float("nan")
        return (self._good(name, column, np.nan) - least) / (most - least)

    def _good(self, name: str, column: Column, missing: float = -np.inf) -> float:
        """Return a score with the sign such that more is better."""
        row = self.cells.get((name, column.key))
        return missing if row is None else (1 if column.higher_is_better else -1) * row["value"]

    def groups(self) -> list[str]:
        """Return the printed names of the benchmarks."""
        return list(dict.fromkeys(column.group for column in self.columns))


def build(
    documents: Iterable[Mapping],
    columns: Sequence[Column],
    reasons: Mapping[tuple[str, str], str] | None = None,
) -> Matrix:
    """Collect the matrix from the benchmarks' documents, each with ``benchmark`` and ``rows``.

    Third-party methods count as methods. A row without a value is a blank, and so is one of fewer inputs than the
    others of its column: ranks compare scores of the same inputs only. ``reasons`` is (method, benchmark) -> why a
    method was not scored there; a row's own ``reason`` takes precedence. ``ValueError`` if two rows belong to one cell.
    """
    cells, blanks, kinds = _cells(documents, columns)
    scored = {key for _, key in (*cells, *blanks)}
    shown = tuple(column for column in columns if column.key in scored)
    controls = tuple(name for name, kind in kinds.items() if kind == "control")
    names = [name for name in kinds if name not in controls]
    for column in shown:
        _fill_blanks(column, names, cells, blanks, reasons or {})
    ranks = _ranks(shown, names, cells)
    comparable = {column.key for column in comparable_columns(shown)}
    incomplete = {name for name, key in blanks if key in comparable}
    order = tuple(sorted(names, key=lambda name: (name in incomplete, _mean_share(name, shown, ranks))))
    return Matrix(shown, order, controls, order[: len(set(names) - incomplete)], cells, ranks, blanks)


def comparable_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns whose rankings are compared between benchmarks; all if there is no such column."""
    return [column for column in columns if column.comparable] or list(columns)


def group_of(column: Column, scores: Mapping[str, Sequence[InputScores]]) -> InputScores | None:
    """Return the input scores of a column; None if there are none, or several."""
    found = [group for group in scores.get(column.benchmark, ()) if column.takes(group.where)]
    return found[0] if len(found) == 1 else None


def over_networks(built: Matrix, scores: Mapping[str, Sequence[InputScores]]) -> Matrix:
    """Return a matrix whose scores are means over inputs and networks, where input scores of several are known.

    A row gets ``networks``, the mean of each network. One of fewer networks than others of its column is a blank.
    """
    cells, blanks = dict(built.cells), dict(built.blanks)
    for column in built.columns:
        if (group := group_of(column, scores)) is None:
            continue
        values = {name: group.by_network(name) for name in group.values if (name, column.key) in cells}
        values = {name: one for name, one in values.items() if one.shape[1] > 1}
        counts = {name: int(np.isfinite(one).any(axis=0).sum()) for name, one in values.items()}
        for name, one in values.items():
            place, most = (name, column.key), max(counts.values())
            if counts[name] < most:
                blanks[place] = f"has a value for {counts[name]} of {most} networks alone"
                del cells[place]
            else:
                cells[place] = {**cells[place], **mean_over_networks(one, group, column)}
    return dataclasses.replace(built, cells=cells, blanks=blanks, ranks=_ranks(built.columns, built.methods, cells))


def mean_over_networks(values: np.ndarray, group: InputScores, column: Column) -> dict:
    """Return the estimate of (N, K) values of a column's group, and ``networks``, the mean of each network."""
    hit = 100.0 if column.percent else 1.0
    is_rate = np.isin(values[np.isfinite(values)], (0.0, hit)).all()
    estimate = statistics.mean_interval(
        values, clusters=group.clusters, rate=hit if is_rate else None, bounds=column.bounds
    )
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):  # a network may have no score
        networks = np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0)
    return {**estimate._asdict(), "networks": networks.tolist()}


def _cells(documents: Iterable[Mapping], columns: Sequence[Column]) -> tuple[dict, dict, dict]:
    """Return cells, blanks, and name -> kind of row."""
    cells, blanks, kinds = {}, {}, {}
    for document in documents:
        for column in columns:
            if column.benchmark != document["benchmark"]:
                continue
            for row in filter(column.takes, document["rows"]):
                place = row["method"], column.key
                if place in cells or place in blanks:
                    raise ValueError(f"two rows of {place[0]!r} belong to the column {column.key!r}")
                kinds.setdefault(row["method"], row["kind"])
                if row["value"] is None:
                    blanks[place] = row.get("reason") or "no value"
                else:
                    cells[place] = row
    return cells, blanks, kinds


def _fill_blanks(column: Column, names: Sequence[str], cells: dict, blanks: dict, reasons: Mapping) -> None:
    """Replace the cells of a column with fewer inputs than others by blanks, and add reasons of other blanks."""
    counts = {name: cells[name, column.key].get("n") or 0 for name in names if (name, column.key) in cells}
    for name, count in counts.items():
        if count < max(counts.values()):
            blanks[name, column.key] = f"has a value for {count:,} of {max(counts.values()):,} inputs alone"
            del cells[name, column.key]
    for name in names:
        if (name, column.key) not in cells:
            blanks.setdefault((name, column.key), reasons.get((name, column.benchmark), NOT_SCORED))


def _ranks(columns: Sequence[Column], names: Sequence[str], cells: Mapping) -> dict[tuple[str, str], float]:
    from scipy.stats import rankdata  # here, because the import takes a third of a second

    ranks = {}
    for column in columns:
        ranked = [name for name in names if (name, column.key) in cells]
        sign = -1 if column.higher_is_better else 1
        places = rankdata([sign * cells[name, column.key]["value"] for name in ranked])
        ranks.update({(name, column.key): float(rank) for name, rank in zip(ranked, places, strict=True)})
    return ranks


def _mean_share(name: str, columns: Sequence[Column], ranks: Mapping) -> float:
    """Return a method's mean rank as a share of the column's number of methods."""
    counts = {column.key: sum(key == column.key for _, key in ranks) for column in columns}
    shares = [ranks[name, column.key] / counts[column.key] for column in columns if (name, column.key) in ranks]
    return float(np.mean(shares)) if shares else 2.0
