"""Drop % and Increase %: what the network says when it sees the region of explanation alone.

Sattarzadeh et al. (ICCVW 2021), after Chattopadhay et al., "Grad-CAM++" (WACV 2018). Everything outside the region is
set to zero. With Y the confidence (probability) of the top class on the whole signal, and O that of the same class on
what is left of it::

    Drop     = mean of max(0, Y - O) / Y      lower is better
    Increase = share of signals with O > Y    higher is better
"""

from __future__ import annotations

import numpy as np

from svea.roe import WINDOW


def keep_windows(signals: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Set every signal to zero outside its window.

    Parameters
    ----------
    signals
        (N, 40) numbers.
    starts
        (N,) int, 0 to 28, where each window of 12 points begins.

    Returns
    -------
    np.ndarray
        (N, 40), of the signals' dtype.
    """
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
    """Tell which signals gain confidence: (N,) and (N,) probabilities -> (N,) bool; its mean is Increase %."""
    return np.asarray(kept) > np.asarray(whole)
