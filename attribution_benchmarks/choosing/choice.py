"""What is known of the methods of a model after a round, and what it means, in sentences."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from attribution.methods.method import MUCH
from attribution.methods.registry import known_method
from attribution_benchmarks.choosing.verdict import SMALL, Standing, Verdict
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.metrics.faithfulness import SUBSET
from attribution_benchmarks.metrics.map_values import magnitude
from attribution_benchmarks.report.formatting import count_of, enumeration
from attribution_benchmarks.stats.statistics import MIN_INPUTS, Estimate

_NAMED = 4  # methods in one sentence
_SAME = 0.01  # of its length, by which a map may differ from one that counts as the same
_COMPARED = 16  # inputs whose maps are compared between methods, at most
_TITLES = {"bim": "BIM", "clevr_xai": "CLEVR-XAI"}
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
    """What is known of the methods after a round.

    Attributes
    ----------
    model
        Name of the model.
    verdict
        The methods' standings.
    scores
        Metric of masks -> method -> mean and interval; empty without masks.
    missed
        Method -> median over inputs of |sum of the map - required sum| / |required sum|, such as f(x) - f(baseline);
        NaN where the method requires none.
    passes
        Method -> passes of an input; estimated where they are many, see ``attribution.trial.Trial``.
    refused
        Method -> why it cannot explain the model.
    missing
        Methods that later rounds score.
    notes
        What could not be tested, in sentences.
    inputs, names, targets
        The scored inputs, (N, ...), their N names, and the (N,) explained classes.
    maps
        Directory of the maps, METHOD/INPUT.npy.
    features
        Names of a vector's numbers; None where they are not known.
    explained
        What is explained of several inputs, as given; None for one input.
    seed
        Seed of random numbers.
    baseline
        (1, features) values of absent features, from which maps of vectors start; None for other inputs.
    started
        Method -> its parameter that has ``baseline`` instead of its default.
    """

    model: str
    verdict: Verdict
    scores: Mapping[str, Mapping[str, Estimate]]
    missed: Mapping[str, float]
    passes: Mapping[str, int]
    refused: Mapping[str, str]
    missing: Sequence[str]
    notes: Sequence[str]
    inputs: np.ndarray
    names: Sequence[str]
    targets: np.ndarray
    maps: pathlib.Path
    features: Sequence[str] | None = None
    explained: str | None = None
    seed: int = 0
    baseline: np.ndarray | None = None
    started: Mapping[str, str] = dataclasses.field(default_factory=dict)
    _held: Any = None  # a temporary directory that ends with the last choice

    def title(self, method: str) -> str:
        """Return the printed name of a method or of a reference; of its own maps that by which they differ."""
        if known := known_method(method):
            return known.title
        return _REFERENCES.get(method, method.rpartition(":")[2])

    @property
    def unit(self) -> str:
        """Return the name of what is removed."""
        if self.inputs.ndim > 2:
            return "positions"
        return "tokens" if self.inputs.dtype.kind in "iu" else "features"

    def spread(self, count: int) -> list[int]:
        """Return the rows of at most ``count`` inputs, spread over all: neighbors are often of one class."""
        last = len(self.names) - 1
        return [round(place) for place in np.linspace(0, last, min(count, last + 1))]

    def read_maps(self, method: str, rows: Iterable[int]) -> np.ndarray:
        """Return the maps of some inputs, (rows, positions...) or with channels, float32."""
        folder = self.maps / method.rpartition(":")[2]
        return np.stack([np.load(folder / f"{self.names[row]}.npy") for row in rows])

    @functools.cached_property
    def _compared(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean rank correlation of the maps of each two methods, and whether they are the same, both (M, M)."""
        methods = [one.method for one in self.verdict.standings]
        similar, same = np.zeros((len(methods),) * 2), np.ones((len(methods),) * 2, bool)
        rows = self.spread(_COMPARED)
        for row in rows:
            maps = [self.read_maps(name, [row]) for name in methods]
            places = min(each.ndim for each in maps)
            values = np.stack([(each.sum(axis=-1) if each.ndim > places else each).ravel() for each in maps]).astype(
                np.float64
            )
            ranks = _unit(rankdata(values, axis=1) - (values.shape[1] + 1) / 2)
            similar += ranks @ ranks.T / len(rows)
            product = values @ values.T
            size = np.diagonal(product)
            same &= size[:, None] + size - 2 * product <= _SAME**2 * np.maximum(size[:, None], size)
        return similar, same

    @functools.cached_property
    def groups(self) -> list[list[str]]:
        """Methods in their order, those of the same maps together."""
        groups: list[list[int]] = []
        for place in range(len(self.verdict.standings)):
            known = next((group for group in groups if self._compared[1][group[0], place]), None)
            if known is None:
                groups.append([place])
            else:
                known.append(place)
        return [[self.verdict.standings[place].method for place in group] for group in groups]

    def title_of_group(self, group: Sequence[str]) -> str:
        """Return the title of the first method of a group, with the others in brackets."""
        first, *others = map(self.title, group)
        return f"{first} (also {', '.join(others)})" if others else first

    def nearest(self) -> dict[str, tuple[str, float]]:
        """Return method -> the method of the most similar other maps, and their mean rank correlation over inputs."""
        methods = [one.method for one in self.verdict.standings]
        others = np.where(self._compared[1] | np.eye(len(methods), dtype=bool), -1.0, self._compared[0])
        found = zip(methods, others.argmax(axis=1), others.max(axis=1), strict=True)
        return {name: (methods[other], float(value)) for name, other, value in found if value > 0}

    def __str__(self) -> str:
        return "\n".join([*self.answer(), *self.start()])

    @property
    def taken(self) -> str:
        """Name of the method that the answer names first; empty where none is recommended."""
        verdict = self.verdict
        taken = verdict.best if verdict.tested else verdict.standings[0]
        return taken.method if taken else ""

    def start(self) -> list[str]:
        """Return which baseline maps have instead of the default of their method, in a sentence."""
        if not self.started:
            return []
        names = enumeration(
            [self.title(one.method) for one in self.verdict.standings if one.method in self.started], _NAMED
        )
        return [
            "Where a method has a baseline, its maps here start from the values that replace removed features, and not "
            f"from its default: {names}."
        ]

    def answer(self) -> list[str]:
        """Return which method to use and why, in sentences, the most important first."""
        verdict = self.verdict
        leader, (baseline, floor) = verdict.standings[0], self._best_baseline()
        beside = f"{shown(leader.agreement)} on {count_of(verdict.inputs, 'input')}; {baseline} has {floor.value:.2f}"
        if not verdict.tested:
            return [
                f"A first look: {self.title(leader.method)} has the highest agreement with the network, {beside}.",
                *self._by_definition(),
                f"Nothing was tested: that takes {MIN_INPUTS} inputs on which removed {self.unit} change the score.",
            ]
        if verdict.best is None:
            return [
                "Rely on none of these maps: no method is shown to be better than maps without the network and than "
                "its own maps on shuffled weights and of another class.",
                f"The highest agreement is that of {self.title(leader.method)}, {beside}.",
                "More inputs may show a difference that these do not.",
            ]
        return [*self._recommendation(verdict.best, f"{baseline} has {floor.value:.2f}"), *self._warnings()]

    def _recommendation(self, best: Standing, beside: str) -> Iterator[str]:
        """Yield the best method, those that are as good, and the cheapest of them."""
        inputs = count_of(self.verdict.inputs, "input")
        yield (
            f"Take {self.title(best.method)}: its maps agree best with what the network does when {self.unit} are "
            f"removed, {shown(best.agreement)} on {inputs}, of at most 1; {beside}."
        )
        yield from self._by_definition()
        equal = [best, *self.verdict.as_good]
        if len(equal) > 1:
            yield f"As good on these inputs, as far as they can tell: {self._names(equal[1:])}."
        if near := self.verdict.near:
            below = f"Below {self.title(best.method)} by less than {SMALL}, which is significant but small"
            yield f"{below}: {self._names(near)}."
        yield from self._cheapest([*equal, *near])
        if incomplete := [one for one in equal if self.missed[one.method] > MUCH]:
            yield from self._incomplete(incomplete)

    def _incomplete(self, incomplete: Sequence[Standing]) -> Iterator[str]:
        """Yield the methods whose sums are missed, and instead of the best method one whose sums are not."""
        yield (
            "Not to be read as shares of the score, because the sum of a map misses what it must be by more than "
            f"{100 * MUCH:.0f} %: {self._names(incomplete)}."
        )
        above = (one for one in self.verdict.standings if one.recommended)
        complete = next((one for one in above if self.missed[one.method] <= MUCH), None)
        if complete and self.verdict.best in incomplete:
            title = self.title(complete.method)
            yield f"Of those that miss it by less, {title} agrees best: {shown(complete.agreement)}."

    def _names(self, standings: Sequence[Standing]) -> str:
        """Return the titles of some methods, those of the same maps together."""
        some = {one.method for one in standings}
        groups = ([name for name in group if name in some] for group in self.groups)
        return enumeration([self.title_of_group(group) for group in groups if group], _NAMED)

    def _cheapest(self, equal: Sequence[Standing]) -> Iterator[str]:
        """Yield the cheapest of the best method and others, where it is much cheaper."""
        best, *_ = equal
        cheapest = min(equal, key=lambda one: self.passes[one.method])
        few, many = self.passes[cheapest.method], self.passes[best.method]
        if few < many / 2:
            yield f"The cheapest of them is {self.title(cheapest.method)}, in passes of an input {few} to {many}."

    def _by_definition(self) -> Iterator[str]:
        """Yield how the score favors a method of the highest agreement that removes features or positions, too."""
        leader, *others = self.verdict.standings
        if leader.method == "occlusion" and self.unit == "features" and round(SUBSET * self.inputs.shape[1]) <= 1:
            yield (
                f"That is so by definition: of {self.inputs.shape[1]} features one is removed at a time, as in "
                "occlusion. What features do together was not measured."
            )
            if others:
                yield f"Of the others, {self.title(others[0].method)} agrees best: {shown(others[0].agreement)}."
        elif _removes(leader.method):
            yield f"It removes {self.unit} itself, and may gain by that: the score removes them, too."
            if other := next((one for one in others if not _removes(one.method)), None):
                yield f"Of the methods that do not, {self.title(other.method)} agrees best: {shown(other.agreement)}."

    def _warnings(self) -> Iterator[str]:
        """Yield which methods are not shown to use the network, its weights or the class."""
        for reference, text in (
            ("random_weights", "Not shown to depend on what the network has learned"),
            ("wrong_class", "Not shown to depend on the class"),
        ):
            yield from self._named(text, [one for one in self.verdict.standings if reference in one.unbeaten])
        alone = [one for one in self.verdict.standings if not one.recommended and not one.unbeaten]
        yield from self._named("Above each reference alone, but not after correction for the number of methods", alone)

    def _named(self, text: str, standings: Sequence[Standing]) -> Iterator[str]:
        names = enumeration((self.title(one.method) for one in standings), _NAMED)
        if standings:
            yield f"{text}: {names}{f' ({len(standings)} methods)' if len(standings) > _NAMED else ''}."

    def limits(self) -> list[str]:
        """Return what cannot be known without ground truth, in sentences."""
        texts = [
            "Agreement is measured by replacing positions by other values, such as a picture's mean color or a "
            "feature's mean over the inputs, which the network was not trained on. Another background may give another "
            "order (--background). Methods that remove positions themselves, such as occlusion and LIME, gain where "
            "their parts and values are like these.",
            "A map that agrees with the network may still be hard to read, and a network may be right for wrong "
            "reasons: the scores are about maps and network, not about the world.",
        ]
        if self.scores:
            texts.append(
                "The masks say where you expect a map to be, not what the network uses. Mass, IoU and pointing game do "
                "not change the advice."
            )
        return [*self.notes, *texts, *_measured_worth(bool(self.scores))]

    def _best_baseline(self) -> tuple[str, Estimate]:
        """Return the title and the agreement of the best map without the network."""
        name, found = max(self.verdict.baselines.items(), key=lambda item: np.nan_to_num(item[1].value, nan=-1.0))
        return f"the best map without the network ({self.title(name)})", found


