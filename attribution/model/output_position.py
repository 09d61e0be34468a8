"""A position of each row's own, of an output with axes between batch and classes: one more input says which.

A segmentation map has scores at each position. Where all rows are explained at one, the scores of that one are taken;
where each row has its own, the graph gathers them by the input ``position``.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph.nodes import node_of
from attribution.graph.view import GraphView
from attribution.model.output_head import in_shape, shape_of_output, split_scores
from attribution.model.saved_model import FrozenModel

# As given to ``load_model(position=)``, and the input's name.
PER_ROW = "per_row"
POSITION = "position"


def with_position(frozen: FrozenModel) -> FrozenModel:
    """Return a model whose output is ``(batch, classes)``: what the file's output has at each row's position.

    Parameters
    ----------
    frozen
        The model. The one returned has the input ``position``, int32 ``(batch, axes)``, one number for each axis
        between batch and classes.

    Raises
    ------
    BadInput
        If the output has no such axes, or the model has an input of that name.
    """
    graph = frozen.graph
    logits, probabilities = split_scores(graph, frozen.output)
    shape = shape_of_output(graph.shape(logits), frozen.output_shape)
    if shape.rank is None or shape.rank < 3 or None in shape[1:].as_list()[-1:]:
        raise BadInput(
            f"position='{PER_ROW}' needs an output with positions between batch and classes; this one has shape {shape}"
        )
    if frozen.loaded is not None:
        raise BadInput(
            f"position='{PER_ROW}' cannot be had: the gradients of {frozen.inexact} are in the loaded function alone; "
            "give one position for all rows"
        )
    if probabilities == logits:
        raise BadInput(f"position='{PER_ROW}' cannot be had of an average of softmaxes; give one position for all rows")
    if POSITION in frozen.inputs:
        raise BadInput(f"the model has an input '{POSITION}' of its own among {listed(frozen.inputs)}")
    end = None  # what makes probabilities of logits
    if probabilities is not None:
        end = "Sigmoid" if any(graph.nodes[user].op == "Sigmoid" for user in graph.uses(node_of(logits))) else "Softmax"
    spec = tf.TensorSpec((_batch(frozen), shape.rank - 2), tf.int32, name=POSITION)
    added, last = _gathering(graph.dtype(logits), graph.shape(logits), shape, spec, end)
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph.graph_def)
    for node in added.node:
        if node.name == "scores":
            continue
        copy = changed.node.add()
        copy.CopyFrom(node)
        copy.name = _scoped(node.name)
        del copy.input[:]
        copy.input.extend(logits if tensor == "scores" else _scoped(tensor) for tensor in node.input)
    return dataclasses.replace(
        frozen,
        graph=GraphView(changed, graph.weights),
        inputs={**frozen.inputs, POSITION: spec},
        input_nodes={**frozen.input_nodes, POSITION: _scoped(POSITION)},
        output=_scoped(last),
        output_shape=tf.TensorShape([shape[0], shape[-1]]),
    )


def limits(frozen: FrozenModel) -> list[int | None]:
    """Return how many positions a model's output has along each axis between batch and classes."""
    logits, _ = split_scores(frozen.graph, frozen.output)
    return shape_of_output(frozen.graph.shape(logits), frozen.output_shape)[1:-1].as_list()


def check_positions(positions: np.ndarray, sizes: list[int | None]) -> None:
    """Refuse positions ``(N, axes)`` that the output does not have."""
    most = np.array([np.iinfo(np.int32).max if size is None else size for size in sizes])
    wrong = ((positions < 0) | (positions >= most)).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise BadInput(
            f"position {tuple(positions[row].tolist())} of row {row} is outside the model's output, which has "
            f"{' x '.join('any' if size is None else str(size) for size in sizes)} positions"
        )


def _batch(frozen) -> int | None:
    sizes = [spec.shape[0] for spec in frozen.inputs.values() if spec.shape.rank]
    return sizes[0] if sizes else None


def _gathering(dtype, found, shape, spec, end):
    """Return a graph from ``scores`` and ``position`` to the scores there, and the name of its last node."""
    with tf.Graph().as_default() as built:
        scores = in_shape(tf.compat.v1.placeholder(dtype, found, name="scores"), shape)
        place = tf.compat.v1.placeholder(spec.dtype, spec.shape, name=POSITION)
        rows = tf.range(tf.shape(place)[0])[:, tf.newaxis]
        last = tf.gather_nd(scores, tf.concat([rows, place], axis=1))
        if end is not None:
            last = tf.sigmoid(last) if end == "Sigmoid" else tf.nn.softmax(last)
    return built.as_graph_def(), last.op.name


def _scoped(name: str) -> str:
    return f"attribution_position/{name}"
