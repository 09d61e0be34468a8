"""A frozen graph as compiled functions: scores, gradients and relevance of one batch.

Each function is compiled when it is first needed, and all share the weights: memory hardly grows with their number.
Networks with equal graphs share what is compiled (``GraphView.traced``).
Batch normalization is part of the layers before it: LRP's rules are defined for layers with weights, and a pass takes a
few hundredths less time.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from attribution.batching import NotFinite
from attribution.errors import BadInput, listed
from attribution.graph import fold_batch_norm, rows
from attribution.graph._tf_internals import without_collection
from attribution.graph.layers import Layers, has_channels_first
from attribution.graph.view import MODULE, GraphView, node_of, rebuild
from attribution.lrp.composite import Composite
from attribution.savedmodel._gradient_support import by_values
from attribution.savedmodel.freeze import FrozenGraph
from attribution.savedmodel.scores import OUTPUT, PROBABILITIES

# Most functions that one graph caches. One is compiled for each set of layers, gradients and parameters of a rule.
KEPT = 24
Result = TypeVar("Result")
_TARGETS = tf.TensorSpec((None,), tf.int32)
_VALUES, _FEWEST, _MOST = 16 * 2**20, 32, 2048  # of a pass: values in 64 MB of float32, and rows
_OF_TENSOR = 2 * 2**20  # values; larger tensors are new memory in each pass of a processor, up to half of its time


def _compiled(build: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method compile a function when it is first called with its arguments.

    ``build`` returns the graph that the function imports, the function, and the signature of what it takes before the
    model's inputs.
    """

    @functools.wraps(build)
    @without_collection()
    def once(self: CompiledGraph, *arguments: Any) -> Any:
        key, functions = (build.__name__, *arguments), self._functions
        if key not in functions:
            view, function, *before = build(self, *arguments)
            signature = [*before, *self._inputs.values()]
            function = tf.function(function, signature, autograph=False)
            functions[key] = view.traced((key, self._interface), function) if self._shared else function
            if len(functions) > KEPT:
                functions.popitem(last=False)
        functions.move_to_end(key)
        return functions[key]

    return once


