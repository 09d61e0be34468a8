"""Build the signatures of explanations and write them with the model's signatures.

All signatures share the model's weights: where the frozen graph kept a copy of a variable, the variable itself takes
its place, so that each method adds only operations.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from attribution.errors import BadInput, listed
from attribution.export import names as names
from attribution.export.methods import GraphQueries, counterpart
from attribution.graph.layers import has_channels_first
from attribution.graph.nodes import node_of
from attribution.graph.view import GraphView
from attribution.methods.method import Method

if TYPE_CHECKING:
    from attribution.model.model import Model


def write(
    model: Any,
    explain_input: str,
    chosen: Mapping[str, tuple[Method, dict[str, Any]]],
    directory: str | os.PathLike[str],
    sheet: str,
) -> None:
    """Write the model with its signatures and those of explanations.

    Parameters
    ----------
    model : attribution.model.model.Model
        The model to explain.
    explain_input
        Name of the explained input.
    chosen
        Label to method and parameters.
    directory
        Where to write.
    sheet
        Description of the explanations, as JSON.
    """
    _refuse_what_no_graph_holds(model, explain_input)
    loaded = model.load_file()
    original = dict(loaded.signatures)
    taken = [name for name in original if name.startswith((names.EXPLAIN, "explanation_"))]
    if taken:
        raise BadInput(f"'{model.path}' has explanations already ({listed(taken[:3])}...); export from the original")
    weights = _Weights(original.values())
    weights.put_into(model.graph)
    compiled = model.compiled_anew()
    weights.put_into(compiled.folded)
    added = {names.SHEET: _sheet_signature(sheet)}
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in model.inputs.items()]
    rows = model.inputs[explain_input].shape[:1]
    targets = tf.TensorSpec(rows, tf.int32, names.TARGETS)

    def signature(build: Callable[..., Any], *arguments: Any) -> Any:
        """Return the concrete function of the arguments that ``build`` turns into outputs."""

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def function(**arrays: Any) -> Any:
            asked = arrays.pop(names.TARGETS, None)
            ordered = {name: arrays[name] for name in model.inputs}
            outputs = build(GraphQueries(model, compiled, explain_input, ordered, asked))
            _forget_gradient_names()
            return outputs

        return function.get_concrete_function(**{spec.name: spec for spec in arguments})

    def scores(passes: GraphQueries) -> dict[str, Any]:
        return {"scores": passes.scores}

    added[names.SCORES] = signature(scores, *specs)
    for label, (method, parameters) in chosen.items():
        added[names.EXPLAIN + label] = signature(_explaining(label, method, parameters), *specs, targets)
        if method.query == "layer gradient":
            layer = parameters["layer"]

            def values(passes: GraphQueries, layer: str | None = layer) -> dict[str, Any]:
                value, gradient = passes.layer_gradient(layer)
                return {"values": value, "gradients": gradient, **_target(passes)}

            added.setdefault(names.LAYER, signature(values, *specs, targets))
    root = tf.Module()
    root.model = loaded
    root.weights = list(weights.variables.values())
    # AutoGraph writes Python files for it, which would stay in the system's temporary folder if this process is killed.
    with tempfile.TemporaryDirectory(dir=directory) as folder, _temporary_files_in(folder):
        tf.saved_model.save(root, directory, signatures={**original, **added})
    _replace_random_identifier(pathlib.Path(directory, "fingerprint.pb"))


@contextlib.contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def _replace_random_identifier(file: pathlib.Path) -> None:
    """Derive the identifier in a SavedModel's fingerprint from its hashes, so that each export has the same bytes."""
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(file.read_bytes())
    fingerprint.uuid = ""
    digest = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(int.from_bytes(digest[:16], "big"))
    file.write_bytes(fingerprint.SerializeToString(deterministic=True))


def _refuse_what_no_graph_holds(model: Model, explain_input: str) -> None:
    """Raise BadInput for a model whose explanations need more than its frozen graph."""
    if model._frozen.loaded is not None:
        inexact = model._frozen.inexact
        raise BadInput(f"'{model.path}' cannot be exported: the gradients of {inexact} are not in its graph")
    if any(weight.dtype == tf.resource for weight in model.graph.weights.values()):
        raise BadInput(f"'{model.path}' cannot be exported: it looks things up in tables, which its graph has not")
    if has_channels_first(model.graph, model.input_node(explain_input), node_of(model.logits)):
        raise BadInput(f"'{model.path}' takes inputs with the channels first; export one that takes them last")


def _explaining(label: str, method: Method, parameters: Mapping[str, Any]) -> Callable[[GraphQueries], dict[str, Any]]:
    """Return the function from passes to the outputs of a method's signature."""

    def build(passes: GraphQueries) -> dict[str, Any]:
        try:
            maps = counterpart(method.function)(passes, **parameters)
            maps = tf.cast(tf.convert_to_tensor(maps), tf.float32)
        except BadInput:
            raise
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise BadInput(
                f"method '{label}' cannot be part of a graph: it uses more than its queries and TensorFlow ({reason})"
            ) from error
        return {"map": maps, **_target(passes)}

    return build


def _forget_gradient_names() -> None:
    """Remove from the graph that is being built the names of gradients that this process alone knows.

    The gradients themselves are in the graph by now, as operations.
    """
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if "_gradient_op_type" in operation.node_def.attr:
            operation._clear_attr("_gradient_op_type")


def _target(passes: GraphQueries) -> dict[str, Any]:
    return {"target": passes.targets, "score": passes.target_scores}


def _sheet_signature(sheet: str) -> Any:
    """Return a signature with the same text for every row; REST cannot call one without inputs."""

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def describe(rows: np.ndarray) -> Any:
        return {"sheet": tf.fill(tf.shape(rows), sheet)}

    return describe.get_concrete_function(tf.TensorSpec((None,), tf.int32, "rows"))


class _Weights:
    """The variables for a frozen graph's weights: those of the file where they have the same values."""

    def __init__(self, signatures: Iterable[Any]) -> None:
        self.variables = {}
        for function in signatures:
            for variable in function.variables:
                if variable.dtype.is_floating:
                    self.variables.setdefault(_content(variable.numpy()), variable)

    def put_into(self, view: GraphView) -> None:
        """Replace the tensors of a graph's weights by variables, which a file holds once for all signatures."""
        for name, weight in view.weights.items():
            content = _content(weight.numpy())
            if content not in self.variables:
                self.variables[content] = tf.Variable(weight, trainable=False)
            view.weights[name] = self.variables[content]


def _content(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()
