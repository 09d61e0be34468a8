"""SVEA's table: scores of one network or several, with intervals and the paper's figures, and the notes below it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import attribution
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.tables import control_row, curve_points, format_controls, row_kind
from attribution_benchmarks.stats import correlation, statistics
from svea.methods import CANDIDATES
from svea.metrics import METRICS
from svea.mnist1d import TEST_SIGNALS, TRAIN_SIGNALS
from svea.scoring import NetworkScores

# Table 1 of Sattarzadeh et al. (ICCVW 2021), in percent: method -> metric -> figure, in the order of the table.
# SmoothGrad is discussed in the text only.
TABLE_1 = {
    "gradient": {"roe_test": 32.7, "drop": 29.54, "increase": 29.6},
    "xgrad_cam": {"roe_test": 39.3, "drop": 24.69, "increase": 37.7},
    "score_cam": {"roe_test": 42.1, "drop": 27.03, "increase": 28.9},
    "grad_cam": {"roe_test": 47.6, "drop": 26.18, "increase": 36.4},
    "grad_cam_plus_plus": {"roe_test": 59.0, "drop": 17.81, "increase": 33.9},
    "sise": {"roe_test": 61.5, "drop": 12.19, "increase": 38.5},
    "integrated_gradients": {"roe_test": 65.1, "drop": 9.85, "increase": 40.4},
    "rise": {"roe_test": 66.4, "drop": 7.64, "increase": 41.0},
    "raw_signal": {"roe_test": 29.7},
}

LOWER_GROUP = ("gradient", "xgrad_cam", "grad_cam")
# Score-CAM as published scores far above the paper's row on every network trained by the recipe of svea.baseline.
_NOT_REPRODUCIBLE = "score_cam"
UPPER_GROUP = ("grad_cam_plus_plus", "score_cam", "sise", "integrated_gradients", "rise")


def _paper_figure(method: str, metric: str) -> float | None:
    """Return the paper's figure in percent, that of the explained row for a candidate, or None where it has none."""
    return TABLE_1.get(CANDIDATES.get(method, method), {}).get(metric)


def _values_of(networks: Sequence[NetworkScores], source: MapSource, metric: str) -> np.ndarray:
    """Return one value per network and test signal, (networks, 1000) float64; KeyError where there is none."""
    return np.stack([network.sources[source].values[metric] for network in networks])


def long_rows(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric]) -> list[dict]:
    """Return the scores of one or several networks in the long form of ``core.tables``, by the given metrics.

    The value is the mean over test signals and networks. The interval is over the 1,000 test signals, each taken with
    its mean over the networks; networks and support vector machines stay as they are. Several networks add ``std``, the
    standard deviation of their scores (divided by their number less one), and ``networks``, the scores themselves. Rows
    of methods have the percentage of all 5,000 maps that are zero everywhere in ``zero_maps``. The rows of methods
    under random networks come last, see ``core.tables.control_row``.
    """
    rows, of_controls = [], []
    for source, members in by_kind(networks[0].sources).items():
        for name, metric in metrics.items():
            if any(name not in networks[0].sources[member].values for member in members):
                continue
            if source.method and source.control:
                values = np.array([_values_of(networks, member, name).mean(axis=0) for member in members])
                defined = values[:, np.isfinite(values).all(axis=0)]
                of_controls.append(control_row(source, name, defined, metric.hit, bounds=metric.bounds))
            else:
                rows += _rows_of(networks, source, metric)
    return rows + of_controls


def _rows_of(networks: Sequence[NetworkScores], source: MapSource, metric: Metric) -> list[dict]:
    """Return the row of a method or control by a metric, and the points of its curve."""
    values = _values_of(networks, source, metric.name)
    defined = np.isfinite(values).all(axis=0)
    estimate = statistics.mean_interval(values[:, defined].T, rate=metric.hit, bounds=metric.bounds)
    row = {
        "method": source.name, "metric": metric.name, **estimate._asdict(),
        "paper": _paper_figure(source.name, metric.name), "kind": row_kind(source),
    }  # fmt: skip
    if len(networks) > 1:
        row["std"] = float(values.mean(axis=1).std(ddof=1))
        row["networks"] = values.mean(axis=1).tolist()
    scores = [network.sources[source] for network in networks]
    if not source.control and metric.name == "roe_test":
        zero_maps = float(np.mean([each.zero_maps for each in scores]))
        row["zero_maps"] = 100.0 * zero_maps / (TRAIN_SIGNALS + TEST_SIGNALS)
    if metric.name not in scores[0].curves:
        return [row]
    points = curve_points(metric, np.mean([each.curves[metric.name] for each in scores], axis=0))
    return [row, *({"method": source.name, **point, "kind": row["kind"]} for point in points)]


