"""An evaluator with its inputs as work in blocks, see ``attribution_benchmarks.beam``.

A block holds whole batches and is computed by ``Evaluator.run``, so its numbers equal those of a run in one process.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attribution_benchmarks.beam.work import Computed, MissingWork, digest_of
from attribution_benchmarks.beam.work import Results as BlockResults
from attribution_benchmarks.core.batch import LazyBatch
from attribution_benchmarks.core.evaluator import Evaluator, Results
from attribution_benchmarks.core.store import ScoreStore


class ShardedRun:
    """An evaluator and its inputs; it implements ``beam.work.Work``.

    Parameters
    ----------
    name
        Unique among the sharded runs of the command.
    evaluator
        Explains and measures.
    items
        All inputs, as integers or strings; may be empty in a worker.
    rows
        Inputs of a batch.
    batches
        ``batches(items, rows)`` yields the inputs of some items in batches of that size.
    """

    def __init__(
        self,
        name: str,
        evaluator: Evaluator,
        items: Sequence,
        rows: int,
        batches: Callable[[Sequence, int], Iterable[LazyBatch]],
    ):
        self.name, self.evaluator, self.items, self.rows, self._batches = name, evaluator, items, rows, batches
        # Saved maps are no numbers, but a block that has not saved its own is not done.
        saved = str(evaluator.maps_directory.directory) if evaluator.maps_directory else ""
        self.key = digest_of([sorted(evaluator.series_by_name()), saved])

    def evaluate(self, progress: Callable[[int], object] | None = None) -> Results:
        """Explain and measure all inputs in this process; ``progress`` is called with each batch's number of inputs."""
        return self.evaluator.run(self._batches(self.items, self.rows), progress)

    def missing(self, items: Sequence) -> MissingWork | None:
        """Return the names of some inputs and what exists of their numbers; None where all do."""
        names, complete = [], True
        for part in self._batches(items, self.rows):  # one after the other, since each may hold its pictures
            names += part.names
            complete = complete and self.evaluator.is_complete(part)
        if complete:
            return None
        held = {}
        for series_name, series in self.evaluator.series_by_name().items():
            places = [place for place, name in enumerate(names) if name in series]
            if places:
                # Predictions decide what is explained; of a number it is enough to know that it exists.
                predicted = series is self.evaluator.predictions
                held[series_name] = [[place, series[names[place]] if predicted else None] for place in places]
        return MissingWork(names, held)

    def compute(self, items: Sequence, held: Mapping[str, Any], halvings: int = 0) -> Computed:
        """Explain and measure what is not held, in batches halved ``halvings`` times."""
        rows = max(1, self.rows >> halvings)
        evaluator = self.evaluator.with_store(ScoreStore(None), rows if halvings else None)
        before = self._append_held(evaluator, items, held, rows) if held else {}
        names = []

        def batches() -> Iterator[LazyBatch]:
            for part in self._batches(items, rows):
                names.extend(part.names)
                yield part

        passes = _passes(evaluator)
        evaluator.run(batches())
        found = {}
        for series_name, series in evaluator.series_by_name().items():
            known = before.get(series_name, ())
            if records := {name: series[name] for name in series if name not in known}:
                found[series_name] = records
        return Computed(names, found, _passes(evaluator) - passes)

    def _append_held(
        self, evaluator: Evaluator, items: Sequence, held: Mapping[str, Any], rows: int
    ) -> dict[str, dict[str, Any]]:
        """Write the held numbers into an evaluator's store and return them, name of a series -> input -> record."""
        names = [name for part in self._batches(items, rows) for name in part.names]
        before = {name: {names[place]: record for place, record in pairs} for name, pairs in held.items()}
        for name, records in before.items():
            evaluator.series_by_name()[name].append(records)
        return before

    def save(self, results: BlockResults) -> None:
        """Write the numbers of a block into the evaluator's store."""
        series = self.evaluator.series_by_name()
        for name, records in results.items():
            series[name].append(records)

    def with_items(self, items: Sequence) -> ShardedRun:
        """Return the same run through other inputs."""
        other = copy.copy(self)
        other.items = items
        return other


def _passes(evaluator: Evaluator) -> int:
    """Return the number of forward and backward passes that the evaluator's model has done."""
    counts = getattr(getattr(evaluator.explainer, "model", None), "counts", {})
    return counts.get("forward_passes", 0) + counts.get("backward_passes", 0)
