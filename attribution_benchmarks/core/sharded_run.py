"""A run and its inputs as work in blocks: the same loop, over a part of the inputs and a store in memory.

See ``attribution_benchmarks.beam``. A block holds whole batches and is computed by ``Evaluator.run``, so its numbers
equal those of a run in one process.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attribution_benchmarks.beam.work import Computed, MissingWork, Results, digest_of
from attribution_benchmarks.core.batch import LazyBatch
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.evaluator import Results as EvaluatorResults
from attribution_benchmarks.core.store import ScoreStore


class ShardedRun:
    """One run through some inputs; it is a ``beam.work.Work``.

    Parameters
    ----------
    name
        What tells it from other runs of the command.
    evaluator
        Explains and measures.
    items
        All inputs, as whole numbers or words; empty where only single blocks will be asked for.
    rows
        Inputs of a batch.
    parts
        ``parts(items, rows)`` yields some inputs, so many at a time.
    """

    def __init__(
        self,
        name: str,
        evaluator: Evaluator,
        items: Sequence,
        rows: int,
        parts: Callable[[Sequence, int], Iterable[LazyBatch]],
    ):
        self.name, self.evaluator, self.items, self.rows, self._parts = name, evaluator, items, rows, parts
        # Saved maps are no numbers, but a block that has not saved its own is not done.
        saved = str(evaluator.maps_directory.directory) if evaluator.maps_directory else ""
        self.key = digest_of([sorted(evaluator.series_by_name()), saved])

    def evaluate(self, progress: Callable[[int], object] | None = None) -> EvaluatorResults:
        """Explain and measure all inputs in this process; ``progress`` is called with each batch's number of inputs."""
        return self.evaluator.run(self._parts(self.items, self.rows), progress)

    def missing(self, items: Sequence) -> MissingWork | None:
        """Tell which numbers some inputs lack; None where they have all."""
        names, lacks = [], False
        for part in self._parts(items, self.rows):  # one after the other, since each may hold its pictures
            names += part.names
            lacks = lacks or self.evaluator.lacks(part)
        if not lacks:
            return None
        held = {}
        for series_name, series in self.evaluator.series_by_name().items():
            places = [place for place, name in enumerate(names) if name in series]
            if not places:
                continue
            # What was answered decides on what is explained; of a number it is enough to know that it is there.
            answered = series is self.evaluator.answered
            held[series_name] = [[place, series[names[place]] if answered else None] for place in places]
        return MissingWork(names, held)

    def compute(self, items: Sequence, held: Mapping[str, Any], halvings: int = 0) -> Computed:
        """Explain and measure what is not held."""
        rows = max(1, self.rows >> halvings)
        run = self.evaluator.with_store(ScoreStore(None), rows if halvings else None)
        names = [name for part in self._parts(items, rows) for name in part.names] if held else []
        before = {name: {names[place]: record for place, record in pairs} for name, pairs in held.items()}
        for name, records in before.items():
            run.series_by_name()[name].append(records)
        names = []

        def parts() -> Iterator[LazyBatch]:
            for part in self._parts(items, rows):
                names.extend(part.names)
                yield part

        model = getattr(run.explainer, "model", None)
        counts = getattr(model, "counts", {})
        passes = _passes(counts)
        run.run(parts())
        found = {
            series_name: {name: series[name] for name in series if name not in before.get(series_name, {})}
            for series_name, series in run.series_by_name().items()
        }
        return Computed(names, {name: records for name, records in found.items() if records}, _passes(counts) - passes)

    def save(self, results: Results) -> None:
        """Write a block's numbers to the run's store."""
        series = self.evaluator.series_by_name()
        for name, records in results.items():
            series[name].append(records)

    def with_items(self, items: Sequence) -> ShardedRun:
        """Return the same run through other inputs."""
        other = copy.copy(self)
        other.items = items
        return other


def _passes(counts: Mapping[str, int]) -> int:
    return counts.get("forward_passes", 0) + counts.get("backward_passes", 0)
