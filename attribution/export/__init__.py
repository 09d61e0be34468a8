"""SavedModels that return explanations; ``python -m attribution.export`` describes them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.batching import random_feed
from attribution.errors import BadInput, listed
from attribution.explain import explain_many
from attribution.export.signatures import EXPLAIN, PREDICTED, SHEET_VERSION, TARGETS
from attribution.files import atomic_directory, check_directory, writing
from attribution.methods.libraries import MARK
from attribution.methods.registry import Method, name_of, with_parameters

if TYPE_CHECKING:
    from attribution.model.model import Model

TOLERANCE = 1e-5  # of a map's largest value
_Entry = tuple[Method, dict[str, Any]]
ROUNDINGS = 4  # copies of the inputs, rounded differently, from which the precision of a map is estimated


def export(
    model_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    methods: Any,
    *,
    score: str | None = None,
    signature: str | None = None,
    explain_input: str | None = None,
    inputs: Mapping[str, str] | Sequence[str] | None = None,
    output_tensor: str | None = None,
    left_out: dict[str, str] | None = None,
) -> dict[str, float]:
    """Write a SavedModel with signatures of explanations.

    Parameters
    ----------
    model_path
        Directory of the SavedModel.
    output
        Where to write; see ``_version_directory``.
    methods
        As ``attribution.explain_many`` takes them: names, or a mapping from label to (method, overrides). The label of
        ``module:function`` is the function, that of ``method@library`` is ``method_library``. A custom method works if
        it uses only its queries and TensorFlow.
    score
        As ``attribution.load_model`` takes it.
    signature, inputs, output_tensor
        Which signature, or tensors of a TensorFlow 1 file, to explain; see ``attribution.load_model``.
    explain_input
        Name of the input to explain, where the model has several.
    left_out
        A dictionary that is filled with the label of each method that cannot be exported, and the reason: no graph
        holds it, the model does not allow it, or its map differs from the local one. Without one it is an error.

    Returns
    -------
    dict[str, float]
        Label of each method written to the largest difference from the local map, relative to the map's largest value.

    Raises
    ------
    BadInput
        If no method can be exported, the output exists or cannot be written to, or the model cannot be exported.
    """
    target = _version_directory(output)
    if os.path.exists(target):
        base, number = os.path.split(target)
        versions = (os.path.join(base, str(later)) for later in itertools.count(int(number)))
        following = next(version for version in versions if not os.path.exists(version))
        raise BadInput(f"'{target}' exists; a served version is never changed, write to '{following}'")
    check_directory("output", target)
    if isinstance(methods, Iterable) and not isinstance(methods, (str, Mapping)):
        methods = _by_signature(methods)
    chosen = with_parameters(methods)
    if not chosen:
        raise BadInput("no method to export; name at least one")
    layer = _only_layer(chosen)
    from attribution.export import _graph
    from attribution.loading import load_model

    model = load_model(model_path, score=score, signature=signature, inputs=inputs, output=output_tensor)
    floating = [name for name, spec in model.inputs.items() if spec.dtype.is_floating]
    if explain_input not in (None, *floating) or not floating:
        raise BadInput(
            f"'{model_path}' cannot be exported: a request carries {listed(model.inputs)}, of which the explained one "
            "must be of floating point; explain the file itself with attribution.explain"
        )
    name = model.explained_input(explain_input)
    if TARGETS in model.inputs:
        raise BadInput(f"'{model_path}' has an input called '{TARGETS}', which would be taken twice")
    if layer is not None:
        model.layer(layer, name)  # another name is a mistake, not a method that does not fit
    file, differences, reasons = _graph.ExplainedFile(model, name), {}, {}
    for label, (method, parameters) in chosen.items():
        try:
            if not label.isidentifier():
                raise BadInput(f"'{label}' cannot be part of a signature's name; use letters, digits and underscores")
            served = file.signature(label, method, parameters)
            differences[label] = _difference(served, label, (method, parameters), model, name)
            file.add(label, served, method, parameters)
        except BadInput as error:
            if left_out is None:
                raise
            reasons[label] = f"'{label}' is skipped: {error}"
    if not differences:
        raise BadInput("; ".join(reasons.values()))
    if left_out is not None:
        left_out.update(reasons)
    kept = {label: chosen[label] for label in differences}
    with writing(target), atomic_directory(target) as unfinished:
        file.write(unfinished, _sheet_of(model, name, layer, kept))
    return differences


def _by_signature(methods: Iterable[Any]) -> dict[str, Any]:
    """Return methods, or their names, by the label in their signature's name.

    That of ``module:function`` is the function, that of ``method@library`` is ``method_library``.
    """
    labels: dict[str, Any] = {}
    for method in methods:
        name = method if isinstance(method, str) else name_of(method)
        label = name.rpartition(":")[2].replace(MARK, "_")
        if label in labels:
            other = labels[label] if isinstance(labels[label], str) else name_of(labels[label])
            raise BadInput(
                f"'{other}' and '{name}' would both be the signature '{EXPLAIN}{label}'; leave one out, rename a "
                "function, or give a mapping from label to method"
            )
        labels[label] = method
    return labels


def _version_directory(output: str | os.PathLike[str]) -> str:
    """Return where the file goes: to ``output`` itself if its name is a number, else to version 1 in it."""
    output = os.path.normpath(output)
    return output if os.path.basename(output).isdecimal() else os.path.join(output, "1")


def _only_layer(chosen: Mapping[str, _Entry]) -> str | None:
    """Return the layer that class activation maps are given, ``None`` for the default one."""
    layers = {parameters["layer"] for method, parameters in chosen.values() if method.query == "layer gradient"}
    if len(layers) > 1:
        raise BadInput(f"one layer serves all class activation maps of a file, not {listed(sorted(map(str, layers)))}")
    return layers.pop() if layers else None


def _sheet_of(model: Model, explain_input: str, layer: str | None, chosen: Mapping[str, _Entry]) -> str:
    """Return the description of an exported model, as JSON; ``layer`` is that of ``_only_layer``."""
    has_layer = any(method.query == "layer gradient" for method, _ in chosen.values())
    methods = {
        label: {"method": method.name, "parameters": plain(parameters)}
        for label, (method, parameters) in chosen.items()
    }
    sheet = {
        "sheet": SHEET_VERSION,
        "source": model.fingerprint,
        "score": model.score,
        "wrt": explain_input,
        "layer": model.layer(layer, explain_input) if has_layer else None,
        "layer_is_default": layer is None,
        "methods": methods,
    }
    return json.dumps(sheet, sort_keys=True)


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON has them; arrays become lists."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in parameters.items()}


def _difference(served: Any, label: str, entry: _Entry, model: Model, explain_input: str) -> float:
    """Return how far the map of a signature is from the local one on two random inputs; refuse one that is too far."""
    feed = model.feed(random_feed(model, 2, 32))
    rows = len(feed[explain_input])
    arguments: dict[str, Any] = {**feed, TARGETS: np.full(rows, PREDICTED, np.int32)}
    (local,) = explain_many({label: entry}, model, feed, explain_input=explain_input, batch_size=rows).values()
    found, allowed = relative_difference(served(**arguments)["map"].numpy(), local), TOLERANCE
    if found > allowed:
        allowed = max(allowed, _changed_by_rounding(model, explain_input, entry, feed, local))
    if found > allowed:
        raise BadInput(
            f"the map of '{label}' would differ from the local one by {found:.1e} of its largest value, more than the "
            f"{allowed:.1e} that rounding explains"
        )
    return found


def _changed_by_rounding(
    model: Model,
    explain_input: str,
    entry: _Entry,
    feed: Mapping[str, np.ndarray],
    local: np.ndarray,
) -> float:
    """Return the precision of a local map: twice its largest change when the inputs are rounded differently.

    Each value goes up or down by its last digit, at random. A map that cancels large terms, as a class activation map
    of a nearly indifferent layer does, is known no better than that, wherever it is computed; and a pass rounds at
    every layer, not its inputs alone.
    """
    rows, worst = len(feed[explain_input]), 0.0
    targets = model.predict(feed, rows)
    for draw in range(ROUNDINGS):
        up = np.random.default_rng(draw).random(feed[explain_input].shape) < 0.5
        rounded = np.nextafter(feed[explain_input], np.where(up, np.inf, -np.inf).astype(feed[explain_input].dtype))
        (maps,) = explain_many(
            {"": entry}, model, {**feed, explain_input: rounded}, targets, explain_input=explain_input, batch_size=rows
        ).values()
        worst = max(worst, relative_difference(maps, local))
    return 2 * worst


def relative_difference(served: np.ndarray, local: np.ndarray) -> float:
    """Return the largest difference of two arrays of maps, each relative to the local map's largest absolute value.

    Where a local map is all zero, the difference itself counts.
    """
    if served.shape != local.shape:
        return float("inf")
    axes = tuple(range(1, local.ndim))
    scale = np.abs(local).max(axis=axes, initial=0)
    worst = np.abs(served.astype(np.float64) - local).max(axis=axes, initial=0) / np.where(scale > 0, scale, 1)
    return float(worst.max(initial=0))
