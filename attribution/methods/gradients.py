"""Methods that need the gradient with respect to the input: plain, averaged over noise, or integrated along a path.

Every function takes the queries of a batch of inputs (``attribution.methods.queries.ModelQueries``) and returns float
maps of the inputs' shape, in units of the score (times the input where the method multiplies by it). Signs are kept.
The caller takes absolute values, clips or sums over channels. f_t is the score of the target class. XRAI and FullGrad
return maps without the channel axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from attribution import batching
from attribution.errors import BadInput, installation, listed
from attribution.methods import resizing
from attribution.methods.queries import ModelQueries, broadcasts

MEDIAN = "median"  # a baseline computed from each input
_QUADRATURES = ("trapezoid", "uniform", "left", "midpoint", "right", "gauss_legendre")
NOISE_SCALES = ("range", "absolute")
_SCALES = (50, 100, 150, 250, 500, 1200)  # of XRAI's segments
_SEGMENTED = 224  # side in pixels of the image that XRAI segments
_NEW_PIXELS = 50
_COARSEST = 3  # the fewest steps of the first path that an error may need


def gradient(queries: ModelQueries) -> np.ndarray:
    """Gradient of the target score (Simonyan et al. 2014, there with absolute values): d f_t / d x."""
    return queries.input_gradient()


def gradient_x_input(queries: ModelQueries) -> np.ndarray:
    """Input times gradient (Shrikumar et al. 2016): x · d f_t / d x."""
    maps: np.ndarray = queries.inputs * queries.input_gradient()
    return maps


def smoothgrad(
    queries: ModelQueries,
    *,
    samples: int = 25,
    noise: float = 0.15,
    squared: bool = False,
    noise_scale: str = "range",
    absolute: bool = False,
    logarithm: bool = False,
    includes_input: bool = False,
) -> np.ndarray:
    """SmoothGrad (Smilkov et al. 2017): mean of the gradients at noisy copies of the input.

    Parameters
    ----------
    samples
        Noisy copies of each input.
    noise
        Standard deviation of the Gaussian noise, as a share of each input's max - min; 0 for a constant input.
    squared
        Mean of the squared gradients instead (Hooker et al. 2019, SmoothGrad-Squared; this is BIM's SmoothGrad).
    noise_scale
        ``"range"``, or ``"absolute"``: ``noise`` is the standard deviation itself.
    absolute
        Whether each gradient's absolute values are averaged.
    logarithm
        Whether the gradient is that of the score's logarithm, as of a cross-entropy; scores must be probabilities.
    includes_input
        Whether one of the samples is the input itself, without noise.
    """
    if includes_input:
        alone = {"squared": squared, "absolute": absolute, "logarithm": logarithm}
        if samples < 2 or any(alone.values()):
            raise BadInput(f"includes_input=True needs at least 2 samples, and none of {listed(alone)}")
        noisy = _noisy_moments(queries, samples - 1, noise, noise_scale).mean
        averaged: np.ndarray = noisy + (queries.input_gradient() - noisy) / samples
        return averaged
    moments = _noisy_moments(queries, samples, noise, noise_scale, absolute, logarithm)
    return moments.mean_square if squared else moments.mean


def vargrad(
    queries: ModelQueries,
    *,
    samples: int = 25,
    noise: float = 0.15,
    noise_scale: str = "range",
    absolute: bool = False,
    unbiased: bool = False,
) -> np.ndarray:
    """VarGrad (Adebayo et al. 2018): variance of the gradients at noisy copies of the input; see ``smoothgrad``.

    Parameters
    ----------
    samples, noise, noise_scale, absolute
        See ``smoothgrad``.
    unbiased
        Whether to divide by samples - 1 instead of samples.
    """
    if unbiased and samples < 2:
        raise BadInput(f"an unbiased variance needs at least 2 samples, not {samples}")
    variance = _noisy_moments(queries, samples, noise, noise_scale, absolute).variance
    return variance * (samples / (samples - 1)) if unbiased else variance


def _noisy_moments(
    queries: ModelQueries,
    samples: int,
    noise: float,
    scale: str = "range",
    absolute: bool = False,
    logarithm: bool = False,
) -> batching.Moments:
    """Return the gradient's moments over noisy copies; methods with the same noise share them."""
    if samples < 1 or not 0 <= noise < np.inf:
        raise BadInput(f"at least 1 noisy sample and noise >= 0 are needed, not {samples} and {noise}")
    if scale not in NOISE_SCALES:
        raise BadInput(f"no noise_scale '{scale}'; there are 'range' and 'absolute'")
    if logarithm and queries.model.score != "probabilities":
        raise BadInput("the logarithm of a score needs probabilities: load the model with score='probabilities'")
    generators = [queries.generator(row, "noise") for row in range(len(queries))]

    def noisy(_: int, rows: np.ndarray) -> np.ndarray:
        # Variants come number by number, so that each generator is read in order.
        return with_noise(queries, noise, rows, (generators[row] for row in rows), scale)

    def changed(gradients: np.ndarray, scores: np.ndarray) -> np.ndarray:
        if logarithm:
            if not scores.all():
                raise BadInput(
                    "a probability is 0 in float32, so that its logarithm has no gradient: it has underflowed; explain "
                    "the predicted class, or leave out logarithm=True"
                )
            gradients = gradients / scores.reshape(-1, *(1,) * (gradients.ndim - 1))
        return np.abs(gradients) if absolute else gradients

    key = ("noisy", samples, noise, scale, absolute, logarithm)
    return queries.gradient_moments(samples, noisy, key=key, changed=changed if absolute or logarithm else None)


def with_noise(
    queries: ModelQueries,
    noise: float,
    rows: np.ndarray,
    generators: Iterable[np.random.Generator],
    scale: str = "range",
) -> np.ndarray:
    """Return some rows of the inputs with Gaussian noise from each row's generator, float32; see ``smoothgrad``."""
    inputs, axes = queries.inputs, tuple(range(1, queries.inputs.ndim))
    deviation: Any = np.float32(noise)
    if scale == "range":
        spread = lambda: inputs.max(axis=axes, keepdims=True) - inputs.min(axis=axes, keepdims=True)  # noqa: E731
        deviation = deviation * queries.shared("max - min", spread)[rows]
    copies = np.empty((len(rows), *inputs.shape[1:]), np.float32)
    for copy, generator in zip(batching.flat(copies), generators, strict=True):
        generator.standard_normal(out=copy, dtype=np.float32)
    copies *= deviation
    copies += inputs[rows]
    return copies


def integrated_gradients(
    queries: ModelQueries,
    *,
    points: int = 51,
    quadrature: str = "trapezoid",
    baseline: Any = 0.0,
    tolerance: float = 0.0,
    multiply: bool = True,
    map_error: float = 0.0,
) -> np.ndarray:
    """Integrated Gradients (Sundararajan et al. 2017): (x - b) · ∫ d f_t / d x (b + α (x - b)) dα over [0, 1].

    Parameters
    ----------
    points
        Gradients on the path; at least 2.
    quadrature
        ``"trapezoid"`` includes both ends and halves their weight, which brings the sum of the map nearest to
        f(x) - f(b); ``"uniform"`` is the plain mean, both ends included, as in SVEA and BIM. ``"left"``,
        ``"midpoint"`` and ``"right"`` evaluate that point of each of ``points`` equal intervals, ``"gauss_legendre"``
        the points of that rule.
    baseline
        The point b: a number; an array that broadcasts to all inputs, with a row for each of them if it has as many
        axes; or ``"median"``, the medians of each input's channels over all positions, which are the background of a
        picture with small objects.
    tolerance
        0 uses all points. Above 0 each input uses the first of ``step_levels(points - 1)`` at which the sum of its map
        misses f(x) - f(b) by at most this share of it. The number needed differs by a factor of ten between inputs and
        baselines.
    multiply
        Whether to multiply by x - b. Without it the map is the mean gradient on the path.
    map_error
        0 uses all points. Above 0 each input uses one of ``step_levels(points - 1)``: the first at which the map
        differs from that of the level before by at most this share, summed over the absolute values, and its sum misses
        f(x) - f(b) by at most this share of the sum of its absolute values. A map that needs all points is that of
        ``map_error=0``. The first of the two shares estimates the error of the coarser map.
    """
    rule = path_rule(points, quadrature)
    start = start_of(queries, baseline)
    if tolerance or map_error:
        if not multiply:
            raise BadInput("a tolerance needs multiply=True, and so does a map_error: else a map has no expected sum")
        difference = queries.inputs - start
        on_path = _straight_path(queries, start)
        means, queries.ends = path_means(queries, difference, on_path, points, quadrature, tolerance, map_error)
        return np.asarray(difference * means)
    maps, queries.ends = _path_integral(queries, start, rule, multiply)
    return maps


def _path_integral(
    queries: ModelQueries, start: np.ndarray, rule: tuple[np.ndarray, np.ndarray], multiply: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the weighted sum of the gradients at points from b = ``start`` to x, by default times (x - b).

    Also return the target scores at x and at b, ``(2, N)``, if both are points of the rule and the map's sum is theirs.
    """
    alphas, weights = rule
    points = len(weights)
    difference = queries.inputs - start
    has_ends = alphas[0] == 0 and alphas[-1] == 1
    point = _straight_path(queries, start, from_start=not has_ends)

    def on_path(number: int, rows: np.ndarray) -> np.ndarray:
        return point(alphas[number], rows)

    total, scores = np.zeros(queries.inputs.shape), np.empty((points, len(queries)))
    inner = points
    if not queries.has_targets and alphas[-1] == 1:  # the gradient at the input also predicts the targets
        inner = points - 1
        end, scores[-1] = queries.input_gradient(), queries.gradient_scores()
    for number, rows, gradients, scores[number, rows] in queries.variant_backward(inner, on_path):
        total[rows] += weights[number] * gradients
    if inner < points:
        total += weights[-1] * end
    return difference * total if multiply else total, scores[[-1, 0]] if has_ends and multiply else None


def _straight_path(
    queries: ModelQueries, start: np.ndarray, from_start: bool = False
) -> Callable[[np.float32, np.ndarray], np.ndarray]:
    """Return the function of a share of the path and of rows that returns the rows' points on the line to the inputs.

    The line begins and ends exactly at the baseline and at the input: a rounding there decides ties, such as those of
    max-pooling of a constant baseline. ``from_start`` rounds the points between as libraries do, which add a share of
    the difference to the baseline.
    """
    starts = np.broadcast_to(start, queries.inputs.shape)
    difference = queries.inputs - starts

    def point(alpha: np.float32, rows: np.ndarray) -> np.ndarray:
        if alpha == 0:
            return np.asarray(starts[rows])
        if from_start and alpha < 1:
            return np.asarray(starts[rows] + alpha * difference[rows])
        return np.asarray(queries.inputs[rows] - (1 - alpha) * difference[rows])

    return point


def start_of(queries: ModelQueries, baseline: Any) -> np.ndarray:
    """Return the baseline of a batch as ``integrated_gradients`` takes it, float32 that broadcasts to the inputs."""
    return path_start(queries.inputs, baseline if is_median(baseline) else queries.given(baseline))


def path_start(inputs: np.ndarray, baseline: Any) -> np.ndarray:
    """Return the baseline of inputs: their medians for ``"median"``, else the baseline as float32."""
    if is_median(baseline):
        axes = tuple(range(1, inputs.ndim))  # of a vector the features, of a single number none
        return np.asarray(np.median(inputs, axis=axes[:-1] or axes, keepdims=True), np.float32)
    return np.asarray(baseline, np.float32)


def is_median(baseline: Any) -> bool:
    """Return whether a baseline is ``"median"``; raises ``BadInput`` for another word."""
    if isinstance(baseline, str) and baseline != MEDIAN:
        raise BadInput(f"no baseline '{baseline}'; give a number, an array or '{MEDIAN}'")
    return isinstance(baseline, str)


def path_rule(points: int, quadrature: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the points in [0, 1], float32, of a quadrature and their weights, float64, which sum to 1."""
    if points < 2:
        raise BadInput(f"integrated_gradients needs at least 2 points, not {points}")
    if quadrature not in _QUADRATURES:
        raise BadInput(f"no quadrature '{quadrature}'; there are {listed(_QUADRATURES)}")
    weights = np.ones(points)
    if quadrature == "gauss_legendre":
        nodes, weights = np.polynomial.legendre.leggauss(points)
        return ((nodes + 1) / 2).astype(np.float32), weights / 2
    if quadrature in ("left", "midpoint", "right"):
        first = {"left": 0.0, "midpoint": 0.5, "right": 1.0}[quadrature]
        return ((np.arange(points) + first) / points).astype(np.float32), weights / points
    if quadrature == "trapezoid":
        weights[[0, -1]] = 0.5
    weights /= weights.sum()
    return np.linspace(0.0, 1.0, points, dtype=np.float32), weights


def step_levels(steps: int) -> list[int]:
    """Return the numbers of steps that an error may need: each is the largest divisor of the next; of a prime, itself.

    >>> step_levels(300)
    [5, 25, 75, 150, 300]
    """
    levels = [steps]
    while divisors := [one for one in range(_COARSEST, levels[0]) if levels[0] % one == 0]:
        levels.insert(0, divisors[-1])
    return levels


def path_means(
    queries: ModelQueries,
    difference: np.ndarray,
    on_path: Callable[[np.float32, np.ndarray], np.ndarray],
    points: int,
    quadrature: str,
    tolerance: float = 0.0,
    map_error: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean gradient on the path of each input, by as many points as the input needs.

    The trapezoidal rule takes more and more steps. The first number of steps never suffices, since a coarse sum may be
    right by chance.

    Parameters
    ----------
    difference
        ``(N, ...)``: the path's end minus its start.
    on_path
        ``on_path(alpha, rows)`` returns the points of some rows at a share of their paths.
    points, quadrature, tolerance, map_error
        See ``integrated_gradients``; either ``tolerance`` or ``map_error`` is above 0.

    Returns
    -------
    means : np.ndarray
        ``(N, ...)`` float64.
    scores : np.ndarray
        ``(2, N)`` float64: the target scores at the end and at the start.
    """
    rules = ("trapezoid", "uniform") if map_error else ("trapezoid",)
    if not 0 < map_error + tolerance < 1 or (map_error and tolerance) or quadrature not in rules:
        raise BadInput(
            f"tolerance={tolerance:g} and map_error={map_error:g} with quadrature='{quadrature}'; one of the two lies "
            "between 0 and 1, and needs quadrature='trapezoid', or 'uniform' with a map_error"
        )
    of_ends, scores = _at_ends(queries, difference, on_path)
    inner, means = np.zeros(difference.shape), np.zeros(difference.shape)  # inner: a sum of gradients
    unfinished, before = np.arange(len(queries)), 0
    for count in step_levels(points - 1):
        places = np.arange(1, count)  # but those of the level before
        places = places[places % (count // before) > 0] if before else places
        _add_gradients(inner, queries, on_path, places / count, unfinished)
        integral = (inner[unfinished] + of_ends[unfinished] / 2) / count
        new, old = integral, means[unfinished]
        if quadrature == "uniform":  # what the mean of all points would be, from the integral
            new = ((points - 1) * integral + of_ends[unfinished] / 2) / points
        means[unfinished] = new
        if before:
            expected = scores[0, unfinished] - scores[1, unfinished]
            maps, mapped, change = (difference[unfinished] * one for one in (integral, new, new - old))
            allowed = map_error * _sums(np.abs(mapped)) if map_error else tolerance * np.abs(expected)
            suffices = np.abs(_sums(maps) - expected) <= allowed
            if map_error:
                suffices &= _sums(np.abs(change)) <= allowed
            unfinished = unfinished[~suffices]
        if not len(unfinished):
            break
        before = count
    return means, scores


def _at_ends(
    queries: ModelQueries, difference: np.ndarray, on_path: Callable[[np.float32, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of the gradients at both ends of the paths, ``(N, ...)``, and the scores there, ``(2, N)``."""
    total, scores, ends = np.zeros(difference.shape), np.empty((2, len(queries))), np.array([1, 0], np.float32)
    for number, rows, gradients, found in queries.variant_backward(2, lambda end, rows: on_path(ends[end], rows)):
        total[rows] += gradients
        scores[number, rows] = found
    return total, scores


def _add_gradients(
    total: np.ndarray,
    queries: ModelQueries,
    on_path: Callable[[np.float32, np.ndarray], np.ndarray],
    places: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Add to ``total`` the gradients of some rows at shares of their paths."""
    places = places.astype(np.float32)
    for _, some, gradients in queries.variant_gradients(
        [rows] * len(places), lambda number, some: on_path(places[number], some)
    ):
        total[some] += gradients


def _sums(maps: np.ndarray) -> np.ndarray:
    """Return the sum of each map, ``(N, ...)`` -> ``(N,)``."""
    return np.asarray(batching.flat(maps).sum(axis=1))


def expected_gradients(queries: ModelQueries, *, samples: int = 50, references: Any = 0.0) -> np.ndarray:
    """Mean of (x - r) · d f_t / d x (r + α (x - r)) over references r (Erion et al. 2021), also called GradientSHAP.

    The expectation over references r and over α, uniform in [0, 1], is a mean of samples. The map's sum is
    f(x) - E[f(r)] in expectation.

    Parameters
    ----------
    samples
        Gradients, each at another reference and α.
    references
        What r is sampled from uniformly: a number, an array of one input's shape, or an array ``(K, ...)`` of K of
        them, such as training inputs.
    """
    if samples < 1:
        raise BadInput(f"at least 1 sample is needed, not {samples}")
    starts = as_references(queries.channels_last(references), queries.inputs.shape)
    chosen = np.empty((len(queries), samples), np.int64)
    alphas = np.empty((len(queries), samples, *(1,) * (queries.inputs.ndim - 1)), np.float32)
    for row in range(len(queries)):
        generator = queries.generator(row, "expected gradients")
        chosen[row] = generator.integers(0, len(starts), samples)
        alphas[row] = generator.random(samples, np.float32).reshape(alphas.shape[1:])
    total = np.zeros(queries.inputs.shape)

    def on_path(number: int, rows: np.ndarray) -> Any:
        start = starts[chosen[rows, number]]
        return start + alphas[rows, number] * (queries.inputs[rows] - start)

    for number, rows, gradients in queries.variant_gradients(samples, on_path):
        total[rows] += (queries.inputs[rows] - starts[chosen[rows, number]]) * gradients
    total /= samples
    return total


def as_references(references: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return references as float32 ``(K, ...)`` that broadcast to inputs of a shape ``(N, ...)``.

    Raises
    ------
    BadInput
        If they do not broadcast.
    """
    array = np.asarray(references, np.float32)
    array = array if array.ndim == len(shape) else array[np.newaxis]
    if not len(array) or not broadcasts(array.shape[1:], shape[1:]):
        raise BadInput(f"references of shape {np.shape(references)} do not fit inputs of shape {shape[1:]}")
    return array.reshape(len(array), *(1,) * (len(shape) - array.ndim), *array.shape[1:])


def guided_integrated_gradients(
    queries: ModelQueries,
    *,
    steps: int = 50,
    fraction: float = 0.25,
    max_distance: float = 0.02,
    baseline: Any = 0.0,
    tie_tolerance: float = 1e-6,
) -> np.ndarray:
    """Guided Integrated Gradients (Kapishnikov et al. 2021): ∫ of the gradient along a path that avoids large ones.

    Each step brings the path nearer to the input by the same L1 distance and moves only the values with the smallest
    gradients. It avoids steep and noisy regions that the straight path crosses. The map's sum is f(x) - f(b) up to the
    steps' size.

    Parameters
    ----------
    steps
        Gradients on the path, computed one after another.
    fraction
        Share of an input's values that move at a time, in (0, 1].
    max_distance
        Largest distance of a value from the straight path, as a share of its length; 0 is the straight path.
    baseline
        Start of the path; see ``integrated_gradients``.
    tie_tolerance
        Gradients that exceed the largest one that moves by at most this share of it move too. With 0, the rounding of
        equal gradients decides which of them move.
    """
    if steps < 1 or not 0 < fraction <= 1 or not 0 <= max_distance <= 1 or not 0 <= tie_tolerance < 1:
        raise BadInput(
            "guided_integrated_gradients needs steps >= 1, fraction in (0, 1] and max_distance in [0, 1], not "
            f"{steps}, {fraction}, {max_distance}, and tie_tolerance in [0, 1), not {tie_tolerance}"
        )
    shape = queries.inputs.shape
    ends = queries.inputs.astype(np.float64).reshape(shape[0], -1)  # also where an input is a single number, (N,)
    starts = np.broadcast_to(start_of(queries, baseline), shape).astype(np.float64).reshape(ends.shape)
    points = starts.copy()
    maps = np.zeros(ends.shape)

    def current(_: int, rows: np.ndarray) -> Any:
        return points[rows].astype(np.float32).reshape(len(rows), *shape[1:])

    for step in range(1, steps + 1):
        band = max(step / steps - max_distance, 0.0), min(step / steps + max_distance, 1.0)
        # A step ends where the gradient at its beginning says: steps cannot share a pass, inputs can.
        gradients = np.empty(ends.shape, np.float32)
        for _, rows, part in queries.variant_gradients(1, current):
            gradients[rows] = part.reshape(len(rows), -1)
        for row in range(len(queries)):
            reached = _guided_step(
                points[row], starts[row], ends[row], gradients[row], 1 - step / steps, band, (fraction, tie_tolerance)
            )
            maps[row] += (reached - points[row]) * gradients[row]
            points[row] = reached
    return maps.reshape(shape)


def _guided_step(
    point: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    gradient: np.ndarray,
    left: float,
    band: tuple[float, float],
    share_and_tolerance: tuple[float, float],
) -> np.ndarray:
    """Return the point of one input's path after a step from ``point``, where the gradient of the score is known.

    ``left`` is the share of the whole distance that is left then, ``band`` the least and the greatest share of its
    distance that a single value may have moved, and the last the method's ``fraction`` and ``tie_tolerance``.
    """
    fraction, tolerance = share_and_tolerance
    difference = end - start
    least, most = (start + share * difference for share in band)
    wanted = left * np.abs(difference).sum()
    # Values behind the band move to its edge, whatever their gradient.
    point = np.where((point - least) * np.sign(difference) < 0, least, point)
    size = np.abs(gradient).astype(np.float64)
    while (distance := np.abs(end - point).sum()) - wanted > 1e-9 * (1 + wanted):
        size[point == most] = np.inf  # these cannot move further
        if np.isinf(size).all():
            break
        # Equal gradients differ by their rounding, which depends on the batch.
        largest = np.quantile(size, fraction, method="lower") * (1 + tolerance)
        chosen = (size <= largest) & np.isfinite(size)
        reach = np.abs(most - point)[chosen].sum()
        share = min((distance - wanted) / reach, 1.0) if reach else 1.0
        moved = most if share == 1.0 else point + share * (most - point)
        point = np.where(chosen, moved, point)
    return point


def idgi(queries: ModelQueries, *, points: int = 51, baseline: Any = 0.0) -> np.ndarray:
    """IDGI (Yang, Wang and Bilgic 2023): each step of the path shares out its change of the score by squared gradients.

    With x_j on the straight path from the baseline to x and g_j the gradient there, the map is the sum of
    (f_t(x_j+1) - f_t(x_j)) g_j² / Σ g_j², so that its sum is f_t(x) - f_t(b) however few the steps. A step whose
    gradient is zero gives nothing.

    Parameters
    ----------
    points
        Scores on the path, both ends included; at least 2.
    baseline
        Start of the path; see ``integrated_gradients``.
    """
    if points < 2:
        raise BadInput(f"idgi needs at least 2 points, not {points}")
    alphas = np.linspace(0.0, 1.0, points, dtype=np.float32)
    point = _straight_path(queries, start_of(queries, baseline))

    def on_path(number: int, rows: np.ndarray) -> np.ndarray:
        return point(alphas[number], rows)

    ones = (1,) * (queries.inputs.ndim - 1)
    maps, shares = np.zeros(queries.inputs.shape), np.zeros(queries.inputs.shape)  # shares of the step from each point
    before = np.zeros((len(queries), *ones))
    for _, rows, gradients, scores in queries.variant_backward(
        points - 1, lambda step, rows: point(alphas[step], rows)
    ):
        here = scores.astype(np.float64).reshape(-1, *ones)
        maps[rows] += shares[rows] * (here - before[rows])
        squares = np.square(gradients, dtype=np.float64)
        total = squares.reshape(len(rows), -1).sum(axis=1).reshape(-1, *ones)
        shares[rows] = np.divide(squares, total, out=np.zeros_like(squares), where=total > 0)
        before[rows] = here
    maps += shares * (queries.target_scores.reshape(-1, *ones) - before)
    return maps


def blur_ig(queries: ModelQueries, *, steps: int = 50, max_sigma: float = 50.0, sigma_step: float = 0.0) -> np.ndarray:
    """Blur Integrated Gradients (Xu, Venugopalan and Sundararajan 2020): the path from a blurred input to the input.

    x_j is the input after a Gaussian blur of the positions; outside the input lie zeros. The standard deviation falls
    evenly from ``max_sigma`` positions to 0. The map is the sum of (x_j+1 - x_j) (g_j + g_j+1) / 2, whose sum tends to
    f_t(x) - f_t(blurred x).

    Parameters
    ----------
    steps
        Steps of the path; one gradient more.
    max_sigma
        Standard deviation of the strongest blur.
    sigma_step
        Above 0 the change of the input in a step is its derivative by the standard deviation, from a difference over
        ``sigma_step``, and derivative and gradient are those at the weaker blur of the step. Such a map's sum misses
        f_t(x) - f_t(blurred x) by more.
    """
    if steps < 1 or not 0 < max_sigma <= 10_000:
        raise BadInput(f"blur_ig needs steps >= 1 and 0 < max_sigma <= 10,000, not {steps} and {max_sigma}")
    if queries.inputs.ndim < 3:
        raise BadInput("blur_ig needs positions to blur, as a signal or an image has; these inputs are vectors")
    maps = np.zeros(queries.inputs.shape)

    @functools.lru_cache(3)  # a point and its neighbours
    def blurred(number: int) -> np.ndarray:
        return blur(queries.inputs, max_sigma * (1 - number / steps))

    if sigma_step:
        return _blur_by_derivative(queries, max_sigma * np.arange(steps) / steps, max_sigma / steps, sigma_step)
    scores = np.empty((steps + 1, len(queries)))
    on_path = queries.variant_backward(steps + 1, lambda number, rows: blurred(number)[rows])
    for number, rows, gradients, scores[number, rows] in on_path:
        # Each gradient is used in the step to its point and in the step from it.
        step = blurred(min(number + 1, steps)) - blurred(max(number - 1, 0))
        maps[rows] += gradients * step[rows] / 2
    queries.ends = scores[[-1, 0]]
    return maps


def _blur_by_derivative(queries: ModelQueries, sigmas: np.ndarray, step: float, sigma_step: float) -> np.ndarray:
    """Return Blur IG as minus the sum of step · d x / d sigma · gradient over some standard deviations."""
    if not sigma_step > 0:
        raise BadInput(f"blur_ig needs sigma_step >= 0, not {sigma_step}")
    maps = np.zeros(queries.inputs.shape)

    @functools.lru_cache(2)
    def blurred(sigma: float) -> np.ndarray:
        return blur(queries.inputs, sigma)

    for number, rows, gradients in queries.variant_gradients(
        len(sigmas), lambda number, rows: blurred(sigmas[number])[rows]
    ):
        derivative = (blurred(sigmas[number] + sigma_step) - blurred(sigmas[number])) / sigma_step
        maps[rows] -= step * derivative[rows] * gradients
    return maps


def blur(inputs: np.ndarray, sigma: float) -> np.ndarray:
    """Return inputs ``(N, positions..., channels)`` after a Gaussian blur over positions, with zeros outside."""
    if sigma == 0:
        return inputs
    import scipy.ndimage  # here, since the command's help imports this module

    deviations = (0, *(sigma,) * (inputs.ndim - 2), 0)
    blurred: np.ndarray = scipy.ndimage.gaussian_filter(inputs, deviations, mode="constant")
    return blurred


def xrai(queries: ModelQueries, *, points: int = 51, quadrature: str = "trapezoid") -> np.ndarray:
    """XRAI (Kapishnikov, Bolukbasi, Viégas and Terry 2019): regions of an image in the order of their mean attribution.

    The attribution of a position is the largest channel of the mean of two maps of Integrated Gradients, whose
    baselines are each image's least and greatest value. Regions are the segments of Felzenszwalb and Huttenlocher's
    method at six scales, dilated by 5 pixels, which overlap. The region whose new pixels have the highest mean is added
    next, and that mean is their value; a region with fewer than 50 new pixels is not.

    Parameters
    ----------
    points, quadrature
        Points on each path and their rule; see ``integrated_gradients``.
    """
    if queries.inputs.ndim != 4:
        raise BadInput(f"xrai needs images; these inputs have the shape {queries.inputs.shape[1:]}")
    scikit_image("xrai needs")  # before the passes
    maps = np.empty(queries.inputs.shape[:-1])
    attributions = np.zeros(queries.inputs.shape)
    rule = path_rule(points, quadrature)
    for end in (np.min, np.max):
        attributions += _path_integral(queries, end(queries.inputs, axis=(1, 2, 3), keepdims=True), rule)[0] / 2
    for found, image, attribution in zip(maps, queries.inputs, attributions.max(axis=-1), strict=True):
        found[...] = _by_region(attribution, _regions(image))
    return maps


def scikit_image(needed_by: str) -> Any:
    """Return scikit-image's module of segmentation; raise ``BadInput`` where it is not installed."""
    try:
        from skimage import segmentation
    except ImportError as error:
        raise BadInput(f"{needed_by} scikit-image: {installation('superpixels')}") from error
    return segmentation


def _regions(image: np.ndarray) -> list[np.ndarray]:
    """Return overlapping regions ``(H, W)`` bool of an image ``(H, W, C)``."""
    import skimage.morphology as morphology
    from skimage import transform

    regions = []
    for labels in _segments(image.tobytes(), image.shape, image.dtype):
        labels = transform.resize(
            labels, image.shape[:2], order=0, mode="constant", preserve_range=True, anti_aliasing=False
        )
        regions.extend(labels == label for label in np.unique(labels))
    disk = morphology.disk(5)
    return [morphology.dilation(region, footprint=disk) for region in regions]


@functools.lru_cache(128)  # for the maps of other networks and classes; 0.6 MB an image
def _segments(values: bytes, shape: tuple[int, ...], dtype: np.dtype) -> list[np.ndarray]:
    """Return the number of each position's segment at each scale, ``(224, 224)`` int16, from an image's values."""
    from skimage import transform

    image = np.frombuffer(values, dtype).reshape(shape)
    low, high = float(image.min()), float(image.max())
    scaled = 2 * (image - low) / (high - low or 1.0) - 1
    # The scales are made for this size.
    large = transform.resize(
        scaled, (_SEGMENTED, _SEGMENTED), order=3, mode="constant", preserve_range=True, anti_aliasing=True
    )
    segmented = scikit_image("xrai needs").felzenszwalb
    return [segmented(large, scale=scale, sigma=0.8, min_size=150).astype(np.int16) for scale in _SCALES]


def _by_region(attribution: np.ndarray, regions: list[np.ndarray]) -> np.ndarray:
    """Return the map of one image's attribution ``(H, W)`` by its regions."""
    found = np.empty(attribution.shape)
    missing = np.ones(attribution.shape, bool)
    while regions := [new for region in regions if (new := region & missing).sum() >= _NEW_PIXELS]:
        means = [attribution[new].mean() for new in regions]
        best = int(np.argmax(means))
        found[regions[best]] = means[best]
        missing &= ~regions[best]
    if missing.any():
        found[missing] = attribution[missing].mean()
    return found


def full_grad(queries: ModelQueries, *, by_channel: bool = False) -> np.ndarray:
    """FullGrad (Srinivas and Fleuret 2019): Σ_c ψ(x · df/dx) + Σ_layers Σ_c ψ(b · df/db), non-negative.

    ψ is the paper's: the absolute values, scaled linearly to [0, 1] over each input's channels and positions of a
    layer as in the authors' code, and upsampled bilinearly to the input. Layers without positions, as dense ones behind
    pooling, are left out, as there, and so are layers whose positions cannot be followed back to the input's. f is the
    logit. A layer adds at most the number of its channels, so that the map's sum is not the logit;
    ``Model.full_gradient`` gives the terms whose sum is. With ``by_channel`` each channel is scaled by itself, 1e-7
    added to its maximum.
    """
    spatial = queries.inputs.shape[1:-1]
    if not spatial:
        raise BadInput("full_grad needs positions, as a signal or an image has; these inputs are vectors")
    maps = np.zeros((len(queries), *spatial))
    for rows, layers in queries.full_gradient(by_channel):
        for layer in layers:
            maps[rows] += resizing.resize(layer[: len(rows)], spatial)
    return maps
