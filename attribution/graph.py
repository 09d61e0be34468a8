"""Questions asked of a frozen graph: what depends on what, where the scores and the last convolution are.

A graph here is a ``GraphDef`` without control edges, function calls or variables, as ``saved_model.freeze``
makes it. Its large constants, the *weights*, are kept beside it and stand in it as placeholders: a constant is copied
some ten times by whatever reads, compiles or optimises a graph, a tensor beside it is shared by all.
A *tensor name* is ``node`` or ``node:0``; node names are used wherever the first output is meant.
"""

from __future__ import annotations

import collections
import difflib
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from attribution.graph_nodes import node_of, pure_subgraph, with_gradients
from attribution_benchmarks.command_line import BadInput, listed

CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
ACTIVATIONS = (
    "Relu",
    "Relu6",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Softplus",
    "Softsign",
    "Tanh",
    "Sigmoid",
    "Swish",
)
# What may stand between a convolution and its activation: bias, batch normalisation, the ends of a 1-D
# convolution, and the sum that closes a residual block.
_AFTER_CONVOLUTION = (
    "BiasAdd", "Add", "AddV2", "Sub", "Mul", "Squeeze", "Identity",
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3",
)  # fmt: skip
# Operations that look at a shape and not at values.
SHAPES = ("Shape", "ShapeN", "Size", "Rank")
# Operations whose output a user may name as a layer.
_LAYERS = tuple(op for op in _AFTER_CONVOLUTION if op != "Identity") + (
    *CONVOLUTIONS, *ACTIVATIONS, "MaxPool", "AvgPool", "ConcatV2",
)  # fmt: skip


