"""What the values of a map must add up to, and by how much they miss it (captum's convergence delta).

Integrated Gradients and DeepLIFT share out f(x) - f(b), the difference of the target's scores at the input and at a
baseline; LRP shares out the logit, Excitation Backprop a probability of 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attribution.methods.expected_gradients import as_references
from attribution.methods.gradients import start_of
from attribution.methods.queries import ModelQueries

# Least share of the scores that their difference counts as: float32 scores give a smaller one to one digit or none.
_LEAST = 1e-4

Ends = Callable[[ModelQueries, Mapping], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class SumLaw:
    """What the sum of a method's map must be.

    Attributes
    ----------
    formula
        That sum, as printed.
    ends
        Function from passes and the method's parameters to two arrays ``(N,)``; the sum must be their difference.
    cause
        Why a map may miss it, and what helps.
    """

    formula: str
    ends: Ends
    cause: str

    def residuals(self, queries: ModelQueries, parameters: Mapping, maps: np.ndarray) -> Residuals:
        """Return the residuals of the maps of a block, ``(N, ...)``; at most a forward pass at input and baseline."""
        return Residuals.of(maps, *self.ends(queries, parameters))


@dataclasses.dataclass(frozen=True)
class Residuals:
    """By how much the sums of N maps miss what they must be.

    Attributes
    ----------
    sums, expected : np.ndarray
        ``(N,)`` float64: what they are, and must be.
    scale : np.ndarray
        ``(N,)`` float64: |expected|, but at least 0.01 % of the greater of |f(x)| and |f(b)|.
    absolute : np.ndarray
        ``(N,)`` float64: sums - expected.
    relative : np.ndarray
        ``(N,)`` float64, at least 0: |absolute| / scale.
    """

    sums: np.ndarray
    expected: np.ndarray
    scale: np.ndarray

    @property
    def absolute(self) -> np.ndarray:
        """``(N,)`` float64: the sum minus what it must be."""
        return self.sums - self.expected

    @property
    def relative(self) -> np.ndarray:
        """``(N,)`` float64, at least 0: |absolute| / scale; NaN where the scale is 0."""
        missed, scale = np.abs(self.absolute), self.scale
        return np.divide(missed, scale, out=np.full(missed.shape, np.nan), where=scale != 0)

    @classmethod
    def of(cls, maps: np.ndarray, at_input: np.ndarray, at_baseline: np.ndarray) -> Residuals:
        """Return the residuals of maps ``(N, ...)`` whose sums must be the difference of two scores, ``(N,)`` each."""
        at_input, at_baseline = (np.asarray(end, np.float64) for end in (at_input, at_baseline))
        expected, greater = at_input - at_baseline, np.maximum(np.abs(at_input), np.abs(at_baseline))
        sums = maps.reshape(len(maps), -1).sum(axis=1, dtype=np.float64)
        return cls(sums, expected, np.maximum(np.abs(expected), _LEAST * greater))

    @classmethod
    def joined(cls, parts: Sequence[Residuals]) -> Residuals:
        """Return the residuals of several blocks as one."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in names))


def _score_difference(queries, parameters):
    start = np.broadcast_to(start_of(queries, parameters["baseline"]), queries.inputs.shape)
    return queries.target_scores, _mean_scores(queries, start[np.newaxis])


def _logit_difference(queries, parameters):
    return _score_difference(queries.of_logits(), parameters)


def _expected_difference(queries, parameters):
    references = as_references(queries.channels_last(parameters["references"]), queries.inputs.shape)
    return queries.target_scores, _mean_scores(queries, references[:, np.newaxis])


def _logit(queries, _):
    return queries.of_logits().target_scores, np.zeros(len(queries))


def _one(queries, _):
    return np.ones(len(queries)), np.zeros(len(queries))


def _mean_scores(queries, starts):
    """Return the mean of the targets' scores over starting points, (K, N or 1, ...) that broadcast to the inputs."""
    total = np.zeros(len(queries))

    def start(number, rows):
        return np.broadcast_to(starts[number], queries.inputs.shape)[rows]

    for _, rows, scores in queries.variant_scores(len(starts), start):
        total[rows] += scores
    return total / len(starts)


PATH = "f(x) - f(baseline)"
_JUMP = "or the score jumps on it, as near an all-zero input"
BY_POINTS = SumLaw(PATH, _score_difference, f"the path has too few points (points= in Python), {_JUMP}")
BY_STEPS = SumLaw(PATH, _score_difference, f"the path has too few steps (steps= in Python), {_JUMP}")
BY_SAMPLES = SumLaw(
    "f(x) - mean f(references)", _expected_difference, "the mean has too few samples (samples= in Python)"
)
BY_CHORDS = SumLaw(
    PATH,
    _logit_difference,
    "large contributions cancel, as where a product has huge values at the baseline; choose another baseline",
)


def relevance_law(cause: str) -> SumLaw:
    """Return the law of LRP, conservation: the sum is the target's logit."""
    return SumLaw("the logit", _logit, cause)


EXCITATION = SumLaw("1", _one, "steps end where a unit has no positive input")
