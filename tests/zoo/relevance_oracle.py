"""Relevance methods by their definition: a live Keras network, walked backwards layer by layer in float64.

Nothing here reads a file or a graph of operations. Each Keras layer becomes one or more steps (a linear layer, a sum,
an activation, ...). A step distributes the relevance of its values by the published formula: the gradient of the layer
with changed inputs and weights, times these inputs. ``attribution.lrp.composite`` documents the rule of each step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops


class UnknownLayer(Exception):
    """The definition does not cover a layer."""


@dataclasses.dataclass(frozen=True)
class Definition:
    """A relevance method: the rule of each kind of layer, and its numbers.

    Attributes
    ----------
    convolution, dense, merge, first
        Rules; of sums and means, and of the layers that see the input, if they have one of their own.
    fold, share_norms, joint, taylor
        Whether batch normalization is part of the layer before or after it; whether other normalization shares by the
        ε-rule; whether layers that end in a sum are one layer; whether relevance continues through softmax.
    score, bias
        Whether it begins with the score rather than with 1; whether biases take relevance.
    epsilon, relative, gamma, low, high
        Numbers of the rules.
    """

    convolution: str
    dense: str
    merge: str
    first: str = ""
    fold: bool = True
    share_norms: bool = True
    joint: bool = False
    taylor: bool = False
    score: bool = True
    bias: bool = True
    epsilon: float = 1e-6
    relative: bool = False
    gamma: float = 0.25
    low: float = 0.0
    high: float = 1.0


_EPSILON = Definition("epsilon", "epsilon", "epsilon", joint=True)
_PLUS = Definition("plus", "plus", "plus", share_norms=False)
DEFINITIONS: Mapping[str, Definition] = {
    "lrp_epsilon": _EPSILON,
    "lrp_epsilon_plus": Definition("plus", "epsilon", "plus"),
    "lrp_epsilon_plus_flat": Definition("plus", "epsilon", "plus", "flat"),
    "lrp_gamma": Definition("gamma", "gamma", "epsilon"),
    "lrp_epsilon_gamma_box": Definition("gamma", "epsilon", "epsilon", "box"),
    "lrp_alpha1beta0": _PLUS,
    "lrp_cp": dataclasses.replace(_EPSILON, relative=True),
    "lrp_attn": dataclasses.replace(_EPSILON, relative=True, taylor=True),
    "lrp_clevr_xai": dataclasses.replace(_PLUS, fold=False, joint=True, first="box"),
    "excitation_backprop": dataclasses.replace(_PLUS, fold=False, joint=True, score=False, bias=False, epsilon=0.0),
}

_CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "DepthwiseConv2D", "SeparableConv2D")
_MEANS = ("AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "GlobalAveragePooling1D",
          "GlobalAveragePooling2D", "GlobalAveragePooling3D")  # fmt: skip
# Every value is one of the input's. Inside a sum, those that drop and add none belong to the layer before them.
_REARRANGED = ("Reshape", "Permute", "Flatten", "Transpose", "Roll", "GetItem", "Dropout", "Cropping2D")
_SELECTED = ("MaxPooling1D", "MaxPooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D",
             "GlobalMaxPooling3D", "Concatenate", "ZeroPadding2D", "UpSampling2D", "ClassToken")  # fmt: skip
# Functions that are 0 at 0 and have the sign of their input.
_ACTIVATIONS = ("relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "hard_silu", "tanh", "ReLU", "LeakyReLU", "PReLU",
                "ELU")  # fmt: skip
_GATES = ("sigmoid", "hard_sigmoid")


@dataclasses.dataclass(eq=False)
class Step:
    """Values, and how they came from those of other steps.

    Attributes
    ----------
    kind
        ``"given"``: an input, a constant, or what depends on other inputs only. ``"layer"``: linear, with a kernel.
        ``"mean"``: linear without one. ``"sum"``. ``"norm"``: ``scale`` times the first input less the second, if there
        is one. ``"pass"``: an activation. ``"move"``: values of the inputs. ``"product"`` and ``"matrices"``: of two
        steps. ``"softmax"``, ``"gate"``. Of any kind, ``bias`` is added last.
    function
        From the values of ``inputs``, and the kernel of a layer, to ``values`` without ``bias``.
    of
        Name of the Keras layer.
    explained, varies
        Whether it depends on the explained input; on any input.
    """

    kind: str
    function: Callable
    inputs: tuple[Step, ...] = ()
    values: Any = None
    kernel: Any = None
    bias: Any = None
    scale: Any = None
    of: str = ""
    padded: bool = False
    explained: bool = False
    varies: bool = True
    users: list[Step] = dataclasses.field(default_factory=list)

    def after(self, *values: Any) -> Any:
        """Return the step's values for values of its inputs."""
        result = self.function(*values, *([self.kernel] if self.kind == "layer" else []))
        return result if self.bias is None else result + self.bias

    @functools.cached_property
    def near(self) -> bool:
        """Whether no layer is between it and the explained input."""
        return not self.inputs or (self.kind != "layer" and all(one.near for one in self.inputs if one.explained))

    def ends(self, low: float, high: float) -> tuple[Any, Any]:
        """Return its least and greatest values where the explained input is in [low, high]."""
        if not (self.explained and self.near):
            return self.values, self.values
        if not self.inputs:
            return low * tf.ones_like(self.values), high * tf.ones_like(self.values)
        first, second = zip(*(one.ends(low, high) for one in self.inputs), strict=True)
        ends = self.after(*first), self.after(*second)
        return tf.minimum(*ends), tf.maximum(*ends)


