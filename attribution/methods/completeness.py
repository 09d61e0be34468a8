"""The sum that a map's values must have, and by how much they miss it (captum's convergence delta).

Integrated Gradients and DeepLIFT distribute f(x) - f(b), the difference of the target's scores at the input and at a
baseline; LRP distributes the logit, Excitation Backprop a probability of 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.methods.gradients import as_references, blur, start_of
from attribution.methods.queries import ModelQueries

# Smallest scale, as a share of the scores: float32 scores give a smaller difference to one digit or none.
_LEAST = 1e-4

Parameters = Mapping[str, Any]
Ends = Callable[[ModelQueries, Parameters], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class SumLaw:
    """Required sum of a method's map.

    Attributes
    ----------
    formula
        That sum, as printed.
    ends
        Function from queries and the method's parameters to two arrays ``(N,)``; the sum must be their difference.
    cause
        Why a map may miss it, and what helps.
    """

    formula: str
    ends: Ends
    cause: str

    def residuals(self, queries: ModelQueries, parameters: Parameters, maps: np.ndarray) -> Residuals:
        """Return the residuals of a batch of maps ``(N, ...)``, by at most a forward pass at input and baseline."""
        return Residuals.of(maps, *self.ends(queries, parameters))


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Differences between the sums of N maps and their required sums.

    Attributes
    ----------
    sums, expected : np.ndarray
        ``(N,)`` float64: actual and required sums.
    scale : np.ndarray
        ``(N,)`` float64: |expected|, but at least 0.01 % of the greater of |f(x)| and |f(b)|.
    """

    sums: np.ndarray
    expected: np.ndarray
    scale: np.ndarray

    @property
    def absolute(self) -> np.ndarray:
        """``(N,)`` float64: sums - expected."""
        absolute: np.ndarray = self.sums - self.expected
        return absolute

    @property
    def relative(self) -> np.ndarray:
        """``(N,)`` float64, at least 0: |absolute| / scale; NaN where the scale is 0."""
        missed = np.abs(self.absolute)
        relative: np.ndarray = np.full(missed.shape, np.nan)
        np.divide(missed, self.scale, out=relative, where=self.scale != 0)
        return relative

    @classmethod
    def of(cls, maps: np.ndarray, at_input: np.ndarray, at_baseline: np.ndarray) -> Residuals:
        """Return the residuals of maps ``(N, ...)`` whose sums must be the difference of two scores, ``(N,)`` each."""
        at_input, at_baseline = (np.asarray(end, np.float64) for end in (at_input, at_baseline))
        expected, greater = at_input - at_baseline, np.maximum(np.abs(at_input), np.abs(at_baseline))
        sums = maps.reshape(len(maps), -1).sum(axis=1, dtype=np.float64)
        return cls(sums, expected, np.maximum(np.abs(expected), _LEAST * greater))

    @classmethod
    def joined(cls, parts: Sequence[Residuals]) -> Residuals:
        """Return the residuals of several batches as one."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in names))


def _score_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    start = np.broadcast_to(start_of(queries, parameters["baseline"]), queries.inputs.shape)
    return queries.target_scores, _mean_scores(queries, start[np.newaxis])


def _logit_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return _score_difference(queries.of_logits(), parameters)


def _expected_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    references = as_references(queries.channels_last(parameters["references"]), queries.inputs.shape)
    return queries.target_scores, _mean_scores(queries, references[:, np.newaxis])


def _blur_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return queries.target_scores, _mean_scores(queries, blur(queries.inputs, parameters["max_sigma"])[np.newaxis])


def _logit(queries: ModelQueries, _: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return queries.of_logits().target_scores, np.zeros(len(queries))


def _one(queries: ModelQueries, _: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(len(queries)), np.zeros(len(queries))


def _mean_scores(queries: ModelQueries, starts: np.ndarray) -> np.ndarray:
    """Return the mean of the targets' scores over starting points ``(K, N or 1, ...)`` that broadcast to the inputs."""
    mean = np.zeros(len(queries))

    def start(number: int, rows: np.ndarray) -> Any:
        return np.broadcast_to(starts[number], queries.inputs.shape)[rows]

    for _, rows, scores in queries.variant_scores(len(starts), start):
        mean[rows] += scores
    mean /= len(starts)
    return mean


_PATH = "f(x) - f(baseline)"
_JUMP = "or the score jumps on it, as near an all-zero input"
BY_POINTS = SumLaw(_PATH, _score_difference, f"the path has too few points (points= in Python), {_JUMP}")
BY_STEPS = SumLaw(_PATH, _score_difference, f"the path has too few steps (steps= in Python), {_JUMP}")
BY_SAMPLES = SumLaw(
    "f(x) - mean f(references)", _expected_difference, "the mean has too few samples (samples= in Python)"
)
BY_CHORDS = SumLaw(
    _PATH,
    _logit_difference,
    "large contributions cancel, as where a product has huge values at the baseline; choose another baseline",
)
BY_CONSTRUCTION = SumLaw(_PATH, _score_difference, "float32 scores cancel")
BY_BLUR = SumLaw("f(x) - f(blurred x)", _blur_difference, f"the path has too few steps (steps= in Python), {_JUMP}")
EXCITATION = SumLaw("1", _one, "steps end where a unit has no positive input")


def relevance_law(cause: str) -> SumLaw:
    """Return the law of LRP, conservation: the sum is the target's logit."""
    return SumLaw("the logit", _logit, cause)
