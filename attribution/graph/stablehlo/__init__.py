"""Turn the StableHLO modules of JAX and PyTorch into operations of TensorFlow.

Keras on JAX, ``jax2tf``, orbax-export and the exporters of PyTorch put a whole network into one operation,
``XlaCallModule``, in which no layer can be seen. Here each operation of such a module becomes the operation that Keras
on TensorFlow writes for it, so that nothing downstream knows of the difference. A graph with a module that holds
something without a translation stays as it is.

``text`` reads modules, ``values`` are what their operations compute, ``operations`` and ``windows`` the translations.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from attribution.errors import described
from attribution.graph import _tf_internals
from attribution.graph.recognize import recognize
from attribution.graph.stablehlo import operations, windows
from attribution.graph.stablehlo.text import Operation, Region, read
from attribution.graph.stablehlo.values import Value, counted
from attribution.graph.view import MODULE, Untranslatable, insert_body, node_of, without_nodes

MOST_OPERATIONS = 50_000  # of a module, its loops unrolled
_TRANSLATIONS = operations.TRANSLATIONS | windows.TRANSLATIONS


def lower(graph_def: tf.compat.v1.GraphDef, weights: Mapping[str, Any]) -> tuple[tf.compat.v1.GraphDef, dict[str, str]]:
    """Replace the modules of a graph by operations of TensorFlow, layers and functions recognized among them.

    Parameters
    ----------
    graph_def
        A graph without calls at its top level.
    weights
        Tensors of nodes that no input changes, by name.

    Returns
    -------
    lowered
        The same graph if it has no module.
    renamed
        New names of the modules' outputs but the first, by tensor name.

    Raises
    ------
    Untranslatable
        If a module holds something without a translation, or cannot be read; the message says what.
    """
    nodes = {node.name: node for node in graph_def.node}
    bodies = {node.name: _translated(node, nodes, weights) for node in graph_def.node if node.op == MODULE}
    if not bodies:
        return graph_def, {}
    result = without_nodes(graph_def, bodies)
    renamed: dict[str, str] = {}
    for node in graph_def.node:
        if node.name in bodies:
            body, outputs = bodies[node.name]
            arguments = [f"argument_{number}" for number in range(len(_arguments(node)))]
            types = node.attr["Tout"].list.type
            renamed |= insert_body(result, node, body.node, arguments, zip(outputs, types, strict=True))
    for node in result.node:
        for position, tensor in enumerate(node.input):
            node.input[position] = renamed.get(tensor, tensor)
        if node.op == "PreventGradient":  # beside a module whose gradient was not stored
            node.op = "Identity"
            node.attr.pop("message", None)
    return result, renamed


def _arguments(call: Any) -> list[str]:
    return [name for name in call.input if not name.startswith("^")]


def _translated(
    call: Any, nodes: Mapping[str, Any], weights: Mapping[str, Any]
) -> tuple[tf.compat.v1.GraphDef, list[str]]:
    """Return a module as a graph, whose inputs are ``argument_0`` and so on, and the names of its outputs."""
    text = _tf_internals.stablehlo_text(call.attr["module"].s, inlined=True)
    if text is None:
        raise Untranslatable("a module that TensorFlow cannot read")
    try:
        arguments, body = read(text)
        if len(arguments) != len(_arguments(call)):
            raise Untranslatable("a module that is called with other arguments than it has")
        with tf.Graph().as_default() as graph:
            given = [
                Value(kind, tf.compat.v1.placeholder(kind.dtype, kind.sizes, f"argument_{number}"))
                for number, kind in enumerate(arguments)
            ]
            outputs = [tf.convert_to_tensor(value.full()).name for value in _Translator().run(body, given)]
    except Untranslatable:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, tf.errors.OpError) as error:
        raise Untranslatable(f"a module of a form that is not known ({described(error)})") from error
    values = {f"argument_{number}": _known(name, nodes, weights) for number, name in enumerate(_arguments(call))}
    known = {name: value for name, value in values.items() if value is not None}
    with contextlib.suppress(ArithmeticError, LookupError, TypeError, ValueError, tf.errors.OpError):
        return recognize(graph.as_graph_def(), known, outputs), outputs
    return graph.as_graph_def(), outputs


def _known(tensor: str, nodes: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
    """Return the value of a module's argument that no input changes, else ``None``."""
    name = node_of(tensor)
    while nodes[name].op == "Identity":
        name = node_of(nodes[name].input[0])
    if nodes[name].op == "Const":
        return tf.constant(tf.make_ndarray(nodes[name].attr["value"].tensor))
    return weights.get(name)


class _Translator:
    """Translates the operations of one module into the graph that is being built."""

    def __init__(self) -> None:
        self._count = 0
        self._values: dict[str, Value] = {}

    def run(self, region: Region, given: Iterable[Value]) -> list[Value]:
        """Translate a region on values for its arguments; return what it returns."""
        self._values.update(zip(region.arguments, given, strict=True))
        for operation in region.operations:
            self._count += 1
            if self._count > MOST_OPERATIONS:
                raise Untranslatable(f"more than {MOST_OPERATIONS:,} operations, its loops unrolled,")
            operands = [self._values[name] for name in operation.operands]
            if operation.kind.rpartition(".")[2] == "return":
                return operands
            with tf.name_scope(_scope(operation)):
                found = self._translate(operation, operands)
            self._values.update(zip(operation.results, found, strict=True))
        raise Untranslatable("a region that returns nothing")

    def _translate(self, operation: Operation, operands: list[Value]) -> list[Value]:
        if operation.kind == "stablehlo.while":
            return self._unrolled(operation, operands)
        numbers = counted(operation, operands)
        if numbers is not None:
            return [Value(operation.types[0], items=numbers)]
        translation = _TRANSLATIONS.get(operation.name, operations.elementwise)
        found = translation(operation, operands)
        return found if isinstance(found, list) else [found]

    def _unrolled(self, loop: Operation, state: list[Value]) -> list[Value]:
        """Return what a loop's variables are at its end; the number of its steps must not depend on the input."""
        condition, body = loop.regions
        while True:
            goes_on = self.run(condition, state)[0].constant()
            if goes_on is None:
                raise Untranslatable("stablehlo.while whose number of steps depends on the input")
            if not goes_on:
                return state
            state = self.run(body, state)


def _scope(operation: Operation) -> str:
    """Return the scope of TensorFlow's names for an operation: its maker's, without the names of programs."""
    parts = [re.sub(r"[^\w.-]", "_", part) for part in operation.scope.split("/") if "(" not in part]
    parts = [part for part in parts[:-1] if part and part[0].isalnum()]
    return "/".join(parts) + "/" if parts else ""
