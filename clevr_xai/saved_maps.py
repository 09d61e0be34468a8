"""What CLEVR-XAI knows of saved maps: the size of their images, and the answers that lie beside them.

The authors' tools keep heatmaps as ``METHOD/QUESTION_INDEX.npy`` and predictions as ``predictions.json``, a list of
``answer`` and ``question_index``. Whole maps keep their channels, (H, W, C) float32; the authors' evaluation script
reads pooled ones, (H, W).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping

from attribution.errors import BadInput
from attribution.file_io.files import atomic_write
from attribution.file_io.reading import read_json
from attribution_benchmarks.core.saved_maps import load_array
from clevr_xai.vocabulary import answer_text

PREDICTIONS = "predictions.json"


def side(folders: Mapping[str, pathlib.Path]) -> int:
    """Return the height and width of saved maps in pixels, from the first of them; all others must have it too."""
    path = min(next(iter(folders.values())).rglob("*.npy"))
    shape = [length for length in load_array(path).shape if length > 4]  # neither batch nor channels
    if len(shape) != 2 or shape[0] != shape[1]:
        raise BadInput(f"{path} is no map of a square image; numbers of shape (side, side, C) are needed")
    return shape[0]


def save_predictions(directory: str, answers: Iterable[tuple[int, str]]) -> None:
    """Write the answers that maps explain, (question index, answer) each."""
    entries = [{"answer": answer, "question_index": int(index)} for index, answer in answers]
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    atomic_write(pathlib.Path(directory) / PREDICTIONS, json.dumps(entries) + "\n")


def read_predictions(directory: str) -> dict[str, str] | None:
    """Return question index -> answer; None where there is no such file, and so every answer counts as right.

    Raises
    ------
    BadInput
        If the file is no list of answers.
    """
    path = pathlib.Path(directory) / PREDICTIONS
    if not path.exists():
        return None
    try:
        entries = read_json(path)
        return {str(int(entry["question_index"])): answer_text(entry["answer"]) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f'{path} is no list of answers ({error}); expected [{{"answer": "red", "question_index": 0}}, ...]'
        ) from None
