"""The verdict: which method's maps agree best with what the network does when positions are removed.

The agreement of a map is the mean of two numbers, both 1 for a network that adds up its positions and its exact
contributions:

- Pearson's correlation of the map's sums over random fifths of the positions with the drops of the score without them
  (``faithfulness_correlation``);
- the cosine of the map's sums over random patches and the drops without them, at least 0: √(1 - ``infidelity``).

The first does not see a constant added to a map, the second does. Of a map that says nothing the first is about 0. The
second is not where most drops are positive and the map is, too, so agreement is compared with such maps. Both need the
same few passes for all maps.

A method is *recommended* if its agreement is higher than that of every reference: maps without the network, its own
maps on networks of shuffled weights, and its own maps of another class. Of several references the largest p-value
counts, and Holm's correction is for the number of methods. Of the recommended methods the one of the highest agreement
is *best*; those whose difference from it is not significant, after Holm's correction for all pairs, are *as good*.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from attribution_benchmarks.stats.statistics import (
    LEVEL,
    MIN_INPUTS,
    Estimate,
    better_than_every,
    compare_pairs,
    mean_interval,
)

METRICS = ("faithfulness_correlation", "infidelity")
_Array = npt.NDArray[np.float64]


def agreement(correlation: npt.ArrayLike, infidelity: npt.ArrayLike) -> _Array:
    """Return the agreement of maps, (N,) float64 in [-0.5, 1], of their two scores; NaN where one is undefined."""
    cosine = np.sqrt(np.clip(1 - np.asarray(infidelity, np.float64), 0, 1))
    return (np.asarray(correlation, np.float64) + cosine) / 2


@dataclasses.dataclass(frozen=True)
class Standing:
    """The place of a method.

    Attributes
    ----------
    method
        Its name.
    agreement
        Mean over inputs, with its 95 % interval.
    references
        Reference -> agreement of the method minus that of the reference, and the p-value of the method being no better.
    recommended
        Whether it is shown to be better than every reference; False where nothing was tested.
    as_good
        Whether it is recommended and its difference from the best one is not significant; True for the best.
    """

    method: str
    agreement: Estimate
    references: Mapping[str, tuple[float, float]]
    recommended: bool = False
    as_good: bool = False

    @property
    def unbeaten(self) -> list[str]:
        """Return the references that it is not shown to be better than."""
        return [reference for reference, (_, p_value) in self.references.items() if not p_value < LEVEL]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The standings of all methods, the highest agreement first.

    Attributes
    ----------
    standings
        Of the methods.
    baselines
        Map without the network -> its agreement.
    inputs
        Number of inputs on which the network's score changes, so that agreement is defined.
    """

    standings: Sequence[Standing]
    baselines: Mapping[str, Estimate]
    inputs: int

    @property
    def tested(self) -> bool:
        """Return whether there are enough inputs for a test."""
        return self.inputs >= MIN_INPUTS

    @property
    def best(self) -> Standing | None:
        """Return the recommended method of the highest agreement."""
        return next((one for one in self.standings if one.recommended), None)

    @property
    def as_good(self) -> list[Standing]:
        """Return the others that are as good as the best one."""
        return [one for one in self.standings if one.as_good and one is not self.best]


def verdict(
    methods: Mapping[str, _Array], own: Mapping[str, Mapping[str, _Array]], baselines: Mapping[str, _Array]
) -> Verdict:
    """Return the verdict.

    Parameters
    ----------
    methods
        Method -> (N,) agreement on each input, NaN where undefined.
    own
        Method -> condition, such as random weights -> (N,) agreement of its own maps under it.
    baselines
        Map without the network -> (N,) agreement.
    """
    known = int(max((np.isfinite(values).sum() for values in methods.values()), default=0))
    estimates = {
        name: mean_interval(np.asarray(column, np.float64)[:, None], bounds=(-0.5, 1.0))
        for name, column in {**methods, **baselines}.items()
    }
    references = {method: _claims(method, methods[method], {**own.get(method, {}), **baselines}) for method in methods}
    claims = [(method, claim) for method, each in references.items() for _, claim in each.values()]
    proved = better_than_every(*map(list, zip(*claims, strict=True))) if known >= MIN_INPUTS else {}
    standings = [
        Standing(method, estimates[method], references[method], proved.get(method, 1.0) < LEVEL)
        for method in sorted(methods, key=lambda name: -np.nan_to_num(estimates[name].value, nan=-np.inf))
    ]
    return Verdict(_with_ties(standings, methods), {name: estimates[name] for name in baselines}, known)


def _claims(method: str, values: _Array, references: Mapping[str, _Array]) -> dict[str, tuple[float, float]]:
    """Return reference -> difference, and the p-value of the method being no better."""
    tests = compare_pairs({method: values, **references}, [(method, reference) for reference in references])
    return {test.second: (test.difference, _claim(test.difference, test.p_value)) for test in tests}


def _with_ties(standings: Sequence[Standing], values: Mapping[str, _Array]) -> list[Standing]:
    """Return the standings, those that are as good as the best one marked.

    Holm's correction is for all pairs, because the data that choose the best one also test the others against it.
    """
    recommended = [one.method for one in standings if one.recommended]
    if not recommended:
        return list(standings)
    best = recommended[0]
    tests = compare_pairs({name: values[name] for name in recommended}, list(itertools.combinations(recommended, 2)))
    equal = {best, *(test.second for test in tests if test.first == best and not test.p_corrected < LEVEL)}
    return [dataclasses.replace(one, as_good=one.method in equal) for one in standings]


def _claim(difference: float, p_value: float) -> float:
    """Return the one-sided p-value of a difference above 0; 1 where there is none."""
    if math.isnan(p_value):
        return 1.0
    return p_value / 2 if difference > 0 else 1 - p_value / 2
