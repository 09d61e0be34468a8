"""A graph that is being changed, node by node, and the check of a change by random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from attribution.graph.view import GraphView, node_of, pure_subgraph

MOVES = ("Identity", "Transpose", "ExpandDims", "Reshape", "Squeeze", "StopGradient")
RESHAPES = ("Reshape", "ExpandDims", "Squeeze")


class Unfit(Exception):
    """A node is not what a rule is for: not a first output, of an open rank, reduced along unknown axes."""


class Graph:
    """A graph that is being changed: nodes by name, in topological order, and what their first outputs are."""

    def __init__(self, graph_def: Any, weights: Mapping[str, Any], outputs: Iterable[str]) -> None:
        self._weights = dict(weights)
        self._outputs = list(outputs)
        self._number = itertools.count()
        self._inputs = [node.name for node in graph_def.node if node.op == "Placeholder" and node.name not in weights]
        self._specs: dict[str, list[tf.TensorSpec]] = {}
        self._set(pure_subgraph(graph_def, self._outputs, keep=self._inputs))

    def _set(self, graph_def: Any) -> None:
        self._view = view = GraphView(graph_def, self._weights, outputs=self._specs)
        self.nodes: dict[str, Any] = dict(view.nodes)
        self.variable = view.below(self._inputs)
        self._specs = {name: view._outputs_of(name) for name in view.nodes}

    def result(self) -> tf.compat.v1.GraphDef:
        """Return the graph without identities, which hide sums from rules, and what its outputs do not need."""
        for node in self.nodes.values():
            for place, tensor in enumerate(node.input):
                node.input[place] = self._past_identities(tensor)
        before = self._view.graph_def
        changed = tf.compat.v1.GraphDef(node=self.nodes.values(), versions=before.versions, library=before.library)
        return pure_subgraph(changed, self._outputs, keep=self._inputs)

    def apply(self, rules: Rules) -> None:
        """Apply rules, by operation, to each node that depends on an input."""
        changed = False
        for name, node in list(self.nodes.items()):
            if name in self.variable and any(self._applies(rule, name) for rule in rules.get(node.op, ())):
                changed = True
        if changed:
            self.refresh()

    def _applies(self, rule: Rule, name: str) -> bool:
        try:
            return rule(self, self.nodes[name])
        except Unfit:
            return False

    def refresh(self) -> None:
        """Drop unused nodes."""
        self._set(self.result())

    def _past_identities(self, tensor: str) -> str:
        while (node := self.nodes[node_of(tensor)]).op == "Identity":
            tensor = node.input[0]
        return tensor

    def up(self, tensor: str) -> Any:
        """Return the node of which a tensor is the first output, identities left aside."""
        tensor = self._past_identities(tensor)
        if not is_first(tensor):
            raise Unfit
        return self.nodes[node_of(tensor)]

    def inputs(self, node: Any) -> list[Any]:
        """Return the nodes of a node's inputs."""
        return [self.up(tensor) for tensor in node.input]

    def shape(self, node: Any) -> list[int | None]:
        """Return the sizes of a node's first output, ``None`` where they are open."""
        shape = self._specs[node.name][0].shape
        if shape.rank is None:
            raise Unfit
        return list(shape.as_list())

    def dtype(self, node: Any) -> tf.DType:
        """Return the type of a node's first output."""
        return self._specs[node.name][0].dtype

    def value(self, node: Any) -> np.ndarray | None:
        """Return the value of a constant that is stored in the graph."""
        return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None

    def single(self, node: Any) -> float | None:
        """Return a constant that is one number of floating point, or one truth."""
        is_number = node.op == "Const" and not self.dtype(node).is_integer
        value = tf.make_ndarray(node.attr["value"].tensor) if is_number else np.zeros(0)
        return value.item() if value.size == 1 else None

    def dtype_is_float(self, node: Any) -> bool:
        """Return whether a node's first output is of floating point."""
        return bool(self._specs[node.name]) and self.dtype(node).is_floating

    def axes(self, node: Any) -> list[int]:
        """Return the axes that a reduction reduces, counted from the first."""
        rank, axes = len(self.shape(self.up(node.input[0]))), self.value(self.up(node.input[1]))
        if axes is None:
            raise Unfit
        return [int(axis) % rank for axis in axes.ravel()]

    def is_constant(self, node: Any) -> bool:
        """Return whether a node depends on no input."""
        return node.name not in self.variable

    def uses(self, name: str) -> int:
        """Return how often a node was used before the rules of this round."""
        return len(self._view.uses(name)) if name in self._view.nodes else 0

    def replace(self, node: Any, function: Callable[..., Any], sources: Sequence[Any]) -> bool:
        """Let a node be a function of others, as TensorFlow writes it; return whether type and shape allow it."""
        with tf.Graph().as_default() as built:
            given = [tf.compat.v1.placeholder(self.dtype(one), self._specs[one.name][0].shape) for one in sources]
            try:
                result = function(*given)
            except (TypeError, ValueError):  # TensorFlow has no such operation
                return False
            result = tf.identity(result) if any(result is one for one in given) else result
        known = self._specs[node.name][0]
        if result.dtype != known.dtype or not result.shape.is_compatible_with(known.shape):
            return False
        names = {tensor.op.name: source.name for tensor, source in zip(given, sources, strict=True)}
        self._add(built, node, names | {result.op.name: node.name})
        self._specs[node.name][0] = tf.TensorSpec(result.shape.merge_with(known.shape), known.dtype)
        return True

    def _add(self, built: tf.Graph, node: Any, names: dict[str, str]) -> None:
        """Add the operations of another graph, those with ``names`` by their names here, in place of a node."""
        prefix = f"{node.name}/recognized_{next(self._number)}"
        for operation in (one for one in built.get_operations() if one.type != "Placeholder"):
            new = tf.compat.v1.NodeDef()
            new.CopyFrom(operation.node_def)
            new.name = names.setdefault(operation.name, f"{prefix}/{operation.name}")
            del new.input[:]
            new.input.extend(_renamed(tensor.name, names) for tensor in operation.inputs)
            self.nodes[new.name] = new
            self._specs[new.name] = [tf.TensorSpec(one.shape, one.dtype) for one in operation.outputs]
            if any(node_of(tensor) in self.variable for tensor in new.input):
                self.variable.add(new.name)

    def is_equal(self, source: Any, through: Any, target: Any, function: Callable[[Any], Any]) -> bool:
        """Return whether a node is a function of the node ``through``, as random numbers at ``source`` show."""
        shape = [3 if size is None else size for size in self.shape(source)]
        given = tf.constant(3 * np.random.default_rng(0).standard_normal(shape), self.dtype(source))
        try:
            with tf.init_scope(), tf.device("CPU"):
                found, wanted = self._run(source, target, given), function(self._run(source, through, given)).numpy()
        except (KeyError, ValueError, tf.errors.OpError):
            return False
        tolerance, values = 32 * resolution(found.dtype), np.asarray(found, float)
        close = found.shape == wanted.shape and np.abs(values - wanted) <= tolerance * (1 + np.abs(wanted))
        return bool(np.all(close))

    def _run(self, source: Any, target: Any, given: tf.Tensor) -> Any:
        spec = tf.TensorSpec(given.shape, given.dtype)
        view = self._view.between_alone(source.name, target.name, spec, self.nodes)
        return tf.function(lambda x: view.import_on({source.name: x}, [f"{target.name}:0"])[0][0], autograph=False)(
            given
        )


