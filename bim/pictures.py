"""Pictures of a run: the maps that each metric compares, side by side, and a bar chart per metric.

The example figures follow the paper's: model contrast (one image, two models), input dependence (one model,
the scene with and without the object) and input independence (one model, with and without the patch).
"""

from __future__ import annotations

import itertools

import numpy as np

from attribution.plotting import no_mathtext
from attribution_benchmarks.cli.figures import save_figure
from attribution_benchmarks.cli.picture_grid import PictureGrid
from bim import regions, shown
from bim.evaluate import PAIRS, BimRun
from bim.measure import input_side
from bim.scores import METRICS

NUM_EXAMPLES = 3
_ACROSS = 9  # maps in a line; more would be too small to read on a page
MEMBER_TITLES = {
    "mcs": ("object model", "scene model"),
    "idr": ("object on scene", "scene alone"),
    "iir": ("scene alone", "patch on scene"),
}


@no_mathtext
def write_pictures(
    directory: str, run: BimRun, metrics, rows, titles: dict[str, str], places=None, formats=("png",)
) -> list[str]:
    """Write figures for the metrics of a run.

    Parameters
    ----------
    directory
        Folder to write to; made where it is missing.
    run
        The run, whose methods are explained once more on a few of its images.
    metrics
        Names of metrics.
    rows
        Scores in long form (``bim.table.score_rows``).
    titles
        Method name -> what to print.
    places
        Metric -> images to show, from ``shown.places``; evenly spread where None.
    formats
        Of ``cli.figures.FORMATS``.

    Returns
    -------
    list of str
        The files: ``mcs_scores.png``, ``mcs_examples.png`` and so on; RMCS has no examples.
    """
    written = []
    for metric in metrics:
        chosen = [row for row in rows if row["metric"] == metric and "of" not in row]
        figure = _curves(chosen, titles) if metric == "rmcs" else _bars(metric, chosen, titles)
        written += save_figure(figure, directory, f"{metric}_scores", formats, trim=False)
        if metric in PAIRS and run.method_names:
            figure = _examples(metric, run, titles, (places or {}).get(metric))
            written += save_figure(figure, directory, f"{metric}_examples", formats, trim=False)
    return written


def example_maps(metric: str, run: BimRun, places=None):
    """Explain a few images of a metric's two members.

    Parameters
    ----------
    metric, run
        "mcs", "idr" or "iir", and the run.
    places
        Among the images that both sets have; evenly spread when None.

    Returns
    -------
    images : numpy.ndarray
        (2, n, H, W, 3) uint8.
    maps : dict
        Method name -> (2, n, side, side) in [0, 1].
    masks : numpy.ndarray
        (n, side, side) bool.
    """
    sets = [run.images(set_name) for _, set_name in PAIRS[metric]]
    matched = run.matched(*(set_name for _, set_name in PAIRS[metric]))
    if places is None:
        places = np.unique(np.linspace(0, len(matched[0]) - 1, NUM_EXAMPLES).astype(int))
    images, maps = [], {}
    for member, chosen, found in shown.members(metric, run, places):
        images.append(member.images.images(chosen))
        for name, one in found.items():
            maps.setdefault(name, []).append(one / 255)
    side = input_side(run.model(PAIRS[metric][0][0]))
    masks = [
        regions.place_mask(sets[0].mask(matched[0][place]), sets[0].boxes[matched[0][place]], side) for place in places
    ]
    return np.stack(images), {name: np.stack(members) for name, members in maps.items()}, np.stack(masks)


def _examples(metric: str, run: BimRun, titles, places=None):
    """Return a figure: two lines an image, one a member, and as many such pairs as its methods need."""
    images, maps, masks = example_maps(metric, run, places)
    predicted = _predicted(metric, run, places, images.shape[1])
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


def _predicted(metric: str, run: BimRun, places, count: int) -> list[list[str]]:
    """Return what both members take the images for."""
    matched = run.matched(*(set_name for _, set_name in PAIRS[metric]))
    if places is None:
        places = np.unique(np.linspace(0, len(matched[0]) - 1, NUM_EXAMPLES).astype(int))
    found = []
    for (model_name, set_name), rows in zip(PAIRS[metric], matched, strict=True):
        member = run.member(model_name, set_name)
        batch = member.batch([rows[place] for place in places[:count]])
        classes = member.model.predict(batch.inputs, run.flags.batch_size)
        found.append([shown.class_name(member, int(number)) for number in classes])
    return found


def _bars(metric: str, rows, titles):
    """Return a figure of bars with intervals, controls in grey."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if np.isfinite(row["value"])][::-1]
    figure = Figure(figsize=(6.4, 0.34 * len(rows) + 1.1), layout="constrained")
    axis = figure.subplots()
    values = np.array([row["value"] for row in rows])
    spread = np.array([[row["value"] - row["low"], row["high"] - row["value"]] for row in rows]).reshape(-1, 2).T
    colours = ["0.7" if row["kind"] == "control" else "tab:blue" for row in rows]
    axis.barh(range(len(rows)), values, xerr=np.maximum(spread, 0), color=colours, ecolor="0.2", capsize=2)
    axis.set_yticks(range(len(rows)), [titles[row["method"]] for row in rows], fontsize=9)
    axis.axvline(0, color="0.2", linewidth=0.8)
    counts = sorted({row["n"] for row in rows})
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    title = METRICS[metric].title if metric in METRICS else metric
    axis.set_xlabel(f"{title}, mean of {'–'.join(map(str, counts))} images and its 95 % interval", fontsize=9)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure


def _curves(rows, titles):
    """Return a figure of relative MCS against the number of scenes with dogs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axis = figure.subplots()
    dashes = itertools.cycle(["--", ":", "-."])
    for name in dict.fromkeys(row["method"] for row in rows):
        line = [row for row in rows if row["method"] == name and np.isfinite(row["value"])]
        control = line and line[0]["kind"] == "control"
        axis.plot(
            [row["scene_model"] for row in line], [row["value"] for row in line], marker="o", markersize=3.5,
            label=titles[name], color="0.6" if control else None, linestyle=next(dashes) if control else "-",
        )  # fmt: skip
        # The interval of each figure; three controls in one grey are told apart by their dashes.
        axis.fill_between(
            [row["scene_model"] for row in line], [row["low"] for row in line], [row["high"] for row in line],
            alpha=0.06 if control else 0.1, color="0.6" if control else axis.lines[-1].get_color(), linewidth=0,
        )  # fmt: skip
    axis.axhline(0, color="0.2", linewidth=0.8)
    axis.set_xlabel("scene classes with a dog in the model's training, of ten")
    axis.set_ylabel("MCS relative to a dog in all ten")
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure
