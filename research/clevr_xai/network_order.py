"""The order of the methods under several networks, and how far orders agree with each other and with the poster's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from attribution.errors import BadInput
from attribution.plotting import no_mathtext
from attribution_benchmarks.core import tables
from attribution_benchmarks.stats import correlation, resampling, statistics
from attribution_benchmarks.stats.statistics import Estimate
from clevr_xai import controls as known_controls
from clevr_xai import methods, paper_table, subsets
from clevr_xai.measured import Measured
from clevr_xai.methods import BASELINES
from clevr_xai.metrics import ACCURACIES, METRICS
from clevr_xai.pictures import POSTER
from clevr_xai.pooling import POOLINGS
from clevr_xai.scoring import HEADING
from clevr_xai.table import TRUTH_TITLES

DRAWS = 1000  # of images, for the intervals of orders
# Distinguishable without red and green, and by their shapes in print.
_COLORS = ("#3b5b92", "#d08a2e", "#4c9a8f", "#8c5a8c", "#7a7a7a", "#a3a34a")
_MARKERS = "os^vDP"
_ROW = 0.66  # of a row's height, over which many networks are spread


class Orders(NamedTuple):
    """What several networks' maps of the same questions score.

    Attributes
    ----------
    where
        ``questions``, ``ground_truth``, ``metric``, ``pooling``, ``subset``.
    networks, methods, controls
        Names, in the order of the tables: methods from the best to the worst of the first network.
    drawn
        Questions asked.
    right
        Network -> how many it answered correctly.
    values
        Network -> method or control -> (n,) accuracies of the questions that count for all networks.
    images
        (n,) what questions belong to.
    estimates
        Network -> method or control -> mean with its interval.
    agreement
        (first, second) -> Kendall's tau of the two orders with its interval over draws of images. The second may be
        "poster", or "poster METHOD" with the row that stands for its Integrated Gradients.
    fingerprint
        Of the data.
    """

    where: Mapping[str, str]
    networks: Sequence[str]
    methods: Sequence[str]
    controls: Sequence[str]
    drawn: int
    right: Mapping[str, int]
    values: Mapping[str, Mapping[str, np.ndarray]]
    images: np.ndarray
    estimates: Mapping[str, Mapping[str, Estimate]]
    agreement: Mapping[tuple[str, str], Estimate]
    fingerprint: str


def compare(
    measured: Mapping[str, Measured],
    ground_truth: str,
    metric: str = "mass",
    subset: str = "all",
    controls: Sequence[str] = (),
    seed: int = 0,
) -> Orders:
    """Compare what several networks' maps score on the questions that count for all of them.

    Parameters
    ----------
    measured
        Network -> its numbers, all of the same questions and methods.
    ground_truth, metric, subset
        Which numbers; the metric in its heading's pooling.
    controls
        Maps that know no network; their figures are the same for all.
    seed
        Of the draws.

    Raises
    ------
    BadInput
        If no question counts for all networks.
    """
    first = next(iter(measured.values()))
    counted = _counted_by_all(measured, subset, ground_truth)
    place = first.ground_truths.index(ground_truth), list(METRICS).index(metric), list(POOLINGS).index(HEADING[metric])
    wanted = [label for label in first.sources if label.name in controls or (label.method and not label.control)]
    chosen = [label.name for label in wanted if label.method]
    values = {
        name: {label.name: one.counted(label)[(counted, *place)] for label in wanted} for name, one in measured.items()
    }
    images = np.array(first.images)[counted]
    ordered = sorted(chosen, key=lambda name: -values[next(iter(values))][name].mean())
    estimates = {network: _estimates(columns, images, seed) for network, columns in values.items()}
    where = {
        "questions": first.kind, "ground_truth": ground_truth, "metric": metric, "pooling": HEADING[metric],
        "subset": subset,
    }  # fmt: skip
    return Orders(
        where, list(measured), ordered, [label.name for label in wanted if not label.method], len(counted),
        {name: int(one.right.sum()) for name, one in measured.items()}, values, images, estimates,
        _agreement(values, ordered, images, where, seed), first.fingerprint,
    )  # fmt: skip


def _estimates(columns: Mapping[str, np.ndarray], images: np.ndarray, seed: int) -> dict[str, Estimate]:
    """Return the mean of each column with its interval over images."""
    return {
        name: statistics.mean_interval(column, seed=seed, clusters=images, bounds=(0.0, 1.0))
        for name, column in columns.items()
    }


def _counted_by_all(measured: Mapping[str, Measured], subset: str, ground_truth: str) -> np.ndarray:
    """Return which questions count for every network, (questions,) bool."""
    counted = np.all(
        [
            subsets.members(one, subset, ground_truth, subsets.CONFIDENCE, subsets.MASK_PIXELS)
            for one in measured.values()
        ],
        axis=0,
    )
    if not counted.any():
        raise BadInput(
            f"none of the {len(counted)} questions counts for every network; ask more of them with --num_questions, or "
            "omit --subset"
        )
    return counted


def _agreement(values, ordered, images, where, seed) -> dict[tuple[str, str], Estimate]:
    """Return Kendall's tau of every two networks' orders, and of each with the poster's."""
    means, draws = {}, {}
    for network, columns in values.items():
        table = np.stack([columns[name] for name in ordered], axis=1)
        means[network], draws[network] = table.mean(axis=0), _bootstrap_means(table, images, seed)
    found = {}
    for one, other in itertools.combinations(values, 2):
        taus = [correlation.kendall_tau(*pair) for pair in zip(draws[one], draws[other], strict=True)]
        found[one, other] = _estimate(correlation.kendall_tau(means[one], means[other]), taus, len(images))
    for path in [name for name in ordered if name in BASELINES] or [""]:
        chosen, poster = _on_poster(ordered, where, path)
        if len(chosen) < 3:
            continue
        for network in values:
            taus = [correlation.kendall_tau(drawn[chosen], poster) for drawn in draws[network]]
            tau = correlation.kendall_tau(means[network][chosen], poster)
            found[network, f"poster {path}".rstrip()] = _estimate(tau, taus, len(images))
    return found


