"""Make the maps of a run: of methods, of methods under controls, and of model-independent controls.

Maps on disk are one ``.npy`` per input: ``DIRECTORY/METHOD/INPUT.npy``, with their origin in ``origin.json``. The
format is the same in every benchmark, so maps of other software can be scored. Maps are (positions..., channels)
float32, or (positions...) where channels are pooled.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution import Method, reading
from attribution.batching import Inputs
from attribution.errors import BadInput, MissedSum, listed
from attribution.explain import BrokenContract
from attribution.files import atomic_write, remove_stale
from attribution.methods.registry import with_parameters
from attribution_benchmarks.core.batch import Batch, MapSource, ModelScores, with_targets
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.fingerprint import Code, definition_of


class Inapplicable(BadInput):
    """Methods cannot explain the network. ``refused`` is name -> reason."""

    def __init__(self, message: str, refused: Mapping[str, str]):
        super().__init__(message)
        self.refused = refused


class Explainer:
    """Makes maps of batches by methods and controls.

    Parameters
    ----------
    model
        What is explained, from a file or a server.
    methods
        Name -> method, or (method, overrides).
    controls
        Those of the run, in the order of the table.
    controlled
        Names of the methods to run under controls, or such names by control; all where None.
    seed, batch_size
        Of the run.

    Attributes
    ----------
    sources : tuple of MapSource
        Methods, methods under each control, controls.
    lasting : bool
        ``key`` has everything that maps depend on, so numbers may be stored.
    """

    lasting = True

    def __init__(
        self,
        model: Any,
        methods: Mapping[str, Method | tuple[Method, Mapping[str, Any]]],
        controls: Sequence[Control] = (),
        controlled: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        seed: int = 0,
        batch_size: int = 32,
    ):
        self.model, self.seed, self.batch_size = model, seed, batch_size
        self.methods = with_parameters(methods)
        self.controls = {control.name: control for control in controls}
        self._codes = {
            name: Code.of(name, method.function, parameters, method.library_version())
            for name, (method, parameters) in self.methods.items()
        }
        self._control_codes = {
            name: Code.of(name, definition_of(control.maps or control.disturb), control.depends_on)
            for name, control in self.controls.items()
        }
        if not isinstance(controlled, Mapping):
            controlled = dict.fromkeys(self.controls, list(self.methods) if controlled is None else controlled)
        self.sources = (*map(MapSource, self.methods), *_under_controls(self.methods, controls, controlled))

    @property
    def scores(self) -> ModelScores:
        """The function from inputs to the model's scores, (N, classes)."""
        return ModelScores(self.model, self.batch_size)

    def with_targets(self, batch: Batch) -> Batch:
        """Return a batch with its targets, by default the classes that the model predicts."""
        return with_targets(batch, self.scores)

    def explain_function(self, source: MapSource) -> _ExplainFunction:
        """Return a function that explains other inputs, targets or networks by the method of a source."""
        return _ExplainFunction(self, source.method)

    def key(self, source: MapSource) -> dict[str, Any]:
        """Return what the maps of a source depend on besides model and inputs: method, parameters, control, seed."""
        key: dict[str, Any] = {"method": source.name, "seed": self.seed}
        if source.method:
            key["code"] = self._codes[source.method].digest  # with its parameters
        if source.control:
            key["control"] = self._control_codes[source.control].digest
        return key

    def codes(self, source: MapSource) -> list[Code]:
        """Return the code that makes the maps of a source: its method's and its control's."""
        found = [self._codes.get(source.method), self._control_codes.get(source.control)]
        return [code for code in found if code]

    def maps(self, sources: Sequence[MapSource], batch: Batch) -> Iterator[tuple[MapSource, np.ndarray]]:
        """Yield the maps of some sources, control by control, so that memory holds those of one control.

        Controls of methods need the batch's targets, see ``with_targets``.
        """
        for name in dict.fromkeys(source.control for source in sources):
            yield from self._maps_under(name, [source for source in sources if source.control == name], batch)

    def _maps_under(self, name: str, sources: list[MapSource], batch: Batch) -> Iterator[tuple[MapSource, np.ndarray]]:
        control = self.controls[name] if name else None
        if control and control.maps:
            yield sources[0], control.maps(batch, self.seed)
            return
        model, disturbed = self.model, batch
        if control and control.disturb:
            model, disturbed = control.disturb(self.model, batch, self.seed)
        found = self._explained(model, [source.method for source in sources], disturbed)
        for source in sources:
            yield source, found.pop(source.method)

    def _explained(self, model: Any, names: Sequence[str], batch: Batch) -> dict[str, np.ndarray]:
        try:
            return self._explained_together(model, names, batch)
        except BrokenContract:
            raise
        except BadInput:
            self.check_methods(batch.take([0]), model, names)
            raise

    def check_methods(self, batch: Batch, model: Any = None, names: Iterable[str] | None = None) -> None:
        """Raise ``Inapplicable`` if methods, by default all, cannot explain a batch on a model, by default the own."""
        refused = {}
        for name in self.methods if names is None else names:
            try:
                self._explained_together(model or self.model, [name], batch)
            except BrokenContract:
                raise
            except BadInput as error:
                refused[name] = str(error)
        if refused:
            raise Inapplicable(next(iter(refused.values())), refused)

    def _explained_together(self, model: Any, names: Sequence[str], batch: Batch) -> dict[str, np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissedSum)  # a line for each batch
            maps: dict[str, np.ndarray] = attribution.explain_many(
                {name: self.methods[name] for name in names}, model, batch.inputs, batch.targets,
                explain_input=batch.explained or None, batch_size=self.batch_size, seed=self.seed, keys=batch.seeds,
                resize=True,
            )  # fmt: skip
            return maps


