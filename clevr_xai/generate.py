"""Make a CLEVR-XAI of one's own: scenes, images, masks, questions, ground truths, in the release's layout.

Everything follows from the seed and the settings. What is already there is not made again, so that a run
that was stopped goes on where it stood and ends with the bytes of a run that was not.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import pathlib

import numpy as np
from PIL import Image

from attribution_benchmarks.command_line import BadInput, check_directory, listed
from attribution_benchmarks.command_line.directories import LOCK, held
from attribution_benchmarks.command_line.files import UNFINISHED
from attribution_benchmarks.command_line.workers import processes
from clevr_xai import layout, masks, questions, render, scenes
from clevr_xai.dataset import KINDS, Dataset

MOST_WIDTH = 8192  # pixels


@dataclasses.dataclass(frozen=True)
class Settings:
    """What decides the bytes of a dataset.

    Attributes
    ----------
    seed, num_images
        Image i depends on the seed and i alone: a larger dataset begins with the smaller one.
    width, height
        Of the rendered images and of the mask images, in the ratio 3 to 2.
    samples
        Light paths a pixel.
    stored_size
        Height and width of the stored images; 0 keeps them as rendered. Masks are never resized.
    """

    seed: int = 0
    num_images: int = 100
    width: int = 480
    height: int = 320
    samples: int = render.SAMPLES
    stored_size: int = 0

    def __post_init__(self):
        if self.width * 2 != self.height * 3 or self.width <= 0:
            raise BadInput(
                f"no images of {self.width}x{self.height}: width to height must be 3 to 2, as 480x320 or 192x128"
            )
        if self.width > MOST_WIDTH or self.stored_size > MOST_WIDTH:
            raise BadInput(f"no images of more than {MOST_WIDTH:,} pixels a side")
        if round(self.samples**0.5) ** 2 != self.samples or self.samples < 1:
            raise BadInput(f"{self.samples} samples a pixel do not form a square; 4, 9, 16, 25, ... do")


def generate(
    output_dir: str | pathlib.Path,
    settings: Settings,
    kinds: tuple[str, ...] = KINDS,
    num_workers: int = 1,
    ground_truth_files: bool = True,
    compressed: bool = False,
) -> None:
    """Make a dataset, or what is missing of it.

    Parameters
    ----------
    output_dir
        Directory to write to; one that holds another dataset is refused.
    settings
    kinds
        Of questions: "simple", "complex".
    num_workers
        Processes; each renders on one core.
    ground_truth_files
        Whether to write every ground truth as a ``.npy`` file as the release does. Without them ``Dataset``
        makes the same masks from the mask images.
    compressed
        Whether to write scenes and questions as ``.json.gz``.

    Raises
    ------
    BadInput
        For a directory that holds other data, or without the extra ``render``.
    """
    if strangers := [kind for kind in kinds if kind not in KINDS]:
        raise BadInput(f"no questions {strangers[0]!r}; these exist: {listed(KINDS)}")
    if len(set(kinds)) < len(kinds) or not kinds:
        raise BadInput(f"questions {listed(kinds) or 'of no kind'}; name each kind once, of {listed(KINDS)}")
    if not str(output_dir):
        raise BadInput("the directory to write to has no name; name one that is new or was made by this command")
    output_dir = pathlib.Path(output_dir)
    render.check_available()
    check_directory("output_dir", output_dir)
    _check(output_dir, settings)
    with held(output_dir, "images"), processes(num_workers) as imap:
        _claim(output_dir, settings)
        made = functools.partial(make_image, output_dir, settings)
        found = list(_progress(imap(made, range(settings.num_images)), settings.num_images, "images"))
        content = {"info": _info(settings), "scenes": found}
        layout.write_json(output_dir / layout.SCENES, content, compressed)
        for kind in kinds:
            title = f"{kind} questions, in blocks of {questions.BLOCK} images"

            def blockwise(ask, blocks, title=title):
                return _progress(imap(ask, blocks), len(blocks), title)

            asked = questions.generate(found, kind, settings.seed, blockwise)
            content = {"info": _info(settings), "questions": asked}
            layout.write_json(output_dir / layout.QUESTIONS.format(kind=kind), content, compressed)
            if ground_truth_files:
                _write_ground_truths(output_dir, kind)


def make_image(output_dir: pathlib.Path, settings: Settings, index: int) -> dict:
    """Sample a scene, render it unless its image and mask image are there, and return it."""
    scene = scenes.sample_scene(settings.seed, index, settings.width, settings.height)
    image_file = output_dir / layout.IMAGES / scene["image_filename"]
    mask_file = output_dir / layout.MASKS / scene["mask_filename"]
    if not (image_file.exists() and mask_file.exists()):
        image, indices = render.render(scene, settings.width, settings.height, settings.samples)
        picture = Image.fromarray(image)
        if settings.stored_size:
            picture = picture.resize((settings.stored_size,) * 2, Image.Resampling.BILINEAR)
        layout.write(mask_file, _png(render.mask_image(indices)))
        layout.write(image_file, _png(picture))
    return scene


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _write_ground_truths(output_dir: pathlib.Path, kind: str) -> None:
    """Write the ``.npy`` files that are missing, and what each of them shows."""
    folders = {
        name: output_dir / layout.GROUND_TRUTH.format(kind=kind, ground_truth=name)
        for name in masks.GROUND_TRUTHS[kind]
    }
    # Without its folders the dataset derives the masks from the mask images, which is what is to be written.
    data = Dataset(kind, output_dir, from_mask_images=True)
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    statistics: dict[str, dict] = {name: {} for name in folders}
    for row in _progress(range(len(data)), len(data), f"ground truths of {kind} questions"):
        number = data.questions[row]["question_index"]
        for name, folder in folders.items():
            objects = data.objects(name, row)
            if not objects:
                continue
            statistics[name][str(number)] = {
                "target_objects": len(objects),
                "total_objects": len(data.scene(row)["objects"]),
            }
            file = folder / f"{number}.npy"
            if not file.exists():
                buffer = io.BytesIO()
                np.save(buffer, data.masks(name, [row])[0][0])
                layout.write(file, buffer.getvalue())
    for name, folder in folders.items():
        layout.write_json(folder / layout.STATISTICS, statistics[name])


def _check(output_dir: pathlib.Path, settings: Settings) -> None:
    """Refuse a directory that holds anything but a beginning of this very dataset."""
    file = output_dir / layout.SETTINGS
    if file.exists():
        there = layout.read_json(file)
        if not isinstance(there, dict) or not isinstance(there.get("num_images"), int):
            raise BadInput(f"{file} does not hold the settings of a dataset; use another directory")
        expected = dataclasses.asdict(settings)
        for name, value in expected.items():
            if name != "num_images" and there.get(name) != value:
                raise BadInput(
                    f"{output_dir} holds images with {name} {there.get(name)}, not {value}; use another directory"
                )
        if there["num_images"] > settings.num_images:
            raise BadInput(
                f"{output_dir} holds {there['num_images']} images already; ask for as many, or use another directory"
            )
    elif output_dir.exists() and any(not _begun(path.name) for path in output_dir.iterdir()):
        raise BadInput(f"{output_dir} is not empty and was not made by this command; use another directory")


def _begun(name: str) -> bool:
    """Return whether a file is what is there before the settings are: a lock, or settings half-written."""
    return name == LOCK or name.endswith(UNFINISHED)


def _claim(output_dir: pathlib.Path, settings: Settings) -> None:
    """Note what a directory that is held is going to hold."""
    _check(output_dir, settings)  # once more, since another process may have been first
    layout.write_json(output_dir / layout.SETTINGS, dataclasses.asdict(settings))


def _info(settings: Settings) -> dict:
    return {"split": scenes.SPLIT, "version": "1.0", "seed": settings.seed}


def _progress(items, total: int, what: str):
    from tqdm import tqdm

    return tqdm(items, total=total, desc=what, mininterval=1.0)


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
