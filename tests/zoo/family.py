"""A family of networks: how one is built, gets random weights and is written as a SavedModel, and inputs for it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np

BEHIND = ".behind"


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of networks.

    Attributes
    ----------
    name, about
        As typed on a command line, and what is special about it, as printed.
    write
        Function that writes a SavedModel to a directory that does not exist yet.
    inputs
        Function from a number of rows to that many inputs: an array, or a mapping from input name to array.
    score
        Which scores are explained; plain ones, unless the file ends in a softmax.
    load
        Further options of ``attribution.load_model``.
    explain_input
        Name of the input, where there are several, or of the tensor inside that is explained.
    inner
        Whether a tensor behind the input is explained. Then ``write`` leaves a second file beside the first, its name
        followed by ``BEHIND``, with the signatures ``ahead``, from inputs to that tensor, and ``behind``, from there to
        the scores.
    channels_first, quick
        Whether inputs have their channels ahead of their positions; whether it is small enough for the tests.
    piecewise_linear, conserving
        Whether LRP-ε is Gradient x Input; whether no bias takes relevance away, so that a map of CP-LRP adds up to the
        logit.
    """

    name: str
    about: str
    write: Callable[[pathlib.Path], None]
    inputs: Callable[[int], np.ndarray | Mapping[str, np.ndarray]]
    score: str = "logits"
    load: Mapping = dataclasses.field(default_factory=dict)
    explain_input: str | None = None
    inner: bool = False
    channels_first: bool = False
    quick: bool = True
    piecewise_linear: bool = False
    conserving: bool = False

    @property
    def write_in_double(self) -> Callable[[pathlib.Path], None] | None:
        """Function that writes the same network computing in float64, or ``None`` where there is none."""
        return getattr(self.write, "in_double", None)

    @property
    def network(self) -> Callable | None:
        """Function that returns the live Keras network in float64, from what is explained on, or ``None``."""
        return getattr(self.write, "network", None)


@dataclasses.dataclass(frozen=True)
class Exported:
    """The ``write`` of a Keras network: build it, give it weights under which it lives, export it.

    Attributes
    ----------
    build, settle
        Functions that make the network, and that give it weights when called with it and some inputs.
    inputs
        See ``Family``.
    inner
        The layer whose output is explained, if it is not the input.
    build_in_double
        Function that makes the network with all it computes in float64; by default ``build`` under Keras' policy for
        that. Its weights are the same numbers in the same order, but may have other shapes.
    """

    build: Callable
    settle: Callable
    inputs: Callable
    inner: str | None = None
    build_in_double: Callable | None = None

    def __call__(self, path: pathlib.Path) -> None:
        """Write the network as a SavedModel."""
        self._export(self.settled(), path)

    def in_double(self, path: pathlib.Path) -> None:
        """Write the same network, its weights the same numbers, computing in float64 on the same inputs."""
        self._export(self.doubled(), path)

    def network(self):
        """Return the same network in float64, from the inner layer's output on if that is explained."""
        import keras

        model = self.doubled()
        return keras.Model(model.get_layer(self.inner).output, model.outputs[0]) if self.inner else model

    def doubled(self):
        """Return the network computing in float64."""
        import keras

        weights = self.settled().get_weights()
        keras.backend.clear_session()
        with number_format("float64"):
            model = (self.build_in_double or self.build)()
        model.set_weights([np.reshape(each, of.shape) for each, of in zip(weights, model.weights, strict=True)])
        return model

    def settled(self):
        """Return the network with its weights."""
        import keras

        keras.utils.set_random_seed(0)
        keras.backend.clear_session()
        model = self.build()
        self.settle(model, self.inputs(16))
        return model

    def _export(self, model, path):
        import keras

        model.export(path, verbose=False)
        if self.inner:
            middle = model.get_layer(self.inner).output
            ahead, behind = keras.Model(model.inputs, middle), keras.Model(middle, model.outputs[0])
            write_halves(path, model, ahead, model.inputs[0], behind, middle)


def keras_family(
    name: str,
    about: str,
    build: Callable,
    inputs: Callable | None = None,
    bias: float = 0.1,
    inner: str | None = None,
    build_in_double: Callable | None = None,
    **options,
) -> Family:
    """Return the family of a Keras network with weights of ``settle``; pictures of 16x16 by default.

    See ``Family`` for name, about, inputs and options, ``Exported`` for the other parameters.
    """
    inputs = inputs or pictures(16, 16, 3)
    write = Exported(build, functools.partial(settle, bias=bias), inputs, inner, build_in_double)
    return Family(name, about, write, inputs, inner=bool(inner), **options)


linear_family = functools.partial(keras_family, piecewise_linear=True)


