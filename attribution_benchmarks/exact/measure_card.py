"""Check a metric's contract and measure its card, on networks whose truth is known.

Maps are exact ones, random ones, and changes of both. A score that no change of a kind alters, on any network, input
and map, is invariant here. Values of maps are multiples of a power of two, so that adding a constant and scaling are
exact in single precision: what differs is not rounding.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import pathlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

import attribution
from attribution.check_method import FAILED, PASSED, REFUSED, Finding
from attribution.errors import BadInput, described, listed, shortened
from attribution.savedmodel.paths import find_saved_model
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.exact.known_networks import KnownNetwork, known_networks
from attribution_benchmarks.metrics import cards
from attribution_benchmarks.metrics.cards import CHANGED, MIRRORED, SAME, UNDEFINED, Card
from attribution_benchmarks.metrics.in_domain import Deletions
from attribution_benchmarks.metrics.map_values import flat, ratio

NETWORKS = (
    "exact/linear", "exact/cancellation", "exact/trained_relu", "xai_units/gated_interaction",
    "xai_tris/linear_white", "xai_tris/multiplicative_correlated",
)  # fmt: skip
_INPUTS = 3  # of each network
_LEVELS = 64  # of a map's values; a power of two, and at least the number of positions of an image
_TIE = 2.0**-20  # what breaks ties: less than a level, exact in single precision
_EQUAL = 1e-4  # of the spread of scores: rounding
_NEAR = 1e-3  # the same for ``_TIE``, which moves values, too
_FINE = 100 / np.pi  # parts of the largest value of a map; no simple fraction of it is near the half of one
_SMOOTHING = 1.5  # standard deviation, in positions

_Make = Callable[[np.ndarray], np.ndarray]  # (N, positions...) -> (N, positions...)


def _rows(values: np.ndarray, each: np.ndarray) -> np.ndarray:
    """Return numbers of rows, (N,), to broadcast over (N, positions...)."""
    return each.reshape((-1,) + (1,) * (values.ndim - 1))


def _levelled(exact: np.ndarray) -> np.ndarray:
    """Return exact maps divided by their largest magnitude and rounded to ``_LEVELS`` levels of each sign."""
    largest = _rows(exact, np.abs(flat(exact)).max(axis=1))
    return np.asarray(np.round(ratio(exact, np.broadcast_to(largest, exact.shape), 0.0) * _LEVELS) / _LEVELS)


def _seed_of(values: np.ndarray) -> int:
    """Return a number of a map: the same on processors that round it in another way."""
    largest = np.abs(values).max() or 1.0
    return zlib.crc32(np.round(values / largest * _FINE).astype(np.int64).tobytes())


def _positive(exact: np.ndarray) -> np.ndarray:
    """Return maps of distinct positive levels in random order, which depends on the exact map."""
    count = exact[0].size
    drawn = [np.random.default_rng(_seed_of(one)).permutation(count) + 1 for one in exact]
    return np.reshape(drawn, exact.shape) / _LEVELS


def _random(exact: np.ndarray) -> np.ndarray:
    """Return ``_positive`` with random signs."""
    drawn = [np.random.default_rng([1, _seed_of(one)]).random(one.shape) < 0.5 for one in exact]
    return np.where(drawn, 1.0, -1.0) * _positive(exact)


def _tied(exact: np.ndarray) -> np.ndarray:
    """Return ``_random`` with values of four levels, each at many positions."""
    return np.asarray(np.sign(_random(exact)) * np.ceil(np.abs(_random(exact)) * 4) / 4)


def _untied(exact: np.ndarray, sign: int) -> np.ndarray:
    places = np.arange(exact[0].size).reshape(exact.shape[1:])
    return _tied(exact) + sign * _TIE * places


def _permuted(values: np.ndarray) -> np.ndarray:
    order = np.random.default_rng(2).permutation(values[0].size)
    return flat(values)[:, order].reshape(values.shape)


def _smoothed(exact: np.ndarray) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(exact, (0, *[_SMOOTHING] * (exact.ndim - 1))))


BASES: Mapping[str, _Make] = MappingProxyType(
    {"exact": _levelled, "random": _random, "positive": _positive, "negative": lambda exact: -_positive(exact)}
)
CHANGES: Mapping[str, tuple[str, tuple[_Make, ...]]] = MappingProxyType(
    {  # name -> description, changes of a map of levels
        "offset": ("a constant added", (lambda v: v + 0.25, lambda v: v + 2, lambda v: v - 2)),
        "scale": ("multiplied by a positive number", (lambda v: 0.25 * v, lambda v: 8 * v)),
        "negated": ("multiplied by a negative number", (lambda v: -v,)),
        "odd_power": ("magnitudes changed in the same order, signs kept", (lambda v: v**3, lambda v: np.cbrt(v))),
        "monotone": ("values changed in the same order", (lambda v: np.exp(2 * v), lambda v: np.exp(v) - 4)),
        "absolute": ("absolute values", (np.abs,)),
        "positive_part": ("negative values set to zero", (lambda v: np.maximum(v, 0),)),
        "permuted": ("values at other positions", (_permuted,)),
    }
)
_MAPS: Mapping[str, _Make] = MappingProxyType(
    {  # of which the score's range is measured, and how often they score as well as the exact map
        "exact": lambda exact: exact,
        "random": _random,
        "constant": np.ones_like,
        "zero": np.zeros_like,
        "smoothed": _smoothed,
        "absolute": np.abs,
    }
)
_RANGED = ("exact", "random", "constant", "zero")


class _Explained:
    """Explains by a function of the exact map; see ``imputation.Explain``."""

    def __init__(self, network: KnownNetwork, make: _Make, scores: Any = None):
        self.network, self.make, self.model = network, make, network.model
        self.scores = scores or network.model.scores

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return the maps of a batch, (N, positions...) float64, of this model or another."""
        return self.make(self.network.exact(batch, model))


