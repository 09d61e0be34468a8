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
from attribution_benchmarks.stats import correlation, statistics
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
    images
        (n,) what the questions that count for all networks belong to.
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
    images: np.ndarray
    estimates: Mapping[str, Mapping[str, Estimate]]
    agreement: Mapping[tuple[str, str], Estimate]
    fingerprint: str

    @property
    def poster(self) -> dict[str, float]:
        """Return the poster's means of the methods and controls that it has."""
        return _poster_means((*self.methods, *self.controls), self.where)

    @property
    def subset_title(self) -> str:
        """Return what the subset is called."""
        return subsets.title(self.where["subset"], subsets.CONFIDENCE, subsets.MASK_PIXELS)


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
    bounds = subsets.CONFIDENCE, subsets.MASK_PIXELS
    counted = np.all([subsets.members(one, subset, ground_truth, *bounds) for one in measured.values()], axis=0)
    if not counted.any():
        raise BadInput(
            f"none of the {len(counted)} questions counts for every network; ask more of them with --num_questions, or "
            "omit --subset"
        )
    place = first.ground_truths.index(ground_truth), list(METRICS).index(metric), list(POOLINGS).index(HEADING[metric])
    labels = [label for label in first.sources if label.name in controls or (label.method and not label.control)]
    values = {
        name: {label.name: one.counted(label)[(counted, *place)] for label in labels} for name, one in measured.items()
    }
    images = np.array(first.images)[counted]
    of_first = next(iter(values.values()))
    ordered = sorted([label.name for label in labels if label.method], key=lambda name: -of_first[name].mean())
    estimates = {
        network: {
            name: statistics.mean_interval(column, clusters=images, bounds=(0.0, 1.0))
            for name, column in columns.items()
        }
        for network, columns in values.items()
    }
    where = {
        "questions": first.kind, "ground_truth": ground_truth, "metric": metric, "pooling": HEADING[metric],
        "subset": subset,
    }  # fmt: skip
    return Orders(
        where, list(measured), ordered, [label.name for label in labels if not label.method], len(counted),
        {name: int(one.right.sum()) for name, one in measured.items()}, images, estimates,
        _agreement(values, ordered, images, where, seed), first.fingerprint,
    )  # fmt: skip


def _agreement(values, ordered, images, where, seed) -> dict[tuple[str, str], Estimate]:
    """Return Kendall's tau of every two networks' orders, and of each with the poster's."""
    means, draws = {}, {}
    for network, columns in values.items():
        table = np.stack([columns[name] for name in ordered], axis=1)
        means[network] = table.mean(axis=0)
        draws[network] = statistics.bootstrap_means(table, images, DRAWS, seed)

    def tau(network, other_means, other_draws, chosen=slice(None)):
        taus = [
            correlation.kendall_tau(drawn[chosen], other)
            for drawn, other in zip(draws[network], other_draws, strict=False)
        ]
        return _estimate(correlation.kendall_tau(means[network][chosen], other_means), taus, len(images))

    found = {(one, other): tau(one, means[other], draws[other]) for one, other in itertools.combinations(values, 2)}
    for path in [name for name in ordered if name in BASELINES] or [""]:  # the poster has one path
        poster = _poster_means([name for name in ordered if name not in BASELINES or name == path], where)
        chosen = [ordered.index(name) for name in poster]
        if len(chosen) < 3:
            continue
        for network in values:
            published = list(poster.values())
            found[network, f"poster {path}".rstrip()] = tau(network, published, itertools.repeat(published), chosen)
    return found


def _poster_means(names: Sequence[str], where: Mapping[str, str]) -> dict[str, float]:
    """Return the poster's numbers of the methods that it has."""
    place = [where[key] for key in ("metric", "questions", "ground_truth", "subset")]
    figures = {name: paper_table.figure(name, *place) for name in names}
    return {name: figure.mean for name, figure in figures.items() if figure is not None}


def _estimate(value: float, draws: Sequence[float], n: int) -> Estimate:
    """Return a tau with the percentile interval of its draws; a draw without an order counts on both sides."""
    low, high = (np.percentile(np.nan_to_num(draws, nan=end), share) for end, share in ((-1.0, 2.5), (1.0, 97.5)))
    return Estimate(value, min(float(low), value), max(float(high), value), n)


