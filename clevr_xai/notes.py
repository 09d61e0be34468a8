"""What a run's numbers say beside the poster's: order of the methods, and completeness."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.core.published import rank_correlation
from attribution_benchmarks.core.scores import InputScores, Scores
from clevr_xai.methods import BASELINES
from clevr_xai.metrics import HEADING, TRUTH_TITLES

POSTER = {  # what its figures are of
    "metric": "mass", "questions": "simple", "ground_truth": "single_object", "pooling": HEADING["mass"],
    "subset": "all",
}  # fmt: skip
NO_QUESTION = "no question belongs to the subset"  # reason of a row without a value
_PATHS = (
    "IG from black is called Integrated Gradients in the tables of other benchmarks and of the report. Where the "
    "authors' Integrated Gradients begins is not known: the poster's one row is compared with each of ours "
    "(docs/benchmarks.md)."
)
_NETWORKS = (
    "Random nets: the mean over networks, in brackets the least and the largest. Each has the trained weights in "
    "random order. A method is above them where it is above each."
)
_CLUSTERS = "Intervals draw images again, since questions on one image belong together."


def notes(scores: Scores, seed: int) -> list[str]:
    """Return sentences on the scores; none where what they would compare was not scored."""
    rows = [row for row in scores.rows if row.get("subset") == "all" and row["value"] is not None]
    own = dict.fromkeys(row["metric"] for row in rows if row["pooling"])
    pooled = ", ".join(f"{HEADING[metric]} for {metric}" for metric in own)
    return [
        *_empty(scores.rows),
        *_zero(rows, scores.titles),
        *_completeness(rows, scores.titles),
        *(line for group in scores.groups if POSTER.items() <= group.where.items()
          for line in _compared(group, rows, scores.titles, seed)),
        *([_NETWORKS] if any(len(row.get("networks", ())) > 1 for row in rows) else []),
        f"The poster does not name its pooling; ours are {pooled}. {_CLUSTERS}" if pooled else _CLUSTERS,
    ]  # fmt: skip


def _empty(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    empty = [row for row in rows if row.get("reason") == NO_QUESTION]
    named = dict.fromkeys(f"{row['subset']} (ground truth {TRUTH_TITLES[row['ground_truth']]})" for row in empty)
    return [f"Subsets to which no question belongs: {', '.join(named)}."] if named else []


def _zero(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[str]:
    """Return how many maps count as the uniform map, for each ground truth."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.get("zero_maps") and not row["undefined"] and row["pooling"] == HEADING[row["metric"]]:
            found.setdefault(row["ground_truth"], {})[titles[row["method"]]] = row["zero_maps"]
    return [
        f"Zero everywhere, and counted as the uniform map, ground truth {TRUTH_TITLES[truth]}: "
        f"{', '.join(f'{name} {count}' for name, count in counts.items())}."
        for truth, counts in found.items()
    ]


def _completeness(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[str]:
    gaps = {row["method"]: row["gap"] for row in reversed(rows) if row.get("gap") is not None}
    told = [f"{titles[name]} {_two_digits(100 * gaps[name])} %" for name in BASELINES if name in gaps]
    said = f"The sum of a map misses f(image) - f(baseline) by this share of it (median): {', '.join(told)}."
    return [said, _PATHS] if told else []


def _two_digits(value: float) -> str:
    """Return a number with two significant digits and without an exponent."""
    return np.format_float_positional(value, precision=2, unique=False, fractional=False, trim="-")


def _compared(group: InputScores, rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str], seed: int) -> list[str]:
    """Return how the order compares with the poster's, once for each row that may be its Integrated Gradients.

    It is over the questions for which all methods have a value.
    """
    alone = [source.name for source in group.sources if not (source.method and source.control)]
    values = {name: group.by_network(name)[:, 0] for name in alone}
    known = np.all([np.isfinite(column) for column in values.values()], axis=0)
    common = dataclasses.replace(
        group,
        inputs=np.array(group.inputs)[known].tolist(),
        values={name: column[known] for name, column in values.items()},
        clusters=np.array(group.clusters)[known].tolist(),
        facts={},
    )
    paths, told = [name for name in BASELINES if name in values], []
    for path in (paths or [""]) if known.any() else ():
        others = [name for name in paths if name != path]
        if found := rank_correlation(common, rows, seed, others):
            estimate, count = found
            of_path = f", with {titles[path]}" if path else ""
            told.append(
                f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f}) over {count} methods{of_path}"
            )
    of_all = "" if known.all() else f" over the {known.sum():,} of {len(known):,} questions that every method has"
    line = f"Spearman's rank correlation with the poster, relevance mass accuracy{of_all}: {'; '.join(told)}."
    return [line] if told else []
