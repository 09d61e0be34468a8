"""What the numbers say, in plain words; every sentence is made from computed figures."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.matrix_table import counted, least, number, shown, span
from attribution_benchmarks.report.significance import Verdicts
from attribution_benchmarks.stats.comparisons import LEVEL
from attribution_benchmarks.stats.correlation import Concordance

_AT_MOST = 4  # names in one sentence
_LEVEL_WITH = (
    f"“Level with” means not told apart by paired tests, corrected after Holm, p ≥ {LEVEL}; it is said only where most "
    "others are told apart."
)
_COUNTS = {2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
_WELL = 0.6  # a mean rank correlation from which judges agree well


def sentences(
    matrix: Matrix,
    agreement: Agreement,
    verdicts: Sequence[Verdicts],
    titles: Mapping[str, str],
    reasons: Mapping[str, str] | None = None,
) -> list[tuple[str, list[str]]]:
    """Say what the matrix shows.

    Parameters
    ----------
    matrix, agreement, verdicts
        Of the same documents.
    titles
        Method or control -> name to print.
    reasons
        Benchmark as printed -> why its figures differ from the paper's.

    Returns
    -------
    list of (str, list of str)
        A heading and its paragraphs each.
    """
    if not matrix.methods:
        return [("Nothing scored", ["No benchmark has given a score."])]
    found = [
        ("What was scored", [f"{scope(matrix)} {_LEVEL_WITH}"]),
        *((f"Best on {group}", list(_leaders(group, matrix, verdicts, titles))) for group in _groups(matrix)),
        ("Against the baselines", list(_controls(matrix, verdicts, titles))),
        *([("Do the benchmarks agree?", _agreement(matrix, agreement))] if len(_groups(matrix)) > 1 else []),
        ("All-rounders", list(_all_rounders(matrix, verdicts, titles))),
        ("Beside the papers", list(_papers(matrix, reasons or {}))),
    ]
    return [(heading, texts) for heading, texts in found if texts]


def in_words(found: Concordance) -> str:
    """Say how far judges agree: by the mean rank correlation of every two of them, in fifths, and whether by chance.

    It is (m W - 1) / (m - 1) for m judges. W itself is 1 / m where they know nothing of each other, and would look
    like agreement where there are few of them.
    """
    mean = (found.judges * found.w - 1) / (found.judges - 1)
    words = next(
        (words for bound, words in ((0.2, "hardly agree"), (0.4, "agree little"), (0.6, "agree in part"),
                                    (0.8, "agree well")) if mean < bound),
        "agree very well",
    )  # fmt: skip
    chance = "" if found.p_value < LEVEL else ", no more than chance would have it"
    interval = f" (95 % {span(found.low, found.high)})" if math.isfinite(found.low) else ""
    return (
        f"{words}{chance} (mean rank correlation {number(mean)}, Kendall's W = {number(found.w)}{interval}, "
        f"{number(found.chance)} expected by chance, {_p(found.p_value)})"
    )


def _groups(matrix: Matrix) -> list[str]:
    return list(dict.fromkeys(column.group for column in matrix.columns))


def scope(matrix: Matrix) -> str:
    """Say how many methods were scored on how many metrics, and on how many inputs."""
    counts = []
    for group in _groups(matrix):
        sizes = sorted(
            {
                matrix.cells[name, column.key]["n"]
                for column in matrix.columns
                if column.group == group
                for name in matrix.methods
                if (name, column.key) in matrix.cells
            }
        )
        if sizes:
            span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
            counts.append(f"{group} {span}")
    size = f"{counted(len(matrix.methods), 'method')} on {counted(len(matrix.columns), 'metric')}"
    on_all = f" Methods with a score on all metrics: {len(matrix.common)}." if len(matrix.columns) > 1 else ""
    return f"{size}; inputs behind a figure: {_listed(counts)}.{on_all}"


def _leaders(group, matrix, verdicts, titles):
    judged = {verdict.column.key: verdict for verdict in verdicts}
    for column in matrix.columns:
        ranked = sorted((rank, name) for (name, key), rank in matrix.ranks.items() if key == column.key)
        if column.group != group or not ranked:
            continue
        best, level, verdict = ranked[0][1], None, judged.get(column.key)
        baseline = matrix.baseline_on_top(column)
        if baseline:
            yield _no_best(column, baseline, best, matrix, titles)
            continue
        if verdict:
            best, *level = verdict.level_with_best(matrix)
        text = f"{column.title}: {titles.get(best, best)} ({shown(matrix.cells[best, column.key], column)})"
        if level and not verdict.tells_best(matrix):
            text += f", not told apart from {len(level)} of the {len(verdict.tested) - 1} others: {_too_few(verdict)}"
        elif level is not None:
            names = _listed([titles.get(name, name) for name in level], _AT_MOST)
            text += f", level with {names}" if level else ", alone at the top"
        yield f"{text}."


def _no_best(column, baseline, best, matrix, titles) -> str:
    """Say that a column names no best method, because a control without a network has the highest score."""
    value, highest = (shown(matrix.cells[name, column.key], column) for name in (baseline, best))
    why = (
        "has the trivial maximum"
        if baseline in column.excluded
        else "uses no network and scores higher than any method"
    )
    return (
        f"{column.title}: no method is named best. “{titles.get(baseline, baseline)}” {why} ({value}); the best "
        f"method has {highest}."
    )


def _too_few(verdict: Verdicts) -> str:
    """Say what the inputs of a column cannot tell."""
    smallest = verdict.detectable_between_methods()
    inputs = f"{verdict.independent_inputs():,} independent inputs"
    if math.isinf(smallest):
        return f"{inputs} are too few to tell any two methods apart"
    return f"{inputs} are too few for differences below {least(smallest, verdict.column)}"


def _controls(matrix, verdicts, titles):
    for verdict in verdicts:
        if not verdict.controls or not verdict.tested:
            continue
        label, count = verdict.column.label + _on_networks(matrix, verdict.column), len(verdict.tested)
        if not verdict.tells_controls():
            inputs = f"{verdict.independent_inputs():,} independent inputs"
            yield f"{label}: {inputs} are too few to find any of {count} methods above every baseline."
            continue
        failing = [missed for missed in map(verdict.kinds_not_above, verdict.tested) if missed]
        if not failing:
            yield f"{label}: all {count} methods are above every baseline."
            continue
        unseen = f"; leads below {least(verdict.detectable_above_controls(), verdict.column)} go unseen"
        often = collections.Counter(titles.get(name, name) for missed in failing for name in missed)
        control, times = min(often.items(), key=lambda item: (-item[1], item[0]))
        if times == count:
            whom = _listed([f"“{name}”" for name, missed in sorted(often.items()) if missed == count])
            yield f"{label}: not one of the {count} methods is significantly above {whom}{unseen}."
        else:
            whom = f"“{control}”" if times == len(failing) else f"every baseline, {times} of them not above “{control}”"
            yield f"{label}: {len(failing)} of {count} methods are not significantly above {whom}{unseen}."


def _on_networks(matrix, column) -> str:
    """Return ", on the network saved_models/mine/first": a verdict holds for the networks that were scored."""
    names = matrix.networks.get(column.key, ())
    if not names:
        return ""
    return f", on the network{'' if len(names) == 1 else 's'} {_listed(names, _AT_MOST)}"


def _agreement(matrix, agreement) -> list[str]:
    overall, between = agreement.overall, agreement.between
    if not math.isfinite(overall.w):
        return ["Too few methods were scored under all metrics to say."]
    found = [
        f"Over the {overall.methods} methods that they all rank, the {overall.judges} metrics {in_words(overall)}.",
    ]
    if math.isfinite(between.w):
        found.append(
            f"The {between.judges} benchmarks, one voice each, {in_words(between)}. {places_in_words(between)}"
        )
    pairs = [
        (agreement.correlations[i, j], first, second)
        for i, first in enumerate(matrix.columns)
        for j, second in enumerate(matrix.columns)
        if i < j and first.group != second.group and np.isfinite(agreement.correlations[i, j])
    ]
    if len(pairs) > 1:
        least, most = min(pairs, key=lambda pair: pair[0]), max(pairs, key=lambda pair: pair[0])
        found.append(
            f"Of metrics of different benchmarks, {_pair(most)} rank most alike (Spearman {number(most[0])}), "
            f"{_pair(least)} least ({number(least[0])})."
        )
    return found


def places_in_words(found: Concordance) -> str:
    """Say whether a rank on one benchmark predicts that on another, or that the benchmarks are too few to test it."""
    places = "a method's place on one benchmark", "its place on another"
    if found.p_value < LEVEL:
        return f"{places[0].capitalize()} says something about {places[1]}."
    most = (found.judges * found.high - 1) / (found.judges - 1)
    if most < _WELL:
        return f"{places[0].capitalize()} is no reliable sign of {places[1]}."
    return f"{_COUNTS.get(found.judges, found.judges)} benchmarks are too few to test whether they rank methods alike."


def _pair(pair) -> str:
    return " and ".join(column.label for column in pair[1:])


def _all_rounders(matrix, verdicts, titles):
    if len(verdicts) < 2:
        return
    telling = [verdict for verdict in verdicts if verdict.names_best(matrix)]
    counts = {name: sum(name in verdict.level_with_best(matrix) for verdict in telling) for name in matrix.common}
    if not counts:
        return
    silent = [verdict.column.label for verdict in verdicts if not verdict.names_best(matrix)]
    if silent:
        yield (
            f"{len(silent)} of {len(verdicts)} metrics name no best method and are not counted: "
            f"{_listed(silent, _AT_MOST)}."
        )
    if not telling:
        return
    top = max(counts.values())
    names = [titles.get(name, name) for name, count in counts.items() if count == top]
    metrics = f"all {len(telling)} metrics" if len(telling) > 1 else "the one metric"
    metrics += " that do" if silent else ""
    if top == len(telling):
        yield f"Best, or level with the best, on {metrics}: {_listed(names, _AT_MOST)}."
    else:
        yield (
            f"No method is best or level with the best on {metrics}. "
            f"{_listed(names, _AT_MOST)} {'is' if len(names) == 1 else 'are'} so on {top}."
        )


def _papers(matrix: Matrix, reasons: Mapping[str, str]):
    """Say of each benchmark how many of the paper's figures lie inside our intervals, and why others do not."""
    told = False
    for group in _groups(matrix):
        keys = {column.key for column in matrix.columns if column.group == group}
        rows = [row for (_, key), row in matrix.cells.items() if key in keys and row.get("paper") is not None]
        why = f" {reasons[group]}" if group in reasons else ""
        spread = {
            metric: float(np.ptp([row["paper"] for row in rows if row["metric"] == metric]))
            for metric in {row["metric"] for row in rows}
        }
        if rows:
            told = True
            inside = [row for row in rows if row["low"] <= row["paper"] <= row["high"]]
            text = f"{group}: {len(inside)} of the paper's {len(rows)} figures lie inside our 95 % intervals"
            wide = sum(row["high"] - row["low"] > spread[row["metric"]] / 2 for row in inside)
            if wide:
                text += f", {wide} of these inside one half as wide as all of the paper's figures, which says little"
            yield f"{text}.{why}"
        elif why:
            yield f"{group}: no figure of the paper's to compare with.{why}"
    if told:
        yield "Intervals tell of other inputs, not of another network; ours and the papers' are not the same networks."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {number(value, 3)}"


def _listed(names: Sequence[str], at_most: int | None = None) -> str:
    """Return "a, b and c"; "a, b and 3 others" where there are more than wanted."""
    names = list(names)
    if at_most is not None and len(names) > at_most:
        names = [*names[: at_most - 1], f"{len(names) - at_most + 1} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"
