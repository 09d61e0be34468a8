"""Expected Gradients: Integrated Gradients from many starting points, one random point on each path."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods.queries import ModelQueries


def expected_gradients(queries: ModelQueries, *, samples: int = 50, references: Any = 0.0) -> np.ndarray:
    """Mean of (x - r) · d f_t / d x (r + α (x - r)) over references r (Erion et al. 2021), also called GradientSHAP.

    The expectation over references r and over α, uniform in [0, 1], is a mean of samples. The map's sum is
    f(x) - E[f(r)] in expectation.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    samples
        Gradients, each at a reference and an α of its own.
    references
        What r is drawn from, with equal chances: a number, an array of one input's shape, or ``(K, ...)`` of K of them,
        such as inputs that the model was trained on.
    """
    if samples < 1:
        raise BadInput(f"at least 1 sample is needed, not {samples}")
    among = as_references(queries.channels_last(references), queries.inputs.shape)
    drawn, alphas = draw(queries, samples, len(among))
    total = np.zeros(queries.inputs.shape)

    def on_path(number, rows):
        x, start = queries.inputs[rows], among[drawn[rows, number]]
        return start + _along(alphas[rows, number], x) * (x - start)

    for number, rows, gradients in queries.variant_gradients(samples, on_path):
        total[rows] += (queries.inputs[rows] - among[drawn[rows, number]]) * gradients
    return total / samples


def as_references(references: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return references as float32 ``(K, ...)`` that broadcasts to inputs of a shape ``(N, ...)``.

    Raises
    ------
    BadInput
        If they do not fit.
    """
    array = np.asarray(references, np.float32)
    array = array if array.ndim == len(shape) else array[np.newaxis]
    try:
        fits = len(array) > 0 and np.broadcast_shapes(array.shape[1:], shape[1:]) == shape[1:]
    except ValueError:
        fits = False
    if not fits:
        raise BadInput(f"references of shape {np.shape(references)} do not fit inputs of shape {shape[1:]}")
    return array.reshape(len(array), *(1,) * (len(shape) - array.ndim), *array.shape[1:])


def draw(queries: ModelQueries, samples: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which of ``count`` references each input's samples start from, and their α: ``(N, samples)`` each."""
    drawn, alphas = np.empty((len(queries), samples), np.int64), np.empty((len(queries), samples), np.float32)
    for row in range(len(queries)):
        generator = queries.generator(row, "expected gradients")
        drawn[row] = generator.integers(0, count, samples)
        alphas[row] = generator.random(samples, np.float32)
    return drawn, alphas


def _along(values, inputs):
    """Return one value per input with as many axes as the inputs."""
    return values.reshape(-1, *(1,) * (inputs.ndim - 1))