def _removes(method: str) -> bool:
    known = known_method(method)
    return known is not None and known.family == "masks"


def _unit(values: np.ndarray) -> np.ndarray:
    """Return rows divided by their length; those of zeros, of a constant map, which resembles none, as they are."""
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(length > 0, length, 1)


def shown(found: Estimate) -> str:
    """Return a mean with its interval; of a single input, which has none, the mean alone."""
    value, low, high = (f"{round(each, 2) + 0.0:.2f}" for each in found[:3])  # no negative zero
    return f"{value} ({low} to {high})" if found.n > 1 else value


def _measured_worth(masks: bool) -> list[str]:
    """Return how well the same procedure, and masks, did where the truth is known; nothing where none was measured."""
    if not WORTH.is_file():
        return []
    found = json.loads(WORTH.read_text(encoding="utf-8"))
    by_masks = [
        f"The method of the largest mass on masks reached {100 * share:.0f} % of this way on {_TITLES[name]}, this "
        f"procedure {100 * found['by_benchmark'][name]['chosen']:.0f} %."
        for name, share in found["by_masks"].items()
    ]
    return [
        f"Where the truth is known, in {count_of(len(found['cases']), 'case')} of this project's benchmarks, the same "
        f"procedure reached {100 * found['chosen']:.0f} % of the way from an average method to the best one. Always "
        f"taking the method that is best on the other benchmarks reached {100 * found['fixed']:.0f} %. What the advice "
        "is worth for other networks and inputs is not known.",
        *([" ".join(by_masks)] if masks else []),
    ]
