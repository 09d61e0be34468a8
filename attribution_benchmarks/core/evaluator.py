"""Explain inputs batch by batch, measure the maps, store the numbers and drop the maps.

A batch whose numbers are all in the store is not even read. Each batch is stored when it is done, so a run that was
killed resumes there.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core import manifest, work
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.fingerprint import Code, definition_of
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore, Series


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What is explained: the inputs of an evaluator.

    Attributes
    ----------
    name
        Unique among the evaluators of a command.
    items
        All of them, as integers or strings; may be empty in a worker.
    batch_size
        Inputs in one pass.
    batches
        ``batches(items, batch_size)`` yields some of them in batches.
    """

    name: str
    items: Sequence[Any]
    batch_size: int
    batches: Callable[[Sequence[Any], int], Iterable[LazyBatch]]


@dataclasses.dataclass(frozen=True)
class PredictionFilter:
    """A query of the model that decides which inputs are explained; its answers are stored like scores."""

    name: str  # in the keys of the store
    query: Callable[[Batch], Sequence[Any]]  # returns N records of plain JSON, such as predicted classes
    # ``judge(records, lazy_batch)`` returns which inputs count, (N,) bool, and the classes to explain, (N,) int; None
    # for the batch's targets.
    judge: Callable[[Sequence[Any], LazyBatch], tuple[np.ndarray, np.ndarray | None]]