def text(found: Orders, markdown: bool = False, command: str = "") -> str:
    """Return the comparison for reading, as Markdown or aligned text; ``command`` made it and is printed."""
    table = tables.markdown_table if markdown else tables.text_table
    short = {name: f"network {number}" for number, name in enumerate(found.networks, start=1)}
    n = len(found.images)
    title = (
        f"{ACCURACIES[found.where['metric']].title} under {len(short)} networks, {found.where['questions']} questions, "
        f"ground truth {TRUTH_TITLES[found.where['ground_truth']]}, pooling {found.where['pooling']}, "
        f"{found.subset_title}"
    )
    right = [
        f"{short[name]}: {name}, {found.right[name]:,} of {found.drawn:,} answered correctly" for name in found.networks
    ]
    parts = [f"# {title}" if markdown else title, ""]
    if command:
        parts += [f"Made by `{command}`." if markdown else command, ""]
    parts += [
        *(f"- {line}" if markdown else line for line in right), "",
        f"{n:,} question{'s' if n != 1 else ''} about {len(set(found.images)):,} images count for all of them, and "
        "all figures are of these. In brackets the rank.", "",
        table(*_table(found, short)), "",
        "Kendall's tau between the orders of the methods, with its 95 % interval over draws of images; 1 is the same "
        "order, 0 none in common. A draw scatters near means once more, so that intervals reach further down than up.",
        "", table(*_taus(found, short)), "", _alike(found),
    ]  # fmt: skip
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _means(found: Orders, network: str) -> dict[str, float]:
    return {name: found.estimates[network][name].value for name in found.methods}


def _table(found: Orders, short) -> tuple[list[str], list[list[str]]]:
    poster = {name: mean for name, mean in found.poster.items() if name in found.methods}
    header = ["method", *(cell for name in found.networks for cell in (short[name], "95 %"))]
    ranks = {
        network: dict(zip(found.methods, rankdata([-mean for mean in _means(found, network).values()]), strict=True))
        for network in found.networks
    }
    body = []
    for name in (*found.methods, *found.controls):
        line = [_title(name)]
        for network in found.networks:
            one = found.estimates[network][name]
            rank = f" ({ranks[network][name]:g})" if name in ranks[network] else ""
            line += [f"{one.value:.2f}{rank}", f"{one.low:.2f}–{one.high:.2f}"]
        if poster:
            line.append(f"{poster[name]:.2f}" if name in poster else "–")
        body.append(line)
    return [*header, "poster"] if poster else header, body


def _title(name: str) -> str:
    return known_controls.TITLES.get(name) or methods.title(name)


def _taus(found: Orders, short) -> tuple[list[str], list[list[str]]]:
    posters = {
        second: ", ".join(["poster", *map(methods.title, second.split()[1:])])
        for _, second in found.agreement
        if second not in short
    }
    columns = {name: short[name] for name in found.networks[1:]} | posters
    body = []
    for network in found.networks:
        cells = [found.agreement.get((network, column)) for column in columns]
        if any(cells):
            body.append([short[network], *(_shown(cell) if cell else "" for cell in cells)])
    return ["", *columns.values()], body


def _shown(one: Estimate) -> str:
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})" if math.isfinite(one.value) else "–"


def _alike(found: Orders) -> str:
    """Return how many pairs of methods all networks put in the same order."""
    pairs = list(itertools.combinations(found.methods, 2))
    means = [_means(found, network) for network in found.networks]
    turned = [
        f"{methods.title(one)} and {methods.title(other)}"
        for one, other in pairs
        if len({bool(of_network[one] > of_network[other]) for of_network in means}) > 1
    ]
    return (
        f"All networks put {len(pairs) - len(turned)} of {len(pairs)} pairs of methods in the same order"
        + (f"; not {', '.join(turned)}." if turned else ".")
    )  # fmt: skip


def long_rows(found: Orders) -> list[dict]:
    """Return the numbers in long form: means by network, and taus as rows of the metric ``kendall``."""
    rows = [
        {
            "method": name, **found.where, **found.estimates[network][name]._asdict(),
            "paper": found.poster.get(name) if name in found.methods else None,
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

    The methods are ordered from the best to the worst of the first network.
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
        means, low, high = np.array([found.estimates[network][name][:3] for name in names]).T
        offset = min(0.4, _ROW / networks) * ((networks - 1) / 2 - number)
        axis.errorbar(
            means, heights + offset, xerr=np.abs([low - means, high - means]), fmt=_MARKERS[number % len(_MARKERS)],
            markersize=4.5, capsize=2, elinewidth=1.2, color=_COLORS[number % len(_COLORS)],
            label=f"{number + 1}: {network}",
        )  # fmt: skip
    if poster := found.poster:
        published = [heights[names.index(name)] for name in poster]
        axis.plot(list(poster.values()), published, "D", color=POSTER, markersize=5, label="poster", zorder=1.5)
    axis.set_yticks(heights, [_title(name) for name in names], fontsize=9)
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.6, len(names) - 0.4))
    axis.set_xlabel(
        f"{ACCURACIES[found.where['metric']].title}, {TRUTH_TITLES[found.where['ground_truth']]}, "
        f"pooling {found.where['pooling']}\n"
        f"{found.subset_title}, {len(found.images):,} that count for every network; mean and 95 %",
        fontsize=9,
    )
    axis.grid(axis="x", color="0.88")
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper left", ncols=1, fontsize=8, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