Rule = Callable[[Graph, Any], bool]
Rules = Mapping[str, Sequence[Rule]]  # by operation


def is_first(tensor: str) -> bool:
    """Return whether a tensor is its node's first output."""
    return ":" not in tensor or tensor.endswith(":0")


def _renamed(tensor: str, names: Mapping[str, str]) -> str:
    name, _, number = tensor.partition(":")
    return names[name] if number == "0" else f"{names[name]}:{number}"


def resolution(dtype: tf.DType) -> float:
    """Return the distance from 1 to the next number of a type of floating point."""
    return float(ml_dtypes.finfo(dtype.as_numpy_dtype).eps)  # type: ignore[no-untyped-call]


def origin(graph: Graph, node: Any, passed: Sequence[str]) -> Any:
    """Return the node above operations of some kinds, each followed by its first input."""
    while node.op in passed:
        node = graph.up(node.input[0])
    return node


def again(node: Any, tensors: Sequence[Any]) -> Any:
    """Return the output of an operation like a node's, of other tensors."""
    single = tf.compat.v1.GraphDef()
    copy = single.node.add()
    copy.CopyFrom(node)
    copy.name = node.op
    del copy.input[:]
    copy.input.extend(f"given_{place}" for place in range(len(tensors)))
    given = {f"given_{place}:0": tensor for place, tensor in enumerate(tensors)}
    return tf.graph_util.import_graph_def(single, given, [f"{node.op}:0"], name="")[0]


def with_sizes(x: Any, sizes: Sequence[int | None]) -> Any:
    """Return a tensor with other sizes, by an operation that names the axis if it is one of size 1."""
    sizes = list(sizes)
    before = x.shape.as_list()
    if before == sizes:
        return x
    for axis in range(max(len(before), len(sizes))):
        if before[axis : axis + 1] == [1] and before[:axis] + before[axis + 1 :] == sizes:
            return tf.squeeze(x, axis)
        if sizes[axis : axis + 1] == [1] and sizes[:axis] + sizes[axis + 1 :] == before:
            return tf.expand_dims(x, axis)
    return tf.reshape(x, [-1 if size is None else size for size in sizes])
