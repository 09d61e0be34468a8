"""The corridor from maps to numbers: explain batch by batch, measure the maps, keep the numbers, drop the maps.

Every benchmark goes this way, and nothing else in the house does. A batch whose numbers are all in the store is not
even read; each batch is stored when it is done, so a run that was killed goes on where it stood.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.core.store import ScoreStore, Series
from attribution_benchmarks.metrics.per_sample import PerSampleMetric


@dataclasses.dataclass(frozen=True)
class PredictionFilter:
    """What the model says of inputs before anything is explained, kept like scores.

    Attributes
    ----------
    name
        In the keys of the store.
    query
        ``query(batch)`` returns N records of plain JSON, such as predicted classes.
    judge
        ``judge(records, lazy_batch)`` returns which inputs count, (N,) bool, and the classes to explain, (N,) int;
        None for the batch's targets.
    """

    name: str
    query: Callable[[Batch], Sequence]
    judge: Callable[[Sequence, LazyBatch], tuple[np.ndarray, np.ndarray | None]]


class Evaluator:
    """One way through a benchmark's inputs.

    Parameters
    ----------
    explainer
        Makes maps: ``explainer.Explainer``, or ``saved_maps.SavedMaps`` for maps made elsewhere.
    measures
        What is kept of each map.
    key
        What scores depend on besides method, code and input: benchmark, model, data.
    code
        Functions that read and prepare the inputs; a change of theirs makes stored scores stale.
    store
        Where numbers are kept; in memory alone where the maps may change without a trace (``SavedMaps``).
    prediction_filter
        What is asked before explaining; None explains every input's own target.
    maps_directory
        Where the maps of methods as asked are saved; None saves none.
    """

    def __init__(
        self,
        explainer,
        measures: Sequence[PerSampleMetric],
        key: Mapping,
        code: Sequence[Callable] = (),
        store: ScoreStore | None = None,
        prediction_filter: PredictionFilter | None = None,
        maps_directory=None,
    ):
        self.explainer, self.measures, self.prediction_filter = explainer, tuple(measures), prediction_filter
        self.maps_directory = maps_directory
        for measure in self.measures:
            if measure.check:
                measure.check(getattr(explainer, "model", None))
        self.store = store if store and explainer.lasting else ScoreStore(None)
        prepared = {**key, "prepared": code_fingerprint(*code) if code else ""}
        kept = {
            measure.name: [measure.name, code_fingerprint(measure.function), measure.degenerate_maps]
            for measure in self.measures
        }
        self._series: dict[tuple[MapSource, str], Series] = {}
        for source in explainer.sources:
            made = explainer.key(source)
            for measure in self.measures:
                if measure.applies_to(source):
                    series = self.store.series(**prepared, **made, measure=kept[measure.name])
                    self._series[source, measure.name] = series
        self._predictions = (
            self.store.series(**prepared, predictions=prediction_filter.name) if prediction_filter else None
        )

    @property
    def answered(self) -> Series | None:
        """Where predictions are kept; None where nothing is asked."""
        return self._predictions

    def series_by_name(self) -> dict[str, Series]:
        """Return all series by a name that depends on all their records do, the predictions first."""
        series = [*([self._predictions] if self.prediction_filter else []), *self._series.values()]
        return {one.name: one for one in series}

    def with_store(self, store: ScoreStore, batch_size: int | None = None) -> Evaluator:
        """Return the same run with another store, and with other batches where their size is given."""
        other = copy.copy(self)
        other.store = store
        other._series = {place: store.series(**series.key) for place, series in self._series.items()}
        other._predictions = store.series(**self._predictions.key) if self.prediction_filter else None
        if batch_size is not None:
            other.explainer = copy.copy(self.explainer)
            other.explainer.batch_size = batch_size
        return other

    def lacks(self, part: LazyBatch) -> bool:
        """Tell whether any number, answer or saved map of a batch is not there yet."""
        counts = np.ones(len(part.names), bool)
        if self.prediction_filter:
            if self._predictions.missing(part.names):
                return True
            counts, _ = self._judged(list(self._predictions.records(part.names)), part)
        places = np.flatnonzero(counts).tolist()
        return any(self._lacking(part.names[place], part.files[place]) for place in places)

    def run(self, lazy_batches: Iterable[LazyBatch], progress: Callable[[int], None] | None = None) -> Results:
        """Explain and measure what is not in the store yet, and return all numbers.

        Parameters
        ----------
        lazy_batches
            The inputs, batch by batch.
        progress
            Called with the number of inputs of each batch that is done.
        """
        names, counted, predictions = [], [], []
        for part in lazy_batches:
            batch = _Once(part.load)
            counts, targets = np.ones(len(part.names), bool), None
            if self.prediction_filter:
                said = self._asked(part, batch)
                counts, targets = self._judged(said, part)
                predictions += said
            self._explain(part, batch, counts, targets)
            names += part.names
            counted.append(counts)
            if progress:
                progress(len(part.names))
        return Results(names, np.concatenate(counted) if counted else np.zeros(0, bool), predictions, self)

    def series(self, source: MapSource, measure: PerSampleMetric) -> Series:
        """Return where a source's numbers under one measure are kept."""
        return self._series[source, measure.name]

    def _judged(self, said: Sequence, part: LazyBatch) -> tuple[np.ndarray, np.ndarray | None]:
        try:
            return self.prediction_filter.judge(said, part)
        except (TypeError, ValueError, KeyError) as error:
            raise damaged(self.store) from error

    def _asked(self, part: LazyBatch, batch: _Once) -> list:
        missing = set(self._predictions.missing(part.names))
        if missing:
            places = [place for place, name in enumerate(part.names) if name in missing]
            said = self.prediction_filter.query(batch().take(places))
            self._predictions.append({part.names[place]: record for place, record in zip(places, said, strict=True)})
        return list(self._predictions.records(part.names))

    def _explain(self, part: LazyBatch, batch: _Once, counts: np.ndarray, targets: np.ndarray | None) -> None:
        """Explain and measure those of a batch's inputs that count and lack a number or a saved map."""
        lacking = [self._lacking(name, file) for name, file in zip(part.names, part.files, strict=True)]
        places = [int(place) for place in np.flatnonzero(counts) if lacking[place]]
        if not places:
            return
        wanted = [source for source in self.explainer.sources if any(source in lacking[place] for place in places)]
        names, files = ([column[place] for place in places] for column in (part.names, part.files))
        explained = batch().take(places)
        if targets is not None:
            explained = dataclasses.replace(explained, targets=np.asarray(targets)[places])
        explained = self.explainer.with_targets(explained)
        for source, maps in self.explainer.maps(wanted, explained):
            for measure in self.measures:
                series = self._series.get((source, measure.name))
                if series is None or not series.missing(names):
                    continue
                try:
                    explain = self.explainer.explain_function(source) if measure.needs_explainer else None
                    numbers = measure.compute(maps, explained, explain or self.explainer.scores)
                    records = measure.to_records(numbers)
                except BadInput as error:
                    raise BadInput(f"'{source.name}' cannot be scored: {error}") from error
                series.append(dict(zip(names, records, strict=True)))
            if self.maps_directory and not source.control:
                for file, one in zip(files, maps, strict=True):
                    self.maps_directory.save(source.method, file, one)

    def _lacking(self, name: str, file: str) -> set[MapSource]:
        """Return the sources that have no number of an input, or lack its map where maps are saved."""
        found = {source for (source, _), series in self._series.items() if name not in series}
        if self.maps_directory:
            found |= {
                source
                for source in self.explainer.sources
                if source.method and not source.control and not self.maps_directory.has(source.method, file)
            }
        return found


