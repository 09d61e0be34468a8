"""The corridor from maps to numbers: explain block by block, measure the maps, keep the numbers, drop the maps.

Every benchmark goes this way, and nothing else in the house does. A block whose numbers are all in the store is not
even read; each block is stored when it is done, so a run that was killed goes on where it stood.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core import degenerate_maps
from attribution_benchmarks.core.batch import Block, Label, Pending
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.core.store import ScoreStore, Series
from attribution_benchmarks.metrics.per_sample import PerSampleMetric


@dataclasses.dataclass(frozen=True)
class Answers:
    """What the model says of inputs before anything is explained, kept like scores.

    Attributes
    ----------
    name
        In the keys of the store.
    ask
        ``ask(block)`` returns N records of plain JSON, such as predicted classes.
    judge
        ``judge(records, pending)`` returns which inputs count, (N,) bool, and the classes to explain, (N,) int, or None
        where the block's own targets stand.
    """

    name: str
    ask: Callable[[Block], Sequence]
    judge: Callable[[Sequence, Pending], tuple[np.ndarray, np.ndarray | None]]


class Run:
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
    answers
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
        answers: Answers | None = None,
        maps_directory=None,
    ):
        self.explainer, self.measures, self.answers = explainer, tuple(measures), answers
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
        self._series: dict[tuple[Label, str], Series] = {}
        for label in explainer.labels:
            made = explainer.key(label)
            for measure in self.measures:
                if measure.applies_to(label):
                    series = self.store.series(**prepared, **made, measure=kept[measure.name])
                    self._series[label, measure.name] = series
        self._answers = self.store.series(**prepared, answers=answers.name) if answers else None

    @property
    def answered(self) -> Series | None:
        """Where answers are kept; None where nothing is asked."""
        return self._answers

    def series_by_name(self) -> dict[str, Series]:
        """Return all series by a name that depends on all their records do, the answers first."""
        series = [*([self._answers] if self.answers else []), *self._series.values()]
        return {one.name: one for one in series}

    def apart(self, store: ScoreStore, batch_size: int | None = None) -> Run:
        """Return the same run with another store, and with other batches where their size is given."""
        other = copy.copy(self)
        other.store = store
        other._series = {place: store.series(**series.key) for place, series in self._series.items()}
        other._answers = store.series(**self._answers.key) if self.answers else None
        if batch_size is not None:
            other.explainer = copy.copy(self.explainer)
            other.explainer.batch_size = batch_size
        return other

    def lacks(self, part: Pending) -> bool:
        """Tell whether any number, answer or saved map of a block is not there yet."""
        counts = np.ones(len(part.names), bool)
        if self.answers:
            if self._answers.missing(part.names):
                return True
            counts, _ = self._judged(list(self._answers.records(part.names)), part)
        places = np.flatnonzero(counts).tolist()
        return any(self._lacking(part.names[place], part.files[place]) for place in places)

    def run(self, pending: Iterable[Pending], progress: Callable[[int], None] | None = None) -> Scored:
        """Explain and measure what is not in the store yet, and return all numbers.

        Parameters
        ----------
        pending
            The inputs, block by block.
        progress
            Called with the number of inputs of each block that is done.
        """
        names, counted, answers = [], [], []
        for part in pending:
            block = _Once(part.load)
            counts, targets = np.ones(len(part.names), bool), None
            if self.answers:
                said = self._asked(part, block)
                counts, targets = self._judged(said, part)
                answers += said
            self._explain(part, block, counts, targets)
            names += part.names
            counted.append(counts)
            if progress:
                progress(len(part.names))
        return Scored(names, np.concatenate(counted) if counted else np.zeros(0, bool), answers, self)

    def series(self, label: Label, measure: PerSampleMetric) -> Series:
        """Return where a label's numbers under one measure are kept."""
        return self._series[label, measure.name]

    def _judged(self, said: Sequence, part: Pending) -> tuple[np.ndarray, np.ndarray | None]:
        try:
            return self.answers.judge(said, part)
        except (TypeError, ValueError, KeyError) as error:
            raise damaged(self.store) from error

    def _asked(self, part: Pending, block: _Once) -> list:
        missing = set(self._answers.missing(part.names))
        if missing:
            places = [place for place, name in enumerate(part.names) if name in missing]
            said = self.answers.ask(block().take(places))
            self._answers.append({part.names[place]: record for place, record in zip(places, said, strict=True)})
        return list(self._answers.records(part.names))

    def _explain(self, part: Pending, block: _Once, counts: np.ndarray, targets: np.ndarray | None) -> None:
        """Explain and measure those of a block's inputs that count and lack a number or a saved map."""
        lacking = [self._lacking(name, file) for name, file in zip(part.names, part.files, strict=True)]
        places = [int(place) for place in np.flatnonzero(counts) if lacking[place]]
        if not places:
            return
        wanted = [label for label in self.explainer.labels if any(label in lacking[place] for place in places)]
        names, files = ([column[place] for place in places] for column in (part.names, part.files))
        explained = block().take(places)
        if targets is not None:
            explained = dataclasses.replace(explained, targets=np.asarray(targets)[places])
        explained = self.explainer.with_targets(explained)
        for label, maps in self.explainer.maps(wanted, explained):
            for measure in self.measures:
                series = self._series.get((label, measure.name))
                if series is None or not series.missing(names):
                    continue
                try:
                    asked = self.explainer.again(label) if measure.again else self.explainer.scores
                    records = measure.to_records(degenerate_maps.measured(measure, maps, explained, asked))
                except BadInput as error:
                    raise BadInput(f"'{label.name}' cannot be scored: {error}") from error
                series.append(dict(zip(names, records, strict=True)))
            if self.maps_directory and not label.control:
                for file, one in zip(files, maps, strict=True):
                    self.maps_directory.save(label.method, file, one)

    def _lacking(self, name: str, file: str) -> set[Label]:
        """Return the labels that have no number of an input, or lack its map where maps are saved."""
        found = {label for (label, _), series in self._series.items() if name not in series}
        if self.maps_directory:
            found |= {
                label
                for label in self.explainer.labels
                if label.method and not label.control and not self.maps_directory.has(label.method, file)
            }
        return found


