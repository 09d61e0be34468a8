"""What training would otherwise compute anew at every start: the training set, and the codes of its questions."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np

from attribution.file_io.files import atomic_write, locked_directory
from attribution.file_io.reading import read_array
from attribution_benchmarks.core.fingerprint import code_fingerprint
from clevr_xai import layout
from clevr_xai.training import loading
from clevr_xai.training.training_set import TrainingSet

# Data that the code behind a training set reads besides its scenes.
FAMILIES = pathlib.Path(layout.__file__).parent / "generation" / "families"


def load(
    file: pathlib.Path,
    data_dir,
    rounds: dict[str, int],
    num_images: int = 0,
    wordings: Sequence[str] = ("plain",),
) -> TrainingSet:
    """Return ``loading.load`` of the arguments, read from ``file`` if it holds just that, else written there."""
    scenes = layout.find(pathlib.Path(data_dir), layout.SCENES)
    if scenes is None:
        return loading.load(data_dir, rounds, num_images, wordings)  # says what is missing
    code = code_fingerprint("clevr_xai.training.loading:load", files=[FAMILIES])
    described = json.dumps([str(scenes.resolve()), scenes.stat().st_mtime, rounds, num_images, list(wordings), code])
    with locked_directory(file.parent, "a training set"):
        stored = _stored(file, described)
        if stored is not None:
            return stored
        data = loading.load(data_dir, rounds, num_images, wordings)
        fields = {name: value for name, value in vars(data).items() if value is not None}
        atomic_write(file, lambda stream: np.savez(stream, described=described, **fields))
        return data


def _stored(file: pathlib.Path, described: str) -> TrainingSet | None:
    """Return the training set of a file if it holds the one that is described; a damaged file holds none."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            if str(stored["described"]) != described:
                return None
            names = [field.name for field in dataclasses.fields(TrainingSet) if field.name in stored.files]
            values = {name: stored[name] for name in names}
            values |= {"seed": int(values["seed"]), "rendered": str(values["rendered"])}
            return TrainingSet(**values)
    except (OSError, EOFError, ValueError, KeyError, TypeError, MemoryError, zipfile.BadZipFile, zlib.error):
        return None


def codes(file: pathlib.Path, checkpoint: pathlib.Path, learner, data: TrainingSet) -> np.ndarray:
    """Return the learner's codes of the data's questions, read from ``file`` if they are younger than a checkpoint."""
    if file.exists() and file.stat().st_mtime > checkpoint.stat().st_mtime:
        with contextlib.suppress(OSError, EOFError, ValueError, IndexError, MemoryError):  # a damaged one is made anew
            stored = read_array(file)
            if stored.shape[1] == len(data.tokens):
                return stored
    computed = learner.codes(data)
    atomic_write(file, lambda stream: np.save(stream, computed))
    return computed