class _Counted:
    """Counts what a metric queries: scores of inputs, and explanations."""

    def __init__(self, network: KnownNetwork, explain: Any):
        self.network, self.explain, self.model = network, explain, network.model
        self.passes, self.explanations = 0, 0

    def passes_of_classes(self, inputs: Any) -> np.ndarray:
        self.passes += len(inputs)
        return self.network.scores(inputs)

    def scores(self, inputs: Any) -> np.ndarray:
        self.passes += len(inputs)
        return np.asarray(self.explain.scores(inputs))

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        self.explanations += len(batch)
        return np.asarray(self.explain(batch, model))


class Trial:
    """A metric on one network; scores are remembered."""

    def __init__(self, metric: Metric, network: KnownNetwork):
        assert metric.measure is not None
        self.metric, self.measure, self.network = metric, metric.measure, network
        self._batches: dict[object, Batch] = {}
        self._found: dict[tuple, np.ndarray] = {}

    def batch(self, seed: object = "card") -> Batch:
        """Return the network's inputs, with names that depend on a seed: the metric's random numbers depend on them."""
        if seed not in self._batches:
            batch = self.network.batch if self.measure.needs_explainer else self.network.of_classes
            seeds = [f"{key} {seed}" for key in batch.truth["key"]]
            self._batches[seed] = dataclasses.replace(batch, seeds=seeds)
        return self._batches[seed]

    def scores(self, make: _Make, seed: object = "card") -> np.ndarray:
        """Return the scores of maps that a function makes of the exact ones, (N,) float64; NaN for those refused.

        Raises ``BadInput`` if the first maps are refused.
        """
        if (make, seed) not in self._found:
            explained = _Explained(self.network, make)
            try:
                self._found[make, seed] = self.of(explained(self.network.batch), self.batch(seed), explained)
            except BadInput:
                if not self._found:
                    raise
                self._found[make, seed] = np.full(len(self.network.batch), np.nan)
        return self._found[make, seed]

    def of(self, maps: np.ndarray, batch: Batch, explained: Any) -> np.ndarray:
        """Return the scores of maps, (N,) float64."""
        queries = explained if self.measure.needs_explainer else self.network.scores
        if self.measure.check is not None:
            self.measure.check(self.network.model)
        return self.measure.compute(maps, batch, queries)[:, 0]

    def cost(self) -> tuple[float, float, float]:
        """Return passes of a first map of each input, of a second one, and further maps of the first."""
        batch, explained = self.batch("cost"), [_Explained(self.network, make) for make in (_random, _positive)]
        counted = _Counted(self.network, explained[0])
        queries = counted if self.measure.needs_explainer else counted.passes_of_classes
        found = []
        for one in explained:
            counted.passes, counted.explain = 0, one
            self.measure.compute(one(self.network.batch), batch, queries)
            found.append(counted.passes / len(batch))
        return found[0], found[1], counted.explanations / len(batch) / 2

    def reads_truth(self) -> bool:
        """Return whether it reads the exact maps."""
        batch, explained = self.batch("truth"), _Explained(self.network, _random)
        watched = _Watched(batch.truth)
        self.of(explained(self.network.batch), dataclasses.replace(batch, truth=watched), explained)
        return "shapley" in watched.read

    def removed(self) -> tuple[str, bool]:
        """Return what replaces removed positions, and whether another value changes the score; see ``Card``."""
        kind, changes = "", False
        for row, make in ((row, make) for row in range(len(self.network.batch)) for make in BASES.values()):
            one = dataclasses.replace(self.network, batch=self.network.batch.take([row]))
            watched = [_Replaced(one, self.measure.needs_explainer, replace) for replace in (False, True)]
            batch = self.batch().take([row])
            maps, values = _Explained(one, make)(one.batch), []
            for scores in watched:
                queries = _Explained(one, make, scores) if self.measure.needs_explainer else scores
                with contextlib.suppress(BadInput):
                    values.append(self.measure.compute(maps, batch, queries)[:, 0])
            if len(values) < len(watched):
                continue
            kind = watched[0].kind or kind
            changes = changes or not np.allclose(values[0], values[1], rtol=_EQUAL, atol=1e-9, equal_nan=True)
        return kind, changes


