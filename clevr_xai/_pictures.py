"""Figures of a run: questions with masks and maps, and distributions of accuracies; and examples for a report."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attribution.plotting import no_mathtext
from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.batch import Batch, MapSource
from attribution_benchmarks.core.figures import PictureGrid, method_color, save_figure
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import methods, table
from clevr_xai.answering import Measured, Questions
from clevr_xai.data import Dataset
from clevr_xai.metrics import ACCURACIES, HEADING, PLACES, pool
from clevr_xai.table import TRUTH_TITLES, titled

SHOWN = "max-norm"  # pooling of the pictures; squares would show the peaks alone
_EXAMPLES = 5
_TOP_QUANTILE = 0.998  # white; a handful of pixels would otherwise leave all others dark
_OURS, _CONTROL, _POSTER = "#3b5b92", "#a9a9a9", "#c8553d"


@no_mathtext
def write_pictures(
    directory: str,
    measured: Measured,
    dataset: Dataset,
    maps: Callable,
    ground_truths: Sequence[str],
    metrics: Sequence[str],
    count: int = 4,
    formats: Sequence[str] = ("png",),
    rows: Sequence[int] | None = None,
) -> list[str]:
    """Write figures and return the files: ``question_17.png`` and so on, then ``mass_single_object.png`` and so on.

    ``maps`` is a function from places in the data set to method -> (n, H, W, C) or (n, H, W). The first ground truth is
    outlined on the maps; a box plot is drawn of each. ``count`` questions are drawn, spread evenly over those that
    count, or the first of ``rows``, places in the data set. ``formats`` are of ``core.figures.FORMATS``.
    """
    counted = np.flatnonzero(measured.right & (measured.pixels[ground_truths[0]] > 0))
    chosen = counted[np.unique(np.linspace(0, len(counted) - 1, count).astype(int))] if len(counted) else []
    if rows is not None:
        chosen = [int(np.flatnonzero(measured.rows == row)[0]) for row in rows[:count]]
    written = []
    for place in chosen:
        row = int(measured.rows[place])
        found = {name: one[0] for name, one in maps([row]).items()}
        scores = {label.method: measured.scores(label)[place] for label in measured.sources if not label.control}
        figure = question_figure(dataset, row, found, scores, ground_truths[0])
        written += save_figure(figure, directory, f"question_{measured.indices[place]}", formats, trim=False)
    for truth in ground_truths:
        for metric in metrics:
            written += save_figure(
                _box_plot(measured, truth, metric), directory, f"{metric}_{truth}", formats, trim=False
            )
    return written


def question_figure(dataset: Dataset, row: int, maps, scores, ground_truth: str):
    """Return a figure of one question: image, ground truths, and every method's map with its accuracies.

    Parameters
    ----------
    dataset, row
        The question.
    maps
        Method -> (H, W, C) or (H, W).
    scores
        Method -> (ground truths, metrics, poolings).
    ground_truth
        Outlined on the maps, and what the accuracies below them are of.
    """
    (batch,) = dataset.batches(1, [row])
    truths = {name: mask[0] for name, mask in batch.masks.items() if batch.available[name][0]}
    cells = 1 + len(truths) + len(maps)
    columns = 5 if cells <= 15 else 6
    heading = textwrap.wrap(f"{batch.questions[0]}  –  {batch.answers[0]}", 19 * columns)
    top = 0.2 + 0.19 * len(heading)
    grid = PictureGrid(-(-cells // columns), columns, 1.5, 0.1, 0.42, top=top, right=0.8, bottom=0.36, font=8)
    height = grid.figure.get_figheight()
    grid.figure.suptitle("\n".join(heading), fontsize=11, y=1 - 0.1 / height)
    below = f"outlined and scored: {TRUTH_TITLES[ground_truth]}; maps pooled by {SHOWN}"
    grid.figure.supxlabel(below, fontsize=8, y=0.1 / height)
    places = (divmod(place, columns) for place in range(cells))
    grid.draw(*next(places), batch.images[0], "image")
    for (name, mask), place in zip(truths.items(), places, strict=False):
        grid.draw(*place, mask, TRUTH_TITLES[name], cmap="gray")
    truth = dataset.ground_truths.index(ground_truth)
    for (name, one), place in zip(maps.items(), places, strict=True):
        pooled = pool(one[np.newaxis], [SHOWN])[SHOWN][0]
        top = np.quantile(pooled, _TOP_QUANTILE) or pooled.max() or 1.0
        below = _accuracies(pooled, scores[name][truth])
        drawn = grid.draw(*place, pooled / top, f"{methods.title(name)}\n{below}")
        grid.outline(*place, truths[ground_truth], "white", 0.6)
    if maps:
        grid.scale(drawn, "share of the map's own 99.8th percentile")
    return grid.figure


def _accuracies(pooled: np.ndarray, scores: np.ndarray) -> str:
    """Return both accuracies of a map in words, from (metrics, poolings)."""
    if not pooled.any():
        return "zero everywhere"
    return ", ".join(f"{metric} {scores[place]:.2f}" for metric, place in PLACES.items())


def _by_mean(scores: Mapping[MapSource, np.ndarray]) -> list[MapSource]:
    """Return sources of maps by falling mean accuracy, those without one last."""
    return sorted(scores, key=lambda label: -scores[label].mean() if len(scores[label]) else 1.0)


def _box_plot(measured: Measured, ground_truth: str, metric: str):
    """Return a figure of one box a method: quartiles, median, 5th and 95th percentile, mean, the poster's mean.

    The highest mean is on top, and the user's methods have their color.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [label for label in measured.sources if not (label.method and label.control)]
    counted = measured.right & (measured.pixels[ground_truth] > 0)
    scores = dict(zip(shown, _defined_scores(measured, shown, counted, ground_truth, metric), strict=True))
    shown = _by_mean(scores)
    names = [titled({"method": label.name}) for label in shown]
    figure = Figure(figsize=(7.2, 0.36 * len(shown) + 1.5), layout="constrained")
    axis = figure.subplots()
    heights = np.arange(len(shown))[::-1]
    boxes = axis.boxplot(
        [scores[label] for label in shown], positions=heights, orientation="horizontal",
        widths=0.62, whis=(5, 95), showfliers=False, showmeans=True, patch_artist=True, medianprops={"color": "black"},
        meanprops={"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4.5},
    )  # fmt: skip
    for box, label in zip(boxes["boxes"], shown, strict=True):
        box.set(facecolor=_CONTROL if label.control else method_color(label.method, _OURS), alpha=0.75)
    legend = [Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="", label="mean")]
    figures = [table.poster_figure(label.method, metric, measured.kind, ground_truth, "all") for label in shown]
    if any(figures):
        published = [getattr(found, "mean", np.nan) for found in figures]
        legend += axis.plot(published, heights, "D", color=_POSTER, markersize=5, zorder=5, label="poster's mean")
    axis.set_yticks(heights, names, fontsize=9)
    axis.set_xlim(-0.02, 1.02)
    axis.set_xlabel(
        f"{ACCURACIES[metric].title}, {TRUTH_TITLES[ground_truth]}, pooling {HEADING[metric]}; "
        f"{counted.sum():,} questions\n"
        "box: quartiles, line: median, whiskers: 5th and 95th percentile",
        fontsize=9,
    )
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    figure.legend(handles=legend, loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _defined_scores(measured: Measured, labels, counted: np.ndarray, ground_truth: str, metric: str) -> list:
    """Return the accuracies of some sources, (n,) each, without NaN."""
    place = counted, measured.ground_truths.index(ground_truth), *PLACES[metric]
    columns = (measured.counted(label)[place] for label in labels)
    return [column[~np.isnan(column)] for column in columns]


def _map_bytes(maps: np.ndarray, block: Batch, scores: Callable) -> np.ndarray:
    """Return pooled maps as bytes, the brightest pixels cut off, (N, H * W)."""
    pooled = pool(maps, [SHOWN])[SHOWN].reshape(len(maps), -1)
    top = np.quantile(pooled, _TOP_QUANTILE, axis=1)[:, None]
    top = np.where(top > 0, top, pooled.max(axis=1)[:, None])
    return report_examples.unsigned(np.divide(pooled, top, out=np.zeros(pooled.shape), where=top > 0))


def example_rows(groups: Sequence[InputScores], measured: Measured, ground_truth: str) -> list[int]:
    """Return the places in the data set of the questions that ``save_examples`` writes."""
    groups = _of_truth(groups, ground_truth)
    if not groups:
        return []
    names = _picked(groups, measured)
    return [int(measured.rows[np.flatnonzero(measured.indices == int(name))[0]]) for name in names]


def _of_truth(groups: Sequence[InputScores], ground_truth: str) -> list[InputScores]:
    return [group for group in groups if group.where.get("ground_truth") == ground_truth and len(group.inputs)]


def maps_of(
    questions: Questions, rows: Sequence[int], explainer, store: ScoreStore | None = None
) -> dict[str, np.ndarray]:
    """Return the maps of some questions as pictures, from the store where they are there; method -> (n, H, W) uint8."""
    taken, network = questions.take(rows), questions.network
    side = questions.dataset.images(rows[:1]).shape[1]
    key = {"benchmark": "clevr_xai", "model": network.model.fingerprint if network else ""}
    measure = report_examples.MapPicture("picture", _map_bytes, width=side * side)
    return report_examples.maps_of(explainer, measure, taken.batches(len(rows)), key, [Questions], store, (side, side))


def _picked(groups: Sequence[InputScores], measured: Measured) -> list[str]:
    methods = list(dict.fromkeys(label.method for label in measured.sources if label.method))
    same = [group for group in groups if list(group.inputs) == list(groups[0].inputs)]
    own = [group for group in same if "pooling" in group.where] or same
    return [groups[0].inputs[place] for place in report_examples.choose(own, [], methods, _EXAMPLES)]


def save_examples(
    directory: str,
    questions: Questions,
    measured: Measured,
    explainer,
    groups: Sequence[InputScores],
    ground_truth: str,
    store: ScoreStore | None = None,
) -> str:
    """Write the questions that distinguish the methods best, and return the file.

    ``groups`` are the run's input scores; those of other ground truths than the one to outline are skipped.
    """
    groups = _of_truth(groups, ground_truth)
    if not groups:
        return report_examples.save(directory, [], [])
    names = tuple(group.where["metric"] for group in groups)
    names_shown = _picked(groups, measured)
    row_of = {str(index): int(row) for index, row in zip(measured.indices, measured.rows, strict=True)}
    rows = [row_of[name] for name in groups[0].inputs]
    taken = [row_of[name] for name in names_shown]
    maps = maps_of(questions, taken, explainer, store)
    examples = []
    (batch,) = questions.dataset.batches(len(taken), np.array(taken))
    for place, name in enumerate(names_shown):
        view = report_examples.ExampleView(
            "", batch.images[place], batch.masks[ground_truth][place],
            {method: found[place] for method, found in maps.items()}, f"answered correctly: {batch.answers[place]}",
        )  # fmt: skip
        examples.append(report_examples.Example(name, names, batch.questions[place], (view,)))
    pictures = report_examples.InputPictures(names, tuple(groups[0].inputs), questions.dataset.images(rows))
    return report_examples.save(directory, examples, [pictures])
