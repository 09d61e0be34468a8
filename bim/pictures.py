"""Pictures of a run: the maps that each metric compares, and a bar chart per metric.

The example figures follow the paper's: model contrast (one image, two models), input dependence (one model,
the scene with and without the object) and input independence (one model, with and without the patch).
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attribution.plotting import no_mathtext
from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.figures import PictureGrid, method_color, save_figure
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.scores import InputScores
from bim.classifiers import input_side
from bim.layout import OBJECTS, SCENES
from bim.members import PAIRS, Member, member_key
from bim.scores import METRICS, two_dimensional

NUM_EXAMPLES = 3
_ACROSS = 9  # maps in a line; more would be too small to read on a page
MEMBER_TITLES = {
    "mcs": ("object model", "scene model"),
    "idr": ("object on scene", "scene alone"),
    "iir": ("scene alone", "patch on scene"),
}


@no_mathtext
def write_pictures(
    directory: str, evaluation: Any, metrics, rows, titles: dict[str, str], places=None, formats=("png",)
) -> list[str]:
    """Write figures for the metrics of a run and return the files, as ``mcs_scores.png`` and ``mcs_examples.png``.

    The methods of the run are explained once more on a few of its images. RMCS has no examples.
    ``rows`` are those of ``Scores``, ``titles`` the methods' by name, ``places`` from ``example_places``: the
    images to show by metric, evenly spread where None. ``formats`` are of ``core.figures.FORMATS``.
    """
    written = []
    known = {**METRICS, **evaluation.run.metrics}
    for metric in metrics:
        chosen = [row for row in rows if row["metric"] == metric and "of" not in row]
        figure = _curves(chosen, titles) if metric == "rmcs" else _bars(known[metric], chosen, titles)
        written += save_figure(figure, directory, f"{metric}_scores", formats, trim=False)
        if metric in PAIRS and evaluation.method_names:
            figure = _examples(metric, evaluation, titles, (places or {}).get(metric))
            written += save_figure(figure, directory, f"{metric}_examples", formats, trim=False)
    return written


def example_maps(metric: str, evaluation: Any, places=None):
    """Explain a few images of a metric's two members.

    ``places`` are among the images that both sets have; evenly spread when None. Returns the images, (2, n, H, W, 3)
    uint8, method name -> maps, (2, n, side, side) in [0, 1], the masks, (n, side, side) bool, and the names of the
    classes that both members predict, (2, n).
    """
    if places is None:
        common = len(evaluation.matched(*(set_name for _, set_name in PAIRS[metric]))[0])
        places = np.unique(np.linspace(0, common - 1, NUM_EXAMPLES).astype(int))
    images, maps, predicted = [], {}, []
    for member, chosen, found in _example_members(metric, evaluation, places):
        images.append(member.images.images(chosen))
        for name, one in found.items():
            maps.setdefault(name, []).append(one / 255)
        batch = member.batch(chosen)
        classes = member.model.predict(batch.inputs, evaluation.settings.batch_size)
        predicted.append([_class_name(member, int(number)) for number in classes])
        masks = batch.masks["object"]  # the same for both members
    return np.stack(images), {name: np.stack(members) for name, members in maps.items()}, masks, predicted


def _examples(metric: str, evaluation: Any, titles, places=None):
    """Return a figure: two lines an image, one a member, and as many such pairs as its methods need."""
    images, maps, masks, predicted = example_maps(metric, evaluation, places)
    names, count = list(maps), images.shape[1]
    parts = [names[start : start + _ACROSS] for start in range(0, len(names), _ACROSS)]
    grid = PictureGrid(2 * len(parts) * count, 1 + min(_ACROSS, len(names)), 1.13, 0.07, 0.32, left=0.3, right=0.8)
    drawn = None
    for example in range(count):
        for number, part in enumerate(parts):
            for member in range(2):
                line = 2 * len(parts) * example + 2 * number + member
                grid.draw(line, 0, images[member, example], f"predicted:\n{predicted[member][example]}")
                grid.name(line, MEMBER_TITLES[metric][member])
                for column, name in enumerate(part, start=1):
                    title = titles[name].replace(" ", "\n", 1) if member == 0 else ""
                    drawn = grid.draw(line, column, maps[name][member, example], title)
                    grid.outline(line, column, masks[example], "cyan")
    if drawn is not None:
        grid.scale(drawn, "of the map's own 99th percentile")
    return grid.figure


def _bars(metric: Metric, rows, titles):
    """Return a figure of bars with intervals, the best on top, controls in gray, the user's methods in their color."""
    from matplotlib.figure import Figure

    rows = _best_last(metric, rows)
    figure = Figure(figsize=(6.4, 0.34 * len(rows) + 1.1), layout="constrained")
    axis = figure.subplots()
    values = np.array([row["value"] for row in rows])
    spread = np.array([[row["value"] - row["low"], row["high"] - row["value"]] for row in rows]).reshape(-1, 2).T
    colours = ["0.7" if row["kind"] == "control" else method_color(row["method"], "tab:blue") for row in rows]
    axis.barh(range(len(rows)), values, xerr=np.maximum(spread, 0), color=colours, ecolor="0.2", capsize=2)
    axis.set_yticks(range(len(rows)), [titles[row["method"]] for row in rows], fontsize=9)
    axis.axvline(0, color="0.2", linewidth=0.8)
    counts = sorted({row["n"] for row in rows})
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.set_xlabel(f"{metric.title}, mean of {'–'.join(map(str, counts))} images and its 95 % interval", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _best_last(metric: Metric, rows: Any) -> list[Any]:
    """Return the rows with a score, the best one last, which is drawn on top."""
    scored = (row for row in rows if row["value"] is not None)
    return sorted(scored, key=lambda row: row["value"], reverse=metric.better == "less")


def _curves(rows, titles):
    """Return a figure of relative MCS against the number of scenes with dogs, a method in each panel."""
    from matplotlib.figure import Figure

    points: dict[str, list] = {}
    for row in rows:
        points.setdefault(row["method"], []).append(row)
    controls = {name: found for name, found in points.items() if found[0]["kind"] == "control"}
    methods = {name: found for name, found in points.items() if name not in controls} or controls
    columns = min(4, len(methods))
    lines = -(-len(methods) // columns)
    figure = Figure(figsize=(2.2 * columns + 0.6, 2.0 * lines + 0.9), layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axis in panels.flat[len(methods) :]:
        axis.set_visible(False)
    for axis, (name, found) in zip(panels.flat, methods.items(), strict=False):
        _draw_curve(axis, found, method_color(name, "tab:blue"), controls, titles)
    panels[0, 0].set_xticks(range(1, 10, 2))
    panels[0, 0].set_ylim(_limits(rows))
    figure.supxlabel("scene classes with a dog in the model's training, of ten; bands: 95 % intervals", fontsize=9)
    figure.supylabel("MCS relative to a dog in all ten", fontsize=9)
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _draw_curve(axis: Any, rows: Any, color: str, controls: Any, titles: Any) -> None:
    """Draw a method's curve and its intervals over the curves of all controls, which are gray."""
    for (control, others), dashes in zip(controls.items(), itertools.cycle(["--", ":", "-."])):
        axis.plot(*_along(others, "value"), color="0.5", linestyle=dashes, linewidth=1, label=titles[control])
    axis.plot(*_along(rows, "value"), color=color, marker="o", markersize=3.5)
    (numbers, low), (_, high) = _along(rows, "low"), _along(rows, "high")
    axis.fill_between(numbers, low, high, alpha=0.15, color=color, linewidth=0)
    axis.axhline(0, color="0.2", linewidth=0.8)
    axis.set_title("\n".join(textwrap.wrap(titles[rows[0]["method"]], 26)), fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _limits(rows) -> tuple[float, float]:
    """Return the ends of an axis of which curves and zero fill half or more, however wide the intervals are."""
    values = [row["value"] for row in rows if row["value"] is not None]
    margin = max(np.ptp(values), 1e-3) if values else 1.0
    return min([0, *values]) - margin / 2, max([0, *values]) + margin / 2


def _along(rows, key: str) -> tuple[list, list]:
    """Return the numbers of scene classes and a value at each, where the score is defined."""
    rows = [row for row in rows if row["value"] is not None]
    return [row["scene_model"] for row in rows], [row[key] for row in rows]


def _map_bytes(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
    """Return maps as BIM scales them, as bytes, (N, side * side)."""
    scaled, _ = two_dimensional(maps)
    return report_examples.unsigned(scaled).reshape(len(maps), -1)


def _chosen(metric: str, evaluation: Any, group: InputScores) -> list[int]:
    """Return places among the images that count under a metric."""
    less = [described.name for described in METRICS.values() if described.better == "less"]
    return report_examples.choose([group], less, evaluation.method_names, NUM_EXAMPLES)


def example_places(evaluation: Any, scores: Sequence[InputScores], count: int) -> dict[str, list[int]]:
    """Return metric -> ``count`` of the images in a report, as places among the images that both sets have."""
    groups = {group.where["metric"]: group for group in scores if "scene_model" not in group.where}
    found = {}
    for metric in PAIRS:
        group = groups.get(metric)
        if group is not None and len(group.inputs):
            counted = _rows(group, range(len(evaluation.drawn(PAIRS[metric][0][1]))))
            found[metric] = [counted[place] for place in _chosen(metric, evaluation, group)[:count]]
    return found


def _example_members(metric: str, evaluation: Any, places: Sequence[int]) -> list[tuple[Member, list[int], dict]]:
    """Return both members of a metric with their rows and the maps of their methods, (n, side, side) uint8.

    ``places`` are among the images that both sets have.
    """
    found = []
    matched = evaluation.matched(*(set_name for _, set_name in PAIRS[metric]))
    for (model_name, set_name), rows in zip(PAIRS[metric], matched, strict=True):
        member = evaluation.member(model_name, set_name)
        taken = [rows[place] for place in places]
        side = input_side(member.model)
        maps = report_examples.maps_of(
            evaluation.explainer_with(member.model),
            report_examples.MapPicture("picture", _map_bytes, width=side * side),
            member.batches(taken, evaluation.settings.batch_size),
            member_key(member),
            [Member],
            evaluation.run.store,
            (side, side),
        )
        found.append((member, taken, maps))
    return found


def _class_name(member: Member, number: int) -> str:
    """Return what a class of a model is called."""
    names = OBJECTS if member.model_name == "obj" else SCENES
    return names[number].replace("_", " ")


def _rows(group: InputScores, among: Sequence[int]) -> list[int]:
    """Return what the names of a group's images stand for."""
    return [among[int(name.removeprefix("image "))] for name in group.inputs]
