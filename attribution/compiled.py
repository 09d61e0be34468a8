"""A frozen graph as compiled functions: scores, gradients and relevance of one batch.

Each function is compiled when it is first needed, and all share the weights: memory hardly grows with their number.
Batch normalisation is part of the layers before it, which saves a few hundredths of every pass.
"""

from __future__ import annotations

import functools

import tensorflow as tf

from attribution import canonise, graph_nodes, relevance, single_precision, unroll
from attribution_benchmarks.command_line import BadInput, listed


class CompiledGraph:
    """The compiled functions of a graph.

    Parameters
    ----------
    frozen : attribution.saved_model.FrozenModel
        Graph, inputs and input nodes.
    score
        ``"logits"`` or ``"probabilities"``: what the functions return and differentiate.
    jit_compile
        Compile with XLA.

    Attributes
    ----------
    logits, probabilities : str or None
        Tensor names of both kinds of scores; the second is ``None`` where the graph does not compute them.
    """

    def __init__(self, frozen, score: str, jit_compile: bool):
        self.graph = frozen.graph
        self.logits, self.probabilities = self.graph.split_scores(frozen.output)
        self._score = score
        self._jit_compile = jit_compile
        self._inputs = frozen.inputs
        self._input_nodes = list(frozen.input_nodes.values())
        self._functions = {}

    @functools.cached_property
    def _folded(self):
        with tf.init_scope():  # values, also where a function is built from within another
            return canonise.fold_batch_norm(self.graph, only_above=True)

    @functools.cached_property
    def _folded_below_too(self):
        with tf.init_scope():
            return canonise.fold_batch_norm(self._folded)  # shares the weights that are folded already

    def folds_away(self, layer: str) -> bool:
        """Return whether passes that leave a layer's values as they are must be passes of their own."""
        return layer in self._folded.altered

    def forward(self):
        """Return the function from arrays, in the order of the inputs, to scores ``(rows, classes)``."""
        return self._once("forward", self._forward)

    def backward(self, wrt, layers, of_input, rules):
        """Return the function from targets and arrays to scores, input gradient, layers' values and gradients.

        Parameters
        ----------
        wrt, layers, of_input, rules
            See ``attribution.model.Model.backward``; all hashable.
        """
        return self._once(("backward", wrt, layers, of_input, rules), self._backward, wrt, layers, of_input, rules)

    def relevance(self, wrt, composite, wanted):
        """Return the function from targets and arrays to scores and the relevance of the nodes wanted."""
        skeleton = composite.without_numbers()  # one function for every ε
        function = self._once(("relevance", wrt, skeleton, wanted), self._relevance, wrt, skeleton, wanted)
        return functools.partial(function, composite.numbers())

    def _forward(self):
        @self._compile()
        def forward(*arrays):
            return self._import(self._folded, arrays)[0]

        return forward

    def _backward(self, wrt, layers, of_input, rules):
        position = list(self._inputs).index(wrt)
        view = self.graph if any(map(self.folds_away, layers)) else self._folded

        @self._compile(tf.TensorSpec((None,), tf.int32))
        def backward(targets, *arrays):
            scores, values, _ = self._import(view, arrays, [f"{name}:0" for name in layers], dict(rules))
            target_scores = tf.gather(scores, _or_predicted(targets, scores), batch_dims=1)
            sources = ([arrays[position]] if of_input else []) + values
            gradients = tf.gradients(target_scores, sources)
            if any(gradient is None for gradient in gradients):
                raise BadInput(f"the score does not depend on the input '{wrt}' through differentiable operations")
            first = gradients.pop(0) if of_input else tf.zeros(())
            return scores, first, values, gradients

        return backward

    def _relevance(self, wrt, skeleton, wanted):
        source = self._input_nodes[list(self._inputs).index(wrt)]
        view = self._for_relevance(source, skeleton.batch_norm == "fold")
        names = [name for name in view.nodes if name not in self._input_nodes and name not in view.weights]

        @self._compile(tf.TensorSpec((4, 6), tf.float64), tf.TensorSpec((None,), tf.int32))
        def propagate(numbers, targets, *arrays):
            composite = skeleton.with_numbers(numbers)
            scores, found, given = self._import(view, arrays, names)
            operations = dict(zip(names, found, strict=True)) | {name: tensor.op for name, tensor in given.items()}
            # The logit is shared out also where the model was loaded to explain probabilities: a softmax is no sum.
            node, _, number = self.logits.partition(":")
            logits = operations[node].outputs[int(number or 0)]
            start = tf.one_hot(_or_predicted(targets, scores), tf.shape(scores)[1], dtype=logits.dtype)
            if composite.start == "score":
                start *= tf.reshape(logits, tf.shape(start))
            start = tf.reshape(start, tf.shape(logits))
            relevances = relevance.propagate(view, operations, self._input_nodes, source, self.logits, start, composite)
            missing = [name for name in wanted if name not in relevances]
            if missing:
                raise BadInput(f"no relevance reaches {listed(missing)} from the score")
            return [scores, *(relevances[name] for name in wanted)]

        return propagate

    def _for_relevance(self, source, folded):
        """Return the graph that relevance walks through: of single operations, in single or double precision."""
        key = ("graph for relevance", source, folded)
        if key not in self._functions:
            with tf.init_scope():
                plain = single_precision.in_single_precision(
                    unroll.unroll_loops(self.graph, source, graph_nodes.node_of(self.logits))
                )
                if plain is not self.graph:
                    view = canonise.fold_batch_norm(plain) if folded else plain
                else:
                    view = self._folded_below_too if folded else self.graph
            self._functions[key] = view
        return self._functions[key]

    def _import(self, view, arrays, elements=(), rules=None):
        """Import a graph on arrays; return scores, the elements, and the tensors given (``GraphView.import_on``)."""
        softmax_missing = self._score == "probabilities" and self.probabilities is None
        output = self.probabilities if self._score == "probabilities" and not softmax_missing else self.logits
        (scores, *found), given = view.import_on(
            dict(zip(self._input_nodes, arrays, strict=True)),
            [output if ":" in output else f"{output}:0", *elements],
            rules,
        )
        scores = tf.cast(scores, tf.float32)
        if scores.shape.rank == 1:
            scores = scores[:, tf.newaxis]
        return tf.nn.softmax(scores) if softmax_missing else scores, found, given

    def _compile(self, *before):
        """Return the decorator of functions of the arguments given and of one array per input."""
        return tf.function(
            input_signature=[*before, *self._inputs.values()], jit_compile=self._jit_compile, autograph=False
        )

    def _once(self, key, build, *arguments):
        if key not in self._functions:
            self._functions[key] = build(*arguments)
        return self._functions[key]


def _or_predicted(targets, scores):
    """Return targets with -1 replaced by the class of the highest score."""
    return tf.where(targets < 0, tf.argmax(scores, axis=1, output_type=tf.int32), targets)
