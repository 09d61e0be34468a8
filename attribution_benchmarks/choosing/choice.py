"""What is known of the methods of a model, and what it means, in sentences."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution import plotting
from attribution.files import atomic_write
from attribution.methods.registry import known_method
from attribution_benchmarks.choosing.verdict import Standing, Verdict
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.tables import text_table
from attribution_benchmarks.metrics.map_values import magnitude
from attribution_benchmarks.report.formatting import count_of, enumeration
from attribution_benchmarks.stats.statistics import MIN_INPUTS, Estimate

_NAMED = 4  # methods in one sentence
_INPUTS, _METHODS = 4, 6  # whose maps are drawn
WORTH = pathlib.Path(__file__).with_name("worth.json")


def _values_of_input(batch: Batch, seed: int) -> np.ndarray:
    return magnitude(batch.pictures, batch)


INPUT_VALUES = Control("input_values", "Size of the input", "the absolute values of the input itself", _values_of_input)
_REFERENCES = {control.name: control.title for control in (UNIFORM, RANDOM, EDGE_DETECTOR, INPUT_VALUES)} | {
    RANDOM_WEIGHTS.name: "shuffled weights",
    WRONG_CLASS.name: "another class",
}


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is known of the methods.

    Attributes
    ----------
    model
        Name of the model.
    verdict
        The methods' standings.
    passes
        Method -> passes of an input; estimated where they are many, see ``attribution.trial.Trial``.
    refused
        Method -> why it cannot explain the model.
    notes
        What could not be tested, in sentences.
    inputs, names, targets
        The scored inputs, (N, ...), their N names, and the (N,) explained classes.
    maps
        Directory of the maps, METHOD/INPUT.npy; None where they are not saved.
    features
        Names of a vector's numbers; None where they are not known.
    """

    model: str
    verdict: Verdict
    passes: Mapping[str, int]
    refused: Mapping[str, str]
    notes: Sequence[str]
    inputs: np.ndarray
    names: Sequence[str]
    targets: np.ndarray
    maps: pathlib.Path | None = None
    features: Sequence[str] | None = None

    def title(self, method: str) -> str:
        """Return the printed name of a method or of a reference."""
        if known := known_method(method):
            return known.title
        return _REFERENCES.get(method, method.rpartition(":")[2])

    @property
    def unit(self) -> str:
        """Return the name of what is removed."""
        if self.inputs.ndim > 2:
            return "positions"
        return "tokens" if self.inputs.dtype.kind in "iu" else "features"

    def read_maps(self, method: str, rows: Iterable[int]) -> np.ndarray:
        """Return the saved maps of some inputs, (rows, positions...) or with channels, float32."""
        assert self.maps is not None
        folder = self.maps / method.rpartition(":")[2]
        return np.stack([np.load(folder / f"{self.names[row]}.npy") for row in rows])

    def __str__(self) -> str:
        """Return the answer, the table of all methods and maps without the network, and what is not known."""
        refused = [f"{name} does not apply: {reason}" for name, reason in self.refused.items()]
        return "\n".join([*self.answer(), "", self._table(), *self.limits(), *refused])

    def answer(self) -> list[str]:
        """Return which method to use and why, in sentences, the most important first."""
        verdict, leader = self.verdict, self.verdict.standings[0]
        if not verdict.tested:
            return [
                f"A first look: {self.title(leader.method)} has the highest agreement with the network, "
                f"{self._numbers(leader)}. Nothing "
                f"was tested: that takes {MIN_INPUTS} inputs on which removed {self.unit} change the score."
            ]
        if verdict.best is None:
            return [
                "Rely on none of these maps: no method is shown to be better than maps without the network and than "
                f"its own maps on shuffled weights and of another class. The highest agreement is that of "
                f"{self.title(leader.method)}, {self._numbers(leader)}."
            ]
        best = verdict.best
        return [
            f"Take {self.title(best.method)}: its maps agree best with what the network does when {self.unit} are "
            f"removed, {self._numbers(best)}.",
            *self._named("As good on these inputs, as far as they can tell", verdict.as_good),
            *self._named("Not shown to depend on what the network has learned", self._below(RANDOM_WEIGHTS)),
            *self._named("Not shown to depend on the class", self._below(WRONG_CLASS)),
        ]

    def _table(self) -> str:
        verdict = self.verdict
        rows = [
            (found.value, ["", shown(found), "", "", self.title(name) + " (without the network)"])
            for name, found in verdict.baselines.items()
        ]
        for one in verdict.standings:
            above = "no" if verdict.tested else ""
            if one.recommended:
                above = "best" if one is verdict.best else "as good" if one.as_good else "yes"
            cells = [one.method, shown(one.agreement), above, str(self.passes[one.method]), self.title(one.method)]
            rows.append((one.agreement.value, cells))
        ranked = sorted(rows, key=lambda row: -float(np.nan_to_num(row[0], nan=-1.0)))
        return text_table(["method", "agreement", "above references", "passes", ""], [cells for _, cells in ranked])

    def draw(
        self,
        path: pathlib.Path,
        preprocessing: Any = None,
        words: Mapping[str, np.ndarray] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> None:
        """Draw the maps of a few inputs by the methods of the highest agreement; needs saved maps.

        Parameters
        ----------
        path
            File of the picture, ``.png``.
        preprocessing
            Of pictures, to show them in their colors; see ``attribution.plot``.
        words
            Name of an input -> (positions,) text of its tokens, to show them by.
        class_names
            A name for each class; their numbers where None.
        """
        rows = np.unique(np.linspace(0, len(self.names) - 1, _INPUTS).round().astype(int)).tolist()
        inputs = np.stack([words[self.names[row]] for row in rows]) if words else self.inputs[rows]
        classes = [class_names[self.targets[row]] if class_names else self.targets[row] for row in rows]
        titles = [f"{self.names[row]}, class {known}" for row, known in zip(rows, classes, strict=True)]
        maps = {one.method: self.read_maps(one.method, rows) for one in self.verdict.standings[:_METHODS]}
        if inputs.ndim == 2:  # maps of the embedding of tokens are summed
            maps = {name: found.sum(axis=-1) if found.ndim > 2 else found for name, found in maps.items()}
        figure = plotting.plot(maps, inputs, titles=titles, preprocessing=preprocessing, feature_names=self.features)
        atomic_write(path, lambda stream: figure.savefig(stream, format="png", dpi=100))

    def _numbers(self, one: Standing) -> str:
        """Return the agreement of a method, and that of the best map without the network."""
        name, best = max(self.verdict.baselines.items(), key=lambda item: np.nan_to_num(item[1].value, nan=-1.0))
        inputs = count_of(self.verdict.inputs, "input")
        return (
            f"{shown(one.agreement)} on {inputs}; the best map without the network ({self.title(name)}) has "
            f"{best.value:.2f}"
        )

    def _below(self, reference: Control) -> list[Standing]:
        return [one for one in self.verdict.standings if reference.name in one.unbeaten]

    def _named(self, text: str, standings: Sequence[Standing]) -> Iterator[str]:
        if standings:
            yield f"{text}: {enumeration((self.title(one.method) for one in standings), _NAMED)}."

    def limits(self) -> list[str]:
        """Return what cannot be known without ground truth, in sentences."""
        worth = json.loads(WORTH.read_text(encoding="utf-8"))
        return [
            *self.notes,
            "Agreement is measured by replacing positions by other values, on which the network was not trained: "
            "another background may give another order. Methods that remove positions themselves, such as occlusion "
            "and LIME, gain where their parts and values are like these. Of fewer than 8 features one is removed at a "
            "time, as in occlusion, whose agreement is then 1.",
            f"Where the truth is known, in {len(worth['cases'])} cases of this project's benchmarks, the same "
            f"procedure reached {100 * worth['chosen']:.0f} % of the way from an average method to the best. Taking "
            f"the method that is best on the other benchmarks reached {100 * worth['fixed']:.0f} %.",
        ]


def shown(found: Estimate) -> str:
    """Return a mean with its interval; of a single input, which has none, the mean alone."""
    value, low, high = (f"{round(each, 2) + 0.0:.2f}" for each in found[:3])  # no negative zero
    return f"{value} ({low} to {high})" if found.n > 1 else value
