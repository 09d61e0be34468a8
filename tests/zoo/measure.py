"""Explain one family by every method and say of each map what is known of it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

import attribution
from attribution.check_method import ROW_TOLERANCE, exchanges
from attribution.errors import BadInput
from attribution.explain import BrokenContract
from zoo import oracles
from zoo.family import Family
from zoo.relevance_oracle import DEFINITIONS

# An oracle's map and ours are the same if they differ by no more than this share of the largest value.
TOLERANCE = 1e-5
_HALF_STEP = 2.0**-24  # by which rounding to float32 may change a number, as a share of it
METHODS = tuple(name for name, method in attribution.METHODS.items() if not method.library and name != "random")
MASKED = ("ablation_cam", "score_cam", "score_cam_constant_masks", "sise")
# Channels of the layer that these methods use, where the default layer has more: one pass for each.
FEW_CHANNELS = 64
AT_LAYER = tuple(name for name, method in attribution.METHODS.items() if method.query == "layer gradient")
BY_ORACLE = (*(name for name in METHODS if hasattr(oracles.Oracle, name) and name not in AT_LAYER), *AT_LAYER)
GRADIENT_X_INPUT = ("lrp_epsilon", "lrp_cp", "lrp_attn")  # they are, where a network is piecewise linear and ε is 0
GROUPED = ("shapley_sampling", "kernel_shap", "lime")
RELEVANCE = tuple(name for name in METHODS if name.startswith(("lrp_", "excitation")))
DEFINITION = "its definition"
COMPLETENESS = "f(x) - f(0)"
# Parameters with which a method is another one, that the oracle computes.
LIMITS = {
    "guided_integrated_gradients": ({"max_distance": 0.0}, "the straight path"),
    "lrp_gamma": ({"gamma": 0.0, "epsilon": 1e-12}, "Gradient x Input for γ = 0"),
}
FEW = {
    # ε takes its share of the sum, at every operation of which a layer consists.
    **{name: {"epsilon": 1e-12} for name in METHODS if name.startswith("lrp_")},
    "integrated_gradients": {"points": oracles.POINTS},
    "smoothgrad": {"samples": oracles.SAMPLES},
    "vargrad": {"samples": oracles.SAMPLES},
    "expected_gradients": {"samples": oracles.SAMPLES},
    "guided_integrated_gradients": {"steps": oracles.POINTS},
    "idgi": {"points": oracles.POINTS},
    "blur_ig": {"steps": oracles.POINTS},
    "xrai": {"points": oracles.POINTS},
    "shapley_sampling": {"permutations": oracles.PERMUTATIONS},
    "kernel_shap": {"samples": oracles.COALITIONS},
    "lime": {"samples": oracles.COALITIONS},
    "rise": {"masks": oracles.MASKS, "cells": oracles.CELLS},
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is known of one method on one family.

    Attributes
    ----------
    status
        ``"exact"``: within the tolerance of an oracle. ``"limit"``: so is the method with parameters that make it
        another one. ``"complete"``: the map has the sum that it must have. ``"rounding"``: the difference is
        larger, but the same network in float64 has none. ``"differs"``: it has, or a map changes with the other inputs
        of its batch. ``"rows"``: no oracle and no sum; maps are finite and do not change with the other inputs.
        ``"refused"``: by name, in one line. ``"crashes"``: anything else.
    against, difference
        The oracle, and the difference from it as a share of its largest value.
    in_double, of_oracle
        Where the difference is large: the same where network, method and oracle compute in float64, and that of the
        oracle as the file computes from itself in float64.
    note
        Why it was refused; what crashed; what else there is to say of a map.
    seconds
        Compilation included.
    """

    status: str
    against: str = ""
    difference: float | None = None
    in_double: float | None = None
    of_oracle: float | None = None
    note: str = ""
    seconds: float = 0.0


