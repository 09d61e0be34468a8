"""A card for each method: its places, what the tests say, what is known of it, and where it did best and worst."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attribution
from attribution_benchmarks.report.gallery import ScoredExample
from attribution_benchmarks.report.matrix import Matrix
from attribution_benchmarks.report.matrix_table import number, shown
from attribution_benchmarks.report.significance import Verdicts, in_words, percentages, record, record_in_words

_AT_MOST = 3  # metrics named in one sentence


def cards(
    matrix: Matrix,
    judged: Mapping[str, Verdicts],
    examples: Sequence[ScoredExample],
    named: Any,
    benchmarks: Mapping[str, str],
) -> list[dict]:
    """Return a card for each method, the user's own first, then in the order of the matrix.

    Parameters
    ----------
    matrix, examples
        What the page shows.
    judged
        Column key -> its tests.
    named
        ``sections.Names``.
    benchmarks
        Name -> title.
    """
    ordered = sorted(matrix.methods, key=lambda name: not named.own(name))
    return [_card(name, place, matrix, judged, examples, named, benchmarks) for place, name in enumerate(ordered)]


def _card(name, place, matrix, judged, examples, named, benchmarks) -> dict:
    counts = count_of(matrix)
    ranks = [
        {
            "column": column.label, "rank": number(rank, 1).removesuffix(".0"),
            "count": counts[column.key], "text": shown(matrix.cells[name, column.key], column),
            "place": round(100 * (rank - 1) / max(counts[column.key] - 1, 1)),
            "marks": judged[column.key].marks(name, matrix) if column.key in judged else "",
        }
        for column in matrix.columns
        if (rank := matrix.ranks.get((name, column.key))) is not None
    ]  # fmt: skip
    shares = [one["place"] for one in ranks]
    method = attribution.METHODS.get(name)
    card = method.card if method else None
    return {
        "id": f"method-{place}",
        "name": name,
        "title": named(name),
        "own": named.own(name),
        "path": named.path(name),
        "family": "" if named.family(name) == name else named.family(name),
        "ranks": ranks,
        "mean": round(100 - sum(shares) / len(shares)) if shares else None,
        "verdicts": sentences(name, matrix, judged, named),
        "missing": _missing(name, matrix, benchmarks),
        "cost": card.cost if card else "",
        "facts": [
            ("Needs", card.requirements), ("Cost of an input", card.cost), ("Randomness", card.randomness),
            ("Known weaknesses", card.weaknesses), ("Source", card.citation),
        ] if card else [],
        **dict(zip(("best", "worst"), extremes(name, examples, matrix), strict=True)),
    }  # fmt: skip


def count_of(matrix: Matrix) -> dict[str, int]:
    """Return how many methods each column ranks."""
    return {column.key: sum(key == column.key for _, key in matrix.ranks) for column in matrix.columns}


def sentences(name: str, matrix: Matrix, judged: Mapping[str, Verdicts], named: Any) -> list[str]:
    """Say what the tests of all columns found of a method, and how many of them can find anything."""
    labels = {column.key: column.label for column in matrix.columns}
    tested = [verdict for verdict in judged.values() if name in verdict.tested]
    if not tested:
        return ["No paired test: the scores of single inputs are not known."]
    found = []
    telling = [verdict for verdict in tested if verdict.names_best(matrix)]
    top = [labels[verdict.column.key] for verdict in telling if name in verdict.level_with_best(matrix)]
    if telling:
        found.append(
            f"Best, or level with the best, on {len(top)} of {len(telling)} metrics that can tell"
            + (f": {_listed(top)}." if top else ".")
        )
    else:
        found.append("No metric names a best method with these inputs.")
    return [*found, *_against_baselines(name, matrix, tested, named)]


def _against_baselines(name: str, matrix: Matrix, tested: Sequence[Verdicts], named: Any) -> list[str]:
    able = [verdict for verdict in tested if verdict.tells_controls()]
    if not able:
        return ["The inputs are too few to find any method above every baseline."]
    one = record(name, tested, matrix)
    text = record_in_words([one._replace(kept={})])
    missed = [
        f"{verdict.column.label} ({_listed(in_words(kinds, named), 2)})"
        for verdict in able
        if (kinds := verdict.kinds_not_above(name))
    ]
    partly = [verdict.column.label for verdict in able if verdict.untested(name) and not verdict.not_above(name)]
    text += f"; not significantly above: {_listed(missed)}" if missed else ""
    text += f"; above the baselines it was compared with, fewer than others were: {_listed(partly)}" if partly else ""
    found = [f"{text[0].upper()}{text[1:]}."]
    if one.kept:
        found.append(
            f"Keeps {percentages(one.kept.values())} of its score for a wrong class on {_listed(list(one.kept))}: "
            "it does not pass there, because its score hardly depends on the class."
        )
    return found


def in_short(name: str, matrix: Matrix, judged: Mapping[str, Verdicts], named: Any) -> tuple[str, str]:
    """Return on how many metrics a method beats every baseline, and its best and its weakest place; a sentence each."""
    counts = count_of(matrix)
    placed = sorted(
        (matrix.ranks[name, column.key] / counts[column.key], place, column)
        for place, column in enumerate(matrix.columns)
        if (name, column.key) in matrix.ranks
    )
    if not placed:
        return f"{named(name)} fits none of the benchmarks", ""

    def where(column):
        rank = matrix.ranks[name, column.key]
        return f"{ordinal(math.floor(rank))} of {counts[column.key]} on {column.label}"

    ends = [placed[0][2], *([placed[-1][2]] if len(placed) > 1 else [])]
    silent = [one.label for one in ends if not _tells(judged.get(one.key), matrix)]
    places = f"Its best place: {'; its weakest: '.join(map(where, ends))}."
    if silent:
        places += f" Inputs are too few to tell methods apart on {_listed(silent)}."
    one = record(name, (verdict for verdict in judged.values() if name in verdict.tested), matrix)
    if not one.metrics:
        return f"{named(name)}: a first look, with too few inputs to compare it with the baselines", places
    return f"{named(name)} {record_in_words([one])}", places


def _tells(verdict: Verdicts | None, matrix: Matrix) -> bool:
    return verdict is not None and verdict.tells_best(matrix)


def ordinal(number: int) -> str:
    """Return "1st", "2nd", "11th"."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def extremes(name: str, examples: Sequence[ScoredExample], matrix: Matrix) -> tuple[dict | None, dict | None]:
    """Return where a method did best and worst against the mean of all methods, of the inputs that are shown."""
    columns = {column.key: column for column in matrix.columns}
    placed = [
        (share, number, key)
        for number, one in enumerate(examples)
        for key in one.columns
        if (share := one.places[key].get(name)) is not None and any(name in view.maps for view in one.shown.views)
    ]
    if not placed:
        return None, None
    pictured = [one for one in placed if examples[one[1]].shown.views[0].picture.ndim == 3]
    placed = pictured or placed  # signals only where there are no images
    ends = []
    for share, place, key in (max(placed, key=lambda one: one[0]), min(placed, key=lambda one: one[0])):
        column = columns[key]
        ends.append(
            {
                "example": place, "column": column.label,
                "value": shown({"value": examples[place].values[key][name]}, column),
                "share": round(100 * share), "title": examples[place].shown.title,
            }
        )  # fmt: skip
    return ends[0], ends[1]


def _missing(name, matrix, benchmarks) -> list[tuple[str, str]]:
    """Return benchmark -> why a method has no score there, each reason once."""
    found = {}
    for column in matrix.columns:
        reason = matrix.blanks.get((name, column.key))
        if reason:
            found.setdefault((benchmarks.get(column.benchmark, column.group), reason), None)
    return list(found)


def _listed(names: Sequence[str], at_most: int = _AT_MOST) -> str:
    names = list(names)
    if len(names) > at_most:
        names = [*names[:at_most], f"{len(names) - at_most} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
