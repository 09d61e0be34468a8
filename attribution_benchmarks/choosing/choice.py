"""The advice, and what speaks against it, in sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from attribution.methods.registry import known_method
from attribution_benchmarks.choosing import known
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.tables import text_table
from attribution_benchmarks.metrics.map_values import magnitude
from attribution_benchmarks.report.formatting import count_of, enumeration
from attribution_benchmarks.stats.statistics import LEVEL, MIN_INPUTS, bet, mean_interval

_Array = npt.NDArray[np.float64]
BOUNDS = (-0.5, 1.0)  # of agreement
INPUT_VALUES = Control(
    "input_values", "Size of the input", "the absolute values of the input itself",
    lambda batch, seed: magnitude(batch.pictures, batch),
)  # fmt: skip
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
    kind, method
        A key of ``known.KINDS``, and the recommended method: the best of this kind that applies to the model.
    methods, own, baselines
        Method -> (N,) agreement, NaN where undefined; condition, such as random weights -> that of the recommended
        method's own maps under it; map without the network -> its agreement.
    clusters
        (N,) group of each input; None for independent ones.
    missed
        Says where the sums of the recommended method's maps are wrong; empty where they are not.
    passes, notes
        Method -> passes of an input, and what could not be tested, in sentences.
    """

    kind: str
    method: str
    methods: Mapping[str, _Array]
    own: Mapping[str, _Array]
    baselines: Mapping[str, _Array]
    clusters: Sequence[str] | None
    missed: str
    passes: Mapping[str, int]
    notes: Sequence[str]

    @property
    def inputs(self) -> int:
        """The number of independent groups of inputs on which agreement is defined."""
        defined = np.isfinite(self.methods[self.method])
        return int(defined.sum()) if self.clusters is None else len({*np.asarray(self.clusters)[defined]})

    @property
    def references(self) -> dict[str, _Array]:
        """Agreement of maps without the network, and of the method's own under a condition."""
        return {**self.baselines, **self.own}

    def p_values(self) -> dict[str, float]:
        """Return reference -> p-value of the hypothesis that the method agrees no better; none of too few inputs."""
        other = np.stack(list(self.references.values()), axis=-1)[:, None]
        own = np.broadcast_to(self.methods[self.method][:, None, None], other.shape)
        found = bet(own, -other, BOUNDS[0], self.clusters) if self.inputs >= MIN_INPUTS else ()
        return dict(zip(self.references, found, strict=False))

    def against(self) -> list[str]:
        """Return what speaks against the recommended method on these inputs, in sentences."""
        own = self.methods[self.method]
        unbeaten = {name: values for name, values in self.references.items() if np.nanmean(own - values) <= 0}
        reached = [f"{title(name).lower()} ({np.nanmean(values):.2f})" for name, values in unbeaten.items()]
        removed = [f"when positions are removed, it is no better than {enumeration(reached)}"] if reached else []
        return [*filter(None, [self.missed]), *removed]

    def __str__(self) -> str:
        """Return the advice, what speaks against it, the table of all scores, and what is not known."""
        found, against = known.record(self.kind), "; ".join(self.against())
        proved = [title(name).lower() for name, p_value in self.p_values().items() if p_value < LEVEL]
        verdict = f"speak against it: {against}" if against else (
            "do not speak against it: it is better than all references as measured, which is shown for "
            f"{enumeration(proved) if proved else 'none'}"
        )  # fmt: skip
        inputs = count_of(self.inputs, "independent input")
        return "\n".join([
            f"Take {title(self.method)}: known truth recommends it for {known.KINDS[self.kind]}. On {found.n} tasks of "
            f"benchmarks held out, such advice got {100 * found.value:.0f} % of the way from a random method to the "
            "best one.", f"These inputs {verdict} ({inputs}).", "", self._table(), *self.notes,
        ])  # fmt: skip

    def _table(self) -> str:
        rows = [(values, ["", "", f"{title(name)} (without the network)"]) for name, values in self.baselines.items()]
        rows += [(values, [name, str(self.passes[name]), title(name)]) for name, values in self.methods.items()]
        cells = []
        for values, (name, *others) in sorted(rows, key=lambda row: -float(np.nan_to_num(np.nanmean(row[0]), nan=-1))):
            value, low, high, count = mean_interval(values[:, None], clusters=self.clusters, bounds=BOUNDS)
            cells.append([name, f"{value:.2f}" + (f" ({low:.2f} to {high:.2f})" if count > 1 else ""), *others])
        return text_table(["method", "agreement", "passes", ""], cells)


def title(name: str) -> str:
    """Return the printed name of a method or of a reference."""
    method = known_method(name)
    return method.title if method else _REFERENCES.get(name, name.rpartition(":")[2])