def measure(
    family: Family,
    methods=METHODS,
    rows: int | None = None,
    report=lambda text: None,
) -> dict:
    """Write a family's file, explain some inputs by each method, and compare.

    Parameters
    ----------
    family, methods
        The family, and names of the registry.
    rows
        Number of inputs; by default 4 of a small network and 2 of a large one.
    report
        Is called with each method's name before it runs.

    Returns
    -------
    dict
        ``"layer"``: name and shape of the default layer of class activation maps, or why there is none;
        ``"methods"``: name to the fields of a ``Cell``.
    """
    rows = rows or (4 if family.quick else 2)
    with tempfile.TemporaryDirectory() as folder:
        path, in_double = pathlib.Path(folder) / family.name, pathlib.Path(folder) / f"{family.name}.double"
        family.write(path)
        inputs = family.inputs(rows)
        try:
            model = load(family, path)
            targets = (np.arange(rows) % model.num_classes).astype(np.int32)
        except Exception as error:
            cell = dataclasses.asdict(failed(error))
            return {"layer": cell["note"], "methods": dict.fromkeys(methods, cell)}

        @functools.cache
        def double():
            family.write_in_double(in_double)
            return load(family, in_double), oracles.Oracle(family, in_double, inputs, targets)

        oracle = functools.cache(lambda: oracles.Oracle(family, path, inputs, targets))
        subject = Subject(family, model, inputs, targets, oracle, double if family.write_in_double else None)
        layer, subject.layers = _layers(family, model, inputs, targets)
        found = {}
        for name in methods:
            report(name)
            started = time.monotonic()
            cell = subject.cell(name)
            found[name] = dataclasses.asdict(dataclasses.replace(cell, seconds=round(time.monotonic() - started, 1)))
        return {"layer": layer, "methods": found}


def load(family, path):
    return attribution.load_model(path, score=family.score, **family.load)


