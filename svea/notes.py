"""What SVEA's scores say beside the paper's Table 1 (Sattarzadeh et al., ICCVW 2021); every number is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attribution
from attribution_benchmarks.core.published import rank_correlation
from attribution_benchmarks.core.scores import InputScores, Scores
from attribution_benchmarks.stats import statistics
from svea.methods import CANDIDATES
from svea.metrics import METRICS

LOWER_GROUP = ("gradient", "xgrad_cam", "grad_cam")
UPPER_GROUP = ("grad_cam_plus_plus", "score_cam", "sise", "integrated_gradients", "rise")
# Score-CAM as published scores far above the paper's row on every network trained by the recipe of svea.baseline.
_NOT_REPRODUCIBLE = "score_cam"
_KNOWN = {  # of rows of the paper that ours differ from, or may
    "score_cam": "The weights here are the published ones, a softmax over channels. The candidate "
    "score_cam_constant_masks, which no paper proposes, is listed beside the paper's row and compared with no method",
    "grad_cam_plus_plus": "The formula here is the published one; of the variants of it that were tried none gives "
    "the paper's row",
    "rise": "How many masks the paper draws, and of what grid, is not known; here they are --rise_masks of 7 cells, "
    "and fewer of them score less",
}
_DIVERGENCES = [
    "Known divergence, region: Eq. 1 of the paper is not followed to the letter; here the window starts 6 points "
    "before the map's peak, counted from 0, and stays inside the signal.",
    "Known divergence, machines: solved to convergence (LinearSVC), not by 10,000 gradient steps.",
    "Known divergence, precision: softmax in double precision. In single precision, as frameworks compute it, the "
    "gradients of probabilities near 1 are rounding errors (docs/benchmarks.md).",
]

Cells = Mapping[tuple[str, str], Mapping[str, Any]]  # (method, metric) -> row


def notes(scores: Scores, networks: int, seed: int) -> list[str]:
    """Return sentences on the scores of some ``networks``."""
    cells = {(row["method"], row["metric"]): row for row in scores.rows if "of" not in row}
    groups = {group.where["metric"]: group for group in scores.groups}
    fixed = "" if networks < statistics.MIN_NETWORKS else " and other networks"
    over = "" if networks == 1 else f"; ± is the standard deviation over {networks} networks"
    return [
        f"95 %: over other test signals{fixed}; support vector machines stay as trained{over}.",
        *(line for name in METRICS if name in groups for line in _order(groups[name], scores.rows, seed)),
        *(_regions(groups["roe_test"], cells, scores.titles) if "roe_test" in groups else []),
        *_what_holds(cells, scores.titles),
        *_DIVERGENCES,
        *_known(cells),
    ]


def _order(group: InputScores, rows: Sequence[Mapping[str, Any]], seed: int) -> list[str]:
    """Return Spearman's rank correlation with the paper, with and without Score-CAM."""
    told = []
    for without in ((), (_NOT_REPRODUCIBLE,)):
        found = rank_correlation(group, rows, seed, (*CANDIDATES, *without))
        if found and (not without or _NOT_REPRODUCIBLE in group.values):
            told.append("{0.value:.2f} ({0.low:.2f} to {0.high:.2f}) over {1} methods".format(*found))
    title = METRICS[group.where["metric"]].title
    line = f"Spearman's rank correlation with the paper, {title}: {'; without Score-CAM '.join(told)}."
    return [line] if told else []


def _regions(group: InputScores, cells: Cells, titles: Mapping[str, str]) -> list[str]:
    """Return what is tied with the best method, what beats a window without a network, and how many maps are zero."""
    names = [source.method for source in group.sources if not source.control]
    names = [name for name in names if name not in CANDIDATES] or names
    values = {name: group.by_network(name) for name in (*names, "argmax_abs")}
    best = max(names, key=lambda name: cells[name, "roe_test"]["value"])
    pairs = [(first, second) for place, first in enumerate(names) for second in names[place + 1 :]]
    tied = [
        f"{titles[test.second if test.first == best else test.first]} (p = {test.p_corrected:.2f})"
        for test in statistics.compare_pairs(values, pairs)
        if best in test[:2] and test.p_corrected >= statistics.LEVEL
    ]
    against = statistics.compare_pairs(values, [(name, "argmax_abs") for name in names])
    better = [titles[test.first] for test in against if test.p_corrected < statistics.LEVEL and test.difference > 0]
    own = cells["argmax_abs", "roe_test"]
    zero = [f"{titles[name]} {row['zero_maps']:.2f} %" for (name, _), row in cells.items() if row.get("zero_maps")]
    return [
        f"ROE test, paired by signal, p-values after Holm for {len(pairs)} pairs: {titles[best]} is highest; "
        + (f"not significantly different: {', '.join(tied)}." if tied else "the others are below it, p < 0.05.")
        if pairs
        else "",
        f"Better than the window at the largest |x|, which uses no network ({own['value']:.1f}; p < 0.05 after "
        f"Holm for {len(names)} methods): {', '.join(better) or 'none'}.",
        f"Maps that are zero everywhere, whose window is the first, as a uniform map's: {', '.join(zero) or 'none'}.",
    ]


def _what_holds(cells: Cells, titles: Mapping[str, str]) -> list[str]:
    """Return whether the paper's two groups and its lowest Drop are reproduced."""
    lines = []
    roe = {name: row["value"] for (name, metric), row in cells.items() if metric == "roe_test"}
    if all(name in roe for name in LOWER_GROUP + UPPER_GROUP):
        highest, lowest = max(LOWER_GROUP, key=roe.get), min(UPPER_GROUP, key=roe.get)
        holds = "holds" if roe[highest] < roe[lowest] else "does not hold"
        lines.append(
            "ROE test of Vanilla Gradient, XGrad-CAM and Grad-CAM below that of Grad-CAM++, Score-CAM, SISE, "
            f"Integrated Gradients and RISE: {holds} ({titles[highest]} {roe[highest]:.1f}, {titles[lowest]} "
            f"{roe[lowest]:.1f})."
        )
    drops = {
        name: row["value"]
        for (name, metric), row in cells.items()
        if metric == "drop" and row["paper"] is not None and name not in CANDIDATES
    }
    if "rise" in drops and len(drops) > 1:
        best = min(drops, key=drops.get)
        holds = "holds" if best == "rise" else f"does not hold ({titles[best]} {drops[best]:.1f})"
        lines.append(f"RISE has the lowest Drop (ours {drops['rise']:.1f}): {holds}.")
    return lines


def _known(cells: Cells) -> list[str]:
    """Return a line for each row of the paper of whose difference anything is known."""
    lines = []
    for (name, metric), row in cells.items():
        if metric == "roe_test" and name in _KNOWN:
            place = "inside" if row["low"] <= row["paper"] <= row["high"] else "outside"
            each = row.get("networks")
            spread = f", over networks {min(each):.1f} to {max(each):.1f}" if each else ""
            lines.append(
                f"{attribution.METHODS[name].title}, ROE test: ours {row['value']:.1f}{spread}; the paper's "
                f"{row['paper']} lies {place} our interval. {_KNOWN[name]}."
            )
    return lines