class CompiledGraph:
    """The compiled functions of a graph.

    Parameters
    ----------
    frozen
        The graph.
    score
        ``"logits"``, ``"probabilities"`` or ``"output"``: what the functions return and differentiate.
    shared
        Share what is compiled with other networks of an equal graph.

    Attributes
    ----------
    live : keras.Model or None
        The live network that computes the same, once a method needed it.
    """

    def __init__(self, frozen: FrozenGraph, score: str, shared: bool = True) -> None:
        self.frozen, self.score = frozen, score
        self.graph, self.logits = frozen.graph, frozen.logits
        self.live: Any = None
        self._position = frozen.position
        self._output, self._activation = self.logits, None  # scores are the activation, if any, of the output
        if score == OUTPUT:
            self._output = frozen.output
        elif score == PROBABILITIES:
            self._activation = frozen.head.to_probabilities
        self._inputs = frozen.inputs
        self._input_nodes = list(frozen.input_nodes.values())
        self._functions: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._known: dict[Hashable, Any] = {}
        ends = self.logits, self._output, self._activation, repr(frozen.output_shape), *self._input_nodes
        self._interface = (frozen.position, *ends, *self._inputs.items())
        self._shared = shared

    def _once(self, key: Hashable, make: Callable[[], Result]) -> Result:
        if key not in self._known:
            self._known[key] = make()
        found: Result = self._known[key]
        return found

    def changed(
        self, key: Hashable, change: Callable[[FrozenGraph], FrozenGraph], score: str | None = None
    ) -> CompiledGraph:
        """Return the functions of a changed graph, made once for a key; ``score`` is theirs, by default the same."""
        make = lambda: CompiledGraph(change(self.frozen), score or self.score)  # noqa: E731
        return self._once(("changed", key), make)

    def layers(self, source: str) -> Layers:
        """Return the layers behind a node."""
        ends = self.graph, source, node_of(self.logits)
        make = lambda: Layers(*ends, self.frozen.numbered, self.has_channels_first(source))  # noqa: E731
        return self._once(("layers", source), make)

    def has_channels_first(self, source: str) -> bool:
        """Return whether an input's node is ``(N, channels, positions...)``, as PyTorch's networks take pictures."""
        ends = self.graph, source, node_of(self.logits)
        return self._once(("channels", source), lambda: has_channels_first(*ends))

    def run(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Call one of these functions; its last arguments are the inputs.

        Raises
        ------
        BadInput
            If an operation of it fails on these inputs, or scores are not one row for each.
        tf.errors.ResourceExhaustedError
            If there is too little memory; a smaller batch may fit.
        """
        try:
            return function(*map(tf.constant, arrays))
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            inputs = arrays[-len(self._inputs) :]
            if isinstance(error, tf.errors.InvalidArgumentError) and function is not self.forward():
                # Scores of another number of rows make a pass fail; the forward pass refuses them by that reason.
                checked(self.run(self.forward(), *inputs), next((len(one) for one in inputs if np.ndim(one)), 1))
            hint = "; if it computes one input at a time, choose batch_size=1 (--batch_size=1)"
            failed = f"the model cannot be computed on these inputs: {_failed_operation(error)}"
            raise BadInput(failed + hint * any(np.shape(one)[:1] > (1,) for one in inputs)) from error

    @functools.cached_property
    def _rows(self) -> tuple[int, bool]:
        """Return ``rows_of_pass`` and ``keeps_rows_apart``."""
        shapes = {node: self._inputs[name].shape for name, node in self.frozen.input_nodes.items()}
        graph = rows.import_for_rows(self.graph, shapes)
        if graph is None:
            return _FEWEST, False
        total, largest = rows.values_of_row(self.graph, graph)
        has_sizes = all(shape[1:].is_fully_defined() for shape in shapes.values())
        of_pass = min(max(int(_VALUES / max(total, 1)), _FEWEST), _MOST) if has_sizes else _FEWEST
        if not tf.config.list_physical_devices("GPU"):
            of_pass = min(of_pass, max(round(_OF_TENSOR / max(largest, 1)), 1))
        with_rows = [node for node, shape in shapes.items() if shape.rank]
        is_open = has_sizes and all(shapes[node][0] is None for node in with_rows)
        apart = is_open and rows.keeps_rows_apart(self.graph, graph, with_rows, node_of(self._output))
        return of_pass, apart

    @property
    def rows_of_pass(self) -> int:
        """Rows of a pass, 1 to 2048, by how many values the network computes; at most 32 if an input's size is open."""
        return self._rows[0]

    @property
    def keeps_rows_apart(self) -> bool:
        """Whether the scores of a row are known to depend on that row alone, by the operations that compute them."""
        return self._rows[1]

    @functools.cached_property
    def folded(self) -> GraphView:
        """The graph whose batch normalization is part of the layers before it."""
        with tf.init_scope():  # values, also where a function is built from within another
            return fold_batch_norm.fold_batch_norm(self.graph, only_above=True)

    @functools.cached_property
    def _folded_below_too(self) -> GraphView:
        with tf.init_scope():
            return fold_batch_norm.fold_batch_norm(self.folded)  # shares the weights that are folded already

    def relevance(self, explain_input: str, composite: Composite, wanted: tuple[str, ...]) -> Any:
        """Return the function from targets and arrays to scores and the relevance of the nodes wanted."""
        skeleton = composite.without_numbers()  # one function for every ε
        return functools.partial(self._relevance(explain_input, skeleton, wanted), composite.numbers())

    def bias_rules(self, explain_input: str) -> dict[str, bool]:
        """Return the nodes with biases behind an input; see ``attribution.model._biases.bias_rules``."""
        from attribution.model._biases import bias_rules  # needed by FullGrad alone

        source = self._input_nodes[list(self._inputs).index(explain_input)]
        return bias_rules(self._for_relevance(source, folded=False), source, node_of(self.logits))

    def without_gradient(self, names: tuple[str, ...]) -> list[str]:
        """Return those of some inputs on which the scores do not depend through differentiable operations."""
        missing = []

        def trace(*arrays: Any) -> Any:
            scores = self._import(self.folded, arrays)[0]
            of_input = dict(zip(self._inputs, arrays, strict=True))
            with contextlib.suppress(LookupError):  # of an operation without gradient, which every pass reports
                gradients = tf.gradients(scores, [of_input[name] for name in names])
                missing.extend(name for name, gradient in zip(names, gradients, strict=True) if gradient is None)
            return scores

        def find() -> list[str]:
            tf.function(trace, list(self._inputs.values()), autograph=False).get_concrete_function()
            return missing

        return self._once(("without gradient", names), without_collection()(find))

    @_compiled
    def values(self, node: str) -> Any:
        """Return the function from arrays to the values of a node's first output."""
        return self.graph, lambda *arrays: self._import(self.graph, arrays, [f"{node}:0"])[1][0]

    @_compiled
    def forward(self) -> Any:
        """Return the function from arrays, in the order of the inputs, to scores ``(rows, classes)``."""
        return self.folded, lambda *arrays: self._import(self.folded, arrays)[0]

    @_compiled
    def backward(
        self, explain_input: str, layers: tuple[str, ...], of_input: bool, rules: tuple[tuple[str, str], ...]
    ) -> Any:
        """Return the function from targets and arrays to scores, input gradient, layers' values and gradients.

        The parameters are those of ``attribution.model.model.Model.backward``, all hashable.
        """
        position = list(self._inputs).index(explain_input)
        view = self.graph if self.folded.altered.intersection(layers) else self.folded

        def backward(targets: Any, *arrays: Any) -> Any:
            scores, values, _ = self._import(view, arrays, [f"{name}:0" for name in layers], dict(rules))
            target_scores = tf.gather(scores, _or_predicted(targets, scores), batch_dims=1)
            sources = ([arrays[position]] if of_input else []) + values
            try:
                gradients = tf.gradients(target_scores, sources)
            except LookupError as error:
                raise BadInput(self._has_no_gradient(str(error))) from error
            if any(gradient is None for gradient in gradients):
                names = ([f"input '{explain_input}'"] if of_input else []) + [f"layer '{name}'" for name in layers]
                missing = next(name for name, gradient in zip(names, gradients, strict=True) if gradient is None)
                raise BadInput(_no_path(missing))
            gradients = [*map(tf.convert_to_tensor, gradients)]  # dense ones
            first = gradients.pop(0) if of_input else tf.zeros(())
            return scores, first, values, gradients

        return view, backward, _TARGETS

    @_compiled
    def multipliers(self, explain_input: str, cross: bool = True) -> Any:
        """Return the function from targets, baselines and arrays to scores, DeepLIFT's multipliers and both logits."""
        from attribution.model._deeplift_rules import MAXIMUM, deeplift_rules, step_rules  # needed by DeepLIFT alone
        from attribution.model._registered_gradients import AT_BASELINE, AT_INPUT, STEPS, Step

        position = list(self._inputs).index(explain_input)
        logits = self.logits if ":" in self.logits else f"{self.logits}:0"
        source = self._input_nodes[position]
        view = self._for_relevance(source, folded=True, calls=True)

        def chosen(rules: dict[str, str]) -> dict[str, str]:
            return {name: rule for name, rule in rules.items() if cross or rule != MAXIMUM}

        rules = chosen(deeplift_rules(view, source, node_of(logits)))
        steps = step_rules(view, source, node_of(logits))

        def multipliers(targets: Any, start: Any, *arrays: Any) -> Any:
            of_steps = {name: Step(body, moving, chosen(inner)) for name, (body, moving, inner) in steps.items()}
            tf.compat.v1.add_to_collection(STEPS, of_steps)
            at_baseline = [start if place == position else array for place, array in enumerate(arrays)]
            _, (before,), _ = self._import(view, at_baseline, [logits], name=AT_BASELINE)
            scores, (explained,), _ = self._import(view, arrays, [logits], rules, name=AT_INPUT)
            classes = _or_predicted(targets, scores)
            # The logit, also of a model of probabilities: a softmax over classes is not explained.
            target, at_start = (tf.gather(self._by_class(one), classes, batch_dims=1) for one in (explained, before))
            (gradient,) = tf.gradients(target, arrays[position])
            if gradient is None:
                raise BadInput(_no_path(f"input '{explain_input}'"))
            return scores, tf.convert_to_tensor(gradient), tf.stack([target, at_start])

        return view, multipliers, _TARGETS, self._inputs[explain_input]

    @_compiled
    def full_gradient(
        self,
        explain_input: str,
        rules: tuple[tuple[str, bool], ...],
        layers: tuple[tuple[str, int], ...],
        by_channel: bool = False,
    ) -> Any:
        """Return the function from targets and arrays to scores, terms of FullGrad, and ψ of the input and of layers.

        ``rules`` are the items of ``bias_rules``, ``layers`` the nodes with biases at positions and their axes of
        channels.
        """
        from attribution.model._biases import rescaled

        biases, position = dict(rules), list(self._inputs).index(explain_input)
        source = self._input_nodes[position]
        view = self._for_relevance(source, folded=False)
        moving = view.below([source])
        logits = self.logits if ":" in self.logits else f"{self.logits}:0"

        def bias(name: str, operation: Any) -> Any:
            if biases[name]:  # of the tangent
                z, y = operation.inputs[0], operation.outputs[0]
                return y - z * tf.gradients(y, z)[0]
            inputs = zip(view.nodes[name].input, operation.inputs, strict=True)
            return rebuild(
                operation,
                [tf.zeros_like(tensor) if node_of(given) in moving else tensor for given, tensor in inputs],
            )

        def full_gradient(targets: Any, *arrays: Any) -> Any:
            scores, (explained, *found), _ = self._import(view, arrays, [logits, *biases])
            target = tf.gather(self._by_class(explained), _or_predicted(targets, scores), batch_dims=1)
            sources = [arrays[position], *(operation.outputs[0] for operation in found)]
            gradients = tf.gradients(target, sources, unconnected_gradients="zero")
            values = [sources[0], *map(bias, biases, found)]
            products = [gradient * value for gradient, value in zip(gradients, values, strict=True)]
            terms = [tf.reduce_sum(tf.cast(product, tf.float64)) for product in products]
            of_layer = dict(zip(biases, products[1:], strict=True))
            shown = [(products[0], -1), *((of_layer[name], axis) for name, axis in layers)]
            maps = [tf.reduce_sum(rescaled(one, axis if by_channel else 0), axis, keepdims=True) for one, axis in shown]
            return scores, terms, maps

        return view, full_gradient, _TARGETS

    @_compiled
    def _relevance(self, explain_input: str, skeleton: Composite, wanted: tuple[str, ...]) -> Any:
        from attribution.lrp._engine import Walk  # its rules are needed by LRP alone

        source = self._input_nodes[list(self._inputs).index(explain_input)]
        # A rule of the first layers has to see through the steps of a recurrent layer.
        calls = skeleton.first is None
        view = self._for_relevance(source, skeleton.batch_norm == "fold", values=False, calls=calls)
        names = [name for name in view.nodes if name not in self._input_nodes and name not in view.weights]

        def propagate(numbers: Any, targets: Any, *arrays: Any) -> Any:
            composite = skeleton.with_numbers(numbers)
            scores, found, given = self._import(view, arrays, names)
            operations = dict(zip(names, found, strict=True)) | {name: tensor.op for name, tensor in given.items()}
            # The logit is propagated also where the model explains probabilities: a softmax is not a sum.
            node, _, number = self.logits.partition(":")
            logits = operations[node].outputs[int(number or 0)]
            chosen = self._by_class(logits)
            start = tf.one_hot(_or_predicted(targets, scores), tf.shape(scores)[1])
            if composite.start == "score":
                start *= chosen
            start = tf.gradients(chosen, [logits], grad_ys=start)[0]
            walk = Walk(view, operations, self._input_nodes, source, node, composite)
            relevances = walk.run({self.logits: start})
            missing = [name for name in wanted if name not in relevances]
            if missing:
                raise BadInput(f"no relevance reaches {listed(missing)} from the score")
            return [scores, *(relevances[name] for name in wanted)]

        return view, propagate, tf.TensorSpec((4, 6), tf.float64), _TARGETS

    def _has_no_gradient(self, error: str) -> str:
        """Return what is refused where TensorFlow misses a gradient."""
        found = re.search(r"op type: (\w+)", error)
        operation = found[1] if found else MODULE if self.frozen.kept else "one of its operations"
        if operation == MODULE and self.frozen.kept:
            operation += f", which is not translated: {self.frozen.kept}"
        return (
            f"the file has no gradient of {operation}; methods that need scores alone, such as occlusion and RISE, can "
            "explain it"
        )

    def _for_relevance(self, source: str, folded: bool, values: bool = True, calls: bool = False) -> Any:
        """Return the graph that relevance walks through: of single operations.

        With ``calls`` a step of an unrolled loop may be a call of a function. With ``values`` it has no custom
        gradients. LRP keeps them: it recognizes the function around which one is.
        """
        from attribution.graph import unroll_rnn

        def make() -> GraphView:
            with tf.init_scope():
                unrolled = unroll_rnn.unroll_loops(self.graph, source, node_of(self.logits), calls)
                plain = by_values(unrolled, node_of(self.logits)) if values else unrolled
                if plain is not self.graph:
                    return fold_batch_norm.fold_batch_norm(plain) if folded else plain
                return self._folded_below_too if folded else self.graph

        return self._once(("relevance", source, folded, values, calls), make)

    def _import(
        self,
        view: GraphView,
        arrays: Any,
        elements: Any = (),
        rules: Mapping[str, str] | None = None,
        name: str = "model",
    ) -> tuple[Any, list[Any], dict[str, Any]]:
        """Import a graph on arrays; return scores, the elements, and the tensors given (``GraphView.import_on``)."""
        (scores, *found), given = view.import_on(
            dict(zip(self._input_nodes, arrays, strict=True)),
            [self._output if ":" in self._output else f"{self._output}:0", *elements],
            rules,
            name,
        )
        scores = self._by_class(scores)
        return _activated(scores, self._activation), found, given

    def _by_class(self, output: Any) -> Any:
        """Return an output as scores ``(rows, classes)`` float32, those at the position where there are several."""
        if output.shape.rank is None:
            output = tf.ensure_shape(output, self.frozen.output_shape)
        if self._position:
            output = output[(slice(None), *self._position)]
        output = tf.cast(output, tf.float32)
        if output.shape.rank == 2:
            return output
        sizes = [size for size in (output.shape[1:] if output.shape.rank else ()) if size != 1]
        return tf.reshape(output, (-1, sizes[0] if sizes else 1))


def checked(scores: Any, rows: int) -> np.ndarray:
    """Return the scores of a pass of some rows; refuse another number of them, and scores that are not finite."""
    found: np.ndarray = np.asarray(scores)
    if len(found) != rows:
        raise BadInput(f"the model gives {len(found)} rows of scores for {rows} inputs; one row for each is needed")
    if not np.isfinite(found).all():
        raise NotFinite("the model's scores are NaN or infinite; check its weights and the range of the inputs")
    return found


def _failed_operation(error: tf.errors.OpError) -> str:
    """Return the node that failed and the reason, from TensorFlow's message.

    The reason is the line above ``[[{{node NAME}}]]``; what precedes it is a trace of where the node was made.
    """
    above, _, after = error.message.partition("[[{{")
    lines = [line.strip() for line in above.splitlines() if line.strip()]
    reason = (lines[-1] if lines else type(error).__name__)[:300]
    if "grouped convolution" in reason:  # on processors without AVX-512
        reason += " Set TF_ENABLE_ONEDNN_OPTS=1 in the environment, and TensorFlow supports them."
    node = re.search(r"\bnode ([^}]*)\}\}", after)
    return f"operation '{node[1].removeprefix('model/')}' failed: {reason}" if node else reason


def _no_path(missing: str) -> str:
    return f"the score does not depend on the {missing} through differentiable operations"


def _activated(scores: Any, activation: str | None) -> Any:
    """Return float32 scores after a softmax or a sigmoid, if any, computed in double precision.

    The derivative of a probability p has the factor 1 - p. In single precision, where p is close to 1, that factor is a
    rounding error, and so is every gradient.
    """
    if activation is None:
        return scores
    function = tf.sigmoid if activation == "Sigmoid" else tf.nn.softmax
    return tf.cast(function(tf.cast(scores, tf.float64)), tf.float32)


def _or_predicted(targets: Any, scores: Any) -> Any:
    """Return targets with -1 replaced by the class of the highest score."""
    return tf.where(targets < 0, tf.argmax(scores, axis=1, output_type=tf.int32), targets)