class Term(NamedTuple):
    """A linear layer of a sum, or another term; ``function(x.values, kernel)`` are its values without bias."""

    x: Step
    function: Callable
    kernel: Any
    layer: Step | None


def relevance(model: keras.Model, inputs: Sequence, explained: int, definition: Definition, scores: Callable) -> Any:
    """Return the relevance of an input, of its shape, float64.

    Parameters
    ----------
    model
        A network in float64.
    inputs, explained
        Values of all its inputs, and the position of the explained one.
    definition
        The method.
    scores
        Function from the model's outputs to the scores ``(N,)`` that are explained.

    Raises
    ------
    UnknownLayer
        If there is no definition for a layer.
    """
    network = Network(definition)
    given = [network.step("given", None, values=_double(array)) for array in inputs]
    given[explained].explained = True
    outputs = network.run(model, given)
    # A network that ends in a softmax is explained before it.
    ends = keras.tree.map_structure(lambda step: step.inputs[0] if step.kind == "softmax" else step, outputs)
    with tf.GradientTape() as tape:
        values = keras.tree.map_structure(lambda step: tf.identity(step.values), ends)
        tape.watch(values)
        score = scores(values)
    gradients = keras.tree.flatten(tape.gradient(score, values))
    start = {
        step: gradient * step.values if definition.score else gradient
        for step, gradient in zip(keras.tree.flatten(ends), gradients, strict=True)
        if gradient is not None
    }
    if definition.fold:
        _fold(network.steps)
    return Rules(definition).run(network.steps, start, given[explained]).numpy()