class Evaluator:
    """Explains and measures the inputs of a benchmark on one model; implements ``core.work.Work``, work in blocks.

    A block holds whole batches, so its numbers equal those of a run in one process.

    Parameters
    ----------
    explainer
        Makes maps: ``explainer.Explainer``, or ``explainer.SavedMaps`` for precomputed maps.
    measures
        What is stored of each map.
    key
        What scores depend on besides method, code and input: benchmark, model, data.
    code
        Functions that read and prepare the inputs; stored scores of other code are not used.
    store
        Where numbers are stored; in memory where maps or custom code may change without a trace.
    prediction_filter
        Which inputs are explained; None for all, each for its target.
    maps_directory
        Where the maps of methods are saved, those of controls not; None saves none.
    inputs
        What ``evaluate`` explains; None for ``run`` alone.

    Attributes
    ----------
    unsaved : str
        Why numbers of custom code are not stored; empty where all are.
    """

    unsaved = ""

    def __init__(
        self,
        explainer: Any,
        measures: Sequence[PerSampleMetric],
        key: Mapping[str, Any],
        code: Sequence[Callable[..., Any]] = (),
        store: ScoreStore | None = None,
        prediction_filter: PredictionFilter | None = None,
        maps_directory: Any = None,
        inputs: Inputs | None = None,
    ):
        self.inputs = inputs or Inputs("", (), 1, lambda items, batch_size: ())
        self.explainer, self.prediction_filter, self.maps_directory = explainer, prediction_filter, maps_directory
        self.store = store if store and explainer.lasting else ScoreStore(None)
        self._is_stored = self.store.directory is not None
        self._memory = ScoreStore(None)
        self._settings = manifest.settings()
        for measure in measures:
            if measure.check:
                measure.check(getattr(explainer, "model", None))
        self.measures = tuple(measures)
        self._measured = {
            measure.name: Code.of(measure.name, measure.function, measure.described) for measure in measures
        }
        choosing = [prediction_filter.query, prediction_filter.judge] if prediction_filter else []
        name = str(key.get("benchmark", ""))
        self._prepared = Code.of(name, [*code, *map(definition_of, choosing)], reads_data=True)
        if self._prepared.why_not_stored:
            self.store = self._memory
        options = getattr(getattr(explainer, "model", None), "options", {})
        versions = manifest.versions()
        prepared = {**key, "options": options, "versions": versions, "prepared": self._prepared.digest}
        self._series: dict[tuple[MapSource, str], Series] = {}
        self._prepared_key = work.digest_of(prepared)
        self._map_keys = {source: self._key_of_maps(source) for source in filter(self._saves, explainer.sources)}
        for source in explainer.sources:
            self._open_series(source, {**prepared, **explainer.key(source)})
        self.predictions: Series | None = None  # where the records of the filter are stored
        if prediction_filter:
            self.predictions = self.store.series(**prepared, predictions=prediction_filter.name)

    def _open_series(self, source: MapSource, key: Mapping[str, Any]) -> None:
        """Open where the numbers of a source are stored, for each measure that applies to it."""
        for measure in filter(lambda each: each.applies_to(source), self.measures):
            measured = self._measured[measure.name]
            codes = [self._prepared, *self.explainer.codes(source), measured]
            unsaved = next((code for code in codes if code.why_not_stored), None)
            if unsaved:
                manifest.note_unidentified(unsaved.name, unsaved.why_not_stored, aloud=self._is_stored)
                self.unsaved = self.unsaved or f"'{unsaved.name}': {unsaved.why_not_stored}"
            store = self._memory if unsaved else self.store
            self._series[source, measure.name] = store.series(**key, measure=[measure.name, measured.digest])

    def _key_of_maps(self, source: MapSource) -> str:
        """Return the key of a method's saved maps; of code without a fingerprint one that no other run has."""
        if any(code.why_not_stored for code in self.explainer.codes(source)):
            return secrets.token_hex(16)
        return work.digest_of([self.explainer.key(source), manifest.versions()])

    def _key_of_map(self, source: MapSource, name: str) -> tuple[str, str]:
        """Return the keys of an input's saved map: of its method, and of everything else."""
        return self._map_keys[source], work.digest_of([self._prepared_key, name])

    def series(self, source: MapSource, measure: PerSampleMetric) -> Series:
        """Return where the numbers of a source by a measure are stored."""
        return self._series[source, measure.name]

    def series_by_name(self) -> dict[str, Series]:
        """Return all series, the predictions first, by names that depend on everything their records depend on."""
        series = [*([self.predictions] if self.predictions is not None else []), *self._series.values()]
        return {one.name: one for one in series}

    def with_store(self, store: ScoreStore) -> Evaluator:
        """Return the same evaluator with another store."""
        other = copy.copy(self)
        other.store = store
        other._series = {place: store.series(**series.key) for place, series in self._series.items()}
        if self.predictions is not None:
            other.predictions = store.series(**self.predictions.key)
        return other

    def is_complete(self, part: LazyBatch) -> bool:
        """Return whether all predictions, numbers and saved maps of a batch exist."""
        if self.predictions is not None and self.predictions.missing(part.names):
            return False
        counts, _ = self._judge(part)
        sources, _ = self._missing(part, counts)
        return not sources

    def run(self, lazy_batches: Iterable[LazyBatch], progress: Callable[[int], object] | None = None) -> Numbers:
        """Explain and measure what the store lacks, batch by batch, and return all numbers.

        ``progress`` is called with the number of inputs of each batch that is done.
        """
        names, counted, predictions = [], [], []
        for part in lazy_batches:
            load = functools.cache(part.load)
            predictions += self._query(part, load)
            counts, targets = self._judge(part)
            self._explain(part, load, counts, targets)
            names += part.names
            counted.append(counts)
            if progress:
                progress(len(part.names))
        return Numbers(names, np.concatenate(counted) if counted else np.zeros(0, bool), predictions, self)

    def _query(self, part: LazyBatch, load: Callable[[], Batch]) -> Sequence[Any]:
        """Query the model about those inputs that have no record, and return the records of all."""
        if self.prediction_filter is None or self.predictions is None:
            return []
        missing = set(self.predictions.missing(part.names))
        if missing:
            rows = [row for row, name in enumerate(part.names) if name in missing]
            records = self.prediction_filter.query(load().take(rows))
            self.predictions.append({part.names[row]: record for row, record in zip(rows, records, strict=True)})
        return list(self.predictions.records(part.names))

    def _judge(self, part: LazyBatch) -> tuple[np.ndarray, np.ndarray | None]:
        """Return which inputs count and their targets, from stored records."""
        if self.prediction_filter is None or self.predictions is None:
            return np.ones(len(part.names), bool), None
        try:
            return self.prediction_filter.judge(list(self.predictions.records(part.names)), part)
        except (TypeError, ValueError, KeyError) as error:
            raise _damaged(self.store) from error

    def _explain(
        self, part: LazyBatch, load: Callable[[], Batch], counts: np.ndarray, targets: np.ndarray | None
    ) -> None:
        """Explain and measure those inputs of a batch that count and lack a number or a saved map."""
        wanted, rows = self._missing(part, counts)
        if not wanted:
            return
        batch = self._with_targets(load().take(rows), rows, targets)
        sources = list(filter(wanted.__contains__, self.explainer.sources))
        for source, maps in self.explainer.maps(sources, batch):
            self._measure(source, maps, batch, [part.names[row] for row in rows])
            if self._saves(source):
                for row, found in zip(rows, maps, strict=True):
                    key = self._key_of_map(source, part.names[row])
                    self.maps_directory.save(source.method, part.files[row], found, key)

    def _with_targets(self, batch: Batch, rows: Sequence[int], targets: np.ndarray | None) -> Batch:
        """Return rows of a batch with their targets."""
        if targets is not None:
            batch = dataclasses.replace(batch, targets=np.asarray(targets)[rows])
        found: Batch = self.explainer.with_targets(batch)
        return found

    def some_maps(self, count: int) -> tuple[Batch, dict[str, np.ndarray]]:
        """Return those of some inputs, evenly spread, that count, and method -> their maps, which are not stored."""
        spread = np.unique(np.linspace(0, len(self.items) - 1, count).astype(int))
        (part,) = self.inputs.batches([self.items[place] for place in spread], count)
        load = functools.cache(part.load)
        self._query(part, load)
        counts, targets = self._judge(part)
        rows = np.flatnonzero(counts).tolist()
        batch = load().take(rows)
        if not rows:
            return batch, {}
        batch = self._with_targets(batch, rows, targets)
        sources = [source for source in self.explainer.sources if source.method and not source.control]
        return batch, {source.method: maps for source, maps in self.explainer.maps(sources, batch)}

    def _measure(self, source: MapSource, maps: np.ndarray, batch: Batch, names: Sequence[str]) -> None:
        """Store the numbers of a source's maps by all measures that lack them."""
        for measure in self.measures:
            series = self._series.get((source, measure.name))
            if series is None or not series.missing(names):
                continue
            try:
                explain = self.explainer.explain_function(source) if measure.needs_explainer else None
                records = measure.to_records(measure.compute(maps, batch, explain or self.explainer.scores))
            except BadInput as error:
                raise BadInput(f"'{source.name}' cannot be scored: {error}") from error
            if manifest.settings() != self._settings:
                raise BadInput(f"'{source.name}' has changed how TensorFlow computes; its code must set that at import")
            self._series[source, measure.name].append(dict(zip(names, records, strict=True)))

    def _missing(self, part: LazyBatch, counts: np.ndarray) -> tuple[set[MapSource], list[int]]:
        """Return the sources that lack a number or a map to save of some input that counts, and those inputs' rows."""
        rows = np.flatnonzero(counts).tolist()
        lacking: dict[MapSource, set[int]] = collections.defaultdict(set)
        for (source, _), series in self._series.items():
            if names := set(series.missing([part.names[row] for row in rows])):
                lacking[source].update(row for row in rows if part.names[row] in names)
        for source in filter(self._saves, self.explainer.sources):
            for row in rows:
                key = self._key_of_map(source, part.names[row])
                if not self.maps_directory.has(source.method, part.files[row], key):
                    lacking[source].add(row)
        return set(lacking), sorted(set().union(*lacking.values()))

    def _saves(self, source: MapSource) -> bool:
        return bool(self.maps_directory and source.method and not source.control)

    @property
    def name(self) -> str:
        """Name of its inputs."""
        return self.inputs.name

    @property
    def items(self) -> Sequence[Any]:
        """All inputs in order."""
        return self.inputs.items

    @property
    def batch_size(self) -> int:
        """Inputs in one pass."""
        return self.inputs.batch_size

    @property
    def key(self) -> str:
        """Hash of everything but the inputs that the numbers depend on; ``BadInput`` if custom code has none."""
        self._check_saved()
        # Saved maps are no numbers, but a block that has not saved its own is not done.
        saved = str(self.maps_directory.directory) if self.maps_directory else ""
        return work.digest_of([sorted(self.series_by_name()), saved])

    def evaluate(self, progress: Callable[[int], object] | None = None) -> Numbers:
        """Explain and measure all inputs in this process; ``progress`` is called with each batch's number of inputs."""
        return self.run(self.inputs.batches(self.items, self.batch_size), progress)

    def check_methods(self) -> None:
        """Raise ``explainer.Inapplicable`` for methods that cannot explain an input of a batch that lacks numbers."""
        for part in self.inputs.batches(self.items, self.batch_size):
            if not self.is_complete(part):
                self.explainer.check_methods(part.load().take([0]))
                return

    def missing(self, items: Sequence[Any]) -> work.MissingWork | None:
        """Return the names of some inputs and what exists of their numbers; None where all do."""
        names, complete = [], True
        for part in self.inputs.batches(items, self.batch_size):  # one by one: each may hold its pictures
            names += part.names
            complete = complete and self.is_complete(part)
        if complete:
            return None
        held = {}
        for series_name, series in self.series_by_name().items():
            places = [place for place, name in enumerate(names) if name in series]
            if places:
                # Predictions decide what is explained; of a number it is enough to know that it exists.
                predicted = series is self.predictions
                held[series_name] = [[place, series[names[place]] if predicted else None] for place in places]
        return work.MissingWork(names, held)

    def compute(self, items: Sequence[Any], held: Mapping[str, Any]) -> work.Computed:
        """Explain and measure what is not held."""
        parts = list(self.inputs.batches(items, self.batch_size))
        names = [name for part in parts for name in part.names]
        evaluator = self.with_store(ScoreStore(None))
        before = {name: {names[place]: record for place, record in pairs} for name, pairs in held.items()}
        series = evaluator.series_by_name()
        for name, records in before.items():
            series[name].append(records)
        evaluator.run(parts)
        self._check_saved()
        found = {}
        for series_name, one in series.items():
            known = before.get(series_name, ())
            if records := {name: one[name] for name in one if name not in known}:
                found[series_name] = records
        return work.Computed(names, found)

    def _check_saved(self) -> None:
        """Raise ``BadInput`` if custom code is not to be stored, since blocks are files."""
        if self.unsaved:
            raise BadInput(f"{self.unsaved}, and blocks are stored; omit --runner=beam")

    def save(self, results: work.Results) -> None:
        """Write the numbers of a block into the evaluator's store."""
        series = self.series_by_name()
        for name, records in results.items():
            series[name].append(records)


