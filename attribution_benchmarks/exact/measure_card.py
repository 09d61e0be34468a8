"""Check a metric's contract and measure its card, on networks whose truth is known.

Maps are exact ones, random ones, and changes of both. A score that no change of a kind alters, on any network, input
and map, is invariant here. Values of maps are multiples of a power of two, so that adding a constant and scaling are
exact in single precision: what differs is not rounding.
"""

from __future__ import annotations

import atexit
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
from attribution_benchmarks.metrics.cards import CHANGED, MIRRORED, SAME, UNDEFINED, Card
from attribution_benchmarks.metrics.in_domain import Deletions
from attribution_benchmarks.metrics.map_values import flat, ratio

NETWORKS = (
    "exact/linear", "exact/cancellation", "exact/trained_relu", "xai_units/gated_interaction",
    "xai_tris/linear_white", "xai_tris/multiplicative_correlated",
)  # fmt: skip
_INPUTS = 3  # of each network
_LEVELS = 64  # of a map's values; a power of two, and at least the number of positions of an image
_EQUAL = 1e-4  # of the spread of scores: rounding
_FINE = 100 / np.pi  # parts of the largest value of a map; no simple fraction of it is near the half of one

_Make = Callable[[np.ndarray], np.ndarray]  # (N, positions...) -> (N, positions...)


def _levelled(exact: np.ndarray) -> np.ndarray:
    """Return exact maps divided by their largest magnitude and rounded to ``_LEVELS`` levels of each sign."""
    largest = np.abs(exact).max(axis=tuple(range(1, exact.ndim)), keepdims=True)
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


def _permuted(values: np.ndarray) -> np.ndarray:
    order = np.random.default_rng(2).permutation(values[0].size)
    return flat(values)[:, order].reshape(values.shape)


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
    {"exact": lambda exact: exact, "random": _random, "constant": np.ones_like, "zero": np.zeros_like}
)  # kinds of maps that may have no score


class _Queries:
    """What a metric may query of a network: scores of inputs, and maps that ``make`` makes of the exact ones.

    See ``imputation.Explain``.
    """

    def __init__(self, network: KnownNetwork, scores: Callable[[Any], np.ndarray]):
        self.network, self.model, self._scores = network, network.model, scores
        self.make: _Make = _levelled
        self.used = False

    def scores(self, inputs: Any) -> np.ndarray:
        """Return the scores of inputs, (M, classes)."""
        self.used = True
        return np.asarray(self._scores(inputs))

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return the maps of a batch, (N, positions...) float64, of this model or another."""
        self.used = True
        return self.make(self.network.exact(batch, model))


class Trial:
    """A metric on one network; scores are remembered."""

    def __init__(self, metric: Metric, network: KnownNetwork):
        assert metric.measure is not None
        self.metric, self.measure, self.network = metric, metric.measure, network
        explains = self.measure.needs_explainer
        self.queries = _Queries(network, network.model.scores if explains else network.scores)
        given = network.batch if explains else network.of_classes
        seeds = [f"{key} card" for key in given.truth["key"]]
        self.batch = dataclasses.replace(given, seeds=seeds, truth=_Truth(given.truth, self.queries))
        self._found: dict[_Make, np.ndarray] = {}

    def maps(self, make: _Make) -> np.ndarray:
        """Return the maps of the inputs that a function makes of the exact ones, (N, positions...)."""
        return make(self.network.exact(self.network.batch))

    def scores(self, make: _Make) -> np.ndarray:
        """Return the scores of maps that a function makes of the exact ones, (N,) float64; NaN for those refused.

        Raises ``BadInput`` if the first maps are refused.
        """
        if make not in self._found:
            try:
                self._found[make] = self.of(make, self.maps(make), self.batch)
            except BadInput:
                if not self._found:
                    raise
                self._found[make] = np.full(len(self.batch), np.nan)
        return self._found[make]

    def of(self, make: _Make, maps: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the scores of some of the maps that a function makes, (N,) float64."""
        if self.measure.check is not None:
            self.measure.check(self.network.model)
        self.queries.make = make
        queries = self.queries if self.measure.needs_explainer else self.queries.scores
        return self.measure.compute(maps, batch, queries)[:, 0]


class _Truth(dict):
    """The truth about inputs; reading the exact maps is a query."""

    def __init__(self, values: Mapping[str, Any], queries: _Queries):
        super().__init__(values)
        self.queries = queries

    def __getitem__(self, name: str) -> Any:
        self.queries.used |= name == "shapley"
        return super().__getitem__(name)


