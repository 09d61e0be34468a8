"""Figures of a run: questions with masks and maps, and distributions of accuracies."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import print_line
from attribution.plotting import no_mathtext
from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.figures import PictureGrid, method_color, save_figure
from attribution_benchmarks.core.scores import InputScores, Scores
from clevr_xai.data import QuestionBatch
from clevr_xai.metrics import ACCURACIES, TRUTH_TITLES, pool
from clevr_xai.questions import Questions

SHOWN = "max-norm"  # pooling of the pictures; squares would show the peaks alone
_TOP_QUANTILE = 0.998  # white; a handful of pixels would otherwise leave all others dark
_OURS, _CONTROL, _POSTER = "#3b5b92", "#a9a9a9", "#c8553d"


@no_mathtext
def write(evaluation: Any, scores: Scores, directory: str, formats: Sequence[str]) -> None:
    """Write ``question_17.png`` and so on, and ``mass_single_object.png`` and so on.

    ``evaluation`` is a ``ClevrXaiEvaluation``, ``scores`` its scores. The first ground truth is outlined on the maps.
    """
    settings = evaluation.settings
    own = [group for group in scores.groups if group.where["metric"] in ACCURACIES]
    groups = [group for group in scores.groups if group.where["ground_truth"] == settings.truths[0] and group.inputs]
    written = []
    if groups:
        chosen = _chosen(groups, settings.num_pictures)
        batch, maps = _asked(evaluation, chosen)
        accuracies = [group for group in groups if group in own]
        for place, name in enumerate(chosen):
            shown = {method: found[place] for method, found in maps.items()}
            below = {method: _figures(accuracies, method, name) for method in maps}
            figure = question_figure(batch, place, shown, below, settings.truths[0], scores.titles)
            written += save_figure(figure, directory, f"question_{name}", formats, trim=False)
    for group in own:
        stem = f"{group.where['metric']}_{group.where['ground_truth']}"
        written += save_figure(_box_plot(group, scores), directory, stem, formats, trim=False)
    for path in written:
        print_line(f"picture: {path}", file=sys.stderr)


def _chosen(groups: Sequence[InputScores], count: int) -> list[str]:
    """Return the questions that distinguish the methods best."""
    methods = dict.fromkeys(source.method for group in groups for source in group.sources if source.method)
    own = [group for group in groups if group.where["pooling"]] or groups
    return [groups[0].inputs[place] for place in report_examples.choose(own, [], list(methods), count)]


def _rows(questions: Questions, names: Sequence[str]) -> list[int]:
    row_of = {str(index): int(row) for index, row in zip(questions.indices, questions.rows, strict=True)}
    return [row_of[name] for name in names]


def _asked(evaluation: Any, names: Sequence[str]) -> tuple[QuestionBatch, dict[str, np.ndarray]]:
    """Return some questions, and their maps as pictures, method -> (n, H, W) uint8, stored ones from the store."""
    questions, network = evaluation.questions, evaluation.questions.network
    rows = _rows(questions, names)
    (batch,) = questions.dataset.batches(len(rows), np.array(rows))
    side = batch.images.shape[1]
    key = {"benchmark": "clevr_xai", "model": network.model.fingerprint if network else ""}
    measure = report_examples.MapPicture("picture", map_bytes, width=side * side)
    taken, store = questions.take(rows).batches(len(rows)), evaluation.run.store
    explainer = evaluation.explainer_of_questions()
    maps = report_examples.maps_of(explainer, measure, taken, key, [Questions], store, (side, side))
    return batch, maps


def map_bytes(maps: np.ndarray, block: Batch, scores: Callable) -> np.ndarray:
    """Return pooled maps as bytes, the brightest pixels cut off, (N, H * W)."""
    pooled = pool(maps, [SHOWN])[SHOWN].reshape(len(maps), -1)
    top = np.quantile(pooled, _TOP_QUANTILE, axis=1)[:, None]
    top = np.where(top > 0, top, pooled.max(axis=1)[:, None])
    return report_examples.unsigned(np.divide(pooled, top, out=np.zeros(pooled.shape), where=top > 0))


def _figures(groups: Sequence[InputScores], method: str, name: str) -> str:
    """Return the accuracies of a method's map for one question in words."""
    return ", ".join(
        f"{group.where['metric']} {group.by_network(method)[list(group.inputs).index(name), 0]:.2f}" for group in groups
    )


