"""How many steps a path needs: each input's own number, halved until its attributions are complete.

The sum of Integrated Gradients' map is f(x) - f(b) in the limit of many steps (Sundararajan et al. 2017, who advise to
check it). How many that takes differs from input to input and from baseline to baseline by a factor of ten, so that a
number that is enough for all is too many for most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attribution.errors import BadInput

if TYPE_CHECKING:
    from attribution.methods.queries import ModelQueries

HALVINGS = 4  # from the coarsest path to the finest; all gradients of one are used again by the next


def levels(steps: int) -> list[int]:
    """Return the numbers of steps that are tried, each twice the one before; the last is the least of at least so many.

    >>> levels(300)
    [19, 38, 76, 152, 304]
    """
    coarsest = -(-steps // 2**HALVINGS)
    return [coarsest * 2**halving for halving in range(HALVINGS + 1)]


def refined(queries: ModelQueries, start: np.ndarray, steps: int, quadrature: str, tolerance: float) -> np.ndarray:
    """Return Integrated Gradients by the trapezoidal rule, with as many steps as each input needs.

    An input is done when its map's sum misses f(x) - f(b) by at most ``tolerance`` of it, or at the last level; the
    first is never enough, since a coarse sum may be right by chance. Beside the gradients it takes a score of x and
    of b.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    start
        b, float that broadcasts to the inputs.
    steps
        That the last level has at least; see ``levels``.
    quadrature
        ``"trapezoid"``; another one cannot be refined.
    tolerance
        Above 0 and below 1.

    Returns
    -------
    np.ndarray
        Float64 of the inputs' shape.

    Raises
    ------
    BadInput
        For another quadrature or tolerance.
    """
    if quadrature != "trapezoid" or not 0 < tolerance < 1:
        raise BadInput(
            f"tolerance={tolerance:g} with quadrature='{quadrature}'; a tolerance lies between 0 and 1 and needs "
            "quadrature='trapezoid'"
        )
    difference = np.broadcast_to(queries.inputs - start, queries.inputs.shape)
    begun = np.broadcast_to(start, queries.inputs.shape)
    wanted = np.array(queries.target_scores, np.float64)
    for _, rows, scores in queries.variant_scores(1, lambda _, rows: begun[rows]):
        wanted[rows] -= scores

    total = np.zeros(queries.inputs.shape)  # of the gradients; both ends of the path count half
    found = np.zeros(queries.inputs.shape)
    going = np.arange(len(queries))
    for level, count in enumerate(levels(steps)):
        alphas = np.arange(count + 1) / count if level == 0 else (2 * np.arange(count // 2) + 1) / count

        def on_path(number, rows, alphas=alphas):
            return queries.inputs[rows] - np.float32(1 - alphas[number]) * difference[rows]

        for number, rows, gradients in queries.variant_gradients([going] * len(alphas), on_path):
            total[rows] += (0.5 if level == 0 and number in (0, count) else 1.0) * gradients
        found[going] = difference[going] * total[going] / count
        missed = np.abs(found[going].reshape(len(going), -1).sum(axis=1) - wanted[going])
        if level > 0:
            going = going[missed > tolerance * np.abs(wanted[going])]
        if not len(going):
            break
    return found
