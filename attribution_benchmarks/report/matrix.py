"""One matrix: methods by the metrics of all benchmarks, their ranks, what is blank, and whether the columns agree.

Everything here is a function of the documents that the benchmarks write with ``--output=FILE.json``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from attribution_benchmarks.core.definition import ORACLE, Column
from attribution_benchmarks.stats.correlation import Concordance, kendalls_w, rank_correlations

NOT_SCORED = "not scored in this benchmark"


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Scores of all methods under all columns that any benchmark gave.

    Attributes
    ----------
    columns
        Those with at least one row.
    methods, controls
        Names; the methods that every column has come first, each group from the best mean rank to the worst.
    common
        The methods that every column has.
    cells
        (name, column key) -> row of the benchmark's document; only where there is a value.
    ranks
        (method, column key) -> rank among the column's methods, 1 the best, ties sharing the mean.
    blanks
        (method, column key) -> why there is no value.
    networks
        Column key -> the networks that its documents name, as their manifests do.
    """

    columns: tuple[Column, ...]
    methods: tuple[str, ...]
    controls: tuple[str, ...]
    common: tuple[str, ...]
    cells: Mapping[tuple[str, str], Mapping]
    ranks: Mapping[tuple[str, str], float]
    blanks: Mapping[tuple[str, str], str]
    networks: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def goodness(self, methods: Sequence[str]) -> np.ndarray:
        """Return scores turned so that more is better, (methods, columns) float64; NaN where there is none."""
        return np.array([[self._good(name, column, np.nan) for column in self.columns] for name in methods]).reshape(
            len(methods), len(self.columns)
        )

    def above_baselines(self, method: str, column: Column) -> bool:
        """Tell whether a method's score is better than that of every control without a network that is a rival."""
        rivals = (self._good(name, column) for name in self.controls if name not in column.excluded)
        return self._good(method, column) > max(rivals, default=-np.inf)

    def baseline_on_top(self, column: Column) -> str | None:
        """Return the control without a network that no method beats on a column, None where a method is best.

        It has the trivial maximum, or a higher score than every method. Controls that know the truth do not count.
        """
        best = max(self._good(name, column) for name in self.methods)
        top = max((name for name in self.controls if column.excluded.get(name) != ORACLE), default=None,
                  key=lambda name: (self._good(name, column), name in column.excluded))  # fmt: skip
        if top is None or not np.isfinite(best):
            return None
        score = self._good(top, column)
        return top if score > best or (score == best and top in column.excluded) else None

    def _good(self, name: str, column: Column, missing: float = -np.inf) -> float:
        """Return a score turned so that more is better."""
        row = self.cells.get((name, column.key))
        return missing if row is None else (1 if column.higher_is_better else -1) * row["value"]


def build(
    documents: Iterable[Mapping],
    columns: Sequence[Column],
    reasons: Mapping[tuple[str, str], str] | None = None,
) -> Matrix:
    """Collect the matrix from the benchmarks' documents.

    Parameters
    ----------
    documents
        What the benchmarks wrote, each with ``benchmark`` and ``rows``.
    columns
        Columns to show.
    reasons
        (method, benchmark) -> why a method was not scored there; a row's own ``reason`` comes first.

    Returns
    -------
    Matrix
        Peers count as methods. A row without a value makes a blank with its reason, and so does one of fewer inputs
        than the others of its column have: all that is ranked together is of the same inputs.

    Raises
    ------
    ValueError
        If two rows claim the same place.
    """
    cells, blanks, kinds, benchmarks, networks = {}, {}, {}, {}, {}
    for document in documents:
        for column in columns:
            if column.benchmark != document["benchmark"]:
                continue
            for row in filter(column.takes, document["rows"]):
                place = row["method"], column.key
                if place in cells or place in blanks:
                    raise ValueError(f"two rows of {place[0]!r} belong to the column {column.key!r}")
                kinds.setdefault(row["method"], row["kind"])
                networks[column.key] = tuple(document.get("manifest", {}).get("models", ()))
                benchmarks[column.key] = column
                if row["value"] is None:
                    blanks[place] = row.get("reason") or "no value"
                else:
                    cells[place] = row
    from scipy.stats import rankdata  # here, because it takes a third of a second

    shown = tuple(column for column in columns if column.key in benchmarks)
    names = [name for name, kind in kinds.items() if kind != "control"]
    for column in shown:
        counts = {name: cells[name, column.key].get("n") or 0 for name in names if (name, column.key) in cells}
        for name, count in counts.items():
            if count < max(counts.values()):  # a rank among others would compare different inputs
                blanks[name, column.key] = f"has a value for {count:,} of {max(counts.values()):,} inputs alone"
                del cells[name, column.key]
    for name in names:
        for column in shown:
            if (name, column.key) not in cells and (name, column.key) not in blanks:
                blanks[name, column.key] = (reasons or {}).get((name, column.benchmark), NOT_SCORED)
    ranks = {}
    for column in shown:
        ranked = [name for name in names if (name, column.key) in cells]
        sign = -1 if column.higher_is_better else 1
        places = rankdata([sign * cells[name, column.key]["value"] for name in ranked])
        ranks.update({(name, column.key): float(rank) for name, rank in zip(ranked, places, strict=True)})
    common = [name for name in names if all((name, column.key) in cells for column in shown)]
    order = sorted(names, key=lambda name: (name not in common, _mean_share(name, shown, ranks)))
    return Matrix(
        shown,
        tuple(order),
        tuple(name for name, kind in kinds.items() if kind == "control"),
        tuple(name for name in order if name in common),
        cells,
        ranks,
        blanks,
        networks,
    )


def _mean_share(name: str, columns, ranks) -> float:
    """Return a method's mean rank as a share of the column's number of methods."""
    counts = {column.key: sum(key == column.key for _, key in ranks) for column in columns}
    shares = [ranks[name, column.key] / counts[column.key] for column in columns if (name, column.key) in ranks]
    return float(np.mean(shares)) if shares else 2.0


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Whether columns rank the common methods alike.

    Attributes
    ----------
    overall
        Over all columns.
    within
        Benchmark's printed name -> over its own columns.
    between
        Over the benchmarks, each with the mean rank its columns give; columns of one benchmark share their inputs, so
        these are the judges that are independent.
    correlations, counts
        Of every two columns, over all methods that both have.
    """

    overall: Concordance
    within: Mapping[str, Concordance]
    between: Concordance
    correlations: np.ndarray
    counts: np.ndarray


def agreement(matrix: Matrix, seed: int = 0, families: Mapping[str, str] | None = None) -> Agreement:
    """Return how far the columns agree; ``overall``, ``within`` and ``between`` over the common methods, by family.

    ``families`` is method -> family; a method that it does not hold is a family by itself.
    """
    from scipy.stats import rankdata

    scores = matrix.goodness(matrix.common)
    groups = list(dict.fromkeys(column.group for column in matrix.columns))
    members = {group: [i for i, column in enumerate(matrix.columns) if column.group == group] for group in groups}
    of_common = [(families or {}).get(name, name) for name in matrix.common]

    def concordance(columns):
        return kendalls_w(columns, seed=seed, families=of_common)

    ranks = rankdata(scores, axis=0) if scores.size else scores
    by_group = [ranks[:, places].mean(axis=1) for places in members.values()]
    return Agreement(
        concordance(scores),
        {group: concordance(scores[:, places]) for group, places in members.items()},
        concordance(np.stack(by_group, axis=1) if members else scores),
        *rank_correlations(matrix.goodness(matrix.methods)),
    )
