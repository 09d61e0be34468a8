"""A card for each method: ranks, results of the tests, known properties, and its best and worst example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attribution
from attribution_benchmarks.core.report_examples import ExampleView
from attribution_benchmarks.report.formatting import cell_score, enumeration, percentages, rank, score
from attribution_benchmarks.report.gallery import ScoredExample, inside
from attribution_benchmarks.report.matrix import Matrix
from attribution_benchmarks.report.significance import MARGIN, BaselineRecord, ColumnTests, baseline_record
from attribution_benchmarks.report.summary import describe_record

_AT_MOST = 4  # metrics named in one sentence


def cards(
    matrix: Matrix,
    tests: Mapping[str, ColumnTests],
    examples: Sequence[ScoredExample],
    names: Any,
    benchmarks: Mapping[str, str],
) -> list[dict]:
    """Return a card for each method, custom ones first, then in the order of the matrix.

    Parameters
    ----------
    matrix, examples
        As on the page.
    tests
        Column key -> its tests.
    names
        ``formatting.Names``.
    benchmarks
        Name -> title.
    """
    ordered = sorted(matrix.methods, key=lambda name: not names.is_custom(name))
    return [
        {
            "id": f"method-{place}",
            "missing": _missing(name, matrix, benchmarks),
            "sentences": sentences(name, tests, names),
            **_identity(name, names),
            **_ranks(name, matrix, tests),
            **_known_properties(name),
            **_extremes(name, examples, matrix),
        }
        for place, name in enumerate(ordered)
    ]


def _identity(name: str, names: Any) -> dict:
    return {
        "name": name, "title": names(name), "own": names.is_custom(name), "path": names.path(name),
        "family": names.family(name) if names.has_family(name) else "",
    }  # fmt: skip


def _ranks(name: str, matrix: Matrix, tests: Mapping[str, ColumnTests]) -> dict:
    counts = matrix.rank_counts()
    ranks: list[dict] = [
        {
            "column": column.label, "rank": rank(value), "count": counts[column.key],
            "text": cell_score(matrix.cells[name, column.key], column),
            "place": round(100 * (value - 1) / max(counts[column.key] - 1, 1)),
            "mark": tests[column.key].mark(name) if column.key in tests else "",
        }
        for column in matrix.columns
        if (value := matrix.ranks.get((name, column.key))) is not None
    ]  # fmt: skip
    places = [one["place"] for one in ranks]
    return {"ranks": ranks, "mean": round(100 - sum(places) / len(places)) if places else None}


def _known_properties(name: str) -> dict:
    if name not in attribution.METHODS or not (card := attribution.METHODS[name].card):
        return {"cost": "", "facts": []}
    facts = [
        ("Needs", card.requirements), ("Cost of an input", card.cost), ("Randomness", card.randomness),
        ("Known weaknesses", card.weaknesses), ("Source", card.citation),
    ]  # fmt: skip
    return {"cost": card.cost, "facts": facts}


def sentences(name: str, tests: Mapping[str, ColumnTests], names: Any) -> list[str]:
    """Return what the tests of all columns found for a method, and how many of them have enough inputs."""
    tested = [one for one in tests.values() if name in one.tested]
    if not tested:
        return ["No paired test: the scores of single inputs are not known."]
    powered = [one for one in tested if one.has_power()]
    if not powered:
        return ["The inputs are too few to compare it with baselines."]
    record = baseline_record(name, powered)
    text = describe_record(record)
    return [f"{text[0].upper()}{text[1:]}{_failed(name, powered, names)}.", *_kept(record), *_best(name, powered)]


def _best(name: str, powered: Sequence[ColumnTests]) -> list[str]:
    likely = [one.column.label for one in powered if one.ranks[name].best >= 0.5]
    return [f"Probably the best on {enumeration(likely, _AT_MOST)}."] if likely else []


def _failed(name: str, powered: Sequence[ColumnTests], names: Any) -> str:
    """Return which baseline a method does not beat by the margin, by metric."""
    first = {one.column.label: one.failed(name)[:1] for one in powered}
    which = [f"{label} (“{names(found[0].kind)}”)" for label, found in first.items() if found]
    return f"; not on {enumeration(which, _AT_MOST)}" if which else ""


def _kept(record: BaselineRecord) -> list[str]:
    """Return how much of its score a method keeps for a wrong class, if that is too much."""
    kept = {label: share for label, share in record.kept.items() if share > MARGIN}
    if not kept:
        return []
    return [f"Keeps {percentages(kept.values())} of its score for a wrong class on {enumeration(kept, _AT_MOST)}."]


def _extremes(name: str, examples: Sequence[ScoredExample], matrix: Matrix) -> dict:
    """Return the examples on which a method leads and trails the mean of all methods most; images if there are any."""
    placed = [
        (share, number, key)
        for number, one in enumerate(examples)
        if any(name in view.maps for view in one.example.views)
        for key in one.columns
        if (share := one.shares[key].get(name)) is not None
    ]
    if not placed:
        return {"best": None, "worst": None}
    placed = [one for one in placed if examples[one[1]].example.views[0].picture.ndim == 3] or placed
    columns = {column.key: column for column in matrix.columns}

    def view(number: int) -> ExampleView:
        return next(view for view in examples[number].example.views if name in view.maps)

    def end(share: float, number: int, key: str) -> dict:
        return {
            "example": number, "column": columns[key].label,
            "value": score(examples[number].values[key][name], columns[key]),
            "share": round(100 * share), "title": examples[number].example.title, "inside": inside(view(number), name),
        }  # fmt: skip

    return {"best": end(*max(placed, key=lambda one: one[0])), "worst": end(*min(placed, key=lambda one: one[0]))}


def _missing(name: str, matrix: Matrix, benchmarks: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return benchmark -> why a method has no score there, each reason once."""
    found = {}
    for column in matrix.columns:
        reason = matrix.blanks.get((name, column.key))
        if reason:
            found.setdefault((benchmarks.get(column.benchmark, column.group), reason), None)
    return list(found)
