"""Compare the maps of a network's file by one writer with those of the same network's file by another."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

import attribution
from attribution.savedmodel.file import SavedFile
from zoo import oracles
from zoo.family import Family
from zoo.measure import (
    AT_LAYER,
    MASKED,
    TOLERANCE,
    Cell,
    difference,
    failed,
    few_channels,
    few_options,
    load,
)

# Maps of two files that are each within the tolerance of the definition.
_BOTH = 2 * TOLERANCE
_SAME_VALUES = 1e-4  # of two files' layers, as a share of the largest


@dataclasses.dataclass
class Explained:
    """A file of a family, and what is explained by it: N inputs and their classes.

    ``layers`` are the default layer of class activation maps, and one of few channels, by name; ``values`` their values
    ``(N, positions..., channels)``.
    """

    family: Family
    path: pathlib.Path
    rows: int | None = None
    named_by: pathlib.Path | None = None
    layers: tuple[str | None, ...] = (None, None)

    def __post_init__(self) -> None:
        self.rows = self.rows or (4 if self.family.quick else 2)
        self._inputs = self.family.inputs(self.rows)
        if self.named_by:
            self.family, self._inputs = _as_named(self.family, self._inputs, self.named_by, self.path)
        self.model = load(self.family, self.path)
        self._targets = (np.arange(self.rows) % self.model.num_classes).astype(np.int32)
        self._maps: dict[str, np.ndarray] = {}

    def maps(self, name: str) -> np.ndarray:
        """Return a method's maps, with few samples."""
        if name not in self._maps:
            self._maps[name] = self._explained(name, **self._options(name))
        return self._maps[name]

    def _explained(self, method, **options) -> np.ndarray:
        return attribution.explain(
            method, self.model, self._inputs, self._targets,
            explain_input=self.family.explain_input, batch_size=16, seed=oracles.SEED, **options,
        )  # fmt: skip

    def look(self, function: Callable) -> object:
        """Return a function's result of the queries that a method has."""
        found = []

        def method(queries):
            found.append(function(queries))
            return queries.inputs

        self._explained(method)
        return found[0]

    @functools.cached_property
    def explained(self) -> np.ndarray:
        """Values that maps are of, channels last."""
        return self.look(lambda queries: np.asarray(queries.inputs))

    def _options(self, name) -> dict:
        layer = self.layers[name in MASKED] if name in AT_LAYER else None
        return few_options(name, lambda: self.explained) | ({"layer": layer} if layer else {})

    def find_layers(self) -> None:
        """Set ``layers`` to the default ones, if there are any."""

        def layers(queries):
            name = queries.model.layer(None, self.family.explain_input)
            return name, few_channels(queries, self.family.explain_input, queries.layer_gradient(name)[0].shape) or name

        try:
            self.layers = self.look(layers)
        except Exception:
            self.layers = (None, None)  # the methods' cells say why

    def values_of(self, layer: str | None) -> np.ndarray | None:
        """Return a layer's values; ``None`` if it cannot be explained."""
        try:
            return self.look(lambda queries: queries.layer_gradient(layer)[0])
        except Exception:
            return None

    def use_layers_of(self, other: Explained) -> str:
        """Set ``layers`` to those whose values another file's layers have; return how the default layer differs."""
        wanted = [other.values_of(layer) if layer else None for layer in other.layers]
        if wanted[0] is None:
            return ""
        self.find_layers()
        if self.layers[0] is None:
            return "no default layer"
        default = self.layers[0]
        found = tuple(self._layer_of(values, first) for values, first in zip(wanted, self.layers, strict=True))
        self.layers = tuple(one or default for one in found)
        if found[0] is None:
            return "no layer has the values of the other default layer"
        return "" if found[0] == default else "another default layer"

    def _layer_of(self, values, first) -> str | None:
        known = self.look(lambda queries: list(queries.model.layers(self.family.explain_input)))
        for name in dict.fromkeys([first, *reversed(known)]):
            shape = self.model.graph.shape(name)
            sizes = shape.num_elements() if shape.rank and shape[0] is not None else None
            count = values.size if sizes and shape[0] == len(values) else values[0].size
            if name != first and (sizes or shape[1:].num_elements()) != count:
                continue
            here = self.values_of(name)
            if here is not None and here.shape == values.shape and difference(here, values) <= _SAME_VALUES:
                return name
        return None


def compare(reference: Explained, path: pathlib.Path, methods: Iterable[str], report=lambda text: None) -> dict:
    """Compare the maps of a file with a reference's, at the same layers.

    Parameters
    ----------
    reference
        The file whose maps are known to be exact, its layers found.
    path
        The same network's file by another writer.
    methods
        Names of methods.
    report
        Is called with each method's name before it runs.

    Returns
    -------
    dict
        ``"layer"``: how the default layer differs, empty if not; ``"kept"``: why the file's module was not translated,
        empty if it was; ``"methods"``: name to the fields of a ``Cell``.
    """
    try:
        given = Explained(reference.family, path, reference.rows, named_by=reference.path)
        layer = given.use_layers_of(reference)
    except Exception as error:
        cell = dataclasses.asdict(failed(error))
        return {"layer": "", "kept": cell["note"], "methods": dict.fromkeys(methods, cell)}
    found = {}
    for name in methods:
        report(name)
        found[name] = dataclasses.asdict(_compared(reference, given, name))
    kept = [node.name for node in given.model.graph.nodes.values() if node.op == "XlaCallModule"]
    return {"layer": layer, "kept": ", ".join(kept), "methods": found}


def _compared(reference, given, name) -> Cell:
    try:
        expected = reference.maps(name)
        found = difference(given.maps(name), expected)
    except Exception as error:
        return failed(error)
    return Cell("exact" if found <= _BOTH else "differs", "the reference", found)


def _as_named(family, inputs, path, other):
    """Return a family and its inputs under the names of another writer's file, both in the order of their names."""
    ours, theirs = (SavedFile(each).signatures["serving_default"] for each in (path, other))
    names = dict(zip(sorted(ours.inputs), sorted(theirs.inputs), strict=True))
    outputs = dict(zip(sorted(ours.outputs), sorted(theirs.outputs), strict=True))
    load = {name: outputs[value] if name == "output" else value for name, value in family.load.items()}
    explain_input = names.get(family.explain_input, family.explain_input)
    if isinstance(inputs, dict):
        inputs = {names[name]: array for name, array in inputs.items()}
    return dataclasses.replace(family, load=load, explain_input=explain_input), inputs
