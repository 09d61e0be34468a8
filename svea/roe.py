"""The region of explanation (ROE), and the test whether the class can be told from it alone.

Sattarzadeh et al. (ICCVW 2021), sections 3 and 4. The region is the window of 12 points, as long as a template, around
the highest point of a map. The test trains ten one-against-rest linear support vector machines on the windows of the
training signals, with their true labels, and counts how many windows of the test signals they classify rightly.

Eq. 1 of the paper, read literally, cannot give the paper's own table. The rule here does: points are counted from 0,
and the window begins 6 points before the peak, pushed back inside where it would leave the signal.
"""

from __future__ import annotations

import numpy as np

from svea.mnist1d import LENGTH

WINDOW = 12


def peaks(maps: np.ndarray) -> np.ndarray:
    """Return the position of each map's highest value, the first one where several are equal.

    Parameters
    ----------
    maps
        (N, 40) or (N, 40, 1) numbers.

    Returns
    -------
    np.ndarray
        (N,) int64, 0 to 39; 0 for a map of equal values.

    Raises
    ------
    ValueError
        If the maps have another shape.
    """
    return _without_channel(maps).argmax(axis=1)


def window_starts(peak_positions: np.ndarray) -> np.ndarray:
    """Return where the window around each peak begins: (N,) int, 0 to 39 -> (N,) int, 0 to 28."""
    return np.clip(np.asarray(peak_positions) - WINDOW // 2, 0, LENGTH - WINDOW)


def region_of_explanation(maps: np.ndarray) -> np.ndarray:
    """Return where the region of explanation of each map begins.

    Parameters
    ----------
    maps
        (N, 40) or (N, 40, 1) numbers.

    Returns
    -------
    np.ndarray
        (N,) int64, 0 to 28; the region is the 12 points from there.
    """
    return window_starts(peaks(maps))


def windows(signals: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Cut a window out of each signal: (N, 40) and (N,) int -> (N, 12)."""
    return np.take_along_axis(np.asarray(signals), np.asarray(starts)[:, None] + np.arange(WINDOW), axis=1)


def all_zero(maps: np.ndarray) -> np.ndarray:
    """Tell which maps are zero everywhere, so that their region is the first window for want of a peak: (N,) bool."""
    return np.logical_not(_without_channel(maps).any(axis=1))


def linear_svm_correct(
    train_features: np.ndarray, train_labels: np.ndarray, test_features: np.ndarray, test_labels: np.ndarray
) -> np.ndarray:
    """Train linear support vector machines, one class against the rest, and tell which test rows they get right.

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


def _without_channel(maps) -> np.ndarray:
    """Return maps as (N, 40)."""
    maps = np.asarray(maps)
    if maps.shape[1:] not in ((LENGTH,), (LENGTH, 1)):
        raise ValueError(f"maps have shape {maps.shape}; (N, {LENGTH}) or (N, {LENGTH}, 1) is needed")
    return maps.reshape(len(maps), LENGTH)
