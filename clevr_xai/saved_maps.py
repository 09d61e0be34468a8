"""Maps on disk, one ``.npy`` a question: ``DIRECTORY/METHOD/QUESTION_INDEX.npy``, and the answers beside them.

That is how the authors' tools keep heatmaps and predictions (``predictions.json``, a list of ``answer`` and
``question_index``). Whole maps keep their channels, (H, W, C) float32; the authors' evaluation script reads pooled
ones, (H, W).
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.command_line import BadInput, listed
from clevr_xai import layout
from clevr_xai.answering import scaled
from clevr_xai.dataset import Dataset
from clevr_xai.measured import Label, Measured
from clevr_xai.pooling import pool
from clevr_xai.scoring import score_maps
from clevr_xai.vocabulary import answer_text

PREDICTIONS, ORIGIN = "predictions.json", "origin.json"


class MapsDirectory:
    """A directory that maps are written to.

    Parameters
    ----------
    directory
        Made when the first map is written.
    pooling
        Name of the pooling to write in place of the whole maps; empty for whole maps.
    origin
        What the maps depend on besides method and question, plain JSON; kept beside them.

    Raises
    ------
    BadInput
        If there is no such pooling, or the directory holds maps of another origin.
    """

    def __init__(self, directory: str, pooling: str = "", origin: Mapping | None = None):
        self.directory, self.pooling = pathlib.Path(directory), pooling
        if pooling:
            pool(np.zeros((1, 1, 1)), [pooling])  # refuses a name that is none
        self._origin = json.dumps({**(origin or {}), "pooling": pooling}, sort_keys=True) + "\n"
        known = self.directory / ORIGIN
        if known.exists() and known.read_text(encoding="utf-8") != self._origin:
            raise BadInput(f"{directory} holds maps of another network, seed or setting; name another directory")

    def path(self, label: Label, index: int) -> pathlib.Path:
        """Return the file of a question's map; a user's own method ``module:function`` has a folder ``function``."""
        return self.directory / folder_of(label.method) / f"{index}.npy"

    def has(self, label: Label, index: int) -> bool:
        """Return whether the map is there."""
        return self.path(label, index).exists()

    def save(self, label: Label, index: int, found: np.ndarray) -> None:
        """Write a map, whole or not at all."""
        if self.pooling:
            found = pool(found[np.newaxis], [self.pooling])[self.pooling][0]
        content = io.BytesIO()
        np.save(content, found.astype(np.float32), allow_pickle=False)
        path = self.path(label, index)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (self.directory / ORIGIN).exists():
            layout.write(self.directory / ORIGIN, self._origin.encode())
        layout.write(path, content.getvalue())

    def save_predictions(self, measured: Measured, answers: Sequence[str]) -> None:
        """Write the right answers, those that maps explain; ``answers`` of all n questions."""
        entries = [
            {"answer": answer, "question_index": int(index)}
            for index, answer, right in zip(measured.indices, answers, measured.right, strict=True)
            if right
        ]
        self.directory.mkdir(parents=True, exist_ok=True)
        layout.write(self.directory / PREDICTIONS, (json.dumps(entries) + "\n").encode())


def folder_of(method: str) -> str:
    """Return the folder of a method's maps."""
    return method.rpartition(":")[2]


def saved_methods(directory: str, methods: Sequence[str] = ()) -> dict[str, pathlib.Path]:
    """Return the folders of maps in a directory, by the method's name.

    Parameters
    ----------
    directory
        Holds a folder a method, or the maps of one method itself.
    methods
        Names wanted; all that are there when empty.

    Raises
    ------
    BadInput
        If there is no such directory, no map in it, or none of a method.
    """
    root = pathlib.Path(directory)
    if not root.is_dir():
        raise BadInput(f"no directory {directory}; name one that holds METHOD/QUESTION_INDEX.npy")
    found = {child.name: child for child in sorted(root.iterdir()) if child.is_dir() and any(child.glob("*.npy"))}
    if not found and any(root.glob("*.npy")):
        found = {root.resolve().name: root}
    if not found:
        raise BadInput(f"no maps in {directory}; expected METHOD/QUESTION_INDEX.npy")
    missing = [name for name in methods if folder_of(name) not in found]
    if missing:
        raise BadInput(f"no maps of '{missing[0]}' in {directory}; there are {listed(found)}")
    return {name: found[folder_of(name)] for name in methods} if methods else found


def side(folders: Mapping[str, pathlib.Path]) -> int:
    """Return the height and width of saved maps in pixels, from the first of them; all others must have it too."""
    path = min(next(iter(folders.values())).glob("*.npy"))
    shape = [length for length in _loaded(path).shape if length > 4]  # neither batch nor channels
    if len(shape) != 2 or shape[0] != shape[1]:
        raise BadInput(f"{path} is no map of a square image; numbers of shape (side, side, C) are needed")
    return shape[0]


