"""Write a card of CLEVR-XAI's data: what a directory holds next to what is published.

    python -m research.clevr_xai.data_card
    python -m research.clevr_xai.data_card --data_dir=data/clevr_xai --output=data_card.md

Without --data_dir it is the embedded set, and without --output the card is printed.

Published: Arras, Osman and Samek, Information Fusion 81 (2022); Johnson et al., CLEVR, CVPR 2017, whose scenes these
are; the backgrounds of two pictures of the real CLEVR, resized to 128x128.

Cost: 9 CPU seconds for the embedded set.
"""

from __future__ import annotations

import pathlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import print_line, print_text
from attribution.files import atomic_write
from attribution.reading import inside
from attribution_benchmarks.core import tables
from clevr_xai import layout, masks
from clevr_xai.dataset import EMBEDDED, KINDS, Dataset
from clevr_xai.generation import scenes
from clevr_xai.vocabulary import ATTRIBUTES

NEAR = 8  # grey levels by which a background may differ from the real one and pass for it
_HIDDEN = (0.01, 0.25, 0.5)
REAL_GREY = {0: 104, 16: 105, 48: 131, 80: 125, 112: 133}  # row of 128 -> level of the background
REAL_OBJECTS = (3, 10)  # of a scene, each number as often
REAL_VISIBLE = 200  # pixels of 480x320 that each object shows at least
REAL_QUESTIONS = {  # questions an image, and the share of them that have such a mask
    "simple": (3.9761, {"single_object": 1.0, "all_objects": 1.0}),
    "complex": (
        10.0, {"unique": 0.89873, "unique_firstnonempty": 0.99786, "union": 0.99786, "all_objects": 1.0},
    ),
}  # fmt: skip
REAL_FILES = {  # share of the complex questions, of the authors' generator
    "same_relate": 0.31, "comparison": 0.18, "compare_integer": 0.09, "single_or": 0.09, "zero_hop": 0.07,
    "one_hop": 0.07, "two_hop": 0.07, "three_hop": 0.07, "single_and": 0.06,
}  # fmt: skip
_TRACED = (240, 160)  # half of the size of the images: a share of an object needs no more

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="", output="")
FLAGS["output"].help = "file to write the card to; .md"
flags.DEFINE_integer("traced", 200, "scenes in which to trace what objects hide", lower_bound=1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Measure, then write the card, or print it."""
    output = flag_values.output
    tables.check_output(output, suffixes=(".md",))
    command = "python -m research.clevr_xai.data_card" + "".join(
        f" --{name}={flag_values[name].value}" for name in ("data_dir", "output") if flag_values[name].value
    )
    facts = collect(flag_values.data_dir, flag_values.traced)
    text = card(facts, flag_values.data_dir or "the embedded set", command)
    if not output:
        print_text(text)
        return
    atomic_write(output, text)
    print_line(f"card: {output}", file=sys.stderr)


class Questions(NamedTuple):
    """The questions of one kind: their number, and the shares that have a ground truth or are of a file of families.

    ``files`` is empty where the questions do not say.
    """

    count: int
    truths: Mapping[str, float]
    files: Mapping[str, float]


class Facts(NamedTuple):
    """Figures of a data directory.

    Attributes
    ----------
    images
        How many any question is about.
    rows : (n, 128) float64
        Median grey level, 0 to 255, of each image's background in each row; NaN where objects fill the row.
    objects : (n,) int64
        Of each scene.
    visible : (m,) float64
        Pixels that each object shows, scaled to images of 480x320; empty where there are no mask images.
    hidden : (k,) float64
        Share of each object that others hide, traced from the scenes; empty where these do not tell where the camera
        stood, as the official release's do not.
    attributes
        Attribute -> value -> share of the objects.
    questions
        Kind -> figures of its questions.
    """

    images: int
    rows: np.ndarray
    objects: np.ndarray
    visible: np.ndarray
    hidden: np.ndarray
    attributes: Mapping[str, Mapping[str, float]]
    questions: Mapping[str, Questions]

    def grey(self, row: int) -> float:
        """Return the median background of a row over all images."""
        return float(np.nanmedian(self.rows[:, row]))


def collect(data_dir: str | pathlib.Path = "", traced: int = 200) -> Facts:
    """Read a data directory.

    Parameters
    ----------
    data_dir
        As ``dataset.Dataset`` takes it; the embedded set when empty. One kind of questions is enough.
    traced
        In how many scenes to trace what objects hide of each other; half a CPU second each.

    Raises
    ------
    BadInput
        If there is no such data; the message says what is missing.
    """
    directory = pathlib.Path(data_dir) if data_dir else EMBEDDED
    there = [kind for kind in KINDS if layout.find(directory, layout.QUESTIONS.format(kind=kind))]
    datasets = {kind: Dataset(kind, data_dir) for kind in there or KINDS[:1]}
    scenes, pictures, front = _scenes(datasets.values())
    return Facts(
        len(pictures),
        np.ma.median(np.ma.masked_array(pictures.mean(axis=3), front), axis=2).filled(np.nan),
        np.array([len(scene["objects"]) for scene in scenes]),
        _visible(directory, scenes),
        np.concatenate([np.zeros(0), *map(hidden_shares, [one for one in scenes if "camera" in one][:traced])]),
        {name: _shares(scenes, name) for name in ATTRIBUTES},
        dict(zip(datasets, map(_of_questions, datasets.values()), strict=True)),
    )


def _shares(scenes: list[dict], attribute: str) -> dict[str, float]:
    counts = Counter(item[attribute] for scene in scenes for item in scene["objects"])
    return {value: counts[value] / max(counts.total(), 1) for value in ATTRIBUTES[attribute]}


def _scenes(datasets: Iterable[Dataset]) -> tuple[list[dict], np.ndarray, np.ndarray]:
    """Return the scenes, their images (n, 128, 128, 3) and their masks of all objects (n, 128, 128)."""
    scenes: dict[str, dict] = {}
    images, fronts = [], []
    for dataset in datasets:
        names = [question["image_filename"] for question in dataset.questions]
        firsts = {name: row for row, name in reversed([*enumerate(names)]) if name not in scenes}
        for batch in dataset.batches(64, sorted(firsts.values()), ["all_objects"]):
            scenes |= {names[row]: dataset.scenes[names[row]] for row in batch.rows}
            images.append(batch.images)
            fronts.append(batch.masks["all_objects"])
    return list(scenes.values()), np.concatenate(images), np.concatenate(fronts)


def hidden_shares(scene: Mapping) -> np.ndarray:
    """Return which share of each object others hide, (n,) float64 in [0, 1], by rays at half the image's size.

    What lies beyond the image's border is not counted as hidden.
    """
    objects = scene["objects"]
    seen = scenes.seen_objects(scene, *_TRACED)
    whole = np.array([(seen == number).sum() for number in range(len(objects))])
    alone = np.array([(scenes.seen_objects({**scene, "objects": [item]}, *_TRACED) == 0).sum() for item in objects])
    return 1 - np.divide(whole, alone, out=np.ones(len(alone)), where=alone > 0)


def _visible(directory: pathlib.Path, scenes: Iterable[dict]) -> np.ndarray:
    """Return how many pixels of 480x320 each object shows, from the mask images as they are."""
    folder = layout.find(directory, layout.MASKS)
    if folder is None:
        return np.zeros(0)
    found = []
    for scene in scenes:
        path = inside(folder, scene.get("mask_filename", scene["image_filename"]), directory)
        indices = masks.read_indices(path, scene)
        counts = np.bincount(indices[indices >= 0], minlength=len(scene["objects"]))
        found.append(counts * (480 * 320 / indices.size))
    return np.concatenate(found)


def _of_questions(dataset: Dataset) -> Questions:
    number = len(dataset)
    names = Counter(question.get("template_filename", "") for question in dataset.questions)
    return Questions(
        number,
        {
            truth: float(np.mean([bool(dataset.objects(truth, row)) for row in range(number)]))
            for truth in dataset.ground_truths
        },
        {name.removesuffix(".json"): count / number for name, count in names.items() if name},
    )


def card(facts: Facts, source: str, command: str) -> str:
    """Return the card as Markdown.

    Parameters
    ----------
    facts, source
        From ``collect``, and what the data are called.
    command
        That writes this card.
    """
    grey = [
        [str(row), f"{facts.grey(row):.0f}", str(real), f"{facts.grey(row) - real:+.0f}"]
        for row, real in REAL_GREY.items()
    ]
    apart = [row for row, real in REAL_GREY.items() if not abs(facts.grey(row) - real) <= NEAR]
    lines = [
        "# Data card of CLEVR-XAI", "",
        f"What {source} holds, measured by `{command}`, beside what is known of the published data.", "",
        "## Images", "",
        f"{facts.images:,} images, as the network gets them, 128x128. Median gray level of the "
        "background by row, and that of two pictures of the real CLEVR:", "",
        tables.markdown_table(["row of 128", "here", "real", "difference"], grey),
        f"Within {NEAR} levels of the real one: {len(REAL_GREY) - len(apart)} of {len(REAL_GREY)} rows"
        + (f"; not in row {', '.join(map(str, apart))}." if apart else "."), "",
        "## Scenes", "",
        tables.markdown_table(["", "here", "published"], _scene_rows(facts)),
        *[
            f"{attribute.capitalize()}: {', '.join(f'{name} {100 * share:.1f} %' for name, share in shares.items())}."
            for attribute, shares in facts.attributes.items()
        ],
        "CLEVR draws each value with the same probability.", "",
        _occlusion(facts), "",
        "## Questions", "",
        tables.markdown_table(["", "here", "published"], _question_rows(facts)),
    ]  # fmt: skip
    if files := facts.questions["complex"].files if "complex" in facts.questions else {}:
        rows = [[name, f"{100 * files.get(name, 0):.1f}", f"{100 * share:.0f}"] for name, share in REAL_FILES.items()]
        lines += [
            "Complex questions by file of families, with the shares that the authors' generator gives:", "",
            tables.markdown_table(["file", "here, %", "theirs, %"], rows),
        ]  # fmt: skip
    return "\n".join(lines).rstrip("\n") + "\n"


def _scene_rows(facts: Facts) -> list[list[str]]:
    sizes, visible = facts.objects, facts.visible
    low, high = REAL_OBJECTS
    here = f"{sizes.min()} to {sizes.max()}, mean {sizes.mean():.2f}"
    rows = [["objects of a scene", here, f"{low} to {high}, each as often"]]
    rows += [
        [f"scenes of {size}", f"{100 * np.count_nonzero(sizes == size) / len(sizes):.1f} %",
         f"{100 / (high - low + 1):.1f} %"]
        for size in range(low, high + 1)
    ]  # fmt: skip
    if len(visible):
        here = f"at least {visible.min():.0f}, median {np.median(visible):,.0f}"
        rows.append(["pixels that an object shows, of 480x320", here, f"at least {REAL_VISIBLE}"])
    return rows


def _occlusion(facts: Facts) -> str:
    if not len(facts.hidden):
        return "What objects hide of each other is not measured: the scenes do not tell where the camera stood."
    shares = ", ".join(
        f"{100 * (facts.hidden > bound).mean():.1f} % are hidden by more than {100 * bound:.0f} %" for bound in _HIDDEN
    )
    return (
        f"Occlusion, of {len(facts.hidden):,} objects: {shares}. The published data say no more of it than that each "
        f"object shows {REAL_VISIBLE} pixels."
    )


def _question_rows(facts: Facts) -> list[list[str]]:
    rows = []
    for kind, found in facts.questions.items():
        per_image, truths = REAL_QUESTIONS[kind]
        rows.append([f"{kind} questions an image", f"{found.count / facts.images:.2f}", f"{per_image:.2f}"])
        rows += [
            [f"{kind}, have a mask '{name}'", f"{100 * share:.2f} %", f"{100 * truths[name]:.2f} %"]
            for name, share in found.truths.items()
        ]
    return rows


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