@functools.cache
def trial_networks() -> tuple[KnownNetwork, ...]:
    """Return the networks of trials; their SavedModels declare deletions, on which they are right by construction."""
    found = {network.name: network for network in known_networks(_INPUTS) if network.name in NETWORKS}
    folder, declared = tempfile.mkdtemp(), {}
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for network in found.values():
        path = str(network.model.path)
        if path not in declared:
            copy = pathlib.Path(shutil.copytree(path, pathlib.Path(folder, str(len(declared)))))
            parts = (4, 4) if network.group == "images" else (network.batch.pictures.shape[1],)
            Deletions(parts, 0.0).save(find_saved_model(copy))
            declared[path] = attribution.load_model(copy)
    return tuple(dataclasses.replace(found[name], model=declared[str(found[name].model.path)]) for name in NETWORKS)


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
    effects = {name: _effect(trials, bases, changes) for name, (_, changes) in CHANGES.items()}
    return Card(
        better=metric.better,
        inputs=list(dict.fromkeys(trial.network.group for trial in trials)),
        changes={name: effect for name, (effect, _) in effects.items()},
        undefined=[
            *(name for name, (_, lost) in effects.items() if lost),
            *(name for name, make in _MAPS.items() if not np.isfinite(_joined(trials, make)).any()),
        ],
        varies=_spread(bases) > 0,
        queries=any(trial.queries.used for trial in trials),
        masks=metric.masks,
    )


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


def _joined(trials: Sequence[Trial], make: _Make) -> np.ndarray:
    return np.concatenate([trial.scores(make) for trial in trials])


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


def _faults(trial: Trial) -> Iterator[tuple[str, str]]:
    """Yield the name of each of ``CHECKS``, and how the metric breaks it; empty if it does not."""
    try:
        values = trial.scores(_random)
    except BadInput as error:
        if "must return numbers" not in str(error):
            raise
        yield "returns_numbers", str(error)
        return
    usable = np.isfinite(values).any() and not np.isinf(values).any()
    yield "returns_numbers", "" if usable else "scores of random maps are infinite, or all NaN"
    maps, batch = trial.maps(_random), dataclasses.replace(trial.batch)  # another object: nothing is remembered
    given = {"maps": maps, "inputs": batch.pictures, **batch.masks}
    before = {name: array.copy() for name, array in given.items()}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        again = trial.of(_random, maps, batch)
    same = np.array_equal(again, values, equal_nan=True)
    yield "same_seed_same_numbers", "" if same else "a second call gave other numbers; seed them by batch.seeds alone"
    changed = [name for name, array in given.items() if not np.array_equal(array, before[name])]
    yield "writes_nothing", f"it changes {listed(changed)}, which other metrics read: copy first" if changed else ""
    text = printed.getvalue()
    yield "prints_nothing", f"it prints {shortened(text, 100)!r}, between the results" if text else ""
    maps, reverse = trial.maps(_random), list(range(len(maps)))[::-1]
    found = [(rows, trial.of(_random, maps[rows], batch.take(rows))) for rows in (*([row] for row in reverse), reverse)]
    alone = all(np.allclose(each, values[rows], rtol=1e-4, atol=1e-6, equal_nan=True) for rows, each in found)
    yield (
        "row_independence",
        "" if alone else "scores of inputs alone or in reverse differ; does it normalize over them?",
    )
    if trial.metric.bounds is not None:
        low, high = trial.metric.bounds
        every = np.concatenate([trial.scores(make) for make in (*BASES.values(), *_MAPS.values())])
        least, most = np.nanmin(every), np.nanmax(every)
        inside = low - 1e-6 <= least and most <= high + 1e-6
        yield "within_bounds", "" if inside else f"scores from {least:.3g} to {most:.3g}, outside {low:g} to {high:g}"


CHECKS = (
    "returns_numbers", "same_seed_same_numbers", "writes_nothing", "prints_nothing", "row_independence",
    "within_bounds",
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
    if unknown := sorted({*allow} - {*CHECKS}):
        raise BadInput(f"no check '{unknown[0]}'; the checks are {listed(CHECKS)}")
    trials = [Trial(metric, network) for network in trial_networks()]
    findings = [finding for trial in trials for finding in _found(trial, allow)]
    if all(finding.outcome == REFUSED for finding in findings):
        findings = [dataclasses.replace(finding, outcome=FAILED) for finding in findings]
    if any(finding.outcome == FAILED for finding in findings):
        return findings, None
    return findings, _card(trials, metric)


def _found(trial: Trial, allow: Sequence[str]) -> Iterator[Finding]:
    on, name = trial.network.name, CHECKS[0]
    try:
        for name, fault in _faults(trial):
            yield Finding(name, on, ("allowed" if name in allow else FAILED) if fault else PASSED, fault)
            if fault and name == CHECKS[0]:  # the other checks need numbers
                return
    except BadInput as error:
        yield Finding(name, on, REFUSED, shortened(error, 200))
    except Exception as error:  # any exception breaks the contract
        yield Finding(name, on, FAILED, described(error, 200))