def input_scores(networks: Sequence[NetworkScores], metrics: Mapping[str, Metric]) -> list[InputScores]:
    """Return one value per test signal and network of every method and control; per signal for one network."""
    inputs = [f"test signal {row}" for row in range(TEST_SIGNALS)]
    return [
        InputScores(
            {"metric": metric},
            inputs,
            {
                source.name: _values_of(networks, source, metric).T.squeeze()
                for source, scores in networks[0].sources.items()
                if metric in scores.values
            },
        )
        for metric in metrics
    ]


def rank_correlation(
    networks: Sequence[NetworkScores], metric: str, seed: int, without: Sequence[str] = ()
) -> tuple[statistics.Estimate, int] | None:
    """Compare our order of the methods, except those ``without``, with the paper's, by one metric.

    Returns Spearman's rank correlation with its bootstrap interval over test signals and networks, and the number of
    methods; None for fewer than three methods with a figure in the paper.
    """
    names = [name for name in networks[0].methods if name in TABLE_1 and name not in without]
    if len(names) < 3:
        return None
    paper = [_paper_figure(name, metric) for name in names]
    columns = np.stack([_values_of(networks, MapSource(name), metric).T for name in names], axis=-1)
    drawn = correlation.spearman(statistics.bootstrap_means(columns, seed=seed), paper)
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    value = correlation.spearman(columns.mean(axis=(0, 1)), paper)
    estimate = statistics.Estimate(value, min(float(low), value), max(float(high), value), len(columns))
    return estimate, len(names)


def findings(
    networks: Sequence[NetworkScores], rows: Sequence[Mapping], titles: dict[str, str], seed: int, names: Sequence[str]
) -> list[str]:
    """Return lines of text, all of them from computed scores.

    ``rows`` are the ``long_rows`` of the networks, ``titles`` method or control -> printed name, ``names`` the
    networks' names, as in the tables' heading.
    """
    score = {(row["method"], row["metric"]): row["value"] for row in rows}
    regions_scored = any(metric == "roe_test" for _, metric in score)
    return [
        *_intervals(len(networks)),
        *_rank_correlations(networks, seed),
        *(_comparisons(networks, score, titles, names) if regions_scored else ()),
        *(_zero_maps(rows, titles) if regions_scored else ()),
        *_random_networks(rows, titles),
        *_what_holds(score, titles),
        *_divergences(rows),
    ]


def _intervals(count: int) -> list[str]:
    over = "" if count == 1 else f"; ± is the standard deviation over {count} networks"
    return [
        f"95 %: over other test signals{'' if count < statistics.MIN_NETWORKS else ' and other networks'}; support "
        f"vector machines stay as trained{over}.",
    ]


def _rank_correlations(networks, seed) -> list[str]:
    """Return Spearman's rank correlation with the paper for each metric, with and without Score-CAM."""

    def shown(metric, without=()):
        found = rank_correlation(networks, metric, seed, without)
        if found is None:
            return None
        estimate, count = found
        return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f}) over {count} methods"

    lines = []
    for metric, described in METRICS.items():
        line = shown(metric)
        if line and _NOT_REPRODUCIBLE in networks[0].methods:
            without = shown(metric, (_NOT_REPRODUCIBLE,))
            line += f"; without Score-CAM {without}" if without else ""
        if line:
            lines.append(f"Spearman's rank correlation with the paper, {described.title}: {line}.")
    return lines


def _compared(names: Iterable[str]) -> list[str]:
    """Return the methods without candidates; all where there are only candidates."""
    return [name for name in names if name not in CANDIDATES] or list(names)


def _comparisons(networks, score, titles, where) -> list[str]:
    """Return which methods do not differ from the best one, and which beat the window that uses no network."""
    names = _compared(networks[0].methods)
    values = {name: _values_of(networks, MapSource(name), "roe_test").T for name in names}
    values["argmax_abs"] = _values_of(networks, MapSource(control="argmax_abs"), "roe_test").T
    best = max(names, key=lambda name: score[name, "roe_test"])
    against_peak = statistics.compare_pairs(values, [(name, "argmax_abs") for name in names])
    better = [
        titles[test.first] for test in against_peak if test.p_corrected < statistics.LEVEL and test.difference > 0
    ]
    on = " and ".join(where) + (", averaged" if len(where) > 1 else "")
    return [
        *(_tied_with_best(values, names, best, titles) if len(names) > 1 else ()),
        f"Better than the window at the largest |x|, which uses no network ({score['argmax_abs', 'roe_test']:.1f}), on "
        f"{on} (p < 0.05 after Holm for {len(names)} method{'' if len(names) == 1 else 's'}): "
        f"{', '.join(better) or 'none'}.",
    ]


