"""Figures of SVEA: example maps with their regions, the ROE test, window positions."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import print_line
from attribution.plotting import no_mathtext
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.figures import OWN_METHOD, save_figure
from attribution_benchmarks.core.metric import PerSampleMetric
from svea import scoring
from svea.metrics import WINDOW
from svea.mnist1d import LENGTH, TRAIN_SIGNALS, Mnist1D
from svea.scoring import NetworkScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attribution_benchmarks.core.scores import Scores

_REGION = "#f2b134"
_TEMPLATE = "#2a7f62"
_OURS = "#3b5b92"
_PAPER = "#c8553d"
_BARS = {"method": _OURS, "your method": OWN_METHOD, "control": "#a9a9a9", "peer": "#8f6bb3"}


def _whole_map(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
    """Return maps as they are, (N, 40)."""
    return np.reshape(maps, (len(maps), LENGTH))


_WHOLE = PerSampleMetric("whole_map", _whole_map, width=LENGTH, digits=9, of_controls=False)  # digits of a float32


def write(evaluation: Any, scores: Scores, directory: str, formats: Sequence[str]) -> None:
    """Write the figures of the first network."""
    data, network = evaluation.data, evaluation.scored[0]
    maps = _maps_of(evaluation, network, _example_rows(data, network), _WHOLE)
    for path in save_figures(pathlib.Path(directory), data, network, maps, scores.rows, scores.titles, formats):
        print_line(f"figure: {path}", file=sys.stderr)


def _maps_of(
    evaluation: Any, network: NetworkScores, rows: Sequence[int], measure: PerSampleMetric
) -> dict[str, dict[int, np.ndarray]]:
    """Return method -> test signal -> (40,) map; stored maps are not computed again."""
    model = next(iter(evaluation.models.values()))
    (whole,) = scoring.batches(evaluation.data, scoring.SIGNALS)
    places = [TRAIN_SIGNALS + row for row in rows]
    names, files = ([column[place] for place in places] for column in (whole.names, whole.files))
    evaluator = scoring.evaluator(network.explainer, model, [measure], evaluation.run.store)
    found = evaluator.run([LazyBatch(names, files, lambda: whole.load().take(places))])
    return {name: dict(zip(rows, found.of(MapSource(name), measure), strict=True)) for name in network.methods}


@no_mathtext
def save_figures(
    directory: pathlib.Path,
    data: Mnist1D,
    network: NetworkScores,
    maps: Mapping[str, Mapping[int, np.ndarray]],
    rows: Sequence[Mapping],
    titles: Mapping[str, str],
    formats: Sequence[str] = ("png",),
) -> list[pathlib.Path]:
    """Write ``examples.png``, ``roe_test_scores.png`` and ``positions.png``, and return the files.

    Examples and positions are of one ``network``; ``rows`` are those of ``Scores`` of one or several. ``maps`` are
    method -> test signal -> (40,) map, for the signals of ``_example_rows``, ``formats`` of ``core.figures.FORMATS``.
    """
    paths = []
    for name, figure in (
        ("examples", examples_figure(data, network, maps, titles)),
        ("roe_test_scores", roe_figure(rows, titles)),
        ("positions", positions_figure(data, network, rows, titles)),
    ):
        paths += map(pathlib.Path, save_figure(figure, directory, name, formats, dpi=130))
    return paths


def choose_examples(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of test signals, the first of several classes, classified correctly, and incorrectly.

    ``labels`` are (N,) int, true classes; ``probabilities`` (N, 10), the network's output. There are at most three
    of either sort, and no class twice among either.
    """
    predicted = np.asarray(probabilities).argmax(axis=1)
    chosen = []
    for wanted in (predicted == labels, predicted != labels):
        rows = np.flatnonzero(wanted)
        _, first = np.unique(np.asarray(labels)[rows], return_index=True)
        chosen.append(rows[np.sort(first)][:3])
    return chosen[0], chosen[1]


def _example_rows(data: Mnist1D, network: NetworkScores) -> list[int]:
    """Return the test signals that ``examples_figure`` shows, the correctly classified ones first."""
    right, wrong = choose_examples(data.test.labels, network.probabilities)
    return [int(row) for row in (*right, *wrong)]


