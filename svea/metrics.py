"""The metrics of SVEA as functions of arrays: ROE test, Drop and Increase.

Sattarzadeh et al. (ICCVW 2021), sections 3 and 4. The region of explanation (ROE) is the window of 12 points, as long
as a template, around the highest point of a map. The ROE test trains ten one-against-rest linear support vector
machines on the windows of the training signals, with their true labels, and counts how many windows of the test
signals they classify correctly.

Eq. 1 of the paper, read literally, cannot give the paper's own table. The rule here does: points are counted from 0,
and the window begins 6 points before the peak, pushed back inside where it would leave the signal.

Drop and Increase follow Chattopadhay et al., "Grad-CAM++" (WACV 2018). Everything outside the region is set to zero.
With Y the confidence (probability) of the top class on the whole signal, and O that of the same class on what is left::

    Drop     = mean of max(0, Y - O) / Y      lower is better
    Increase = share of signals with O > Y    higher is better
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.metric import Metric
from svea.mnist1d import LENGTH

WINDOW = 12


def region_of_explanation(maps: np.ndarray) -> np.ndarray:
    """Return where the region of explanation of each map begins.

    Parameters
    ----------
    maps
        (N, 40) or (N, 40, 1) numbers. The peak is the first of several highest values.

    Returns
    -------
    np.ndarray
        (N,) int64, 0 to 28; the region is the 12 points from there.

    Raises
    ------
    BadInput
        If the maps have another shape.
    """
    return np.clip(_without_channel(maps).argmax(axis=1) - WINDOW // 2, 0, LENGTH - WINDOW)


def all_zero(maps: np.ndarray) -> np.ndarray:
    """Return which maps are zero everywhere, (N,) bool; their region is the first window."""
    return np.logical_not(_without_channel(maps).any(axis=1))


def windows(signals: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a window of each signal: (N, 40) and (N,) int -> (N, 12)."""
    return np.take_along_axis(np.asarray(signals), np.asarray(starts)[:, None] + np.arange(WINDOW), axis=1)


def linear_svm_correct(
    train_features: np.ndarray, train_labels: np.ndarray, test_features: np.ndarray, test_labels: np.ndarray
) -> np.ndarray:
    """Train linear support vector machines, one class against the rest, and return which test rows are correct.

    Squared hinge loss, C = 1, no scaling; on windows these are the 130 parameters of the paper's test, found by a
    solver that runs to convergence instead of 10,000 steps of gradient descent.

    Parameters
    ----------
    train_features, test_features
        (N, D) and (M, D) numbers: windows, or whole signals.
    train_labels, test_labels
        (N,) and (M,) int, the true classes.

    Returns
    -------
    np.ndarray
        (M,) bool. Its mean is the score of the ROE test, as a fraction.
    """
    from sklearn.svm import LinearSVC

    machines = LinearSVC(loss="squared_hinge", C=1.0, dual=False, max_iter=10000, random_state=0)
    machines.fit(train_features, train_labels)
    return machines.predict(test_features) == np.asarray(test_labels)


def keep_windows(signals: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return signals, (N, 40), set to zero outside the windows that begin at (N,) int ``starts``."""
    signals = np.asarray(signals)
    offset = np.arange(signals.shape[1]) - np.asarray(starts)[:, None]
    return np.where((offset >= 0) & (offset < WINDOW), signals, np.zeros((), signals.dtype))


def confidence_drop(whole: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the relative loss of confidence of each signal.

    Parameters
    ----------
    whole, kept
        (N,) probabilities of the signal's top class, on the whole signal and on its window; whole > 0.

    Returns
    -------
    np.ndarray
        (N,) float64 in [0, 1]; times 100, its mean is Drop %.
    """
    whole, kept = np.asarray(whole, np.float64), np.asarray(kept, np.float64)
    return np.maximum(0.0, (whole - kept) / whole)


def confidence_increase(whole: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return which signals gain confidence: (N,) and (N,) probabilities -> (N,) bool; its mean is Increase."""
    return np.asarray(kept) > np.asarray(whole)


def _without_channel(maps: np.ndarray) -> np.ndarray:
    """Return maps as (N, 40)."""
    maps = np.asarray(maps)
    if maps.shape[1:] not in ((LENGTH,), (LENGTH, 1)):
        raise BadInput(
            f"maps of shape {maps.shape[1:]}; SVEA reads one value per point, shape ({LENGTH},) or ({LENGTH}, 1)"
        )
    return maps.reshape(len(maps), LENGTH)


_DESCRIBED: dict[str, Any] = {
    "percent": True,
    "bounds": (0.0, 100.0),
    "source": "Sattarzadeh et al., ICCV Workshops 2021",
}
METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "roe_test",
            "ROE test %",
            about="Linear classifiers learn the class from the regions alone. The figure is the "
            "percentage of test signals they get right: more is better. The test rewards whoever finds the shape, and "
            "a peak of the signal often is the shape.",
            rate=True,
            **_DESCRIBED,
        ),
        Metric(
            "drop",
            "Drop %",
            "less",
            about="The network sees the region alone, the rest set to zero. The figure is the mean loss of its "
            "confidence in percent of what it was: less is better.",
            **_DESCRIBED,
        ),
        Metric(
            "increase",
            "Increase %",
            about="The share of signals, in percent, of which the network is more confident when it sees the region "
            "alone: more is better.",
            rate=True,
            **_DESCRIBED,
        ),
    )
}