class GraphView:
    """A frozen graph with its edges both ways and its nodes in topological order.

    Parameters
    ----------
    graph_def
        A pure graph.
    weights
        Tensors of the placeholders in it that are no inputs, by node name.
    altered
        Nodes that have other values than in the graph that this one was made from.
    """

    def __init__(
        self,
        graph_def: tf.compat.v1.GraphDef,
        weights: Mapping[str, tf.Tensor] | None = None,
        altered: Iterable[str] = (),
    ):
        self.graph_def = graph_def
        self.altered = frozenset(altered)
        self.weights = {node.name: weights[node.name] for node in graph_def.node if node.name in (weights or {})}
        by_name = {node.name: node for node in graph_def.node}
        self.consumers: dict[str, list[str]] = collections.defaultdict(list)
        waiting = {}
        for node in graph_def.node:
            sources = {node_of(tensor) for tensor in node.input}
            waiting[node.name] = len(sources)
            for source in sources:
                self.consumers[source].append(node.name)
        ready = collections.deque(name for name, count in waiting.items() if count == 0)
        self.nodes: dict[str, tf.compat.v1.NodeDef] = {}
        while ready:
            name = ready.popleft()
            self.nodes[name] = by_name[name]
            for consumer in self.consumers[name]:
                waiting[consumer] -= 1
                if waiting[consumer] == 0:
                    ready.append(consumer)
        self._shapes: dict[str, tf.TensorShape] | None = None

    def below(self, names: Iterable[str]) -> set[str]:
        """Return the given nodes and all nodes that depend on their values, not only on their shapes."""
        seen, stack = set(), list(names)
        while stack:
            name = stack.pop()
            if name not in seen and self.nodes[name].op not in SHAPES:
                seen.add(name)
                stack.extend(self.consumers[name])
        return seen

    def above(self, names: Iterable[str]) -> set[str]:
        """Return the given nodes and all nodes they depend on."""
        seen, stack = set(), list(names)
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack.extend(node_of(tensor) for tensor in self.nodes[name].input)
        return seen

    def between(self, source: str, target: str) -> list[str]:
        """Return the nodes on any path from one node to another, both included, in topological order."""
        on_path = self.below([source]) & self.above([target])
        return [name for name in self.nodes if name in on_path]

    def shape(self, name: str) -> tf.TensorShape:
        """Return the static shape of a node's first output, as far as TensorFlow infers it."""
        if self._shapes is None:
            with tf.Graph().as_default() as imported:
                tf.import_graph_def(self.graph_def, name="")
            self._shapes = {
                operation.name: operation.outputs[0].shape
                for operation in imported.get_operations()
                if operation.outputs
            }
        return self._shapes[name]

    def uses(self, name: str) -> list[str]:
        """Return the nodes that use a node's values, one entry for each use."""
        return [
            consumer
            for consumer in self.consumers[name]
            if self.nodes[consumer].op not in SHAPES
            for tensor in self.nodes[consumer].input
            if node_of(tensor) == name
        ]

    def constant_values(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the values of floating-point nodes that depend on no input."""
        names = sorted(set(names))
        if not names:
            return {}
        constants = GraphView(pure_subgraph(self.graph_def, names), self.weights)

        @tf.function(autograph=False)
        def evaluate():
            return constants.import_on({}, [f"{name}:0" for name in names])[0]

        values = zip(names, evaluate(), strict=True)
        return {name: _shared(value) for name, value in values if value.dtype.is_floating}

    def import_on(self, inputs: Mapping[str, tf.Tensor], elements, rules: Mapping[str, str] | None = None):
        """Import the graph into the one that is being built, a ``tf.function``'s.

        Parameters
        ----------
        inputs
            Tensors in place of input nodes, by node name.
        elements
            Names of tensors and operations to return.
        rules
            Gradient registered with ``tf.RegisterGradient`` under each of these names, by node name, in place of the
            true one.

        Returns
        -------
        found
            The elements.
        given : dict[str, tf.Tensor]
            Tensors that stand for the inputs and the weights, by node name.
        """
        # The identity makes a capture of a tensor that exists outside the function.
        given = dict(inputs) | {name: tf.identity(weight) for name, weight in self.weights.items()}
        found = tf.graph_util.import_graph_def(
            with_gradients(self.graph_def, rules) if rules else self.graph_def,
            input_map={f"{name}:0": tensor for name, tensor in given.items()},
            return_elements=list(elements),
            name="model",
        )
        return found, given

    def skip_identities(self, tensor: str) -> str:
        """Return the tensor that reaches this one unchanged, as an input entry names it."""
        while self.nodes[node_of(tensor)].op == "Identity":
            tensor = self.nodes[node_of(tensor)].input[0]
        return tensor

    def split_scores(self, output: str) -> tuple[str, str | None]:
        """Return the tensors of the logits and of the probabilities behind an output.

        An output that ends in Softmax, LogSoftmax or Sigmoid has its logits at that operation's input;
        any other output is taken for logits, and the second value is ``None`` unless the operation gives
        probabilities.
        """
        last = self.skip_identities(output)
        node = self.nodes[node_of(last)]
        if node.op in ("Softmax", "Sigmoid"):
            return node.input[0], last
        if node.op == "LogSoftmax":
            return node.input[0], None
        return output, None

    def layers(self, source: str, target: str) -> list[str]:
        """Return the nodes between source and target whose output keeps the axes of the source's input.

        That is (batch, positions..., channels); these are the layers a class activation map can stand on.
        """
        rank = self.shape(source).rank
        return [
            name
            for name in self.between(source, target)
            if self.nodes[name].op in _LAYERS and self.shape(name).rank == rank
        ]

    def last_convolution(self, source: str, target: str) -> str:
        """Return the activation of the last convolution on the way from source to target.

        The walk goes on from the convolution over bias, normalisation and residual sum to the first
        activation; where there is none, it ends at the last of those.

        Raises
        ------
        BadInput
            If there is no convolution.
        """
        path = self.between(source, target)
        convolutions = [name for name in path if self.nodes[name].op in CONVOLUTIONS]
        if not convolutions:
            raise BadInput(
                "the model has no convolution between input and score; name the layer to explain with layer="
            )
        found = convolutions[-1]
        on_path = set(path)
        rank = self.shape(source).rank
        while True:
            following = [name for name in self.consumers[found] if name in on_path]
            steps = [name for name in following if self.nodes[name].op in _AFTER_CONVOLUTION + ACTIVATIONS]
            if not steps or self.shape(steps[0]).rank not in (rank, self.shape(found).rank):
                return found
            found = steps[0]
            if self.nodes[found].op in ACTIVATIONS:
                return found

    def find_layer(self, layer: str, source: str, target: str) -> str:
        """Return the node that a user's layer name means.

        Parameters
        ----------
        layer
            A node or tensor name, or one component of it such as ``block_layer4`` or ``conv2d_3``, which means
            the last node of that name scope.
        source, target
            Input node and score node.

        Raises
        ------
        BadInput
            If no layer between source and target has this name; the message lists those that exist.
        """
        layers = self.layers(source, target)
        wanted = node_of(layer)
        if wanted in layers:
            return wanted
        inside = [name for name in layers if f"/{wanted}/" in f"/{name}/"]
        if inside:
            return inside[-1]
        activations = [name for name in layers if self.nodes[name].op in ACTIVATIONS] or layers
        near = difflib.get_close_matches(wanted, activations, n=5, cutoff=0.3)
        names = near + [name for name in activations if name not in near]
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        raise BadInput(f"the model has no layer '{layer}'; its layers are {listed(names[:12])}{more}")


def _shared(value: tf.Tensor) -> np.ndarray:
    """Return a tensor's values read-only, without a copy where NumPy knows the type: weights take much memory."""
    if value.dtype in (tf.float32, tf.float64):
        return np.asarray(memoryview(value.cpu()))
    return value.numpy()
