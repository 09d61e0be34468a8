"""Images for a report to show: both members of a pair, where the object is, and the maps of all methods."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.input_scores import InputScores
from bim import regions
from bim.evaluate import PAIRS, SHARED_MEMBER, BimRun
from bim.measure import Member, input_side, member_key
from bim.scores import METRICS
from bim.table import image_scores

COUNT = 4  # of a metric
MEMBER_TITLES = {
    "mcs": ("network of objects", "network of scenes"),
    "idr": ("object on scene", "scene alone"),
    "iir": ("scene alone", "with the patch"),
}


def map_bytes(maps: np.ndarray, batch: Batch, scores: Callable) -> np.ndarray:
    """Return maps as BIM scales them, as bytes, (N, side * side)."""
    scaled, _ = regions.two_dimensional(maps)
    return report_examples.unsigned(scaled).reshape(len(maps), -1)


def save(directory: str, run: BimRun, comparisons: Sequence) -> str:
    """Write the images that tell the methods apart under each metric, and return the file.

    Parameters
    ----------
    directory
        Where to write.
    run
        The run.
    comparisons
        Of all its metrics.
    """
    groups = {group.where["metric"]: group for group in image_scores(comparisons) if len(group.where) == 1}
    examples, pictures = [], []
    for metric in PAIRS:
        group = groups.get(metric)
        if group is None or not len(group.inputs):
            continue
        found, every = _of(metric, run, group)
        examples += found
        pictures.append(every)
    others = [group for name, group in groups.items() if name not in METRICS]
    if others:
        member = run.member(*SHARED_MEMBER)
        rows = _rows(others[0], run.drawn(SHARED_MEMBER[1]))
        names = tuple(group.where["metric"] for group in others)
        pictures.append(report_examples.InputPictures(names, tuple(others[0].inputs), member.images.images(rows)))
    return report_examples.save(directory, examples, pictures)


def chosen(metric: str, run: BimRun, group: InputScores) -> list[int]:
    """Return places among the images that count under a metric."""
    less = [described.name for described in METRICS.values() if described.better == "less"]
    return report_examples.choose([group], less, run.method_names, COUNT)


def places(run: BimRun, comparisons: Sequence, count: int) -> dict[str, list[int]]:
    """Return metric -> so many of the images that ``save`` shows, as places among the images that both sets have."""
    groups = {group.where["metric"]: group for group in image_scores(comparisons) if len(group.where) == 1}
    found = {}
    for metric in PAIRS:
        group = groups.get(metric)
        if group is not None and len(group.inputs):
            counted = _rows(group, range(len(run.drawn(PAIRS[metric][0][1]))))
            found[metric] = [counted[place] for place in chosen(metric, run, group)[:count]]
    return found


def members(metric: str, run: BimRun, places: Sequence[int]) -> list[tuple[Member, list[int], dict]]:
    """Return both members of a metric with their rows and the maps of their methods, (n, side, side) uint8.

    Parameters
    ----------
    metric
        "mcs", "idr" or "iir".
    run
        The run.
    places
        Among the images that both sets have.
    """
    found = []
    matched = run.matched(*(set_name for _, set_name in PAIRS[metric]))
    for (model_name, set_name), rows in zip(PAIRS[metric], matched, strict=True):
        member = run.member(model_name, set_name)
        taken = [rows[place] for place in places]
        side = input_side(member.model)
        maps = report_examples.maps_of(
            run.explainer(member.model),
            report_examples.MapPicture("picture", map_bytes, width=side * side),
            member.batches(taken, run.flags.batch_size),
            member_key(member),
            [Member],
            run.run.store,
            (side, side),
        )
        found.append((member, taken, maps))
    return found


def _of(
    metric: str, run: BimRun, group: InputScores
) -> tuple[list[report_examples.Example], report_examples.InputPictures]:
    counted = _rows(group, range(len(run.drawn(PAIRS[metric][0][1]))))
    picked = chosen(metric, run, group)
    pair = members(metric, run, [counted[place] for place in picked])
    names = (metric,)
    examples = []
    for number, place in enumerate(picked):
        views = tuple(
            view(member, rows[number], {name: one[number] for name, one in maps.items()}, title)
            for (member, rows, maps), title in zip(pair, MEMBER_TITLES[metric], strict=True)
        )
        first, taken, _ = pair[0]
        title = f"{METRICS[metric].title} {group.inputs[place]}: {named(first.images.names[taken[number]])}"
        examples.append(report_examples.Example(group.inputs[place], names, title, views))
    member = run.member(*PAIRS[metric][0])
    rows, _ = run.matched(*(set_name for _, set_name in PAIRS[metric]))
    every = member.images.images([rows[place] for place in counted])
    return examples, report_examples.InputPictures(names, tuple(group.inputs), every)


def view(member: Member, row: int, maps: dict[str, np.ndarray], title: str) -> report_examples.ExampleView:
    """Return one image under one network, the object's place outlined at the image's own size."""
    (image,) = member.images.images([row])
    side = image.shape[0]
    mask = regions.place_mask(member.images.mask(row), member.images.boxes[row], side, side)
    predicted = int(member.model.predict(member.batch([row]).inputs, 1)[0])
    return report_examples.ExampleView(title, image, mask, maps, f"predicted {class_name(member, predicted)}")


def class_name(member: Member, number: int) -> str:
    """Return what a class of a model is called."""
    from bim.layout import OBJECTS, SCENES

    names = OBJECTS if member.model_name == "obj" else SCENES
    return names[number].replace("_", " ")


def named(file: str) -> str:
    """Return what an image shows, from the name of its file: "dog, bedroom"."""
    parts = os.path.splitext(os.path.basename(file))[0].split("-")
    return ", ".join(part.replace("_", " ") for part in parts if not part.isdigit())


def _rows(group: InputScores, among: Sequence[int]) -> list[int]:
    """Return what the names of a group's images stand for."""
    return [among[int(name.removeprefix("image "))] for name in group.inputs]
