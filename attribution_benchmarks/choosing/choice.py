"""The advice, and what speaks against it, in sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from attribution.methods.registry import known_method
from attribution_benchmarks.choosing import known
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.tables import text_table
from attribution_benchmarks.metrics.map_values import magnitude
from attribution_benchmarks.report.formatting import count_of, enumeration
from attribution_benchmarks.stats.statistics import LEVEL, MIN_INPUTS, Estimate, bet, better_than_every, mean_interval

_Array = npt.NDArray[np.float64]
BOUNDS = (-0.5, 1.0)  # of agreement


def _values_of_input(batch: Batch, seed: int) -> np.ndarray:
    return magnitude(batch.pictures, batch)


INPUT_VALUES = Control("input_values", "Size of the input", "the absolute values of the input itself", _values_of_input)
_REFERENCES = {control.name: control.title for control in (UNIFORM, RANDOM, EDGE_DETECTOR, INPUT_VALUES)} | {
    RANDOM_WEIGHTS.name: "its own maps on shuffled weights",
    WRONG_CLASS.name: "its own maps of another class",
}


def agreement(correlation: npt.ArrayLike, infidelity: npt.ArrayLike) -> _Array:
    """Return how well maps predict the drops of the score when positions are removed, (N,) float64 in [-0.5, 1].

    The mean of two numbers, both 1 for a network that adds up its positions and its exact contributions: Pearson's
    correlation over random fifths of the positions (``faithfulness_correlation``), which does not see a constant added
    to a map, and the cosine over random patches, √(1 - ``infidelity``), which does. NaN where one is undefined.
    """
    cosine = np.sqrt(np.clip(1 - np.asarray(infidelity, np.float64), 0, 1))
    return (np.asarray(correlation, np.float64) + cosine) / 2


@dataclasses.dataclass(frozen=True)
class Choice:
    """The advice and its checks.

    Attributes
    ----------
    model, kind
        Name of the model, and a key of ``known.KINDS``.
    method
        The recommended one: the best on known truth of this kind that applies to the model.
    methods, own, baselines
        Method -> (N,) agreement, NaN where undefined; method -> condition, such as random weights -> that of its own
        maps under it; map without the network -> its agreement.
    clusters
        (N,) group of each input; None for independent ones.
    missed
        Says where the sums of the recommended method's maps are wrong; empty where they are not.
    passes, refused
        Method -> passes of an input; method -> why it cannot explain the model.
    notes
        What could not be tested, in sentences.
    """

    model: str
    kind: str
    method: str
    methods: Mapping[str, _Array]
    own: Mapping[str, Mapping[str, _Array]]
    baselines: Mapping[str, _Array]
    clusters: Sequence[str] | None
    missed: str
    passes: Mapping[str, int]
    refused: Mapping[str, str]
    notes: Sequence[str]

    def estimate(self, values: _Array) -> Estimate:
        """Return a mean agreement with its 95 % interval."""
        return mean_interval(values[:, None], clusters=self.clusters, bounds=BOUNDS)

    @property
    def inputs(self) -> int:
        """The number of independent groups of inputs on which agreement is defined."""
        known_ = np.isfinite(self.methods[self.method])
        return len(np.unique(np.asarray(self.clusters)[known_])) if self.clusters is not None else int(known_.sum())

    def p_values(self, method: str) -> dict[str, float]:
        """Return reference -> p-value of the hypothesis that a method agrees no better, by ``statistics.bet``."""
        references = {**self.baselines, **self.own.get(method, {})}
        other = np.stack(list(references.values()), axis=-1)[:, None]
        own = np.broadcast_to(self.methods[method][:, None, None], other.shape)
        return dict(zip(references, bet(own, -other, BOUNDS[0], self.clusters).tolist(), strict=True))

    def against(self) -> list[str]:
        """Return what speaks against the recommended method on these inputs, in sentences."""
        found = [f"{self.missed}."] if self.missed else []
        unbeaten = [name for name, p_value in self.p_values(self.method).items() if not p_value < LEVEL]
        if self.inputs >= MIN_INPUTS and unbeaten:
            references = {**self.baselines, **self.own.get(self.method, {})}
            shown_ = (
                f"{_REFERENCES.get(name, name).lower()} ({np.nanmean(references[name]):.2f})" for name in unbeaten
            )
            found.append(f"When positions are removed, it is not shown to be better than {enumeration(shown_)}.")
        return found

    def better(self) -> list[str]:
        """Return the methods that are shown to agree better than all references, by Holm's correction for methods."""
        claims = [(name, p_value) for name in self.methods for p_value in self.p_values(name).values()]
        proved = better_than_every(*map(list, zip(*claims, strict=True))) if self.inputs >= MIN_INPUTS else {}
        return [name for name, p_value in proved.items() if p_value < LEVEL]

    def __str__(self) -> str:
        """Return the advice, what speaks against it, the table of all scores, and what is not known."""
        found, against = known.record(self.kind), self.against()
        numbers = f"{title(self.method)} agrees with removal by {shown(self.estimate(self.methods[self.method]))}"
        said = f"{numbers} on {count_of(self.inputs, 'independent input')}"
        if self.inputs < MIN_INPUTS:
            against.append(f"Nothing was tested on them: that takes {MIN_INPUTS}")
        verdict = "These inputs speak against it: " + " ".join(against) if against else (
            "These inputs do not speak against it: it is shown to be better than every reference."
        )  # fmt: skip
        refused = [f"{name} does not apply: {reason}" for name, reason in self.refused.items()]
        return "\n".join([
            f"Take {title(self.method)}: known truth recommends it for {known.KINDS[self.kind]}. On {found.n} tasks of "
            f"benchmarks held out, such advice got {100 * found.value:.0f} % of the way from a random method to the "
            "best one.",
            f"{verdict} {said}.", "", self._table(), *self.notes, *refused,
        ])  # fmt: skip

    def _table(self) -> str:
        better = self.better()
        rows = [(self.estimate(values), ["", "", "", f"{title(name)} (without the network)"])
                for name, values in self.baselines.items()]  # fmt: skip
        rows += [(self.estimate(values), [name, "yes" if name in better else "", str(self.passes[name]), title(name)])
                 for name, values in self.methods.items()]  # fmt: skip
        ordered = sorted(rows, key=lambda row: -float(np.nan_to_num(row[0].value, nan=-1.0)))
        cells = [[name, shown(found), *others] for found, (name, *others) in ordered]
        return text_table(["method", "agreement", "above references", "passes", ""], cells)


def title(name: str) -> str:
    """Return the printed name of a method or of a reference."""
    method = known_method(name)
    return method.title if method else _REFERENCES.get(name, name.rpartition(":")[2])


def shown(found: Estimate) -> str:
    """Return a mean with its interval; of a single input, which has none, the mean alone."""
    value, low, high = (f"{round(each, 2) + 0.0:.2f}" for each in found[:3])  # no negative zero
    return f"{value} ({low} to {high})" if found.n > 1 else value
