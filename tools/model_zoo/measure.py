"""Explain one family by every method and say of each map what is known of it."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping

import numpy as np

import attribution
from attribution.check_method.checks import ROW_TOLERANCE, exchanges
from attribution.errors import BadInput
from attribution.explain import BrokenContract
from tools.model_zoo import oracles
from tools.model_zoo.family import Family

# An oracle's map and ours are the same if they differ by no more than this share of the largest value.
TOLERANCE = 1e-5
_HALF_STEP = 2.0**-24  # by which rounding to float32 may change a number, as a share of it
METHODS = tuple(name for name, method in attribution.METHODS.items() if not method.library and name != "random")
# Methods whose maps an oracle computes.
BY_TAPE = ("gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "vargrad", "expected_gradients")
BY_SCORES = ("occlusion", "rise")
COMPLETE = ("idgi", "shapley_sampling", "kernel_shap")  # a map's sum is f(x) - f(0)
RELEVANCE = tuple(name for name in METHODS if name.startswith(("lrp_", "excitation")))
MASKED = tuple(name for name in METHODS if name.startswith(("score_cam", "sise", "ablation_cam")))
# Channels of the layer that methods with one mask a channel stand on, where the default layer has more.
FEW_CHANNELS = 64
FEW = {
    "lrp_epsilon": {"epsilon": 1e-12},  # it is Gradient x Input as ε goes to 0, and off by ε over the least value
    "lrp_cp": {"epsilon": 1e-12},  # ε takes its share of the sum
    "integrated_gradients": {"points": oracles.POINTS},
    "smoothgrad": {"samples": oracles.SAMPLES},
    "vargrad": {"samples": oracles.SAMPLES},
    "expected_gradients": {"samples": oracles.SAMPLES},
    "guided_integrated_gradients": {"steps": 4},
    "idgi": {"points": 4},
    "blur_ig": {"steps": 4},
    "xrai": {"points": 4},
    "shapley_sampling": {"permutations": 1},
    "kernel_shap": {"samples": 20},
    "lime": {"samples": 20},
    "rise": {"masks": oracles.MASKS, "cells": oracles.CELLS},
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is known of one method on one family.

    Attributes
    ----------
    status
        ``"exact"``: within the tolerance of an oracle. ``"rounding"``: not so, but the same network in float64 is.
        ``"differs"``: neither, or a map changes with the other inputs of its batch.
        ``"runs"``: finite maps, no oracle. ``"refused"``: by name, in one line. ``"crashes"``: anything else.
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


def measure(family: Family, methods=METHODS, rows: int | None = None, told=lambda text: None) -> dict:
    """Write a family's file, explain some inputs by each method, and compare.

    Parameters
    ----------
    family, methods
        The family, and names of the registry.
    rows
        Number of inputs; by default 4 of a small network and 2 of a large one.
    told
        Is called with each method's name before it runs.

    Returns
    -------
    dict
        ``"layer"``: name and shape of the default layer of class activation maps, or why there is none;
        ``"methods"``: name to the fields of a ``Cell``.
    """
    rows = rows or (4 if family.quick else 2)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / family.name
        family.write(path)
        inputs = family.inputs(rows)
        try:
            model = attribution.load_model(path, score=family.score, **family.load)
            targets = (np.arange(rows) % model.num_classes).astype(np.int32)
        except Exception as error:
            cell = dataclasses.asdict(_failed(error))
            return {"layer": cell["note"], "methods": dict.fromkeys(methods, cell)}

        @functools.cache
        def double():
            path = pathlib.Path(folder) / f"{family.name}.double"
            family.write_in_double(path)
            loaded = attribution.load_model(path, score=family.score, **family.load)
            return loaded, oracles.Oracle(family, path, inputs, targets)

        oracle = functools.cache(lambda: oracles.Oracle(family, path, inputs, targets))
        subject = Subject(family, model, inputs, targets, oracle, double if family.write_in_double else None)
        layer, few = _layers(family, model, inputs, targets)
        found = {}
        for name in methods:
            told(name)
            started = time.monotonic()
            cell = subject.cell(name, **({"layer": few} if name in MASKED and few else {}))
            found[name] = dataclasses.asdict(dataclasses.replace(cell, seconds=round(time.monotonic() - started, 1)))
        return {"layer": layer, "methods": found}


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

    def cell(self, name: str, **options) -> Cell:
        """Return what is known of a method, called with few samples and these options."""
        options = FEW.get(name, {}) | options
        try:
            if name == "occlusion":
                options["patch"] = oracles.patch_of(self.oracle().values.shape[1:-1])
            if name in ("lrp_clevr_xai", "lrp_epsilon_gamma_box") and self.oracle().values.dtype.kind == "f":
                values = self.oracle().values
                options |= {"low": float(values.min()), "high": float(values.max())}
            maps = self._maps(self.model, name, options)
            changes = [
                _difference(self._maps(self.model, name, options, others, order)[kept], maps[kept])
                for order, others, kept in self.exchanged
            ]
        except Exception as error:
            return _failed(error)
        if max(changes, default=0) > ROW_TOLERANCE:
            return Cell("differs", "other inputs", max(changes), note="a map changes with the other inputs")
        note = "" if self.exchanged else "the network's own scores change with the other inputs"
        note = note if np.abs(maps).max() > 0 else "all zero"
        known = self._known(name, maps, self.oracle)
        if known is None:
            return Cell("runs", note=note or self._share(name, maps))
        against, found, expected = known
        difference = _difference(found, expected)
        cell = Cell("exact" if difference <= TOLERANCE else "differs", against, difference, note=note)
        if cell.status == "exact" or self.double is None:
            return cell
        return self._compared_in_double(name, options, cell, found, expected)

    def _compared_in_double(self, name, options, cell, found, expected) -> Cell:
        """Return the cell of a map that differs from its oracle, after the same network was computed in float64."""
        model, oracle = self.double()
        _, _, true = self._known(name, found, lambda: oracle)
        from_true = _difference(found, true)
        if from_true <= TOLERANCE:  # where the file rounds to 16 bits, but the method does not
            return dataclasses.replace(cell, status="exact", against=f"{cell.against} in float64", difference=from_true)
        maps, note = self._maps(model, name, options), cell.note
        _, in_double, _ = self._known(name, maps, lambda: oracle)
        allowed = TOLERANCE * np.abs(true).max()
        if in_double.ndim == 1:  # sums of values that are returned as float32: rounded as multipliers and as products
            sizes = _sums(np.abs(maps))
            allowed = np.maximum(allowed, 2 * _HALF_STEP * sizes)
            if (cancelled := (sizes / np.abs(true)).max()) > 100:
                note = f"its values are {cancelled:.0e} times their sum"
        return dataclasses.replace(
            cell,
            status="rounding" if (np.abs(in_double - true) <= allowed).all() else "differs",
            in_double=_difference(in_double, true),
            of_oracle=_difference(expected, true),
            note=note,
        )

    def _maps(self, model, name, options, inputs=None, order=slice(None)):
        return attribution.explain(
            name, model, self.inputs if inputs is None else inputs, self.targets[order],
            explain_input=self.family.explain_input, batch_size=16, seed=oracles.SEED, **options,
        )  # fmt: skip

    @functools.cached_property
    def exchanged(self) -> list:
        """Batches in which maps must not change; see ``attribution.check_method.checks.exchanges``.

        There are none for a network whose own scores of an input change with the other inputs.
        """
        found = []
        for order, kept in exchanges(len(self.targets)):
            single = not isinstance(self.inputs, dict)
            others = self.inputs[order] if single else {name: array[order] for name, array in self.inputs.items()}
            found.append((order, others, kept))
        try:
            scores = self.model.scores(self.inputs)
            changes = [_difference(self.model.scores(others)[kept], scores[kept]) for _, others, kept in found]
        except Exception:  # the methods will report it, in their cells
            return []
        return [] if max(changes, default=0) > ROW_TOLERANCE else found

    def _known(self, name, maps, oracle):
        """Return what a map is compared with, what of it is, and what that must be; ``None`` without oracle."""
        family = self.family
        if name in BY_TAPE + BY_SCORES:
            return "tape" if name in BY_TAPE else "scores", maps, oracle().as_map(getattr(oracle(), name)())
        if name in COMPLETE or (name == "deeplift" and family.score == "logits"):
            values = oracle().values
            return "completeness", _sums(maps), oracle().scores(values) - oracle().scores(np.zeros_like(values))
        if name == "lrp_epsilon" and family.piecewise_linear:
            return "Gradient x Input", maps, oracle().as_map(oracle().gradient_x_input())
        if name == "lrp_cp" and family.conserving:
            return "conservation", _sums(maps), oracle().scores(oracle().values)
        return None

    def _share(self, name, maps) -> str:
        """Return in words which share of the score a map of relevance adds up to."""
        if name not in RELEVANCE or self.family.score != "logits":
            return ""
        ones = name == "excitation_backprop"
        shares = _sums(maps) / (np.ones(len(maps)) if ones else self.oracle().scores(self.oracle().values))
        return f"Σ/f {shares.min():.2f} to {shares.max():.2f}"


def _sums(maps):
    return maps.reshape(len(maps), -1).astype(np.float64).sum(axis=1)


def _difference(found, expected) -> float:
    scale = np.abs(expected).max()
    return float(np.abs(found - expected).max() / scale) if scale else float(np.abs(found).max())


def _failed(error) -> Cell:
    text = " ".join(str(error).split())
    if isinstance(error, BadInput) and not isinstance(error, BrokenContract):
        return Cell("refused", note=text)
    return Cell("crashes", note=f"{type(error).__name__}: {text[:300]}")


def _layers(family, model, inputs, targets):
    """Return the default layer in words, and the layer to use where that has many channels."""
    seen = {}

    def look(passes):
        seen["shape"] = passes.layer_gradient()[0].shape[1:]
        few = _narrow_layer(passes, family.explain_input) if seen["shape"][-1] > FEW_CHANNELS else None
        seen.update(name=passes.model.layer(None, family.explain_input), few=few)
        return passes.inputs

    try:
        attribution.explain(look, model, inputs, targets, explain_input=family.explain_input)
    except Exception as error:  # of one that is no ``BadInput``, the methods will say more in their cells
        return str(error) if isinstance(error, BadInput) else f"crashes: {type(error).__name__}", None
    short = "/".join(part for part in seen["name"].split("/") if "PartitionedCall" not in part)
    return f"{short} ({', '.join(map(str, seen['shape']))})", seen["few"]


def _narrow_layer(passes, explain_input):
    """Return the first layer with positions and few channels behind the input's own."""
    for name in passes.model.layers(explain_input):
        shape = passes.model.graph.shape(name)
        last = shape[-1] if shape.rank else None
        if last is not None and passes.inputs.shape[-1] < last <= FEW_CHANNELS:
            return name
    return None
