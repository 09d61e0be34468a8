"""Methods that ask for gradients with respect to the input.

Every function takes the queries of a batch of inputs (``attribution.methods.queries.ModelQueries``) and returns float
maps of the inputs' shape. Signs are kept. The caller takes absolute values, clips or sums over channels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import path_steps
from attribution.methods.queries import ModelQueries

QUADRATURES = ("trapezoid", "uniform")
MEDIAN = "median"  # a baseline of each input's own


def gradient(queries: ModelQueries) -> np.ndarray:
    """Gradient of the target score (Simonyan et al. 2014, there with absolute values): d f_t / d x."""
    return queries.input_gradient()


def gradient_x_input(queries: ModelQueries) -> np.ndarray:
    """Input times gradient (Shrikumar et al. 2016): x · d f_t / d x."""
    return queries.inputs * queries.input_gradient()


def integrated_gradients(
    queries: ModelQueries,
    *,
    points: int = 51,
    quadrature: str = "trapezoid",
    baseline: Any = 0.0,
    tolerance: float = 0.0,
) -> np.ndarray:
    """Integrated Gradients (Sundararajan et al. 2017): (x - b) · ∫ d f_t / d x (b + α (x - b)) dα over [0, 1].

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    points
        Gradients on the path, both ends included; at least 2.
    quadrature
        ``"trapezoid"`` halves the weight of both ends, which brings the sum of the map nearest to
        f(x) - f(b); ``"uniform"`` is the plain mean, as SVEA and BIM have it.
    baseline
        The point b: a number, an array that broadcasts to all inputs, with a row for each of them if it has as many
        axes, or ``"median"``, for each input its channels' medians over all positions: the plain background of a
        picture with small objects.
    tolerance
        0 takes all points. Above 0 each input takes so many that the sum of its map misses f(x) - f(b) by at most this
        share of it, and no more than ``points`` or a few more: see ``path_steps.refined``.
    """
    weights = path_weights(points, quadrature)
    start = start_of(queries, baseline)
    if tolerance:
        return path_steps.refined(queries, start, points - 1, quadrature, tolerance)
    difference = queries.inputs - start
    alphas = np.linspace(0.0, 1.0, points, dtype=np.float32)

    def on_path(number, rows):
        return queries.inputs[rows] - (1 - alphas[number]) * difference[rows]

    total = np.zeros(queries.inputs.shape)
    # The path ends at the input, whose gradient predicts the targets that are not given.
    inner = points if queries.has_targets else points - 1
    if not queries.has_targets:
        end = queries.input_gradient()
    for number, rows, gradients in queries.variant_gradients(inner, on_path):
        total[rows] += weights[number] * gradients
    if inner < points:
        total += weights[-1] * end
    return difference * total


def start_of(queries: ModelQueries, baseline: Any) -> np.ndarray:
    """Return the point b of ``integrated_gradients`` for a block of inputs, float32 that broadcasts to them."""
    return path_start(queries.inputs, baseline if is_median(baseline) else queries.given(baseline))


def path_start(inputs: np.ndarray, baseline: Any) -> np.ndarray:
    """Return the point b of ``integrated_gradients``, float32 that broadcasts to the inputs."""
    if is_median(baseline):
        axes = tuple(range(1, inputs.ndim))  # of a vector the features, of a single number none
        return np.median(inputs, axis=axes[:-1] or axes, keepdims=True).astype(np.float32)
    return np.asarray(baseline, np.float32)


def is_median(baseline: Any) -> bool:
    """Return whether a baseline is ``"median"``.

    Raises
    ------
    BadInput
        For another word.
    """
    if isinstance(baseline, str) and baseline != MEDIAN:
        raise BadInput(f"no baseline '{baseline}'; give a number, an array or '{MEDIAN}'")
    return isinstance(baseline, str)


def path_weights(points: int, quadrature: str) -> np.ndarray:
    """Return the weights of equally spaced points in [0, 1]; they sum to 1."""
    if points < 2:
        raise BadInput(f"integrated_gradients needs at least 2 points, not {points}")
    if quadrature not in QUADRATURES:
        raise BadInput(f"no quadrature '{quadrature}'; there are 'trapezoid' and 'uniform'")
    weights = np.ones(points)
    if quadrature == "trapezoid":
        weights[[0, -1]] = 0.5
    return weights / weights.sum()


def smoothgrad(queries: ModelQueries, *, samples: int = 25, noise: float = 0.15, squared: bool = False) -> np.ndarray:
    """SmoothGrad (Smilkov et al. 2017): mean of the gradients at noisy copies of the input.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    samples
        Noisy copies of each input.
    noise
        Standard deviation of the Gaussian noise, as a share of each input's max - min; an input of a single value has
        none.
    squared
        Mean of the squared gradients instead (Hooker et al. 2019, SmoothGrad-Squared; this is BIM's SmoothGrad).
    """
    moments = _noisy_moments(queries, samples, noise)
    return moments.mean_square if squared else moments.mean


def vargrad(queries: ModelQueries, *, samples: int = 25, noise: float = 0.15) -> np.ndarray:
    """VarGrad (Adebayo et al. 2018): variance of the gradients at noisy copies of the input; see ``smoothgrad``."""
    return _noisy_moments(queries, samples, noise).variance


def _noisy_moments(queries, samples, noise):
    """Return the gradient's moments over noisy copies; methods with the same noise share them."""
    if samples < 1 or not 0 <= noise < np.inf:
        raise BadInput(f"at least 1 noisy sample and noise >= 0 are needed, not {samples} and {noise}")
    axes = tuple(range(1, queries.inputs.ndim))
    spread = queries.inputs.max(axis=axes) - queries.inputs.min(axis=axes)
    generators = [queries.generator(row, "noise") for row in range(len(queries))]

    def noisy(_, rows):
        # Variants come number by number, so that each generator is read in order.
        copies = np.empty((len(rows), math.prod(queries.inputs.shape[1:])), np.float32)
        for copy, row in zip(copies, rows, strict=True):
            generators[row].standard_normal(out=copy, dtype=np.float32)
            copy *= np.float32(noise) * spread[row]
        copies = copies.reshape(len(rows), *queries.inputs.shape[1:])
        copies += queries.inputs[rows]
        return copies

    return queries.gradient_moments(samples, noisy, key=("noisy", samples, noise))
