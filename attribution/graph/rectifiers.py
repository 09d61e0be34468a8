"""The rectifiers of a network, for methods that are defined for networks of rectifiers alone.

Between input and score these are allowed, and operations that are linear, normalize by constants, move values or
select them as pooling does. Every other operation is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attribution.errors import BadInput, listed
from attribution.graph.nodes import node_of
from attribution.graph.view import GraphView
from attribution.lrp.rules import operations as ops

# Operations that are a rectifier each; PReLU is a sum of two.
RECTIFIERS = ("Relu", "Relu6", "LeakyRelu")
PRELU = "PRelu"
_NONLINEAR_CHOICES = ("Select", "SelectV2", "Maximum", "Minimum", "ClipByValue")
_ALLOWED = {
    *ops.LAYERS, *ops.AVERAGES, *ops.SUMS, *ops.MOVES, *ops.SELECTS, *ops.SCALES, *ops.NORMALIZATIONS, "Neg", "Cast",
} - set(_NONLINEAR_CHOICES)  # fmt: skip


def find_rectifiers(graph: GraphView, source: str, target: str, method: str) -> dict[str, str]:
    """Return the rectifiers between two nodes: node name to "Relu", "Relu6", "LeakyRelu" or "PRelu".

    The node of a PReLU is the sum that ends it; the two ReLUs in it are not listed.

    Parameters
    ----------
    graph
        A frozen graph.
    source, target
        Node names of the explained input and of the scores.
    method
        Name of the method, for the message.

    Raises
    ------
    BadInput
        If there is another nonlinear operation, a product of two factors that both depend on the input, or no
        rectifier at all.
    """
    path = dict.fromkeys(graph.between(source, target))
    prelus = {name: halves for name in path if (halves := prelu_halves(graph, name)) is not None}
    refused = [
        f"{graph.nodes[name].op} ({name})"
        for name in path
        if name != source and not (graph.nodes[name].op in RECTIFIERS or is_linear(graph.nodes[name], path))
    ]
    if refused:
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise BadInput(
            f"{method} is defined for networks of Relu, Relu6, LeakyRelu and PReLU alone; this one has "
            f"{listed(refused[:5])}{more}"
        )
    inside = {name for halves in prelus.values() for name in halves}
    found = {name: graph.nodes[name].op for name in path if graph.nodes[name].op in RECTIFIERS and name not in inside}
    found |= dict.fromkeys(prelus, PRELU)
    if not found:
        raise BadInput(f"{method} changes the gradient of rectifiers and this model has none; use gradient")
    return found


def prelu_halves(graph: GraphView, name: str) -> tuple[str, str] | None:
    """Return the two ReLUs of a PReLU, relu(x) ± c relu(-x) with a constant c, by its sum; ``None`` for other nodes."""
    node = graph.nodes[name]
    if node.op not in ("Add", "AddV2", "Sub"):
        return None
    for place in (0, 1):
        relu, product = (graph.nodes[node_of(node.input[one])] for one in (place, 1 - place))
        if relu.op != "Relu" or product.op != "Mul" or (node.op == "Sub" and place == 1):
            continue
        for other in (graph.nodes[node_of(tensor)] for tensor in product.input):
            negated = graph.nodes[node_of(other.input[0])] if other.op == "Relu" else None
            if negated is None or negated.op != "Neg" or negated.input[0] != relu.input[0]:
                continue
            if all(len(graph.uses(one.name)) == 1 for one in (relu, product, other)):
                return relu.name, other.name
    return None


def is_linear(node: Any, path: Collection[str]) -> bool:
    """Return whether a node is linear in the input, moves its values, or chooses among them as pooling does."""
    if node.op not in _ALLOWED:
        return False
    moving = [place for place, tensor in enumerate(node.input) if node_of(tensor) in path]
    if node.op == "RealDiv":
        return moving == [0]
    return node.op not in (*ops.LAYERS, "Mul") or len(moving) == 1