def _under_controls(
    methods: Iterable[str], controls: Sequence[Control], controlled: Mapping[str, Any]
) -> Iterator[MapSource]:
    """Yield the methods under each control that disturbs them, then the controls that make maps."""
    for control in filter(lambda each: each.disturb, controls):
        yield from (MapSource(name, control.name) for name in methods if name in controlled.get(control.name, ()))
    yield from (MapSource(control=control.name) for control in controls if control.maps)


class _ExplainFunction:
    """Explains by one method, for metrics that compare maps; equal to another of the same explainer and method."""

    def __init__(self, explainer: Explainer, method: str):
        self.explainer, self.method, self.model = explainer, method, explainer.model

    @property
    def scores(self) -> ModelScores:
        """The function from inputs to the model's scores, (N, classes)."""
        return self.explainer.scores

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return maps of a batch, (N, positions...) or with channels, of the run's model or of another.

        A batch without targets is explained for the classes that the run's model predicts, on either model.
        """
        batch = self.explainer.with_targets(batch)
        return self.explainer._explained(model or self.model, [self.method], batch)[self.method]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ExplainFunction) and (other.explainer, other.method) == (self.explainer, self.method)

    def __hash__(self) -> int:
        return hash((id(self.explainer), self.method))


def _no_model(inputs: Inputs) -> np.ndarray:
    raise BadInput("--precomputed_maps loads no network, and a metric needs one; remove it from --metrics")


_ORIGIN = "origin.json"
_LARGEST = 64 * 2**20  # bytes of one map's file; no map of a benchmark comes near


class MapsDirectory:
    """A directory that maps are written to, created when the first map is written.

    Beside each map is ``METHOD/INPUT.key``: the key of its method and the key of its input. A map of another key is
    written again, and the other maps of a method that has changed are removed.

    ``origin`` is what the maps depend on besides method and input, plain JSON; ``BadInput`` if the directory holds maps
    of another origin.
    """

    def __init__(self, directory: str, origin: Mapping[str, Any]):
        self.directory = pathlib.Path(directory)
        self._current: set[tuple[str, str]] = set()  # methods and their keys without maps of another key
        self._origin = json.dumps(dict(origin), sort_keys=True) + "\n"
        known = self.directory / _ORIGIN
        if known.exists():
            remove_stale(self.directory)
            with reading.opened(known, "origin of maps") as file:
                same = file.read().decode("utf-8") == self._origin
            if not same:
                raise BadInput(f"{directory} holds maps of another network, seed or setting; name another directory")

    def path(self, method: str, name: str) -> pathlib.Path:
        """Return the file of an input's map."""
        return self.directory / _folder_of(method) / f"{name}.npy"

    def has(self, method: str, name: str, key: Sequence[str]) -> bool:
        """Return whether an input's map with this key, of the method and of the input, is saved."""
        path = self.path(method, name)
        beside = path.with_suffix(".key")
        return path.exists() and beside.exists() and beside.read_text("utf-8").split() == list(key)

    def _remove_other_maps(self, method: str, key: str) -> None:
        """Remove the maps of a method that have another key of the method."""
        for beside in (self.directory / _folder_of(method)).rglob("*.key"):
            with contextlib.suppress(FileNotFoundError):  # removed by another worker
                if beside.read_text("utf-8").split()[:1] != [key]:
                    beside.with_suffix(".npy").unlink(missing_ok=True)
                    beside.unlink()
        self._current.add((method, key))

    def save(self, method: str, name: str, found: np.ndarray, key: Sequence[str]) -> None:
        """Write a map, whole or not at all; ``BadInput`` if there is one that has no key."""
        content = io.BytesIO()
        written = _in_single_precision(found)
        if not np.isfinite(written).all():
            raise BadInput(f"method '{method}': the map of input {name} has NaN, infinite or too large values")
        np.save(content, written, allow_pickle=False)
        path = self.path(method, name)
        if path.exists() and not path.with_suffix(".key").exists():
            raise BadInput(f"{path} is a map without a key beside it; name another directory with --save_maps")
        if not (self.directory / _ORIGIN).exists():
            atomic_write(self.directory / _ORIGIN, self._origin)
        if (method, key[0]) not in self._current:
            self._remove_other_maps(method, key[0])
        path.unlink(missing_ok=True)
        atomic_write(path.with_suffix(".key"), " ".join(key), durable=False)
        atomic_write(path, content.getvalue(), durable=False)