def examples_figure(
    data: Mnist1D,
    network: NetworkScores,
    maps: Mapping[str, Mapping[int, np.ndarray]],
    titles: Mapping[str, str],
) -> Figure:
    """Draw signal, map and region: a line per method, a column per example; arguments as of ``save_figures``.

    A column is one pair of axes, in which each method has a height of one: matplotlib is slow with many pairs.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    examples = _example_rows(data, network)
    names = list(network.methods)
    figure = Figure(figsize=(2.35 * len(examples) + 1.6, 1.12 * len(names) + 1.5))
    axes = figure.subplots(1, len(examples), squeeze=False, sharey=True)
    for axis, row in zip(axes[0], examples, strict=True):
        found = [maps[name][row] for name in names]
        starts = [int(network.methods[name].starts[TRAIN_SIGNALS + row]) for name in names]
        _draw_maps(axis, data, row, found, starts)
        predicted = network.probabilities[row].argmax()
        truth = data.test.labels[row]
        verdict = f"{predicted}, right" if predicted == truth else f"{predicted}, wrong (true: {truth})"
        axis.set_title(
            f"predicted {verdict}\nconfidence {network.probabilities[row].max():.2f}",
            fontsize=9,
            color="black" if predicted == truth else _PAPER,
        )
        axis.set_xticks([0, 10, 20, 30, 39])
        axis.tick_params(labelsize=7)
    axes[0, 0].set_yticks(
        [-0.5 - line for line in range(len(names))], [_wrapped(titles[name]) for name in names], fontsize=9
    )
    figure.legend(
        handles=[
            Line2D([], [], color="black", linewidth=1.2, label="signal"),
            Patch(facecolor="#8fa8d0", edgecolor=_OURS, label="map (zero at its grey line), dot: its peak"),
            Patch(facecolor=_REGION, alpha=0.35, label="region of explanation, 12 points"),
            Line2D([], [], color=_TEMPLATE, linewidth=3, label="true template"),
        ],
        loc="lower center",
        ncols=4,
        fontsize=9,
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0.28 / figure.get_figheight(), 1, 1), h_pad=0.25, w_pad=0.4)
    return figure


def roe_figure(rows: Sequence[Mapping], titles: Mapping[str, str]) -> Figure:
    """Draw the ROE test of every method and control; arguments as of ``save_figures``."""
    from matplotlib.figure import Figure

    scored = _by_roe(rows)
    figure = Figure(figsize=(6.4, 0.36 * len(scored) + 1.5))
    bars = figure.subplots()
    heights = np.arange(len(scored))
    values = np.array([row["value"] for row in scored])
    margins = np.array([[row["value"] - row["low"], row["high"] - row["value"]] for row in scored]).T
    kinds = list(map(_kind, scored))
    colours = list(map(_BARS.get, kinds))
    bars.barh(heights, values, xerr=margins, color=colours, height=0.66, error_kw={"linewidth": 1, "capsize": 2})
    for kind in filter(kinds.__contains__, _BARS):
        bars.barh([np.nan], [np.nan], color=_BARS[kind], label=f"{kind}, 95 % interval")
    published = {height: row["paper"] for height, row in enumerate(scored) if row["paper"]}
    if published:
        bars.plot(list(published.values()), list(published), "D", color=_PAPER, markersize=5, label="paper")
    bars.set_yticks(heights, [titles[row["method"]] for row in scored], fontsize=9)
    bars.set_xlim(0, 100)
    bars.set_xlabel("ROE test: windows classified correctly, %", fontsize=9)
    bars.legend(loc="lower right", fontsize=8, frameon=False)
    _bare(bars)
    figure.tight_layout()
    return figure


def _kind(row: Mapping[str, Any]) -> str:
    """Return the key of a row's color among ``_BARS``."""
    return "your method" if row["kind"] == "method" and ":" in row["method"] else row["kind"]