def _bootstrap_means(table: np.ndarray, images: np.ndarray, seed: int) -> np.ndarray:
    """Return the methods' means in each draw of images, (draws, methods)."""
    sums = resampling.cluster_sums(np.column_stack([table, np.ones(len(table))]), images)
    totals = resampling.bootstrap_sums(sums, DRAWS, seed)
    return totals[:, :-1] / totals[:, -1:]


def _on_poster(ordered: Sequence[str], where: Mapping[str, str], path: str) -> tuple[list[int], list[float]]:
    """Return the methods that the poster has, and its means; of the paths of Integrated Gradients only one."""
    figures = {
        place: _poster_figure(name, where)
        for place, name in enumerate(ordered)
        if name not in BASELINES or name == path
    }
    chosen = [place for place, figure in figures.items() if figure is not None]
    return chosen, [figures[place].mean for place in chosen]


def _poster_figure(name: str, where: Mapping[str, str]):
    """Return the poster's number of a method, or None."""
    return paper_table.figure(name, where["metric"], where["questions"], where["ground_truth"], where["subset"])


def _estimate(value: float, draws: Sequence[float], n: int) -> Estimate:
    """Return a tau with the percentile interval of its draws; a draw without an order counts on both sides."""
    draws = np.asarray(draws)
    low, high = (
        np.percentile(np.where(np.isnan(draws), end, draws), share) for end, share in ((-1.0, 2.5), (1.0, 97.5))
    )
    return Estimate(value, min(float(low), value), max(float(high), value), n)


def text(found: Orders, markdown: bool = False, command: str = "") -> str:
    """Return the comparison for reading.

    Parameters
    ----------
    found
        From ``compare``.
    markdown
        Markdown instead of aligned text.
    command
        That made it, to be printed.
    """
    laid_out = tables.markdown_table if markdown else tables.text_table
    short = {name: f"network {number}" for number, name in enumerate(found.networks, start=1)}
    n = len(found.images)
    title = (
        f"{ACCURACIES[found.where['metric']].title} under {len(short)} networks, {found.where['questions']} questions, "
        f"ground truth {TRUTH_TITLES[found.where['ground_truth']]}, pooling {found.where['pooling']}, "
        f"{subsets.title(found.where['subset'], subsets.CONFIDENCE, subsets.MASK_PIXELS)}"
    )
    right = [
        f"{short[name]}: {name}, {found.right[name]:,} of {found.drawn:,} answered correctly" for name in found.networks
    ]
    same = (
        f"{n:,} question{'s' if n != 1 else ''} about {len(set(found.images)):,} images count for all of them, and "
        "all figures are of these. In brackets the rank."
    )
    parts = [f"# {title}" if markdown else title, ""]
    if command:
        parts += [f"Made by `{command}`." if markdown else command, ""]
    parts += [*(f"- {line}" if markdown else line for line in right), "", same, "", laid_out(*_table(found, short)), ""]
    parts += [
        "Kendall's tau between the orders of the methods, with its 95 % interval over draws of images; 1 is the same "
        "order, 0 none in common. A draw scatters near means once more, so that intervals reach further down than up.",
        "", laid_out(*_taus(found, short)), "", *_alike(found),
    ]  # fmt: skip
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _table(found: Orders, short) -> tuple[list[str], list[list[str]]]:
    figures = {name: _poster_figure(name, found.where) for name in found.methods}
    has_poster = any(figures.values())
    header = ["method", *(cell for name in found.networks for cell in (short[name], "95 %"))]
    header += ["poster"] if has_poster else []
    ranks = {network: _ranks(found, network) for network in found.networks}
    body = []
    for name in (*found.methods, *found.controls):
        line = [_title(name)]
        for network in found.networks:
            one = found.estimates[network][name]
            rank = f" ({ranks[network][name]:g})" if name in ranks[network] else ""
            line += [f"{one.value:.2f}{rank}", f"{one.low:.2f}–{one.high:.2f}"]
        if has_poster:
            line.append(f"{figures[name].mean:.2f}" if figures.get(name) else "–")
        body.append(line)
    return header, body