class SavedMaps:
    """Precomputed maps of a directory; replaces ``explainer.Explainer`` in a run.

    Parameters
    ----------
    folders
        Method -> folder, from ``saved_methods``.
    controls, seed
        Of these the model-independent baselines are scored, with this seed.
    scores
        Function from inputs to the model's scores, for metrics that need a model; None for a run without one.
    """

    lasting = False  # the files may change at any time

    def __init__(
        self,
        folders: Mapping[str, pathlib.Path],
        controls: Sequence[Control] = (),
        seed: int = 0,
        scores: Callable[[Inputs], np.ndarray] | None = None,
    ):
        self.folders, self.seed, self._scores = dict(folders), seed, scores
        self._baselines = {control.name: control.maps for control in controls if control.maps}
        self.sources = (*map(MapSource, self.folders), *(MapSource(control=name) for name in self._baselines))

    @property
    def scores(self) -> Callable[[Inputs], np.ndarray]:
        """The function from inputs to the model's scores, (N, classes); raises ``BadInput`` if the run has no model."""
        return self._scores or _no_model

    def with_targets(self, batch: Batch) -> Batch:
        """Return a batch with its targets set where the run has a model, by default the classes that it predicts."""
        return batch if self._scores is None else with_targets(batch, self._scores)

    def check(self, names: Sequence[str], unit: str) -> None:
        """Raise ``BadInput`` if one of the inputs of these names has no map of a method."""
        there = with_all_maps(names, self.folders)
        if not all(there):
            raise BadInput(
                f"{there.count(False):,} of {len(names):,} {unit}s have no map of every method; expected "
                f"METHOD/{names[there.index(False)]}.npy"
            )

    def explain_function(self, source: MapSource) -> Any:
        """Raise ``BadInput``: precomputed maps cannot be recomputed."""
        raise BadInput("--precomputed_maps computes no maps, and a metric needs more of them; remove it from --metrics")

    def key(self, source: MapSource) -> dict[str, Any]:
        """Return the source's name and the seed; scores of maps that may change are stored in memory only."""
        return {"method": source.name, "seed": self.seed}

    def codes(self, source: MapSource) -> list[Code]:
        """Return the code that makes the maps of a source; of files, none."""
        return []

    def maps(self, sources: Sequence[MapSource], batch: Batch) -> Iterator[tuple[MapSource, np.ndarray]]:
        """Yield the maps of some sources; ``batch.truth["file"]`` holds the inputs' names in the directory."""
        spatial = batch.pictures.shape[1:-1]
        for source in sources:
            if source.control:
                yield source, self._baselines[source.control](batch, self.seed)
                continue
            files = [self.folders[source.method] / f"{name}.npy" for name in batch.truth["file"]]
            maps = [read_map(file, spatial) for file in files]
            if len({one.shape for one in maps}) > 1:
                odd = next(file for file, one in zip(files, maps, strict=True) if one.shape != maps[0].shape)
                raise BadInput(f"{odd} and {files[0]} hold maps of different shapes; one shape a method is needed")
            yield source, np.stack(maps)


