"""How much of the variance of scores is method, definition of the method, network, and the rest.

``y_dn = μ + M_m(d) + L_d + N_n + (MN)_m(d)n + e_dn`` for definitions d of methods m on networks n, all effects random
and independent, every definition on every network. Components are estimated by equating the mean squares of the
analysis of variance with their expectations (Searle, Casella and McCulloch, Variance Components, 1992); negative
estimates are 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

COMPONENTS = ("method", "library", "network", "method x network", "rest")


def variance_components(scores: np.ndarray, methods: Sequence[str]) -> np.ndarray:
    """Return the components of variance in the order of ``COMPONENTS``, (5,) float64.

    Parameters
    ----------
    scores
        (definitions, networks) finite numbers; at least two networks.
    methods
        (definitions,) the method of each; at least two methods, and more definitions than methods.
    """
    scores = np.asarray(scores, np.float64)
    _, method = np.unique(methods, return_inverse=True)
    total, networks, groups = len(scores), scores.shape[1], int(method.max()) + 1
    if networks < 2 or groups < 2 or total <= groups:
        raise ValueError(f"{total} definitions of {groups} methods on {networks} networks determine no components")
    counts = np.bincount(method).astype(np.float64)
    by_method = np.stack([scores[method == group].mean(axis=0) for group in range(groups)])  # (methods, networks)
    mean, of_method, of_network = scores.mean(), by_method.mean(axis=1), scores.mean(axis=0)

    inside = scores - by_method[method]
    library = inside.mean(axis=1)
    square_rest = np.square(inside - library[:, np.newaxis]).sum() / ((total - groups) * (networks - 1))
    square_library = networks * np.square(library).sum() / (total - groups)
    crossed = by_method - of_method[:, np.newaxis] - of_network + mean
    square_crossed = (counts @ np.square(crossed)).sum() / ((groups - 1) * (networks - 1))
    square_method = networks * (counts @ np.square(of_method - mean)) / (groups - 1)
    square_network = total * np.square(of_network - mean).sum() / (networks - 1)

    size = (total - np.square(counts).sum() / total) / (groups - 1)  # of a method, as these squares weight them
    rest = square_rest
    of_library = (square_library - rest) / networks
    of_crossed = (square_crossed - rest) / size
    found_method = (square_method - square_library - size * of_crossed) / (networks * size)
    found_network = (square_network - rest - np.square(counts).sum() / total * of_crossed) / total
    return np.maximum([found_method, of_library, found_network, of_crossed, rest], 0)