class _Watched(dict):
    """A mapping that notes which of its values are read."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class _Replaced:
    """Scores of one input; notes what its removed positions get, and replaces that."""

    def __init__(self, network: KnownNetwork, all_outputs: bool, replace: bool):
        self.original, self.replace, self.kind = network.batch.pictures, replace, ""
        self._of_network = network.model.scores if all_outputs else network.scores

    def __call__(self, inputs: Any) -> np.ndarray:
        inputs = np.asarray(inputs)
        axes = tuple(range(1, inputs.ndim))
        gone = inputs != self.original
        constant = np.ptp(inputs, axis=axes) == 0
        removal = gone.any(axis=axes) & (~gone.all(axis=axes) | constant)
        gone &= _rows(inputs, removal)
        if not gone.any():
            return np.asarray(self._of_network(inputs))
        self.kind = self._kind_of(inputs[gone])
        other = self.original.max() if self.kind == "zero" else 0
        return np.asarray(self._of_network(np.where(gone & self.replace, other, inputs).astype(inputs.dtype)))

    def _kind_of(self, values: np.ndarray) -> str:
        known = {"zero": 0.0, "mean": self.original.mean(), "minimum": self.original.min()}
        span = np.ptp(self.original)
        return next((kind for kind, value in known.items() if np.abs(values - value).max() <= 1e-5 * span), "other")


@functools.cache
def trial_networks() -> tuple[KnownNetwork, ...]:
    """Return the networks of trials; their SavedModels declare deletions, on which they are right by construction."""
    found = {network.name: network for network in known_networks(_INPUTS) if network.name in NETWORKS}
    declared: dict[str, Any] = {}
    for network in found.values():
        path = str(network.model.path)
        if path not in declared:
            copy = pathlib.Path(_folder().name) / str(len(declared))
            shutil.copytree(path, copy)
            parts = (4, 4) if network.group == "images" else (network.batch.pictures.shape[1],)
            Deletions(parts, 0.0).save(find_saved_model(copy))
            declared[path] = attribution.load_model(copy)
    models = {name: declared[str(network.model.path)] for name, network in found.items()}
    return tuple(dataclasses.replace(found[name], model=models[name]) for name in NETWORKS)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()  # removed when Python ends


def measure_card(metric: Metric) -> Card:
    """Return the card of a metric with a function of maps, on ``NETWORKS``.

    Raises ``BadInput`` if it is defined on none of the networks.
    """
    return _card([Trial(metric, network) for network in trial_networks()], metric)


def _card(trials: Sequence[Trial], metric: Metric) -> Card:
    trials, refusals = _defined(trials)
    if not trials:
        raise BadInput(f"the metric '{metric.name}' has no score on any network: {refusals[0]}")
    bases = {name: _joined(trials, make) for name, make in BASES.items()}
    ranges = _ranges(trials)
    spread = _spread(bases)
    effects = {name: _effect(trials, bases, changes) for name, (_, changes) in CHANGES.items()}
    return Card(
        better=metric.better,
        changes={name: effect for name, (effect, _) in effects.items()},
        undefined=[
            *(name for name, (_, lost) in effects.items() if lost),
            *(name for name, ends in ranges.items() if ends is None),
        ],
        varies=spread > 0,
        ties=_ties(trials, spread),
        noise=_noise(trials, bases),
        ranges=ranges,
        as_good=_as_good(trials, metric, spread),
        masks=metric.masks,
        truth=any(trial.reads_truth() for trial in trials),
        **_removal(trials),
        **_costs(trials),
    )


def _ranges(trials: Sequence[Trial]) -> dict[str, list[float] | None]:
    """Return the lowest and highest score of each kind of maps, None where none has a score."""
    found = {name: _joined(trials, _MAPS[name]) for name in _RANGED}
    known = {name: values[np.isfinite(values)] for name, values in found.items()}
    return {name: [float(values.min()), float(values.max())] if len(values) else None for name, values in known.items()}


def _as_good(trials: Sequence[Trial], metric: Metric, spread: float) -> dict[str, float]:
    """Return the share of maps of each kind that score at least as well as the exact map, where any have scores."""
    maps = {name: _joined(trials, make) for name, make in _MAPS.items()}
    on_images = np.concatenate([np.full(len(trial.network.batch), trial.network.group == "images") for trial in trials])
    maps["smoothed"] = np.where(on_images, maps["smoothed"], np.nan)  # the features of a vector have no order
    exact = maps.pop("exact")
    sign = 1 if metric.better == "more" else -1
    found = {}
    for name, values in maps.items():
        known = np.isfinite(values + exact)
        if known.any():
            found[name] = float((sign * values >= sign * exact - _EQUAL * spread)[known].mean())
    return found


def _removal(trials: Sequence[Trial]) -> dict[str, Any]:
    removed = [trial.removed() for trial in trials]
    return {
        "removed": next((kind for kind, _ in removed if kind), ""),
        "baseline": any(changes for _, changes in removed),
    }


def _costs(trials: Sequence[Trial]) -> dict[str, Any]:
    costs = {trial.network.group: trial.cost() for trial in trials}
    return {
        "inputs": list(costs),
        "passes": {name: first for name, (first, _, _) in costs.items()},
        "shared": all(second == 0 for _, second, _ in costs.values()),
        "explanations": max(further for *_, further in costs.values()),
    }


def _defined(trials: Sequence[Trial]) -> tuple[list[Trial], list[str]]:
    """Return the trials on which the metric has scores that differ, or else scores; and the reasons of the others."""
    found, refusals = [], []
    for trial in trials:
        try:
            if np.isfinite(trial.scores(_random)).any():
                found.append(trial)
            else:
                refusals.append("all are NaN")
        except BadInput as error:
            refusals.append(shortened(error, 200))
    varying = [trial for trial in found if _spread({name: trial.scores(make) for name, make in BASES.items()})]
    return varying or found, refusals


def _joined(trials: Sequence[Trial], make: _Make, seed: object = "card") -> np.ndarray:
    return np.concatenate([trial.scores(make, seed) for trial in trials])


def _spread(bases: Mapping[str, np.ndarray]) -> float:
    """Return the mean difference between the scores of two maps of an input."""
    values = list(bases.values())
    pairs = [np.abs(first - second) for place, first in enumerate(values) for second in values[:place]]
    known = np.concatenate(pairs)[np.isfinite(np.concatenate(pairs))]
    return float(known.mean()) if len(known) else 0.0


def _effect(trials: Sequence[Trial], bases: Mapping[str, np.ndarray], changes: Sequence[_Make]) -> tuple[str, bool]:
    """Return what some changes of maps do to their scores, and whether some lose their score."""
    before = np.concatenate([bases[name] for name in BASES for _ in changes])
    after = np.concatenate([_joined(trials, _composed(base, change)) for base in BASES.values() for change in changes])
    known = np.isfinite(before) & np.isfinite(after)
    lost = bool((np.isfinite(before) & ~known).any())
    if not known.any():
        return UNDEFINED, lost
    before, after, unit = before[known], after[known], _EQUAL * (_spread(bases) or 1.0)
    if _close(before, after, unit):
        return SAME, lost
    mirrored = _close(-before, after, unit) or _close(1 - before, after, unit)
    return MIRRORED if mirrored else CHANGED, lost


@functools.cache
def _composed(base: _Make, change: _Make) -> _Make:
    return lambda exact: change(base(exact))


def _close(before: np.ndarray, after: np.ndarray, unit: float) -> bool:
    return bool(np.allclose(before, after, rtol=1e-6, atol=unit, equal_nan=True))


def _ties(trials: Sequence[Trial], spread: float) -> str:
    """Return what decides between equal values; see ``Card``."""
    first, last = (functools.partial(_untied, sign=sign) for sign in (-1, 1))
    tied, by_first, by_last = (_joined(trials, make) for make in (_tied, first, last))
    unit = _NEAR * (spread or 1.0)
    if _close(tied, by_first, unit) and _close(tied, by_last, unit):
        return cards.NO_EFFECT
    if any(_close(tied, ordered, unit) for ordered in (by_first, by_last)):
        return cards.BY_PLACE
    return cards.BY_RULE if _close(tied, _joined(trials, _tied, "again"), unit) else cards.AT_RANDOM


def _noise(trials: Sequence[Trial], bases: Mapping[str, np.ndarray]) -> float:
    """Return the mean difference between two runs, as a share of that between maps; 0 without random numbers."""
    moved = [np.abs(_joined(trials, make, "again") - bases[name]) for name, make in BASES.items()]
    # Exact maps have equal values, whose order may be random: that is no noise of the metric.
    known = np.concatenate(moved[1:])[np.isfinite(np.concatenate(moved[1:]))]
    spread = _spread(bases)
    return float(known.mean() / spread) if spread and known.any() and known.mean() > _EQUAL * spread else 0.0


class _Failed(Exception):
    """The metric breaks the contract."""


def _returns_numbers(trial: Trial) -> str:
    """Check that it runs and returns one number for each map, not all undefined."""
    try:
        values = trial.scores(_random)
    except BadInput as error:
        if "must return numbers" in str(error):
            raise _Failed(str(error)) from error
        raise
    if not np.isfinite(values).any():
        raise _Failed("every score of a random map is NaN or infinite")
    if np.isinf(values).any():
        raise _Failed("it returns infinite numbers; NaN is a map without a score")
    return f"{values.min():.3g} to {values.max():.3g} for random maps"


def _same_seed_same_numbers(trial: Trial) -> str:
    """Check that a second call gives the same numbers."""
    explained = _Explained(trial.network, _random)
    batch = dataclasses.replace(trial.batch())  # another object: nothing is remembered
    if not np.array_equal(
        trial.of(explained(trial.network.batch), batch, explained), trial.scores(_random), equal_nan=True
    ):
        raise _Failed("a second call gave other numbers; seed random numbers by batch.seeds alone")
    return "a second call gives the same numbers"


def _row_independence(trial: Trial) -> str:
    """Check that a score does not depend on the other inputs of a batch."""
    count, whole = len(trial.network.batch), trial.scores(_random)
    explained = _Explained(trial.network, _random)
    order = list(range(count))[::-1]
    maps = explained(trial.network.batch)
    alone = [trial.of(maps[[row]], trial.batch().take([row]), explained)[0] for row in range(count)]
    reverse = trial.of(maps[order], trial.batch().take(order), explained)[order]
    for values, words in ((np.array(alone), "alone"), (reverse, "in reverse order")):
        if not np.allclose(values, whole, rtol=1e-4, atol=1e-6, equal_nan=True):
            raise _Failed(f"scores of inputs {words} differ; does it normalize over the batch?")
    return "a score does not depend on the other inputs"


def _writes_nothing(trial: Trial) -> str:
    """Check that it leaves maps and inputs as they are."""
    explained, batch = _Explained(trial.network, _random), trial.batch("writes")
    maps = explained(trial.network.batch)
    given = {"maps": maps, "inputs": batch.pictures, "masks": next(iter(batch.masks.values()), np.zeros(0))}
    before = {name: array.copy() for name, array in given.items()}
    trial.of(maps, batch, explained)
    changed = [name for name, array in given.items() if not np.array_equal(array, before[name])]
    if changed:
        raise _Failed(f"it changes {listed(changed)}, which other metrics read: copy first")
    return "maps and inputs are as before"


def _prints_nothing(trial: Trial) -> str:
    """Check that it prints nothing on standard output."""
    printed, explained = io.StringIO(), _Explained(trial.network, _random)
    with contextlib.redirect_stdout(printed):
        trial.of(explained(trial.network.batch), trial.batch("prints"), explained)
    if printed.getvalue():
        raise _Failed(f"it prints {shortened(printed.getvalue(), 100)!r}, which would end up between the results")
    return "nothing on standard output"


def _within_bounds(trial: Trial) -> str:
    """Check that scores lie within the declared bounds."""
    if trial.metric.bounds is None:
        return "it declares no bounds"
    low, high = trial.metric.bounds
    values = np.concatenate([trial.scores(make) for make in (*BASES.values(), *_MAPS.values())])
    values = values[np.isfinite(values)]
    if (values < low - 1e-6).any() or (values > high + 1e-6).any():
        raise _Failed(f"scores from {values.min():.3g} to {values.max():.3g}, outside its bounds {low:g} to {high:g}")
    return f"all between {low:g} and {high:g}"


CHECKS: Mapping[str, Callable[[Trial], str]] = MappingProxyType(
    {
        check.__name__.removeprefix("_"): check
        for check in (
            _returns_numbers, _same_seed_same_numbers, _row_independence, _writes_nothing, _prints_nothing,
            _within_bounds,
        )
    }
)  # fmt: skip


def check_metric(metric: Metric, allow: Sequence[str] = ()) -> tuple[list[Finding], Card | None]:
    """Check a metric's contract, and return what was found with its card; None where a check fails.

    Parameters
    ----------
    metric
        With a function of maps (``measure``).
    allow
        Names of ``CHECKS`` that may fail.

    Returns
    -------
    findings
        One for each check and network. "refused" is a network for which the metric raises ``BadInput``; that all are
        refused is a failure.
    card
        None where a check has failed.

    Raises
    ------
    BadInput
        If the metric has no function of maps, or ``allow`` names no check.
    """
    if metric.measure is None:
        raise BadInput(f"the metric '{metric.name}' has no measure, so it has no score of a map")
    if unknown := sorted(set(allow) - CHECKS.keys()):
        raise BadInput(f"no check '{unknown[0]}'; the checks are {listed(CHECKS)}")
    trials = [Trial(metric, network) for network in trial_networks()]
    findings = [finding for trial in trials for finding in _found(trial, allow)]
    if all(finding.outcome == REFUSED for finding in findings):
        findings = [dataclasses.replace(finding, outcome=FAILED) for finding in findings]
    if any(finding.outcome == FAILED for finding in findings):
        return findings, None
    return findings, _card(trials, metric)


def _found(trial: Trial, allow: Sequence[str]) -> Iterator[Finding]:
    on = trial.network.name
    for name, check in CHECKS.items():
        try:
            yield Finding(name, on, PASSED, check(trial))
        except _Failed as failure:
            yield Finding(name, on, "allowed" if name in allow else FAILED, str(failure))
            if name == "returns_numbers":  # the other checks need numbers
                return
        except BadInput as error:
            yield Finding(name, on, REFUSED, shortened(error, 200))
            return
        except Exception as error:  # any exception breaks the contract
            yield Finding(name, on, FAILED, described(error, 200))
            return