@dataclasses.dataclass
class Subject:
    """A network with N inputs and target classes, and functions that load the oracles of its file.

    Not every family has an oracle, so it is loaded when it is needed. ``double`` returns the same network in float64
    and its oracle.
    """

    family: Family
    model: attribution.Model
    inputs: np.ndarray | Mapping[str, np.ndarray]
    targets: np.ndarray
    oracle: Callable[[], oracles.Oracle]
    double: Callable | None = None
    layers: Mapping[str, tuple[str, tuple[int, ...]]] = dataclasses.field(default_factory=dict)

    def cell(self, name: str) -> Cell:
        """Return what is known of a method, called with few samples."""
        try:
            options = self._options(name)
            maps = self._maps(self.model, name, options)
            changes = [
                difference(self._maps(self.model, name, options, others, order)[kept], maps[kept])
                for order, others, kept in self.exchanged
            ]
        except Exception as error:
            return failed(error)
        if max(changes, default=0) > ROW_TOLERANCE:
            return Cell("differs", "other inputs", max(changes), note="a map changes with the other inputs")
        note = "" if np.abs(maps).max() > 0 else "all zero"
        for status, against in self._laws(name):
            with contextlib.suppress(oracles.NoOracle):
                return self._compared(name, options, maps, Cell(status, against, note=note))
        shares = self._shares(name, maps)
        if shares is not None and (missed := np.abs(shares - 1).max()) <= TOLERANCE:
            return Cell("complete", "the logit", missed, note=note)
        share = "" if shares is None else f"Σ/f {shares.min():.2f} to {shares.max():.2f}"
        return Cell("rows", note=note or share)

    def _options(self, name):
        layer = {"layer": self.layers[name][0]} if name in MASKED and name in self.layers else {}
        return few_options(name, lambda: self.oracle().values) | layer

    def _compared(self, name, options, maps, cell) -> Cell:
        """Return the cell of maps that should be as ``_expected``, from one of a law, without difference."""
        if name == "full_grad":
            cell = dataclasses.replace(cell, difference=self._missing(self.model, self.oracle()))
            if cell.difference > TOLERANCE:
                missing = self._missing(*self.double()) if self.double else np.inf
                status = "rounding" if missing <= TOLERANCE else "differs"
                cell = dataclasses.replace(cell, status=status, in_double=missing)
            return cell
        if cell.status == "limit":
            options = options | LIMITS[name][0]
            maps = self._maps(self.model, name, options)
        expected = self._expected(name, cell.against, options, self.oracle())
        found = _sums(maps) if expected.ndim == 1 else maps
        cell = dataclasses.replace(cell, difference=difference(found, expected))
        if cell.difference <= TOLERANCE:
            return cell
        if not self.double:
            return dataclasses.replace(cell, status="differs")
        return self._compared_in_double(name, options, cell, found, expected)

    def _missing(self, model, oracle) -> float:
        """Return by how much FullGrad's terms miss the sum of the logits, as a share of the largest of them."""
        missed = []

        def look(queries):
            for rows, _, feed, targets in queries._passes():
                terms, _ = queries.model.full_gradient(feed, targets, queries._explained)
                logits, found = oracle.scores(oracle.values)[rows].sum(), list(terms.values())
                missed.append(abs(sum(found) - logits) / max(abs(logits), *map(abs, found)))
            return queries.inputs

        self._maps(model, look, {})
        return float(max(missed))

    def _compared_in_double(self, name, options, cell, found, expected) -> Cell:
        """Return the cell of a map that differs from its oracle, after the same network was computed in float64."""
        model, oracle = self.double()
        true = self._expected(name, cell.against, options, oracle)
        from_true = difference(found, true)
        if from_true <= TOLERANCE:  # where the file rounds to 16 bits, but the method does not
            return dataclasses.replace(cell, against=f"{cell.against} in float64", difference=from_true)
        maps, note = self._maps(model, name, options), cell.note
        in_double = _sums(maps) if true.ndim == 1 else maps
        allowed = TOLERANCE * np.abs(true).max()
        if in_double.ndim == 1:  # sums of values that are returned as float32: rounded as multipliers and as products
            sizes = _sums(np.abs(maps))
            allowed = np.maximum(allowed, 2 * _HALF_STEP * sizes)
            if (cancelled := (sizes / np.abs(true)).max()) > 100:
                note = f"its values are {cancelled:.0e} times their sum"
        return dataclasses.replace(
            cell,
            status="rounding" if (np.abs(in_double - true) <= allowed).all() else "differs",
            in_double=difference(in_double, true),
            of_oracle=difference(expected, true),
            note=note,
        )

    def _maps(self, model, name, options, inputs=None, order=slice(None)):
        return attribution.explain(
            name, model, self.inputs if inputs is None else inputs, self.targets[order],
            explain_input=self.family.explain_input, batch_size=16, seed=oracles.SEED, **options,
        )  # fmt: skip

    @functools.cached_property
    def exchanged(self) -> list:
        """Batches in which maps must not change; see ``attribution.check_method.exchanges``."""
        found = []
        for order, kept in exchanges(len(self.targets)):
            single = not isinstance(self.inputs, dict)
            others = self.inputs[order] if single else {name: array[order] for name, array in self.inputs.items()}
            found.append((order, others, kept))
        return found

    def _laws(self, name) -> Iterator[tuple[str, str]]:
        """Yield the status of a method's maps where they are as ``_expected``, and by what, the strongest first."""
        linear, logits = self.family.piecewise_linear, self.family.score == "logits"
        if name in GRADIENT_X_INPUT and linear:
            yield "exact", "Gradient x Input"
        if (name in BY_ORACLE and name not in LIMITS) or name in DEFINITIONS:
            yield "exact", DEFINITION
        if name in LIMITS and (linear or name in BY_ORACLE):
            yield "limit", LIMITS[name][1]
        if logits and name in ("deeplift", "full_grad"):
            yield "complete", COMPLETENESS if name == "deeplift" else "the sum of its terms"
        if name == "lrp_cp" and self.family.conserving:
            yield "complete", "the logit"

    def _expected(self, name, against, options, oracle) -> np.ndarray:
        """Return what an oracle computes of a method: maps, or their sums ``(N,)``."""
        if name in BY_ORACLE:
            if name in AT_LAYER and name not in self.layers:
                raise oracles.NoOracle("no layer")
            return oracle.as_map(getattr(oracle, name)(*self.layers.get(name, ())))
        if against in ("the logit", COMPLETENESS):
            whole = oracle.scores(oracle.values)
            return whole if against == "the logit" else whole - oracle.scores(np.zeros_like(oracle.values))
        return oracle.as_map(oracle.relevance(name, options) if against == DEFINITION else oracle.gradient_x_input())

    def _shares(self, name, maps) -> np.ndarray | None:
        """Return which share of the score a map of relevance adds up to, ``(N,)``."""
        if name not in RELEVANCE or self.family.score != "logits":
            return None
        ones = name == "excitation_backprop"
        return _sums(maps) / (np.ones(len(maps)) if ones else self.oracle().scores(self.oracle().values))


