"""Read all inputs of a model from files, for the commands that explain them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, listed, printable
from attribution.preprocessing import (
    TABLES,
    Preprocessing,
    note_limit,
    read_class_names,
    read_inputs,
    read_rows,
    read_table,
)

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.model import Model


@dataclasses.dataclass(frozen=True)
class ExplainedInputs:
    """Inputs that were read from files.

    Attributes
    ----------
    read, explain_input
        Name of the first input that is explained, or lies before what is; and what is, see ``read_and_explained``.
    labels
        N names.
    feed
        Name to array, all inputs of the model.
    shown
        Those of them that are plotted as other numbers than the model gets: pixels.
    preprocessing
        Of the pixels.
    features
        Names of a vector's features.
    """

    read: str
    explain_input: str
    labels: list[str]
    feed: dict[str, np.ndarray]
    shown: dict[str, np.ndarray]
    preprocessing: Preprocessing | None
    features: list[str] | None = None


def words_of(tokens: np.ndarray, vocabulary: str) -> np.ndarray:
    """Return the words of token numbers, (N, positions) text.

    Parameters
    ----------
    tokens
        (N, positions) whole numbers.
    vocabulary
        File with a word for each number from 0: one a line, or JSON.

    Raises
    ------
    BadInput
        If the file cannot be read, has no word for a number, or the inputs are not tokens.
    """
    words = np.array([printable(word) for word in read_class_names(vocabulary)], object)
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
        raise BadInput(f"--tokens names token numbers (N, positions), not {tokens.dtype.name} of shape {tokens.shape}")
    if not 0 <= tokens.min(initial=0) <= tokens.max(initial=0) < len(words):
        raise BadInput(
            f"'{vocabulary}' has {len(words)} words, and the tokens go from {tokens.min()} to {tokens.max()}"
        )
    return np.asarray(words[tokens])


def check_class_names(names: Sequence[str] | None, file: str, model: Model) -> None:
    """Raise ``BadInput`` if a file has another number of names than the model has classes."""
    if names is not None and len(names) != model.num_classes:
        raise BadInput(f"'{file}' has {len(names)} names, the model {model.num_classes} classes")


def table_of(paths: Sequence[str]) -> pathlib.Path | None:
    """Return the table of all inputs, if one is given; raise ``BadInput`` if there are other files beside it."""
    tables = [pathlib.Path(path) for path in paths if pathlib.Path(path).suffix.lower() in TABLES]
    if tables and len(paths) > 1:
        raise BadInput(f"'{tables[0]}' holds all inputs; give no other file with it")
    return tables[0] if tables else None


def read_and_explained(
    model: Model, explain_input: str, table: pathlib.Path | None, note: Callable[[str], object]
) -> tuple[str, str]:
    """Return the input that the files are for, and what is explained: the same, others too, or a tensor behind it."""
    if explain_input in model.graph.nodes and len(model.inputs) == 1:  # such as the embeddings of tokens
        return next(iter(model.inputs)), explain_input
    if reads_tokens(model, explain_input):
        return next(iter(model.inputs)), model.at().input  # what is read of tokens
    if table is not None and not explain_input:
        explain_input = _columns_explained(model, note)
    if names := model.together(explain_input):
        return next(name for name in (*names, *model.inputs) if name in model.inputs), explain_input
    name = model.explained_input(explain_input or None)
    return name, name


def _columns_explained(model: Model, note: Callable[[str], object]) -> str:
    """Return what of a table is explained if nothing was chosen: all, noted, or "" where one input has floats."""
    floats = [name for name, spec in model.inputs.items() if spec.dtype.is_floating]
    if len(floats) < 2:
        return ""
    others = [name for name in model.inputs if name not in floats]  # such as categories
    kept = f"; {listed(others)}, not of floating point, have no bars" if others else ""
    note(f"{listed(floats)} are explained together{kept}; --explain_input= chooses")
    return "all"


def reads_tokens(model: Model, explain_input: str | None) -> bool:
    """Return whether the only input has rows of whole numbers, and nothing else is to be explained."""
    (spec, *others) = model.inputs.values()
    return not explain_input and not others and bool(spec.dtype.is_integer) and spec.shape.rank == 2


def explained_inputs(
    model: Model,
    read: str,
    explain_input: str,
    files: pathlib.Path | Sequence[str],
    others: Sequence[str] = (),
    *,
    note: Callable[[str], object],
    limit: int,
    **options: Any,
) -> ExplainedInputs:
    """Read inputs.

    Parameters
    ----------
    model
        Takes them.
    read, explain_input
        As ``read_and_explained`` returns them.
    files
        A table, or the files of the input ``read``.
    others
        NAME=FILE.npy for each of the other inputs, where there is no table.
    note
        Called with what was chosen for the user, in words.
    limit
        How many inputs to take at most, the first ones.
    **options
        Of ``preprocessing.read_inputs``.

    Raises
    ------
    BadInput
        If a file cannot be read or does not fit the model.
    """
    if not isinstance(files, pathlib.Path):
        found = read_inputs(model, read, files, limit=limit, note=note, **options)
        feed = {read: found.inputs} | _others(others, model, read, len(found.inputs))
        return ExplainedInputs(read, explain_input, found.labels, feed, {read: found.shown}, found.preprocessing)
    if others:
        raise BadInput(f"'{files}' holds all inputs; leave out --other_inputs")
    specs = {name: (spec.shape[1:].as_list(), spec.dtype.as_numpy_dtype) for name, spec in model.inputs.items()}
    feed, features = read_table(files, specs)
    note_limit(len(feed[read]), limit, note)
    feed = {name: array[:limit] for name, array in feed.items()}
    labels = [f"{files.stem} {row}" for row in range(len(feed[read]))]
    return ExplainedInputs(read, explain_input, labels, feed, {}, None, features)


def _others(entries: Sequence[str], model: Model, explain_input: str, total: int) -> dict[str, np.ndarray]:
    """Return the arrays of the inputs that are not explained."""
    needed = {name for name in model.inputs if name != explain_input}
    given = dict(entry.partition("=")[::2] for entry in entries)
    if set(given) != needed:
        if not needed:
            raise BadInput(f"the model has no other input than '{explain_input}'; leave out --other_inputs")
        raise BadInput(
            f"the model also has the inputs {listed(sorted(needed))}; give each by --other_inputs=NAME=FILE.npy"
        )
    arrays = {}
    for name, path in given.items():
        array = read_rows(path, model.inputs[name].shape[1:].as_list())
        arrays[name] = np.repeat(array, total, axis=0) if len(array) == 1 else array
    return arrays
