"""Guided Integrated Gradients: the path goes where the gradient is small."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import gradients
from attribution.methods.queries import ModelQueries


def guided_integrated_gradients(
    queries: ModelQueries, *, steps: int = 50, fraction: float = 0.25, max_distance: float = 0.02, baseline: Any = 0.0
) -> np.ndarray:
    """Guided Integrated Gradients (Kapishnikov et al. 2021): ∫ of the gradient along a path that avoids large ones.

    Each step takes the path nearer to the input by the same distance in the sum of absolute values, and moves the
    values with the smallest gradients alone. Where the straight path crosses a steep and noisy region this one goes
    around it. The map's sum is f(x) - f(b) up to the steps' size.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    steps
        Gradients on the path, one after another.
    fraction
        Share of an input's values that move at a time, in (0, 1].
    max_distance
        How far a value may be from its place on the straight path, as a share of the whole way; 0 is the straight path.
    baseline
        Where paths start; see ``gradients.start_of``.
    """
    if steps < 1 or not 0 < fraction <= 1 or not 0 <= max_distance <= 1:
        raise BadInput(
            "guided_integrated_gradients needs steps >= 1, fraction in (0, 1] and max_distance in [0, 1], not "
            f"{steps}, {fraction}, {max_distance}"
        )
    shape = queries.inputs.shape
    ends = queries.inputs.astype(np.float64).reshape(shape[0], -1)  # also where an input is a single number, (N,)
    starts = np.broadcast_to(gradients.start_of(queries, baseline), shape).astype(np.float64)
    starts = starts.reshape(ends.shape)
    places = starts.copy()
    maps = np.zeros(ends.shape)

    def here(_, rows):
        return places[rows].astype(np.float32).reshape(len(rows), *shape[1:])

    for step in range(1, steps + 1):
        corridor = max(step / steps - max_distance, 0.0), min(step / steps + max_distance, 1.0)
        # Where a step ends depends on the gradient where it begins: steps cannot share a pass, inputs do.
        found = np.empty(ends.shape, np.float32)
        for _, rows, part in queries.variant_gradients(1, here):
            found[rows] = part.reshape(len(rows), -1)
        for row in range(len(queries)):
            reached = _step(places[row], starts[row], ends[row], found[row], 1 - step / steps, corridor, fraction)
            maps[row] += (reached - places[row]) * found[row]
            places[row] = reached
    return maps.reshape(shape)


def _step(place, start, end, gradient, left, corridor, fraction):
    """Return where one input's path is after a step.

    Parameters
    ----------
    place, start, end
        Where it is, began and ends.
    gradient
        Of the target score, at ``place``.
    left
        Share of the whole distance that is left after the step.
    corridor
        Least and greatest share of the way that a single value may have gone after the step.
    fraction
        Share of the values that move at a time.
    """
    way = end - start
    least, most = (start + share * way for share in corridor)
    wanted = left * np.abs(way).sum()
    # Values that have fallen behind the corridor are taken to its edge, whatever their gradient.
    place = np.where((place - least) * np.sign(way) < 0, least, place)
    size = np.abs(gradient).astype(np.float64)
    while (distance := np.abs(end - place).sum()) - wanted > 1e-9 * (1 + wanted):
        size[place == most] = np.inf  # cannot go on
        if np.isinf(size).all():
            break
        chosen = (size <= np.quantile(size, fraction, method="lower")) & np.isfinite(size)
        reach = np.abs(most - place)[chosen].sum()
        share = min((distance - wanted) / reach, 1.0) if reach else 1.0
        moved = most if share == 1.0 else place + share * (most - place)
        place = np.where(chosen, moved, place)
    return place
