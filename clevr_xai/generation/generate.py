"""Generate a CLEVR-XAI dataset: scenes, images, mask images and questions, in the release's layout.

The files are determined by the seed and the settings. Existing files are kept, so that a stopped run resumes and ends
with the same bytes. Images and blocks of questions are independent of each other: each is made by one call in any
process, which writes files atomically, may run twice at the same time, and returns JSON text, a fifth of the memory of
objects.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from PIL import Image

from attribution.errors import BadInput, listed
from attribution.files import LOCK, UNFINISHED, check_directory, locked_directory
from attribution.reading import read_json
from attribution_benchmarks.beam.parallel_map import ParallelMap, serial_map
from clevr_xai import layout
from clevr_xai.generation import _blender, _render, questions, scenes
from clevr_xai.masks import KINDS

RENDERERS = ("mitsuba", "blender")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings that determine the bytes of a dataset.

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
    renderer
        One of ``RENDERERS``. Masks are Mitsuba's in any case.
    """

    seed: int = 0
    num_images: int = 100
    width: int = 480
    height: int = 320
    samples: int = _render.SAMPLES
    stored_size: int = 0
    renderer: str = RENDERERS[0]

    def __post_init__(self):
        if self.renderer not in RENDERERS:
            raise BadInput(f"no renderer {self.renderer!r}; these exist: {listed(RENDERERS)}")
        if self.width * 2 != self.height * 3 or self.width <= 0:
            raise BadInput(
                f"no images of {self.width}x{self.height}: width to height must be 3 to 2, as 480x320 or 192x128"
            )
        if max(self.width, self.stored_size) > 8192:
            raise BadInput("no images of more than 8,192 pixels a side")
        if round(self.samples**0.5) ** 2 != self.samples or self.samples < 1:
            raise BadInput(f"{self.samples} samples a pixel do not form a square; 4, 9, 16, 25, ... do")


def generate(
    output_dir: str | pathlib.Path,
    settings: Settings,
    kinds: tuple[str, ...] = KINDS,
    each: contextlib.AbstractContextManager[ParallelMap] | None = None,
    wording: str = "official",
    assets: str = "",
    blender_python: str = "",
) -> None:
    """Make a dataset, or the missing part of it.

    Parameters
    ----------
    output_dir
        Directory to write to; one that holds another dataset is refused.
    settings
    kinds
        Of questions: "simple", "complex".
    each
        Applies functions to many items; one by one in this process when None.
    wording
        Of the questions, see ``questions.generate_block``. Images and programs do not depend on it.
    assets, blender_python
        Of ``_blender.render``.

    Raises
    ------
    BadInput
        For a directory that holds other data, an unknown kind or wording, or without the extra ``render``.
    """
    if not kinds or set(kinds) - set(KINDS):
        raise BadInput(f"no questions {listed(kinds) or 'of no kind'}; choose of {listed(KINDS)}")
    if wording not in questions.WORDINGS:
        raise BadInput(f"no wording {wording!r}; these exist: {listed(questions.WORDINGS)}")
    if not str(output_dir):
        raise BadInput("the directory to write to has no name; name one that is new or was made by this command")
    output_dir = pathlib.Path(output_dir)
    _render.check_available()
    if settings.renderer == "blender":
        _blender.check_available(assets, blender_python)
    check_directory("output_dir", output_dir)
    _check(output_dir, settings)
    with locked_directory(output_dir, "images"), each or contextlib.nullcontext(serial_map) as each:
        _check(output_dir, settings)  # again, since another process may have been first
        written = {name: value for name, value in dataclasses.asdict(settings).items() if value != RENDERERS[0]}
        layout.write_json(output_dir / layout.SETTINGS, written)
        # The path is absolute because another machine has another working directory.
        make_image = functools.partial(_make_image, output_dir.absolute(), settings, assets, blender_python)
        found = list(each("images", make_image, range(settings.num_images)))
        info: dict[str, object] = {"split": scenes.SPLIT, "version": "1.0", "seed": settings.seed}
        layout.write_entries(output_dir / layout.SCENES, info, "scenes", found)
        blocks = questions.in_blocks(found)
        info["wording"] = wording
        for kind in dict.fromkeys(kinds):
            make_questions = functools.partial(_generate_questions, kind, settings.seed, wording)
            asked = each(f"{kind} questions in {wording} wording", make_questions, blocks)
            file = output_dir / layout.QUESTIONS.format(kind=kind)
            layout.write_entries(file, info, "questions", _numbered(asked))


def _numbered(asked: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the questions of all blocks with their numbers."""
    for number, question in enumerate(question for block in asked for question in block):
        yield f'{question[:-1]},"question_index":{number}}}'


def _check(output_dir: pathlib.Path, settings: Settings) -> None:
    """Refuse a directory that holds anything but a beginning of this dataset."""
    file = output_dir / layout.SETTINGS
    if not file.exists():
        # Before the settings there are a lock and half-written settings.
        if output_dir.exists() and any(
            path.name != LOCK and path.suffix != UNFINISHED for path in output_dir.iterdir()
        ):
            raise BadInput(f"{output_dir} is not empty and was not made by this command; use another directory")
        return
    found = read_json(file)
    if not isinstance(found, dict) or not isinstance(found.get("num_images"), int):
        raise BadInput(f"{file} does not hold the settings of a dataset; use another directory")
    found = {"renderer": RENDERERS[0]} | found
    for name, value in dataclasses.asdict(settings).items():
        if found.get(name) > value if name == "num_images" else found.get(name) != value:
            raise BadInput(
                f"{output_dir} holds images with {name} {found.get(name)}, not {value}; use another directory"
            )


def _make_image(output_dir: pathlib.Path, settings: Settings, assets: str, blender_python: str, index: int) -> str:
    """Sample a scene, render it unless its image and mask image are there, and return its JSON."""
    scene = scenes.sample_scene(settings.seed, index, settings.width, settings.height)
    image_file = output_dir / layout.IMAGES / scene["image_filename"]
    mask_file = output_dir / layout.MASKS / scene["mask_filename"]
    if not (image_file.exists() and mask_file.exists()):
        size = settings.width, settings.height
        if settings.renderer == "blender":
            image = _blender.render(scene, *size, settings.samples, assets, blender_python)
            indices = _render.render_indices(scene, *size)
        else:
            image, indices = _render.render(scene, *size, settings.samples)
        picture = Image.fromarray(image)
        if settings.stored_size:
            picture = picture.resize((settings.stored_size,) * 2, Image.Resampling.BILINEAR)
        layout.write(mask_file, functools.partial(_render.mask_image(indices).save, format="PNG"))
        layout.write(image_file, functools.partial(picture.save, format="PNG"))
    return layout.compact(scene)


def _generate_questions(kind: str, seed: int, wording: str, block: Sequence[str]) -> list[str]:
    """Return the JSON of the questions about a block's scenes, without their ``question_index``."""
    found = questions.generate_block(list(map(json.loads, block)), kind, seed, wording)
    return list(map(layout.compact, found))