def _ranks(found: Orders, network: str) -> dict[str, float]:
    """Return method -> its rank, 1 for the largest mean."""
    means = [-found.estimates[network][name].value for name in found.methods]
    return dict(zip(found.methods, rankdata(means), strict=True))


def _title(name: str) -> str:
    return known_controls.TITLES.get(name) or methods.title(name)


def _taus(found: Orders, short) -> tuple[list[str], list[list[str]]]:
    posters = list(dict.fromkeys(second for _, second in found.agreement if second not in short))
    columns = [*found.networks[1:], *posters]
    header = ["", *(short.get(name) or _poster_title(name) for name in columns)]
    body = []
    for network in found.networks:
        cells = [found.agreement.get((network, column)) for column in columns]
        if any(cells):
            body.append([short[network], *(_shown(cell) if cell else "" for cell in cells)])
    return header, body


def _poster_title(name: str) -> str:
    path = name.partition(" ")[2]
    return f"poster, {methods.title(path)}" if path else "poster"


def _shown(one: Estimate) -> str:
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})" if math.isfinite(one.value) else "–"


def _alike(found: Orders) -> list[str]:
    """Return how many pairs of methods all networks put in the same order."""
    pairs = list(itertools.combinations(found.methods, 2))
    means = {network: {name: one.value for name, one in found.estimates[network].items()} for network in found.networks}
    turned = [
        (one, other)
        for one, other in pairs
        if len({bool(means[network][one] > means[network][other]) for network in found.networks}) > 1
    ]
    shown = ", ".join(f"{methods.title(one)} and {methods.title(other)}" for one, other in turned)
    return [
        f"All networks put {len(pairs) - len(turned)} of {len(pairs)} pairs of methods in the same order"
        + (f"; not {shown}." if turned else ".")
    ]


def long_rows(found: Orders) -> list[dict]:
    """Return the numbers in long form: means by network, and taus as rows of the metric ``kendall``."""
    rows = [
        {
            "method": name, **found.where, **found.estimates[network][name]._asdict(),
            "paper": figure.mean if (figure := _poster_figure(name, found.where)) and name in found.methods else None,
            "kind": "method" if name in found.methods else "control", "network": network,
        }
        for network in found.networks
        for name in (*found.methods, *found.controls)
    ]  # fmt: skip
    rows += [
        {
            "method": "", **found.where, "metric": "kendall", **one._asdict(), "paper": None, "kind": "agreement",
            "network": first, "other": second, **({} if math.isfinite(one.value) else {"reason": "no order"}),
        }
        for (first, second), one in found.agreement.items()
    ]  # fmt: skip
    return rows


@no_mathtext
def order_figure(found: Orders) -> Any:
    """Return a figure with one row for each method and control: means with intervals, and the poster's means.

    Parameters
    ----------
    found
        From ``compare``.

    Returns
    -------
    matplotlib.figure.Figure
        Methods from the best to the worst of the first network.
    """
    from matplotlib.figure import Figure

    names = [*found.methods, *found.controls]
    heights = np.arange(len(names))[::-1]
    networks = len(found.networks)
    figure = Figure(figsize=(7.2, max(0.34, 0.13 * networks) * len(names) + 1.6 + 0.2 * networks), layout="constrained")
    axis = figure.subplots()
    for height in heights[1::2]:
        axis.axhspan(height - 0.5, height + 0.5, color="0.96", zorder=0)
    for number, network in enumerate(found.networks):
        estimates = [found.estimates[network][name] for name in names]
        means = np.array([estimate.value for estimate in estimates])
        reach = np.abs(np.array([[estimate.low, estimate.high] for estimate in estimates]).T - means)
        offset = min(0.4, _ROW / networks) * ((networks - 1) / 2 - number)
        axis.errorbar(
            means, heights + offset, xerr=reach, fmt=_MARKERS[number % len(_MARKERS)], markersize=4.5, capsize=2,
            elinewidth=1.2, color=_COLORS[number % len(_COLORS)], label=f"{number + 1}: {network}",
        )  # fmt: skip
    where = found.where
    figures = [_poster_figure(name, where) for name in names]
    published = [(one.mean, height) for one, height in zip(figures, heights, strict=True) if one is not None]
    if published:
        axis.plot(*zip(*published, strict=True), "D", color=POSTER, markersize=5, label="poster", zorder=1.5)
    axis.set_yticks(heights, [_title(name) for name in names], fontsize=9)
    axis.set_xlim(-0.02, 1.02)
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.set_xlabel(
        f"{ACCURACIES[where['metric']].title}, {TRUTH_TITLES[where['ground_truth']]}, pooling {where['pooling']}\n"
        f"{subsets.title(where['subset'], subsets.CONFIDENCE, subsets.MASK_PIXELS)}, "
        f"{len(found.images):,} that count for every network; mean and 95 %",
        fontsize=9,
    )
    axis.grid(axis="x", color="0.88")
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper left", ncols=1, fontsize=8, frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure
