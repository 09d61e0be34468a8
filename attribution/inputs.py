"""All inputs of a model from files: found, read at the model's size, and scaled as the model expects.

A SavedModel does not record how its inputs were scaled, and the wrong scale gives wrong maps. The scale has a name
here, is printed where it was chosen for the user, and is never part of a method.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution import reading
from attribution.errors import BadInput, listed
from attribution.files import similar_paths
from attribution.methods.libraries import read_toml

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.model import Model

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
ARRAYS = (".npy",)
TABLES = (".csv", ".npz")
_INPUT_FILES = "a picture, a .npy file, a folder of them, or one table of all inputs (.csv, .npz)"


def find_files(paths: Sequence[str | os.PathLike[str]]) -> list[pathlib.Path]:
    """Return the files that a user named, each folder replaced by the pictures and arrays in it, in order of names.

    Parameters
    ----------
    paths
        Files and folders.

    Raises
    ------
    BadInput
        If a path does not exist or is not an input file, or nothing is found.
    """
    found = []
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.suffix.lower() in PICTURES + ARRAYS)
            if not inside:
                raise BadInput(f"there is no picture ({listed(PICTURES)}) and no '.npy' in '{path}'")
            found += inside
        elif not path.is_file():
            raise BadInput(f"'{path}' does not exist; {_INPUT_FILES} is needed{similar_paths(path)}")
        elif path.suffix.lower() not in PICTURES + ARRAYS:
            raise BadInput(
                f"'{path}' is not an input file; names end in {listed(PICTURES + ARRAYS)}, those of tables in "
                f"{listed(TABLES)}"
            )
        else:
            found.append(path)
    if not found:
        raise BadInput(f"no input was named; give {_INPUT_FILES}")
    return found


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
    floats = [name for name, spec in model.inputs.items() if spec.dtype.is_floating]
    if table is not None and not explain_input and len(floats) > 1:
        others = [name for name in model.inputs if name not in floats]  # such as categories
        kept = f"; {listed(others)}, not of floating point, have no bars" if others else ""
        note(f"{listed(floats)} are explained together{kept}; --explain_input= chooses")
        explain_input = "all"
    if names := model.together(explain_input):
        return next(name for name in (*names, *model.inputs) if name in model.inputs), explain_input
    name = model.explained_input(explain_input or None)
    return name, name


def reads_tokens(model: Model, explain_input: str | None) -> bool:
    """Return whether the only input has rows of whole numbers, and nothing else is to be explained."""
    (spec, *others) = model.inputs.values()
    return not explain_input and not others and bool(spec.dtype.is_integer) and spec.shape.rank == 2


def explained_inputs(
    model: Model,
    read: str,
    explain_input: str,
    files: pathlib.Path | Sequence[pathlib.Path],
    *,
    note: Callable[[str], object],
    limit: int,
    scaling: str = "",
) -> ExplainedInputs:
    """Read inputs.

    Parameters
    ----------
    model
        Takes them.
    read, explain_input
        As ``read_and_explained`` returns them.
    files
        A table, or the files of the input ``read``, which then is the only one.
    note
        Called with what was chosen for the user, in words.
    limit
        How many inputs to take at most, the first ones.
    scaling
        Name of a preprocessing of pixels; the likely one for pictures, and none for arrays, when empty.

    Raises
    ------
    BadInput
        If a file cannot be read, does not fit the model or is of another kind than the others.
    """
    shapes = {name: spec.shape[1:].as_list() for name, spec in model.inputs.items()}
    if isinstance(files, pathlib.Path):
        kinds = {name: (shapes[name], spec.dtype.as_numpy_dtype) for name, spec in model.inputs.items()}
        feed, features = read_table(files, kinds)
        labels = [f"{files.stem} {row}" for row in range(len(feed[read]))]
        taken = _first(labels, limit, note)
        feed = {name: array[:limit] for name, array in feed.items()}
        return ExplainedInputs(read, explain_input, taken, feed, {}, None, features)
    if others := [name for name in model.inputs if name != read]:
        raise BadInput(f"the model also has the inputs {listed(others)}; give all by name, as arrays in one .npz file")
    paths, shape = find_files(files)[: limit + 1], shapes[read]
    preprocessing = preprocessing_named(scaling) if scaling else None
    first = len(shape) == 3 and model.has_channels_first(read)
    pictures = sum(path.suffix.lower() in PICTURES for path in paths)
    if 0 < pictures < len(paths):
        raise BadInput("images and arrays cannot be explained together; give one kind")
    if pictures:
        paths = _first(paths, limit, note)
        labels = [path.stem for path in paths]
        pixels = read_pictures(paths, [*shape[1:], shape[0]] if first else shape)
        if preprocessing is None:
            preprocessing, reason = likely_preprocessing(model, read)
            note(f"pixels are given as {preprocessing.name}, because {reason}; --preprocessing= chooses another scale")
    else:
        rows = [(path, read_rows(path, shape)) for path in paths]
        if len(found := {array.shape[1:] for _, array in rows}) > 1:
            raise BadInput(f"the arrays have different shapes: {listed(sorted(map(str, found)))}")
        labels = [
            f"{path.stem} {row}" if len(array) > 1 else path.stem for path, array in rows for row in range(len(array))
        ]
        labels = _first(labels, limit, note)
        arrays = np.concatenate([array for _, array in rows])[:limit]
        if preprocessing is None:
            return ExplainedInputs(read, explain_input, labels, {read: arrays}, {read: arrays}, None)
        pixels = np.moveaxis(arrays, 1, -1) if first else arrays
    inputs = preprocessing.apply(pixels)
    feed = {read: np.moveaxis(inputs, -1, 1) if first else inputs}
    return ExplainedInputs(read, explain_input, labels, feed, {read: pixels}, preprocessing)


def _first(inputs: list[Any], limit: int, note: Callable[[str], object]) -> list[Any]:
    """Return the first inputs, and note that there are more."""
    if len(inputs) > limit:
        note(f"inputs after the first {limit} are not explained; --limit= takes more")
    return inputs[:limit]


def read_pictures(paths: Sequence[pathlib.Path], shape: Sequence[int | None]) -> np.ndarray:
    """Read pictures at the size and with the channels of a model's input; others are resized and their middle cut out.

    Parameters
    ----------
    paths
        The pictures' files.
    shape
        ``(H, W, C)`` of the input; None where the model takes any, so that the first picture's size is used.

    Returns
    -------
    np.ndarray
        ``(N, H, W, C)`` uint8, turned upright.

    Raises
    ------
    BadInput
        If a file is not a picture that can be read, or the model takes none.
    """
    from PIL import Image, ImageOps

    if len(shape) != 3 or shape[-1] not in (1, 3, 4, None):
        raise BadInput(
            f"the model takes inputs of shape {shape_text(shape)}, which pictures are not; give arrays as .npy files"
        )
    height, width, channels = shape
    mode = {1: "L", 3: "RGB", 4: "RGBA", None: "RGB"}[channels]
    pictures = []
    for path in paths:
        pixels = reading.read_pixels(path, mode, upright=True)
        height, width = height or pixels.shape[0], width or pixels.shape[1]
        if pixels.shape[:2] != (height, width):  # Pillow weighs colours by their opacity
            picture = Image.fromarray(pixels if pixels.shape[-1] > 1 else pixels[..., 0])
            cut = np.asarray(ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR))
            pixels = cut.reshape(height, width, -1)
        pictures.append(pixels)
    return np.stack(pictures)


def read_rows(path: str | os.PathLike[str], shape: Sequence[int | None]) -> np.ndarray:
    """Read one or several inputs from a ``.npy`` file.

    Parameters
    ----------
    path
        The file.
    shape
        Shape of one input, such as ``(T, C)`` or ``(H, W, C)``; None where any size will do.

    Returns
    -------
    np.ndarray
        ``(N, *shape)``. An axis of one channel may be missing in the file, as may that of the inputs.

    Raises
    ------
    BadInput
        If the file is not an array of numbers, or has another shape.
    """
    array = reading.read_array(path)
    candidates = [array[np.newaxis], array]
    if len(shape) and shape[-1] in (1, None):
        candidates += [array[np.newaxis, ..., np.newaxis], array[..., np.newaxis]]
    for candidate in candidates:
        if _fits(candidate, shape) and len(candidate):
            return candidate
    raise BadInput(
        f"'{path}' has shape {array.shape}; the model takes {shape_text(shape)}, or several of these along a first axis"
    )


def _fits(array: np.ndarray, shape: Sequence[int | None]) -> bool:
    """Return whether an array holds inputs of a shape along its first axis."""
    sizes = (None, *shape)
    return array.ndim == len(sizes) and all(want in (None, have) for want, have in zip(sizes, array.shape, strict=True))


def read_table(
    path: pathlib.Path, inputs: Mapping[str, tuple[Sequence[int | None], Any]]
) -> tuple[dict[str, np.ndarray], list[str] | None]:
    """Read all inputs of a model from a table.

    Parameters
    ----------
    path
        A ``.csv`` file with a line of names, or a ``.npz`` file of arrays by name.
    inputs
        Name to the shape of one input and its NumPy type; ``object`` is text.

    Returns
    -------
    arrays : dict[str, np.ndarray]
        Name to ``(N, *shape)``. Other columns are left out.
    names : list[str] or None
        Of a model with one vector as its input, if all columns of a CSV file are its features: their names.

    Raises
    ------
    BadInput
        If the file cannot be read, has no column for an input, or a cell is no value of the input's type.
    """
    if path.suffix.lower() == ".npz":
        columns: Mapping[str, Any] = reading.read_arrays(path)
    else:
        columns = reading.read_csv(path)
        (shape, dtype), *others = inputs.values()
        if not others and len(shape) == 1 and set(columns) != set(inputs):
            if shape[0] not in (None, len(columns)):
                raise BadInput(
                    f"'{path}' has {len(columns)} columns, {listed(columns, 8)}; the model takes {shape[0]}: one for "
                    "each feature, in order, without a label"
                )
            features = [_cells(path, name, cells, dtype) for name, cells in columns.items()]
            return {next(iter(inputs)): np.stack(features, axis=1)}, list(columns)
    if missing := sorted(inputs.keys() - columns.keys()):
        raise BadInput(
            f"'{path}' has no column for {listed(missing)}; the model's inputs are {listed(inputs)}, the columns "
            f"{listed(columns, 8)}"
        )
    return {name: _column(path, name, columns[name], *taken) for name, taken in inputs.items()}, None


def _column(path: pathlib.Path, name: str, values: Any, shape: Sequence[int | None], dtype: Any) -> np.ndarray:
    """Return an array of a file, or the cells of a column as an array, of inputs of a shape."""
    array = np.asarray(values)
    if isinstance(values, list):
        array = _cells(path, name, values, dtype).reshape(-1, *(1,) * len(shape))
    if not _fits(array, shape):
        raise BadInput(f"'{name}' of '{path}' has shape {array.shape}; the model takes {shape_text((None, *shape))}")
    if not len(array):
        raise BadInput(f"'{name}' of '{path}' has no rows; at least one is needed")
    return array.astype(object) if dtype is object else array


def _cells(path: pathlib.Path, name: str, cells: Sequence[str], dtype: Any) -> np.ndarray:
    """Return the cells of a column in a type."""
    kind = np.dtype(dtype).kind
    if kind == "O":
        return np.array(cells, object)
    values = []
    for number, cell in enumerate(cells, start=2):
        text = cell.strip().lower()
        try:
            values.append(_TRUTH[text] if kind == "b" else int(text) if kind in "iu" else float(text))
        except (ValueError, KeyError):
            wanted = {"b": "true or false", "i": "a whole number", "u": "a whole number"}.get(kind, "a number")
            raise BadInput(f"line {number} of '{path}': '{cell}' in column '{name}' is not {wanted}") from None
    return np.array(values)


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def read_class_names(path: str | os.PathLike[str]) -> list[str]:
    """Read names of classes: one a line, or JSON: a list, or a mapping from number to name.

    Keras' ``imagenet_class_index.json``, whose values are pairs of an identifier and a name, is understood.

    Raises
    ------
    BadInput
        If the file cannot be read.
    """
    if pathlib.Path(path).suffix != ".json":
        with reading.opened(path, "list of class names") as file:
            return [line.strip() for line in file.read().decode("utf-8").rstrip().splitlines()]
    content = reading.read_json(path)
    try:
        if isinstance(content, dict):
            content = [content[str(number)] for number in range(len(content))]
        return [str(entry[-1] if isinstance(entry, list) else entry) for entry in content]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"'{path}' is not a JSON list of names or a mapping from '0', '1', ... to names") from error


def shape_text(shape: Sequence[int | None]) -> str:
    """Return a shape as text, with ``any`` for sizes that are not fixed."""
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """``values = (pixels - mean) / scale`` of pixels in [0, 255], channel by channel.

    Attributes
    ----------
    name
        As typed on a command line.
    about
        Which networks are trained so.
    mean, scale
        One number, or one for each of three channels in the order of the pixels (red, green, blue).
    reverses
        Whether the channels come in the order blue, green, red.
    """

    name: str
    about: str
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0
    reverses: bool = False

    def apply(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels ``(..., C)`` in [0, 255] as the model takes them, float32.

        Raises
        ------
        BadInput
            If the scale is one of colours and there are not three channels.
        """
        self._check(pixels.shape[-1])
        values = (pixels.astype(np.float32) - np.asarray(self.mean, np.float32)) / np.asarray(self.scale, np.float32)
        return np.ascontiguousarray(values[..., ::-1]) if self.reverses else values

    def invert(self, values: np.ndarray) -> np.ndarray:
        """Return model inputs ``(..., C)`` as pixels in [0, 255], float32."""
        self._check(values.shape[-1])
        if self.reverses:
            values = values[..., ::-1]
        pixels = values * np.asarray(self.scale, np.float32) + np.asarray(self.mean, np.float32)
        return np.asarray(np.clip(pixels, 0, 255))

    def _check(self, channels: int) -> None:
        of_colours = np.ndim(self.mean) or np.ndim(self.scale) or self.reverses
        if of_colours and channels != 3:
            raise BadInput(
                f"preprocessing '{self.name}' is one of three colours, not of {channels} channels; "
                f"there are {listed(name for name in PREPROCESSINGS if name[0] in '-0')}"
            )