def _tied_with_best(values, names, best, titles) -> list[str]:
    """Return the methods that do not differ significantly from the best one in the ROE test."""
    pairs = list(itertools.combinations(names, 2))
    tied = []
    for test in statistics.compare_pairs(values, pairs):
        if best in test[:2] and test.p_corrected >= statistics.LEVEL:
            other = test.second if test.first == best else test.first
            tied.append(f"{titles[other]} (p = {test.p_corrected:.2f})")
    number = f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'}"
    return [
        f"ROE test, paired by signal, p-values after Holm for {number}: {titles[best]} is highest; "
        + (f"not significantly different: {', '.join(tied)}." if tied else "the others are below it, p < 0.05.")
    ]


def _zero_maps(rows, titles) -> list[str]:
    found = [f"{titles[row['method']]} {row['zero_maps']:.2f} %" for row in rows if row.get("zero_maps")]
    counted = ", ".join(found) or "none"
    return [f"Maps that are zero everywhere, whose window is the first, as a uniform map's: {counted}."]


def _random_networks(rows, titles) -> list[str]:
    """Return the scores of the methods' regions on networks of random weights."""
    lines = []
    for name, metric in METRICS.items():
        found = [row for row in rows if row["metric"] == name and "of" in row]
        if not found:
            continue
        each, count = format_controls(found, titles, "{:.1f}".format)
        several = f", mean over {count} [least, largest]" if count > 1 else ""
        lines.append(f"The methods' own regions on networks of random weights, {metric.title}{several}: {each}.")
    return lines


def _what_holds(score, titles) -> list[str]:
    """Return whether the paper's two groups and its lowest Drop are reproduced."""
    lines = []
    if all((name, "roe_test") in score for name in LOWER_GROUP + UPPER_GROUP):
        highest = max(LOWER_GROUP, key=lambda name: score[name, "roe_test"])
        lowest = min(UPPER_GROUP, key=lambda name: score[name, "roe_test"])
        holds = score[highest, "roe_test"] < score[lowest, "roe_test"]
        lines.append(
            "ROE test of Vanilla Gradient, XGrad-CAM and Grad-CAM below that of Grad-CAM++, Score-CAM, SISE, "
            f"Integrated Gradients and RISE: {'holds' if holds else 'does not hold'} ({titles[highest]} "
            f"{score[highest, 'roe_test']:.1f}, {titles[lowest]} {score[lowest, 'roe_test']:.1f})."
        )
    drops = {name: score[name, "drop"] for name in TABLE_1 if (name, "drop") in score}
    if "rise" in drops and len(drops) > 1:
        best = min(drops, key=drops.get)
        holds = "holds" if best == "rise" else f"does not hold ({titles[best]} {drops[best]:.1f})"
        lines.append(f"RISE has the lowest Drop (ours {drops['rise']:.1f}): {holds}.")
    return lines


# What is known of rows of the paper that ours differ from, or may.
_KNOWN = {
    "score_cam": "The weights here are the published ones, a softmax over channels. The candidate "
    "score_cam_constant_masks, which no paper proposes, is listed beside the paper's row and compared with no method",
    "grad_cam_plus_plus": "The formula here is the published one; of the variants of it that were tried none gives "
    "the paper's row",
    "rise": "How many masks the paper draws, and of what grid, is not known; here they are --rise_masks of 7 cells, "
    "and fewer of them score less",
}


def _divergences(rows) -> list[str]:
    """Return a line for each known difference from the paper, and for each row of which anything is known."""
    lines = [
        "Known divergence, region: Eq. 1 of the paper is not followed to the letter; here the window starts 6 points "
        "before the map's peak, counted from 0, and stays inside the signal.",
        "Known divergence, machines: solved to convergence (LinearSVC), not by 10,000 gradient steps.",
        "Known divergence, precision: softmax in double precision. In single precision, as frameworks compute it, the "
        "gradients of probabilities near 1 are rounding errors (docs/benchmarks.md).",
    ]
    titles = {name: method.title for name, method in attribution.METHODS.items()}
    for row in rows:
        if row["metric"] == "roe_test" and row["method"] in _KNOWN:
            place = "inside" if row["low"] <= row["paper"] <= row["high"] else "outside"
            spread = ""
            if "networks" in row:
                least, most = min(row["networks"]), max(row["networks"])
                spread = f", over networks {least:.1f} to {most:.1f}"
            lines.append(
                f"{titles[row['method']]}, ROE test: ours {row['value']:.1f}{spread}; the paper's {row['paper']} lies "
                f"{place} our interval. {_KNOWN[row['method']]}."
            )
    return lines