def few_options(name: str, values: Callable[[], np.ndarray]) -> dict:
    """Return parameters of a method with few samples; ``values`` returns what is explained, channels last."""
    options = dict(FEW.get(name, {}))
    spatial = values().shape[1:-1] if name in ("occlusion", *GROUPED) else ()
    if spatial:
        by_groups = {"groups": oracles.groups_of(spatial)}
        options |= by_groups if name in GROUPED else {"patch": oracles.patch_of(spatial)}
    if name in ("lrp_clevr_xai", "lrp_epsilon_gamma_box") and values().dtype.kind == "f":
        options |= {"low": float(values().min()), "high": float(values().max())}
    return options


def _sums(maps):
    return maps.reshape(len(maps), -1).astype(np.float64).sum(axis=1)


def difference(found, expected) -> float:
    scale = np.abs(expected).max()
    return float(np.abs(found - expected).max() / scale) if scale else float(np.abs(found).max())


def failed(error) -> Cell:
    text = " ".join(str(error).split())
    if isinstance(error, BadInput) and not isinstance(error, BrokenContract):
        return Cell("refused", note=text)
    return Cell("crashes", note=f"{type(error).__name__}: {text[:300]}")


def _layers(family, model, inputs, targets):
    """Return the default layer in words, and the layer and the shape of its values by the name of a method."""
    found = {}

    def look(queries):
        name = queries.model.layer(None, family.explain_input)
        found["default"] = name, queries.layer_gradient()[0].shape[1:]
        few = few_channels(queries, family.explain_input, found["default"][1])
        found["few"] = (few, queries.layer_gradient(few)[0].shape[1:]) if few else found["default"]
        return queries.inputs

    try:
        attribution.explain(look, model, inputs, targets, explain_input=family.explain_input)
    except Exception as error:  # of one that is no ``BadInput``, the methods will say more in their cells
        return str(error) if isinstance(error, BadInput) else f"crashes: {type(error).__name__}", {}
    name, shape = found["default"]
    short = "/".join(part for part in name.split("/") if "PartitionedCall" not in part)
    layers = {method: found["few" if method in MASKED else "default"] for method in AT_LAYER}
    return f"{short} ({', '.join(map(str, shape))})", layers


def few_channels(queries, explain_input, shape):
    """Return the first layer with positions and few channels behind the input's own, if one of a shape has more."""
    if shape[-1] <= FEW_CHANNELS:
        return None
    for name in queries.model.layers(explain_input):
        shape = queries.model.graph.shape(name)
        last = shape[-1] if shape.rank else None
        if last is not None and queries.inputs.shape[-1] < last <= FEW_CHANNELS:
            return name
    return None


def in_general(text: str) -> str:
    """Return a reason without the names of one file's nodes."""
    text = re.sub(r"'/\S*?'", "the file", text)
    text = re.sub(r" \((?:node ')?[\w./-]*/[\w./-]*'?\)", "", text)
    text = re.sub(r"[\w.-]*PartitionedCall[\w./:-]*", "…", text)
    text = re.sub(r" and \d+ more", " and more", text)
    text = re.sub(r"'\w+'(?:, '\w+')+", lambda names: ", ".join(dict.fromkeys(names[0].split(", "))), text)
    return (text if len(text) <= 240 else text[:237] + "...").replace("|", "\\|")
