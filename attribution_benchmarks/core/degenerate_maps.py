"""Maps that are zero everywhere: what a method says where it points nowhere.

Where such a map is left out, its method is judged on other inputs than the rest, mostly on easier ones, and ranks
compare what cannot be compared. So it counts as the map that says as little: the uniform one. A metric that has a value
for a map of zeros, such as one of the map's size, keeps it.
"""

from __future__ import annotations

import numpy as np

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics.per_sample import PerSampleMetric, Scores

UNIFORM, DROP = "uniform", "drop"
CHOICES = (UNIFORM, DROP)


def measured(measure: PerSampleMetric, maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return a measure's numbers of maps, those of the uniform map for maps of zeros that it has no number for.

    Parameters
    ----------
    measure
        Its ``degenerate_maps`` says what becomes of maps of zeros.
    maps
        (N, positions...) or (N, positions..., channels).
    batch, scores
        As ``measure.function`` takes them.

    Returns
    -------
    (N, width) float64
        NaN where undefined.
    """
    numbers = np.asarray(measure.function(maps, batch, scores), np.float64).reshape(len(maps), -1)
    if measure.degenerate_maps == DROP:
        return numbers
    empty = np.flatnonzero(np.isnan(numbers).any(axis=1) & ~maps.reshape(len(maps), -1).any(axis=1))
    if len(empty):
        numbers = numbers.copy()
        numbers[empty] = np.reshape(
            measure.function(np.ones_like(maps[empty]), batch.take(empty.tolist()), scores), (len(empty), -1)
        )
    return numbers