def question_figure(
    batch: QuestionBatch,
    place: int,
    maps: Mapping[str, np.ndarray],
    below: Mapping[str, str],
    ground_truth: str,
    titles: Mapping[str, str],
) -> Any:
    """Return a figure of one question: image, ground truths, and every method's map with its accuracies.

    Parameters
    ----------
    batch, place
        The question, and its place among others.
    maps
        Method -> (H, W) uint8.
    below
        Method -> its accuracies in words.
    ground_truth
        Outlined on the maps, and what the accuracies are of.
    titles
        Printed names of the methods.
    """
    truths = {name: mask[place] for name, mask in batch.masks.items() if batch.available[name][place]}
    cells = 1 + len(truths) + len(maps)
    columns = 5 if cells <= 15 else 6
    heading = textwrap.wrap(f"{batch.questions[place]}  –  {batch.answers[place]}", 19 * columns)
    top = 0.2 + 0.19 * len(heading)
    grid = PictureGrid(-(-cells // columns), columns, 1.5, 0.1, 0.42, top=top, right=0.8, bottom=0.36, font=8)
    height = grid.figure.get_figheight()
    grid.figure.suptitle("\n".join(heading), fontsize=11, y=1 - 0.1 / height)
    explained = f"outlined and scored: {TRUTH_TITLES[ground_truth]}; maps pooled by {SHOWN}"
    grid.figure.supxlabel(explained, fontsize=8, y=0.1 / height)
    places = (divmod(cell, columns) for cell in range(cells))
    grid.draw(*next(places), batch.images[place], "image")
    for (name, mask), cell in zip(truths.items(), places, strict=False):
        grid.draw(*cell, mask, TRUTH_TITLES[name], cmap="gray")
    for (name, one), cell in zip(maps.items(), places, strict=True):
        said = below[name] if one.any() else "zero everywhere"
        drawn = grid.draw(*cell, one / 255, f"{titles[name]}\n{said}")
        grid.outline(*cell, truths[ground_truth], "white", 0.6)
    if maps:
        grid.scale(drawn, "share of the map's own 99.8th percentile")
    return grid.figure


def _box_plot(group: InputScores, scores: Scores) -> Any:
    """Return a figure of one box a method: quartiles, median, 5th and 95th percentile, mean, the poster's mean.

    The highest mean is on top, and the user's methods have their color.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = {
        source: group.by_network(source.name)[:, 0]
        for source in group.sources
        if not (source.method and source.control)
    }
    columns = {source: column[np.isfinite(column)] for source, column in columns.items()}
    shown = sorted(columns, key=lambda source: -columns[source].mean() if len(columns[source]) else 1.0)
    rows = {row["method"]: row for row in scores.rows if group.where.items() <= row.items()}
    figure = Figure(figsize=(7.2, 0.36 * len(shown) + 1.5), layout="constrained")
    axis = figure.subplots()
    heights = np.arange(len(shown))[::-1]
    boxes = axis.boxplot(
        [columns[source] for source in shown], positions=heights, orientation="horizontal",
        widths=0.62, whis=(5, 95), showfliers=False, showmeans=True, patch_artist=True, medianprops={"color": "black"},
        meanprops={"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4.5},
    )  # fmt: skip
    for box, source in zip(boxes["boxes"], shown, strict=True):
        box.set(facecolor=_CONTROL if source.control else method_color(source.method, _OURS), alpha=0.75)
    legend = [Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="", label="mean")]
    published = np.array([rows[source.name]["paper"] for source in shown], float)
    if np.isfinite(published).any():
        legend += axis.plot(published, heights, "D", color=_POSTER, markersize=5, zorder=5, label="poster's mean")
    axis.set_yticks(heights, [scores.titles[source.name] for source in shown], fontsize=9)
    axis.set_xlim(-0.02, 1.02)
    where = group.where
    axis.set_xlabel(
        f"{ACCURACIES[where['metric']].title}, {TRUTH_TITLES[where['ground_truth']]}, pooling {where['pooling']}; "
        f"{len(group.inputs):,} questions\nbox: quartiles, line: median, whiskers: 5th and 95th percentile",
        fontsize=9,
    )
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    figure.legend(handles=legend, loc="outside upper right", ncols=2, fontsize=8, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