class Numbers:
    """The numbers of an evaluator's inputs.

    Attributes
    ----------
    names, counted
        (N,) names of the inputs in the store, and (N,) bool, which were explained.
    predictions
        (N,) records of ``PredictionFilter.query``; empty without it.
    sources, evaluator
        The sources of maps that were scored, and what measured them.
    """

    def __init__(self, names: Sequence[str], counted: np.ndarray, predictions: Sequence[Any], evaluator: Evaluator):
        self.names, self.counted, self.predictions = names, counted, predictions
        self.sources: tuple[MapSource, ...] = evaluator.explainer.sources
        self.evaluator = evaluator

    def of(self, source: MapSource, measure: PerSampleMetric) -> np.ndarray:
        """Return the numbers of one source, (N, width) float64; NaN for inputs that do not count or were not measured.

        One source is read at a time, so that memory need not hold them all. Raises ``BadInput`` if what is stored is
        damaged.
        """
        numbers = np.full((len(self.names), measure.width), np.nan)
        if not measure.applies_to(source):
            return numbers
        series = self.evaluator.series(source, measure)
        try:
            rows = np.flatnonzero(self.counted).tolist()
            for row, record in zip(rows, series.records(self.names[row] for row in rows), strict=True):
                numbers[row] = measure.from_record(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(self.evaluator.store) from error
        return numbers


def _damaged(store: ScoreStore) -> BadInput:
    """Return the error of a store that holds invalid records."""
    return BadInput(f"the scores in {store.directory} are damaged; remove that folder to compute them again")
