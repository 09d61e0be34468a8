"""Random weights under which a network lives: statistics are no identities, activations not dead, scores of order 1."""

from __future__ import annotations

import keras
import numpy as np


def settle(model: keras.Model, inputs, bias: float = 0.1, seed: int = 0) -> None:
    """Give a Keras network random weights, in place.

    Kernels are drawn at the scale that keeps activations as they are (He et al. 2015), scales between a half and one
    and a half, biases small. The statistics of batch normalization are measured on inputs and then moved away
    from them, so that normalization neither is an identity nor kills a channel. The last layer is scaled until scores
    are of order 1.

    Parameters
    ----------
    model, inputs
        The network, and some inputs as it takes them.
    bias, seed
        Standard deviation of the biases, 0 for a network without; and seed of all that is drawn.
    """
    generator = np.random.default_rng(seed)
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
    normalizations = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    if not normalizations:
        return
    momenta = [layer.momentum for layer in normalizations]
    for layer in normalizations:
        layer.momentum = 0.0
    model(inputs, training=True)
    for layer, momentum in zip(normalizations, momenta, strict=True):
        layer.momentum = momentum
        mean, variance = (np.asarray(value) for value in (layer.moving_mean, layer.moving_variance))
        variance = np.maximum(variance, 1e-3)
        if bias:
            mean = mean + 0.2 * np.sqrt(variance) * generator.normal(size=mean.shape)
            layer.moving_mean.assign(mean)
        layer.moving_variance.assign(variance * generator.uniform(0.7, 1.4, variance.shape))


def _scale_head(model, inputs):
    head = [layer for layer in model._flatten_layers() if getattr(layer, "kernel", None) is not None][-1]
    scores = model(inputs, training=False)
    scores = np.asarray(list(scores.values())[-1] if isinstance(scores, dict) else scores, np.float64)
    if scores.shape[-1] > 1 and np.allclose(scores.sum(axis=-1), 1, atol=1e-2):  # probabilities
        scores = np.log(scores + 1e-30)
        scores -= scores.mean(axis=-1, keepdims=True)
    size = np.sqrt(np.mean(np.square(scores)))
    for variable in (head.kernel, getattr(head, "bias", None)):
        if variable is not None:
            variable.assign(np.asarray(variable) / size)