class Network:
    """The steps of a Keras network, in the order in which they are computed."""

    def __init__(self, definition: Definition) -> None:
        self._taylor = definition.taylor
        self.steps: list[Step] = []

    def run(self, model, inputs):
        """Return the steps of a model's outputs, in their structure."""
        model = getattr(model, "_functional", None) or model  # of a Sequential
        return model._run_through_graph(inputs, lambda layer: functools.partial(self._apply, layer))

    def step(self, kind, function, inputs=(), **fields):
        """Append a step, and compute its values."""
        step = Step(kind, function, tuple(inputs), **fields)
        if step.inputs:
            step.explained, step.varies = (
                any(getattr(one, name) for one in inputs) for name in ("explained", "varies")
            )
            step.values = step.after(*(one.values for one in inputs))
        for one in step.inputs:
            one.users.append(step)
        self.steps.append(step)
        return step

    def _apply(self, layer, *arguments, **options):
        name = type(layer).__name__
        options = {name: value for name, value in options.items() if name not in ("mask", "training")}
        leaves = keras.tree.flatten((arguments, options))
        steps = [leaf for leaf in leaves if isinstance(leaf, Step)]
        if not any(step.explained for step in steps):
            arguments, options = _refilled((arguments, options), [step.values for step in steps])
            return self.step("given", None, values=_double(layer(*arguments, **options)))
        if isinstance(layer, keras.Model):
            return self.run(layer, steps)
        if name in (*_MEANS, *_REARRANGED, *_SELECTED):
            return self._moved(layer, steps, arguments, options)
        if name in _ACTIVATIONS:
            return self.step("pass", layer, steps)
        if name in ("Activation", "Softmax"):
            return self._activated(steps[0], getattr(layer, "activation", ops.softmax))
        if name in _TERMS:
            return self.step(
                *_TERMS[name], [leaf if isinstance(leaf, Step) else self._constant(leaf) for leaf in leaves]
            )
        if name not in _LAYERS:
            raise UnknownLayer(name)
        return _LAYERS[name](self, layer, *arguments, **options)

    def _moved(self, layer, steps, arguments, options):
        """Append a layer that only moves values, or takes means of them."""

        def call(*values):
            refilled, others = _refilled((arguments, options), values)
            return layer(*refilled, **others)

        name = type(layer).__name__
        is_mean = name in _MEANS or getattr(layer, "interpolation", "nearest") != "nearest"
        return self.step("mean" if is_mean else "move", call, steps, of=name)

    def _constant(self, values):
        return self.step("given", None, values=_double(values), varies=False)

    def _layer(self, function, x, kernel, bias=None, **fields):
        bias = None if bias is None else _double(bias)
        return self.step("layer", function, [x], kernel=_double(kernel), bias=bias, **fields)

    def _activated(self, x, function):
        name = getattr(function, "__name__", "linear" if function is None else "")
        if name == "linear":
            return x
        if name == "softmax" or name in _GATES:
            return self.step("softmax" if name == "softmax" else "gate", function, [x])
        if name == "softplus":  # log 2 of it is a bias
            varying = self.step("pass", lambda x: function(x) - function(tf.zeros_like(x)), [x])
            return self.step("mean", tf.identity, [varying], bias=tf.math.log(_double(2.0)))
        if name not in _ACTIVATIONS:
            raise UnknownLayer(name)
        return self.step("pass", function, [x])

    def _convolution(self, layer, x):
        name = type(layer).__name__
        how = {name: getattr(layer, name) for name in ("strides", "padding", "dilation_rate")}
        if layer.data_format == "channels_first":  # which TensorFlow cannot compute on a processor
            if name != "Conv2D" or layer.use_bias:
                raise UnknownLayer(f"{name} with its channels first")

            def function(x, kernel):
                return tf.transpose(ops.conv(tf.transpose(x, (0, 2, 3, 1)), kernel, **how), (0, 3, 1, 2))

            return self._activated(self._layer(function, x, layer.kernel, of=name, padded=True), layer.activation)
        about = {"of": name, "padded": layer.padding != "valid"}
        kernel = layer.pointwise_kernel if name == "SeparableConv2D" else layer.kernel
        function = functools.partial(ops.conv, **how)
        if name == "SeparableConv2D":
            x = self._layer(functools.partial(ops.depthwise_conv, **how), x, layer.depthwise_kernel, **about)
            function = functools.partial(ops.conv, **how | {"strides": 1, "dilation_rate": 1})
            about["padded"] = False
        elif name == "DepthwiseConv2D":
            function = functools.partial(ops.depthwise_conv, **how)
        elif name == "Conv2DTranspose":
            function = functools.partial(ops.conv_transpose, **how, output_padding=layer.output_padding)
        return self._activated(self._layer(function, x, kernel, layer.bias, **about), layer.activation)

    def _dense(self, layer, x):
        einsum = type(layer).__name__ == "EinsumDense"
        function = functools.partial(ops.einsum, layer.equation) if einsum else ops.matmul
        return self._activated(self._layer(function, x, layer.kernel, layer.bias), layer.activation)

    def _normalized(self, x, scale, shift=None, mean=None):
        if mean is None and shift is None:
            return self.step("pass", lambda x: x * scale, [x])
        inputs = [x] if mean is None else [x, mean]
        return self.step("norm", lambda x, mean=0.0: (x - mean) * scale, inputs, scale=scale, bias=shift)

    def _batch_normalization(self, layer, x):
        shape = [1] * x.values.shape.rank
        shape[layer.axis] = -1
        gamma, beta = layer.gamma if layer.scale else 1.0, layer.beta if layer.center else 0.0
        scale = _double(gamma) / tf.sqrt(_double(layer.moving_variance) + layer.epsilon)
        shift = _double(beta) - _double(layer.moving_mean) * scale
        return self._normalized(x, tf.reshape(scale, shape), tf.reshape(shift, shape))

    def _rescaling(self, layer, x):
        return self._normalized(x, _double(layer.scale), _double(layer.offset))

    def _normalization(self, layer, x):
        scale = 1 / tf.maximum(tf.sqrt(_double(layer.variance)), keras.config.epsilon())
        return self._normalized(x, scale, -_double(layer.mean) * scale)

    def _layer_scale(self, layer, x):
        return self._normalized(x, _double(layer.gamma), tf.zeros_like(_double(layer.gamma)))

    def _pooled_volume(self, layer, x):
        """Pooling of volumes, in the plane and along the first axis: TensorFlow's own computes in float32 only."""
        _, depth, height, width, channels = x.values.shape
        first, *plane = layer.pool_size
        if layer.strides != layer.pool_size or layer.padding != "valid" or layer.data_format != "channels_last":
            raise UnknownLayer("MaxPooling3D of overlapping blocks")

        def pooled(x):
            planes = ops.max_pool(tf.reshape(x, (-1, height, width, channels)), plane)
            lines = ops.max_pool(
                tf.reshape(planes, (-1, depth, planes.shape[1] * planes.shape[2], channels)), (first, 1)
            )
            return tf.reshape(lines, (-1, depth // first, *planes.shape[1:]))

        return self.step("move", pooled, [x])

    def _layer_normalization(self, layer, x):
        beta = None if layer.beta is None else _double(layer.beta)
        return self._centred(x, layer.axis, layer.epsilon, _double(layer.gamma), beta)

    def _rms_normalization(self, layer, x):
        squares = tf.reduce_mean(tf.square(x.values), layer.axis, keepdims=True)
        return self._normalized(x, tf.math.rsqrt(squares + layer.epsilon) * _double(layer.scale))

    def _group_normalization(self, layer, x):
        shape, broadcast = x.values.shape, layer._create_broadcast_shape(x.values.shape)
        grouped = self.step("move", lambda x: ops.reshape(x, (*shape[:-1], layer.groups, -1)), [x])
        axes = [*range(1, len(shape) - 1), len(shape)]
        gamma, beta = (tf.reshape(_double(one), broadcast) for one in (layer.gamma, layer.beta))
        return self.step(
            "move", lambda x: ops.reshape(x, shape), [self._centred(grouped, axes, layer.epsilon, gamma, beta)]
        )

    def _centred(self, x, axes, epsilon, gamma, beta):
        mean = self.step("mean", lambda x: tf.reduce_mean(x, axes, keepdims=True), [x])
        variance = tf.math.reduce_variance(x.values, axes, keepdims=True)
        return self._normalized(x, tf.math.rsqrt(variance + epsilon) * gamma, beta, mean)

    def _positions(self, layer, x):
        return self.step("sum", _total, [x, self._constant(layer.table)])

    def _attention(self, layer, query, value, key=None, use_causal_mask=False):
        query, key = self._dense(layer._query_dense, query), self._dense(layer._key_dense, key or value)
        value = self._dense(layer._value_dense, value)
        scores = self.step("matrices", lambda q, k: tf.einsum("btnh,bsnh->bnts", q, k), [query, key])
        scale, tokens = layer._inverse_sqrt_key_dim, scores.values.shape[-2:]
        seen = tf.linalg.band_part(tf.ones(tokens, bool), -1, 0) if use_causal_mask else tf.ones(tokens, bool)
        scores = self.step("pass", lambda x: x * scale, [scores])
        attention = self.step("softmax", lambda x: tf.nn.softmax(tf.where(seen, x, -float("inf"))), [scores])
        combine = functools.partial(tf.einsum, "bnts,bsnh->btnh")
        if self._taylor:
            mixed = self.step("matrices", combine, [attention, value])
        else:
            mixed = self._layer(lambda v, weights: combine(weights, v), value, attention.values)
        return self._dense(layer._output_dense, mixed)

    def _recurrent(self, layer, x):
        """An LSTM or a GRU, each step from its formulae."""
        steps = [
            self.step("move", lambda x, time=time: x[:, time], [x], of="GetItem") for time in range(x.values.shape[1])
        ]
        state = self._constant(tf.zeros((x.values.shape[0], layer.units)))
        states, advance = [state, state], self._lstm if type(layer).__name__ == "LSTM" else self._gru
        outputs = []
        for one in reversed(steps) if layer.go_backwards else steps:
            states = advance(layer.cell, one, *states)
            outputs.append(states[0])
        if not layer.return_sequences:
            return outputs[-1]
        return self.step("move", lambda *each: tf.stack(each, 1), outputs)

    def _projected(self, x, kernel, bias=None):
        return self._layer(ops.matmul, x, kernel, bias)

    def _part(self, x, number, parts):
        width = x.values.shape[-1] // parts
        return self.step("move", lambda x: x[:, number * width : (number + 1) * width], [x])

    def _lstm(self, cell, x, output, carry):
        terms = [
            self._projected(x, cell.kernel),
            self._projected(output, cell.recurrent_kernel),
            self._constant(cell.bias),
        ]
        both = self.step("sum", _total, terms)
        enter, forget, new, leave = (self._part(both, number, 4) for number in range(4))
        enter, forget, leave = (self._activated(one, cell.recurrent_activation) for one in (enter, forget, leave))
        kept = self.step("product", ops.multiply, [forget, carry])
        added = self.step("product", ops.multiply, [enter, self._activated(new, cell.activation)])
        carry = self.step("sum", _total, [kept, added])
        return self.step("product", ops.multiply, [leave, self._activated(carry, cell.activation)]), carry

    def _gru(self, cell, x, output, _):
        below = self._projected(x, cell.kernel, cell.bias[0])
        before = self._projected(output, cell.recurrent_kernel, cell.bias[1])
        parts = [[self._part(one, number, 3) for one in (below, before)] for number in range(3)]
        keep, reset = (self._activated(self.step("sum", _total, pair), cell.recurrent_activation) for pair in parts[:2])
        old = self.step("product", ops.multiply, [reset, parts[2][1]])
        new = self._activated(self.step("sum", _total, [parts[2][0], old]), cell.activation)
        replace = self.step("norm", tf.negative, [keep], scale=-1.0, bias=_double(1.0))
        kept = self.step("product", ops.multiply, [keep, output])
        output = self.step("sum", _total, [kept, self.step("product", ops.multiply, [replace, new])])
        return output, None

    def _bidirectional(self, layer, x):
        ahead, back = self._recurrent(layer.forward_layer, x), self._recurrent(layer.backward_layer, x)
        if layer.forward_layer.return_sequences:
            back = self.step("move", lambda x: tf.reverse(x, [1]), [back])
        return self.step("move", lambda *both: tf.concat(both, -1), [ahead, back])


def _total(*terms):
    return functools.reduce(tf.add, terms)


def _refilled(arguments, values):
    """Return nested arguments with values in place of the steps."""
    values = iter(values)
    return keras.tree.map_structure(lambda one: next(values) if isinstance(one, Step) else one, arguments)


def _double(values):
    values = tf.convert_to_tensor(values)
    return tf.cast(values, tf.float64) if values.dtype.is_floating else values


_TERMS = {"Add": ("sum", _total), "Multiply": ("product", ops.multiply)}
_LAYERS: Mapping[str, Callable] = {
    **dict.fromkeys(_CONVOLUTIONS, Network._convolution),
    "Dense": Network._dense,
    "EinsumDense": Network._dense,
    "BatchNormalization": Network._batch_normalization,
    "Rescaling": Network._rescaling,
    "Normalization": Network._normalization,
    "LayerScale": Network._layer_scale,
    "MaxPooling3D": Network._pooled_volume,
    "LayerNormalization": Network._layer_normalization,
    "RMSNormalization": Network._rms_normalization,
    "GroupNormalization": Network._group_normalization,
    "Positions": Network._positions,
    "MultiHeadAttention": Network._attention,
    "LSTM": Network._recurrent,
    "GRU": Network._recurrent,
    "Bidirectional": Network._bidirectional,
}


def _fold(steps: Sequence[Step]) -> None:
    """Make batch normalization part of the layer before it, or of all layers after it if they do not pad."""
    for step in steps:
        if step.kind != "norm" or len(step.inputs) > 1:
            continue
        (x,) = step.inputs
        if x.kind == "layer" and len(x.users) == 1:
            _fold_back(step, x)
        elif step.users and all(
            user.kind == "layer" and not user.padded and user.of in ("", "Conv1D", "Conv2D", "Conv3D")
            for user in step.users
        ):
            for user in step.users:
                shift = user.function(tf.broadcast_to(step.bias, x.values.shape), user.kernel)
                user.bias = shift if user.bias is None else shift + user.bias
                user.kernel *= tf.reshape(step.scale, (-1, 1))
            step.__dict__.update(kind="pass", function=tf.identity, bias=None, values=x.values)


def _fold_back(step: Step, x: Step) -> None:
    """Make batch normalization part of the layer before it."""
    scale = tf.reshape(step.scale, (-1,))
    if x.of == "DepthwiseConv2D":
        scale = tf.reshape(scale, x.kernel.shape[-2:])
    elif x.of == "Conv2DTranspose":
        scale = scale[:, tf.newaxis]
    bias = step.bias if x.bias is None else x.bias * step.scale + step.bias
    fields = {"kind": "layer", "of": x.of, "function": x.function, "inputs": x.inputs, "padded": x.padded}
    step.__dict__.update(fields, kernel=x.kernel * scale, bias=bias)
    users = x.inputs[0].users
    users[users.index(x)] = step


class Rules:
    """The rules of a definition: they distribute the relevance of each step among its inputs."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._found: dict[Step, Any] = {}

    def run(self, steps: Sequence[Step], start: Mapping[Step, Any], source: Step) -> Any:
        """Return the relevance of a step, from that of the last ones."""
        self._found = dict(start)
        for step in reversed(steps):
            if step.inputs and step in self._found:
                getattr(self, f"_share_{step.kind}")(step, self._found.pop(step))
        return self._found[source]

    def _add(self, step, given):
        if step.explained:
            given = _summed(given, step.values.shape)
            self._found[step] = self._found[step] + given if step in self._found else given

    def _per_unit(self, given, total):
        """Return relevance per unit of a total that is moved away from 0 by ε."""
        epsilon = _double(self._definition.epsilon)
        if self._definition.relative:
            epsilon *= tf.reduce_max(tf.where(given != 0, tf.abs(total), tf.zeros_like(total)), axis=-1, keepdims=True)
        return tf.math.divide_no_nan(given, total + tf.where(total >= 0, epsilon, -epsilon))

    def _share_pass(self, step, given):
        self._add(step.inputs[0], given)

    def _share_gate(self, step, given):
        raise UnknownLayer("sigmoid that is no gate")

    def _share_move(self, step, given):
        values = [one.values for one in step.inputs]
        with tf.GradientTape() as tape:
            tape.watch(values)
            moved = step.function(*values)
        for one, gradient in zip(step.inputs, tape.gradient(moved, values, given), strict=True):
            self._add(one, tf.convert_to_tensor(gradient))

    def _share_norm(self, step, given):
        x, *mean = step.inputs
        if mean and self._definition.share_norms:
            share = step.scale * self._per_unit(given, step.values)
            self._add(x, x.values * share)
            self._add(mean[0], -mean[0].values * share)
        else:
            self._share_shift(step, x, step.scale * x.values, step.bias, given)

    def _share_shift(self, step, x, varying, shift, given):
        """Normalization shares by the ε-rule. Preprocessing is a sum as any other, and free before a first rule."""
        definition = self._definition
        if not definition.share_norms or (step.near and definition.first):
            self._add(x, given)
        elif step.near and definition.merge == "plus":
            varying, shift = tf.nn.relu(varying), tf.nn.relu(shift)
            self._add(x, varying * self._per_unit(given, varying + shift))
        else:
            self._add(x, varying * self._per_unit(given, step.values))

    def _share_product(self, step, given):
        moving = [one for one in step.inputs if one.varies]
        gates = [_is_gate(one) for one in moving]
        if len(moving) == 1 and gates[0]:  # a gate of a recurrent network's first state
            return
        signals = [one for one, gate in zip(moving, gates, strict=True) if not gate] if sum(gates) == 1 else moving
        for one in signals:
            self._add(one, given / len(signals))

    def _share_softmax(self, step, given):
        change = given - step.values * tf.reduce_sum(given, axis=-1, keepdims=True)
        self._add(step.inputs[0], step.inputs[0].values * change)

    def _share_matrices(self, step, given):
        """Give half to each factor, by the rule of dense layers or, if that treats them differently, by ε."""
        left, right = step.inputs
        pairs = _plus_pairs if self._definition.dense == "plus" else lambda *pair: [pair]
        pairs = [[tf.identity(one) for one in pair] for pair in pairs(left.values, right.values)]
        with tf.GradientTape() as tape:
            tape.watch(pairs)
            total = _total(*(step.function(*pair) for pair in pairs))
        gradients = tape.gradient(total, pairs, self._per_unit(given / 2, total))
        for pair, changes in zip(pairs, gradients, strict=True):
            for one, copy, gradient in zip(step.inputs, pair, changes, strict=True):
                self._add(one, copy * gradient)

    def _share_sum(self, step, given):
        moving = [one for one in step.inputs if one.varies]
        if len(moving) == 1 and not self._belongs(moving[0]):  # a shift
            (x,) = moving
            self._share_shift(step, x, x.values, step.values - x.values, given)
        elif self._is_shared_by_value(step):
            for one in moving:
                self._add(one, one.values * self._per_unit(given, step.values))
        else:
            self._share_layer(step, given)

    def _share_mean(self, step, given):
        self._share_layer(step, given)

    def _share_layer(self, step, given):
        """Distribute relevance among the inputs of all layers that end in a step."""
        terms, biases = [], []
        for term in self._terms(step, tf.identity, is_root=True):
            (terms if isinstance(term, Term) else biases).append(term)
        rule = self._rule([term.layer for term in terms if term.layer])
        for sign in (1, -1) if rule == "gamma" else (0,):
            copies = []
            with tf.GradientTape() as tape:
                total = self._bias(rule, sign, _total(tf.zeros_like(step.values), *biases))
                for term in terms:
                    for x, kernel in self._pairs(rule, sign, term):
                        x = tf.identity(x)
                        tape.watch(x)
                        copies.append((term.x, x))
                        total += term.function(x, kernel)
            part = tf.where(sign * step.values > 0, given, tf.zeros_like(given)) if sign else given
            gradients = tape.gradient(total, [x for _, x in copies], self._per_unit(part, total))
            for (one, x), gradient in zip(copies, gradients, strict=True):
                self._add(one, x * gradient)

    def _pairs(self, rule, sign, term):
        """Return the changed inputs and weights of a layer whose products are its contributions."""
        definition, x, kernel = self._definition, term.x.values, term.kernel
        if rule == "epsilon":
            return [(x, kernel)]
        if rule == "plus":
            return _plus_pairs(x, kernel)
        if rule == "gamma":  # contributions of the sum's sign count 1 + γ times
            ends = (tf.nn.relu(x), 1), (-tf.nn.relu(-x), -1)
            return [(part, self._favoured(kernel, sign * side)) for part, side in ends]
        if rule == "flat":
            return [(tf.ones_like(x), tf.ones_like(kernel))]
        low, high = term.x.ends(definition.low, definition.high)
        return [(x, kernel), (-low, tf.nn.relu(kernel)), (high, tf.nn.relu(-kernel))]

    def _bias(self, rule, sign, bias):
        if rule in ("box", "flat") or not self._definition.bias:
            return tf.zeros_like(bias)
        return {"epsilon": bias, "plus": tf.nn.relu(bias), "gamma": self._favoured(bias, sign)}[rule]

    def _favoured(self, weights, sign):
        return weights + self._definition.gamma * sign * tf.nn.relu(sign * weights)

    def _rule(self, layers):
        definition = self._definition
        if definition.first and any(layer.inputs[0].explained and layer.inputs[0].near for layer in layers):
            return definition.first
        if any(layer.of for layer in layers):
            return definition.convolution
        return definition.dense if layers else definition.merge

    def _terms(self, step: Step, moved: Callable, is_root: bool = False) -> Iterator[Any]:
        """Yield the terms of a sum of layers, and the values of biases; ``moved`` is what follows a term."""
        if not step.varies:
            yield moved(step.values)
        elif step.kind == "sum" and (is_root or self._belongs(step)):
            for one in step.inputs:
                yield from self._terms(one, moved)
        elif step.kind == "move" and self._belongs(step):
            yield from self._terms(step.inputs[0], lambda x: moved(step.function(x)))
        elif is_root or self._belongs(step):
            is_layer = step.kind == "layer"
            function = step.function if is_layer else lambda x, one: one * step.function(x)
            kernel = step.kernel if is_layer else tf.ones((), tf.float64)
            yield Term(step.inputs[0], lambda x, w: moved(function(x, w)), kernel, step if is_layer else None)
            if step.bias is not None:
                yield moved(tf.broadcast_to(step.bias, step.values.shape))
        else:
            yield Term(step, lambda x, one: moved(one * x), tf.ones((), tf.float64), None)

    def _belongs(self, step):
        """Return whether a step is part of the sum that alone uses it."""
        if len(step.users) != 1 or step.kind not in ("layer", "sum", "move") or self._is_shared_by_value(step):
            return False
        return step.kind != "move" or (step.of in _REARRANGED and self._belongs(step.inputs[0]))

    def _is_shared_by_value(self, step):
        """Return whether a step is a sum of branches that are more than parts of one dense layer."""
        moving = [one for one in step.inputs if one.varies]
        return (
            not self._definition.joint
            and step.kind == "sum"
            and len(moving) > 1
            and not all(map(self._is_dense, moving))
        )

    def _is_dense(self, step):
        if step.kind == "layer":
            return not step.of and self._belongs(step)
        return self._belongs(step) and all(self._is_dense(one) for one in step.inputs if one.varies)


def _plus_pairs(x, kernel):
    """Return the pairs whose products are the positive contributions."""
    return [(tf.nn.relu(x), tf.nn.relu(kernel)), (-tf.nn.relu(-x), -tf.nn.relu(-kernel))]


def _is_gate(step):
    """Return whether a factor is a sigmoid, moved or shifted, or a sixth of a ReLU6, as MobileNetV3 writes one."""
    scale = 1.0
    while step.kind in ("move", "norm", "product") and sum(one.varies for one in step.inputs) == 1:
        constants = [one.values for one in step.inputs if not one.varies]
        scale *= float(constants[0]) if constants and constants[0].shape.rank == 0 else 1.0
        (step,) = (one for one in step.inputs if one.varies)
    return step.kind == "gate" or (getattr(step.function, "max_value", None) == 6 and abs(6 * scale - 1) < 1e-3)


def _summed(values, shape):
    """Return values summed over the axes along which a tensor of a shape was repeated."""
    extra = values.shape.rank - len(shape)
    values = tf.reduce_sum(values, list(range(extra)))
    return tf.reduce_sum(values, [axis for axis, size in enumerate(shape) if size != values.shape[axis]], keepdims=True)