def positions_figure(
    data: Mnist1D, network: NetworkScores, rows: Sequence[Mapping], titles: Mapping[str, str]
) -> Figure:
    """Draw the distance of the windows of every method and control from the true template, in the ROE test's order.

    Arguments as of ``save_figures``.
    """
    from matplotlib.figure import Figure

    everything = {**network.methods, **network.controls}
    scored = [row for row in _by_roe(rows) if everything[row["method"]].starts is not None]
    figure = Figure(figsize=(7.2, 0.36 * len(scored) + 1.5))
    positions = figure.subplots()
    positions.set_yticks(range(len(scored)), [titles[row["method"]] for row in scored], fontsize=9)
    edges = np.arange(-32.5, 33.5)
    image = np.full((len(scored), len(edges) - 1), np.nan)
    for height, row in enumerate(scored):
        starts = everything[row["method"]].starts
        distance = starts[TRAIN_SIGNALS:] + (WINDOW - 1) / 2 - data.test.template_centre
        image[height] = 100 * np.histogram(distance, edges)[0] / len(distance)
    mesh = positions.pcolormesh(edges, np.arange(len(scored) + 1) - 0.5, np.sqrt(image), cmap="Blues", rasterized=True)
    positions.hlines(np.arange(len(scored) - 1) + 0.5, edges[0], edges[-1], color="white", linewidth=3)
    positions.axvline(0, color=_TEMPLATE, linewidth=0.8, linestyle=":")
    which = " (first network)" if "networks" in scored[0] else ""
    positions.set_xlabel(f"center of the window − center of the true template, points{which}", fontsize=9)
    ticks = np.array([0, 2, 10, 25, 50])
    bar = figure.colorbar(mesh, ax=positions, ticks=np.sqrt(ticks), pad=0.02)
    bar.ax.set_yticklabels([f"{tick} %" for tick in ticks], fontsize=8)
    bar.set_label("of the test signals, a point", fontsize=8)
    _bare(positions)
    figure.tight_layout()
    return figure


def _by_roe(rows: Sequence[Mapping]) -> list[Mapping]:
    return sorted(
        (row for row in rows if row["metric"] == "roe_test" and "of" not in row), key=lambda row: row["value"]
    )


def _bare(axis) -> None:
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _draw_maps(axis, data: Mnist1D, row: int, maps: Sequence[np.ndarray], starts: Sequence[int]) -> None:
    """Draw one example, a map below the other: the signal above each as a filled curve, the region behind both."""
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.patches import Rectangle

    points = np.arange(LENGTH)
    signals, curves, fills, zeros, templates, bases, peaks = [], [], [], [], [], [], []
    for line, (explanation, start) in enumerate(zip(maps, starts, strict=True)):
        # The signal takes the upper part of a line and the map the lower one; both are scaled to the example.
        largest = np.abs(explanation).max()
        scaled = explanation / largest if largest else explanation
        span = max(scaled.max(), 0) - min(scaled.min(), 0) or 1.0
        zero = 0.02 - 0.4 * min(scaled.min(), 0) / span
        signal, curve, zero, template = (
            -line - 0.9 + 0.78 * height
            for height in (0.5 + 0.5 * _unit(data.test.signals[row]), zero + 0.4 * scaled / span, zero, -0.07)
        )
        signals.append(np.column_stack([points, signal]))
        curves.append(np.column_stack([points, curve]))
        fills.append(np.concatenate([curves[-1], [(LENGTH - 1, zero), (0, zero)]]))
        zeros.append([(-0.5, zero), (LENGTH - 0.5, zero)])
        bases.append([(-0.5, -line - 1), (LENGTH - 0.5, -line - 1)])
        templates.append([(data.test.template_first[row], template), (data.test.template_last[row], template)])
        peaks.append(curves[-1][int(explanation.argmax())])
        axis.add_patch(Rectangle((start - 0.5, -line - 1), WINDOW, 0.94, facecolor=_REGION, alpha=0.35, linewidth=0))
    axis.add_collection(LineCollection(signals, colors="black", linewidths=1.1), autolim=False)
    axis.add_collection(LineCollection(zeros, colors="0.7", linewidths=0.5), autolim=False)
    axis.add_collection(PolyCollection(fills, facecolors="#8fa8d0", linewidths=0), autolim=False)
    axis.add_collection(LineCollection(curves, colors=_OURS, linewidths=0.9), autolim=False)
    axis.add_collection(LineCollection(templates, colors=_TEMPLATE, linewidths=3), autolim=False)
    axis.add_collection(LineCollection(bases, colors="black", linewidths=0.8), autolim=False)
    axis.plot(*np.transpose(peaks), "o", color=_OURS, markersize=3)
    axis.set(xlim=(-0.5, LENGTH - 0.5), ylim=(-len(maps), 0))
    _bare(axis)


def _unit(values):
    """Scale values to [0, 1]."""
    return (values - values.min()) / (np.ptp(values) or 1.0)


def _wrapped(title: str) -> str:
    """Break a title of two words or more into two lines."""
    return title.replace(" ", "\n", 1).replace(":", ":\n", 1)