def read_map(path: pathlib.Path, size: int) -> np.ndarray:
    """Return a map as (size, size, C) or (size, size).

    Axes of one in front are dropped, and channels may come first, as PyTorch has them.

    Raises
    ------
    BadInput
        If the file cannot be read, is of another size, or holds what are no finite numbers.
    """
    found = _loaded(path)
    shape = found.shape
    while found.ndim > 2 and found.shape[0] == 1:
        found = found[0]
    if found.ndim == 3 and found.shape[1:] == (size, size) and found.shape[0] != size:
        found = np.moveaxis(found, 0, -1)
    if found.shape[:2] != (size, size) or found.ndim > 3 or found.dtype.kind not in "fiub":
        raise BadInput(f"{path} holds {found.dtype} of shape {shape}; numbers of shape ({size}, {size}, C) are needed")
    if not np.isfinite(found).all():
        raise BadInput(f"{path} has NaN or infinite values")
    return found


def _loaded(path: pathlib.Path) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise BadInput(f"{path} is not a readable map: {error}") from None
    if not isinstance(found, np.ndarray):
        raise BadInput(f"{path} is not a readable map: it holds several arrays")
    return found


def measure_saved(
    dataset: Dataset,
    rows: Sequence[int],
    folders: Mapping[str, pathlib.Path],
    predictions: pathlib.Path | None,
    extra_maps: Mapping[str, object] | None = None,
    seed: int = 0,
    batch_size: int = 8,
) -> Measured:
    """Score saved maps; no network is asked.

    Parameters
    ----------
    dataset
        Questions and masks, of the maps' size.
    rows
        Places in it; those without a map of every method are left out.
    folders
        Method -> folder of its maps.
    predictions
        File of answers; questions answered wrongly in it, or missing, count as wrong. None counts all as right.
    extra_maps
        Control -> function of ``controls.MAPS``.
    seed, batch_size
        Of the run.

    Raises
    ------
    BadInput
        If no question has a map of every method.
    """
    index_of = {row: dataset.questions[row]["question_index"] for row in rows}
    rows = [row for row in rows if all((folder / f"{index_of[row]}.npy").exists() for folder in folders.values())]
    if not rows:
        raise BadInput(f"none of the questions drawn has maps of all methods in {listed(map(str, folders.values()))}")
    right = _right(dataset, rows, predictions)
    labels = [Label(name) for name in folders] + [Label(control=name) for name in extra_maps or {}]
    scores: dict[Label, list] = {label: [] for label in labels}
    sizes, digests = [], []
    for batch in dataset.batches(batch_size, rows):
        indices = [index_of[row] for row in batch.rows]
        digests += [f"{index} {digest[:16]}" for index, digest in zip(indices, batch.digests(), strict=True)]
        for label in labels:
            if label.control:
                keys = [f"{dataset.kind}/{index}" for index in indices]
                maps = extra_maps[label.control](scaled(batch.images), keys, seed)
                scores[label].append(score_maps(maps, batch.masks))
            else:
                maps = [read_map(folders[label.method] / f"{index}.npy", dataset.size) for index in indices]
                # One by one, since maps of one folder may differ in their channels.
                for place, one in enumerate(maps):
                    masks = {name: mask[place : place + 1] for name, mask in batch.masks.items()}
                    scores[label].append(score_maps(one[np.newaxis], masks))
        sizes.append(np.stack([mask.sum(axis=(1, 2)) for mask in batch.masks.values()], axis=1))
    sizes = np.concatenate(sizes)
    joined = {label: np.concatenate(parts) for label, parts in scores.items()}
    return Measured(
        dataset.kind,
        dataset.ground_truths,
        np.array(rows, np.int64),
        np.array([index_of[row] for row in rows], np.int64),
        [dataset.questions[row]["image_filename"] for row in rows],
        right,
        None,
        {name: sizes[:, place] for place, name in enumerate(dataset.ground_truths)},
        hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        tuple(labels),
        lambda label: np.where(right[:, None, None, None], joined[label], np.nan),
    )


def _right(dataset: Dataset, rows, predictions: pathlib.Path | None) -> np.ndarray:
    """Return which questions a file of answers has right, (n,) bool."""
    if predictions is None:
        return np.ones(len(rows), bool)
    try:
        entries = json.loads(predictions.read_text(encoding="utf-8"))
        given = {int(entry["question_index"]): answer_text(entry["answer"]) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f'{predictions} is no list of answers ({error}); expected [{{"answer": "red", "question_index": 0}}, ...]'
        ) from None
    answers = dataset.answers
    return np.array([given.get(dataset.questions[row]["question_index"]) == answers[row] for row in rows], bool)


def maps_of(dataset: Dataset, folders: Mapping[str, pathlib.Path], rows: Sequence[int]) -> dict[str, np.ndarray]:
    """Return the saved maps of some questions, method -> (n, H, W, C) or (n, H, W)."""
    indices = [dataset.questions[row]["question_index"] for row in rows]
    return {
        name: np.stack([read_map(folder / f"{index}.npy", dataset.size) for index in indices])
        for name, folder in folders.items()
    }