@contextlib.contextmanager
def number_format(policy: str) -> Iterator[None]:
    """Let Keras' layers compute in a format of numbers, within a block."""
    import keras

    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def write_halves(path, model, ahead, before, behind, middle) -> None:
    """Write the two halves of a network as the file beside it; ``before`` and ``middle`` have shapes and types."""
    import tensorflow as tf

    module = tf.Module()
    module.model = model
    first, second = (tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype) for tensor in (before, middle))
    module.ahead = tf.function(lambda x: {"values": ahead(x)}, [first], autograph=False)
    module.behind = tf.function(lambda values: {"scores": behind(values)}, [second], autograph=False)
    signatures = {"ahead": module.ahead, "behind": module.behind}
    tf.saved_model.save(module, str(path) + BEHIND, signatures=signatures)


def pictures(*shape: int, low: float = -1.0, high: float = 1.0) -> Callable[[int], np.ndarray]:
    """Return a maker of smooth random pictures, or signals, float32 ``(rows, *shape)`` in [low, high].

    Each is a coarse grid of random values made larger, with a little noise: what lies side by side is alike, as in
    photographs, and no position is like another.
    """

    def make(rows):
        generator = np.random.default_rng(len(shape))
        coarse = generator.random((rows, *(-(-size // 4) for size in shape[:-1]), shape[-1]))
        for axis, size in enumerate(shape[:-1], start=1):
            coarse = np.repeat(coarse, 4, axis=axis).take(range(size), axis=axis)
        values = 0.8 * coarse + 0.2 * generator.random(coarse.shape)
        return (low + (high - low) * values).astype(np.float32)

    return make


def tokens(length: int, vocabulary: int) -> Callable[[int], np.ndarray]:
    """Return a maker of random tokens, int32 ``(rows, length)``."""
    return lambda rows: np.random.default_rng(7).integers(0, vocabulary, (rows, length)).astype(np.int32)


def settle(model, inputs, bias: float = 0.1) -> None:
    """Give a Keras network random weights, in place.

    Kernels are drawn at the scale that keeps activations as they are (He et al. 2015), scales between a half and one
    and a half, biases small. The statistics of batch normalization are measured on inputs and then moved away
    from them, so that normalization neither is an identity nor kills a channel. The last layer is scaled until scores
    are of order 1.

    Parameters
    ----------
    model, inputs
        The network, and some inputs as it takes them.
    bias
        Standard deviation of the biases, 0 for a network without.
    """
    generator = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(_value(variable.path.split("/")[-1], variable.shape, bias, generator))
    _measure_statistics(model, inputs, bias, generator)
    for _ in range(3):  # a saturated softmax hides how large its logits are
        _scale_head(model, inputs)


def _value(name, shape, bias, generator):
    if name in ("gamma", "scale"):
        return generator.uniform(0.5, 1.5, shape)
    if name == "alpha":  # of PReLU
        return generator.uniform(0.1, 0.4, shape)
    if name == "embeddings" or len(shape) < 2:
        return generator.normal(0, 1 if name == "embeddings" else bias, shape)
    fan_in = np.prod(shape[:-2]) if "depthwise" in name else np.prod(shape[:-1])
    return generator.normal(0, np.sqrt(2 / fan_in), shape)


def _measure_statistics(model, inputs, bias, generator):
    import keras

    normalizations = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    if not normalizations:
        return
    momenta = [layer.momentum for layer in normalizations]
    for layer in normalizations:
        layer.momentum = 0.0
    model(inputs, training=True)
    for layer, momentum in zip(normalizations, momenta, strict=True):
        layer.momentum = momentum
        mean, variance = map(keras.ops.convert_to_numpy, (layer.moving_mean, layer.moving_variance))
        variance = np.maximum(variance, 1e-3)
        if bias:
            mean = mean + 0.2 * np.sqrt(variance) * generator.normal(size=mean.shape)
            layer.moving_mean.assign(mean)
        layer.moving_variance.assign(variance * generator.uniform(0.7, 1.4, variance.shape))


def _scale_head(model, inputs):
    import keras

    head = [layer for layer in model._flatten_layers() if getattr(layer, "kernel", None) is not None][-1]
    scores = model(inputs, training=False)
    scores = list(scores.values())[-1] if isinstance(scores, dict) else scores
    scores = np.asarray(keras.ops.convert_to_numpy(scores), np.float64)
    if scores.shape[-1] > 1 and np.allclose(scores.sum(axis=-1), 1, atol=1e-2):  # probabilities
        scores = np.log(scores + 1e-30)
        scores -= scores.mean(axis=-1, keepdims=True)
    size = np.sqrt(np.mean(np.square(scores)))
    for variable in (head.kernel, getattr(head, "bias", None)):
        if variable is not None:
            variable.assign(keras.ops.convert_to_numpy(variable) / size)