class Results:
    """The numbers of a run.

    Attributes
    ----------
    names
        (N,) names of the inputs in the store.
    counted
        (N,) bool, which were explained.
    predictions
        (N,) records of ``PredictionFilter.query``; empty without it.
    sources
        All that was scored.
    evaluator
        What measured it.
    """

    def __init__(self, names: Sequence[str], counted: np.ndarray, predictions: Sequence, evaluator: Evaluator):
        self.names, self.counted, self.predictions = names, counted, predictions
        self.sources = evaluator.explainer.sources
        self.evaluator = evaluator

    def numbers(self, source: MapSource, measure: PerSampleMetric) -> np.ndarray:
        """Return a source's numbers, (N, width) float64; NaN for inputs that do not count or were not measured.

        One source is read at a time, so that memory need not hold them all.

        Raises
        ------
        BadInput
            If what is stored is damaged.
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
            raise damaged(self.evaluator.store) from error
        return numbers


def damaged(store: ScoreStore) -> BadInput:
    """Return the error of a store that holds what no run has written."""
    return BadInput(f"the scores in {store.directory} are damaged; remove that folder to compute anew")


class _Once:
    """A batch that is read when first asked for."""

    def __init__(self, load: Callable[[], Batch]):
        self._load = load
        self._batch: Batch | None = None

    def __call__(self) -> Batch:
        if self._batch is None:
            self._batch = self._load()
        return self._batch
