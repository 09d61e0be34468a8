"""Make a CLEVR-XAI of one's own: scenes, images, masks, questions, ground truths, in the release's layout.

Everything follows from the seed and the settings. What is already there is not made again, so that a run
that was stopped goes on where it stood and ends with the bytes of a run that was not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence

from attribution.errors import BadInput, listed
from attribution.file_io.files import LOCK, UNFINISHED, locked_directory
from attribution.file_io.paths import check_directory
from attribution_benchmarks.beam.parallel_map import ParallelMap, serial_map
from clevr_xai import layout, masks
from clevr_xai.dataset import KINDS
from clevr_xai.generation import parts, questions, render, scenes
from clevr_xai.generation.settings import Settings


def generate(
    output_dir: str | pathlib.Path,
    settings: Settings,
    kinds: tuple[str, ...] = KINDS,
    each: contextlib.AbstractContextManager[ParallelMap] | None = None,
    ground_truth_files: bool = True,
    compressed: bool = False,
    wording: str = "plain",
) -> None:
    """Make a dataset, or what is missing of it.

    Parameters
    ----------
    output_dir
        Directory to write to; one that holds another dataset is refused.
    settings
    kinds
        Of questions: "simple", "complex".
    each
        Applies functions to many items; this process does, one by one, when None.
    ground_truth_files
        Whether to write every ground truth as a ``.npy`` file as the release does. Without them ``Dataset``
        makes the same masks from the mask images.
    compressed
        Whether to write scenes and questions as ``.json.gz``.
    wording
        Of the questions, see ``questions.generate``. Images and ground truths do not depend on it.

    Raises
    ------
    BadInput
        For a directory that holds other data, or without the extra ``render``.
    """
    if strangers := [kind for kind in kinds if kind not in KINDS]:
        raise BadInput(f"no questions {strangers[0]!r}; these exist: {listed(KINDS)}")
    if len(set(kinds)) < len(kinds) or not kinds:
        raise BadInput(f"questions {listed(kinds) or 'of no kind'}; name each kind once, of {listed(KINDS)}")
    if wording not in questions.WORDINGS:
        raise BadInput(f"no wording {wording!r}; these exist: {listed(questions.WORDINGS)}")
    if not str(output_dir):
        raise BadInput("the directory to write to has no name; name one that is new or was made by this command")
    output_dir = pathlib.Path(output_dir)
    render.check_available()
    check_directory("output_dir", output_dir)
    _check(output_dir, settings)
    with locked_directory(output_dir, "images"), each or contextlib.nullcontext(serial_map) as each:
        _claim(output_dir, settings)
        place = output_dir.absolute()  # a process on another machine works elsewhere
        make_image = functools.partial(parts.make_image, place, settings)
        found = list(each("images", make_image, range(settings.num_images)))
        info: dict[str, object] = {"split": scenes.SPLIT, "version": "1.0", "seed": settings.seed}
        layout.write_entries(output_dir / layout.SCENES, info, "scenes", found, compressed)
        blocks = questions.in_blocks(found)
        named = "questions" if wording == "plain" else f"questions in {wording} wording"
        if wording != "plain":
            info["wording"] = wording
        for kind in kinds:
            asked = each(
                f"{kind} {named}", functools.partial(parts.ask, kind, settings.seed, wording), blocks, questions.BLOCK
            )
            first = [0]  # question of each block
            file = output_dir / layout.QUESTIONS.format(kind=kind)
            layout.write_entries(file, info, "questions", _numbered(asked, first), compressed)
            if ground_truth_files:
                _write_ground_truths(output_dir, kind, settings.seed, list(zip(first[:-1], blocks, strict=True)), each)


def _numbered(asked: Iterator[Sequence[str]], first: list[int]) -> Iterator[str]:
    """Yield questions with their numbers, and append to ``first`` the number that follows each block's."""
    for block in asked:
        for number, question in enumerate(block, start=first[-1]):
            yield f'{question[:-1]},"question_index":{number}}}'
        first.append(first[-1] + len(block))


def _write_ground_truths(output_dir: pathlib.Path, kind: str, seed: int, blocks: Sequence, each: ParallelMap) -> None:
    """Write the ``.npy`` files that are missing, and what each of them shows."""
    folders = {
        name: output_dir / layout.GROUND_TRUTH.format(kind=kind, ground_truth=name)
        for name in masks.GROUND_TRUTHS[kind]
    }
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    write = functools.partial(parts.write_ground_truths, output_dir.absolute(), kind, seed)
    statistics = list(each(f"ground truths of {kind} questions", write, blocks, questions.BLOCK))
    for name, folder in folders.items():
        told = ",".join(part[name] for part in statistics if part[name])
        layout.write(folder / layout.STATISTICS, f"{{{told}}}\n".encode())


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