class Scored:
    """The numbers of a run.

    Attributes
    ----------
    names
        (N,) names of the inputs in the store.
    counted
        (N,) bool, which were explained.
    answers
        (N,) records of ``Answers.ask``; empty without it.
    labels
        All that was scored.
    """

    def __init__(self, names: Sequence[str], counted: np.ndarray, answers: Sequence, run: Run):
        self.names, self.counted, self.answers = names, counted, answers
        self.labels = run.explainer.labels
        self._run = run

    def numbers(self, label: Label, measure: PerSampleMetric) -> np.ndarray:
        """Return a label's numbers, (N, width) float64; NaN for inputs that do not count or were not measured.

        One label is read at a time, so that memory need not hold them all.

        Raises
        ------
        BadInput
            If what is stored is damaged.
        """
        numbers = np.full((len(self.names), measure.width), np.nan)
        if not measure.applies_to(label):
            return numbers
        series = self._run.series(label, measure)
        try:
            rows = np.flatnonzero(self.counted).tolist()
            for row, record in zip(rows, series.records(self.names[row] for row in rows), strict=True):
                numbers[row] = measure.from_record(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise damaged(self._run.store) from error
        return numbers


def damaged(store: ScoreStore) -> BadInput:
    """Return the error of a store that holds what no run has written."""
    return BadInput(f"the scores in {store.directory} are damaged; remove that folder to compute anew")


class _Once:
    """A block that is read when first asked for."""

    def __init__(self, load: Callable[[], Block]):
        self._load = load
        self._block: Block | None = None

    def __call__(self) -> Block:
        if self._block is None:
            self._block = self._load()
        return self._block
