"""What the tasks of a report gave, and everything that a page is computed from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from attribution_benchmarks.core.definition import Benchmark, Column, ReportTask
from attribution_benchmarks.core.scores import InputScores, Scores
from attribution_benchmarks.report import matrix as matrices
from attribution_benchmarks.report import significance
from attribution_benchmarks.report.formatting import Names


@dataclasses.dataclass(frozen=True)
class Result:
    """What one task gave.

    Attributes
    ----------
    task
        What was evaluated.
    scores
        What it found, the values of the inputs over all networks; empty if it failed.
    failed
        Why there is no table.
    """

    task: ReportTask
    scores: Scores = dataclasses.field(default_factory=Scores)
    failed: str = ""


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Results of a run and how to print them."""

    results: Sequence[Result]  # in the order of the page
    definitions: Sequence[Benchmark]  # in the order of the page
    columns: Sequence[Column]  # of the matrix
    titles: Mapping[str, str]  # method or control -> printed name
    command: str = ""
    lead: str = ""  # sentences below the heading
    reasons: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)  # as of ``matrix.build``
    custom: Sequence[str] = ()  # methods of the user, which are marked
    notes: Sequence[str] = ()  # sentences for the top of the page, such as why a custom method does not fit
    seed: int = 0  # of draws of inputs
    families: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of methods

    @property
    def names(self) -> Names:
        """Return the printed names."""
        return Names(self.titles, self.custom, self.families)

    @functools.cached_property
    def groups(self) -> dict[str, list[InputScores]]:
        """Return benchmark -> input scores over all networks that have them."""
        found: dict[str, list[InputScores]] = {result.task.benchmark: [] for result in self.results}
        for result in self.results:
            found[result.task.benchmark] += result.scores.groups
        return found

    @functools.cached_property
    def matrix(self) -> matrices.Matrix:
        """Return the matrix over all networks."""
        documents = [{"benchmark": one.task.benchmark, "rows": one.scores.rows} for one in self.results]
        return matrices.over_networks(matrices.build(documents, self.columns, self.reasons), self.groups)

    @functools.cached_property
    def tests(self) -> dict[str, significance.ColumnTests]:
        """Return column key -> comparisons."""
        return significance.compare_columns(self.matrix, self.groups)