def check_folders(methods: Iterable[str]) -> None:
    """Raise ``BadInput`` if the maps of two methods would be saved in one folder."""
    taken: dict[str, str] = {}
    for method in methods:
        other = taken.setdefault(_folder_of(method), method)
        if other != method:
            raise BadInput(f"--save_maps has one folder for '{other}' and '{method}'; rename one of the functions")


def _folder_of(method: str) -> str:
    """Return the folder of a method's maps: "function" for a custom ``module:function``."""
    return method.rpartition(":")[2]


def saved_methods(directory: str, methods: Sequence[str] = ()) -> dict[str, pathlib.Path]:
    """Return the folders of maps in a directory by method: a folder per method, or the directory itself.

    ``methods`` are their names, as ``published_rows`` takes them; all that are found when empty. Raises ``BadInput`` if
    there is no such directory, no map in it, or none of a method.
    """
    root = pathlib.Path(directory)
    if not root.is_dir():
        raise BadInput(f"no directory {directory}; name one that holds METHOD/INPUT.npy")
    found = _folders_with_maps(root)
    if not found:
        raise BadInput(f"no maps in {directory}; expected METHOD/INPUT.npy")
    names = [name.partition("=")[0] for name in methods]
    for name in names:
        if _folder_of(name) not in found:
            raise BadInput(f"no maps of '{name}' in {directory}; there are {listed(found)}")
    return {name: found[_folder_of(name)] for name in names} if names else found


def published_rows(methods: Sequence[str], paper: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the methods of a paper that precomputed maps are compared with, name -> method, from ``name=method``.

    ``paper`` are its figures, as of ``definition.Benchmark``. Raises ``BadInput`` for a method without figures.
    """
    rows = {name: row for name, equals, row in (method.partition("=") for method in methods) if equals}
    known = dict.fromkeys(figure["method"] for figure in paper)
    for name, row in rows.items():
        if row not in known:
            choice = f"choose of {listed(known)}" if known else f"name the maps alone, as --methods={name}"
            raise BadInput(f"--methods={name}={row}: the paper's figures here have no method '{row}'; {choice}")
    return rows


def _folders_with_maps(root: pathlib.Path) -> dict[str, pathlib.Path]:
    found = {child.name: child for child in sorted(root.iterdir()) if child.is_dir() and any(child.rglob("*.npy"))}
    if not found and any(root.glob("*.npy")):
        return {root.resolve().name: root}
    return found


def with_all_maps(names: Sequence[str], folders: Mapping[str, pathlib.Path]) -> list[bool]:
    """Return which inputs have a map of every method."""
    return [all((folder / f"{name}.npy").exists() for folder in folders.values()) for name in names]


def read_map(path: pathlib.Path, spatial: Sequence[int]) -> np.ndarray:
    """Return the map of a ``.npy`` file as (positions..., channels) or (positions...).

    Leading axes of size one are dropped, and channels may come first, as in PyTorch. ``spatial`` are the required
    positions, such as (128, 128). Raises ``BadInput`` if the file cannot be read, is of another size, or contains
    values that are not finite numbers.
    """
    stored = load_array(path)
    spatial = tuple(spatial)
    found = _channels_last(stored, spatial)
    if found.shape[: len(spatial)] != spatial or found.ndim > len(spatial) + 1 or found.dtype.kind not in "fiub":
        wanted = ", ".join(map(str, spatial))
        raise BadInput(
            f"{path} holds {stored.dtype} of shape {stored.shape}; numbers of shape ({wanted}, C) are needed"
        )
    if not np.isfinite(_in_single_precision(found)).all():
        raise BadInput(f"{path} has NaN or infinite values, or values too large for float32")
    return found


def _channels_last(found: np.ndarray, spatial: tuple[int, ...]) -> np.ndarray:
    while found.ndim > len(spatial) and found.shape[0] == 1 and found.shape != (*spatial, 1):
        found = found[0]
    if found.ndim == len(spatial) + 1 and found.shape[1:] == spatial and found.shape[:-1] != spatial:
        return np.moveaxis(found, 0, -1)
    return found


def _in_single_precision(found: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def load_array(path: pathlib.Path) -> np.ndarray:
    """Return the array of an untrusted ``.npy`` file, of at most 64 MiB and without running code; else ``BadInput``."""
    try:
        if path.stat().st_size > _LARGEST:
            raise BadInput(f"{path} has more than {_LARGEST // 2**20} MB; a map of one input is needed")
    except OSError as error:
        raise BadInput(f"{path} is not a readable map: {error}") from None
    return reading.read_array(path)