def _read_preprocessings() -> Iterator[Preprocessing]:
    for name, entry in read_toml(pathlib.Path(__file__).with_name("preprocessings.toml")).items():
        numbers: dict[str, Any] = {key: tuple(of) if isinstance(of, list) else of for key, of in entry.items()}
        yield Preprocessing(name, **numbers)


PREPROCESSINGS: Mapping[str, Preprocessing] = MappingProxyType({each.name: each for each in _read_preprocessings()})


def preprocessing_named(name: str) -> Preprocessing:
    """Return the preprocessing of a name; raise ``BadInput`` if there is none."""
    if name not in PREPROCESSINGS:
        raise BadInput(f"no preprocessing '{name}'; there are {listed(PREPROCESSINGS)}")
    return PREPROCESSINGS[name]


# Operations that scale or centre pixels, and which magnitudes of their constant say that it is meant for pixels.
_SCALES_PIXELS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "Mul": lambda value: value < 0.1,
    "RealDiv": lambda value: value > 10,
    "Sub": lambda value: value > 10,
}


def likely_preprocessing(model: Model, explain_input: str) -> tuple[Preprocessing, str]:
    """Return the scale that a model most likely takes, and why, where its user does not say.

    A file whose first step is to scale its input by something like 1/255, or to subtract a mean of pixels, takes
    pixels in [0, 255]. About any other nothing is known, and [0, 1] is taken. ``explain_input`` is the input's name.
    """
    graph, name = model.graph, model.input_node(explain_input)
    if not model.inputs[explain_input].dtype.is_floating:
        return PREPROCESSINGS["0..255"], f"the input is of type {model.inputs[explain_input].dtype.name}"
    while len(following := graph.uses(name)) == 1 and graph.nodes[following[0]].op in ("Identity", "Cast"):
        name = following[0]
    for step in following:
        node = graph.nodes[step]
        others = {entry.split(":")[0] for entry in node.input} - {name}
        if node.op not in _SCALES_PIXELS or len(others) != 1:
            continue
        value = np.abs(graph.constant_values(list(others)).get(next(iter(others)), np.zeros(0)))
        if value.size and _SCALES_PIXELS[node.op](value).all():
            return PREPROCESSINGS["0..255"], "the model scales pixels by itself"
    return PREPROCESSINGS["0..1"], "the file does not say how its inputs were scaled"
