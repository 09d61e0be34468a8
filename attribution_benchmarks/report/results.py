"""What the tasks of a report gave, and everything that a page is computed from."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence

from attribution_benchmarks.core.definition import Benchmark, Column, ReportTask
from attribution_benchmarks.core.scores import InputScores, Scores, stack
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
        What it found; empty if it failed.
    pictures, examples
        Files of pictures, and the file of ``core.report_examples``, if there is one.
    failed
        Why there is no table.
    """

    task: ReportTask
    scores: Scores = dataclasses.field(default_factory=Scores)
    pictures: Sequence[pathlib.Path] = ()
    examples: pathlib.Path | None = None
    failed: str = ""


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Results of a run and how to print them."""

    results: Sequence[Result]  # in the order of the page, those of further networks among them
    definitions: Sequence[Benchmark]  # in the order of the page
    columns: Sequence[Column]  # of the matrix
    titles: Mapping[str, str]  # method or control -> printed name
    command: str = ""
    full_command: str = ""  # of the full report, where this one is quick
    lead: str = ""  # sentences below the heading
    reasons: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)  # as of ``matrix.build``
    custom: Sequence[str] = ()  # methods of the user, which are marked
    notes: Sequence[str] = ()  # sentences for the top of the page, such as why a custom method does not fit
    seed: int = 0  # of draws of inputs
    families: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of methods
    to_come: str = ""  # a sentence on what is still to come; empty if nothing is
    goes_on: bool = False  # whether the run goes on, and the page reloads itself

    @property
    def names(self) -> Names:
        """Return the printed names."""
        return Names(self.titles, self.custom, self.families)

    @property
    def shown(self) -> list[Result]:
        """Return the results of the benchmarks' own networks, which have tables of their own."""
        return [result for result in self.results if not result.task.network]

    @functools.cached_property
    def scores(self) -> dict[str, list[InputScores]]:
        """Return benchmark -> input scores of its own network."""
        found: dict[str, list[InputScores]] = {result.task.benchmark: [] for result in self.shown}
        for result in self.shown:
            found[result.task.benchmark] += result.scores.groups
        return found

    @functools.cached_property
    def of_networks(self) -> dict[str, list[InputScores]]:
        """Return benchmark -> input scores over all networks that have them."""
        further = [(result.task.benchmark, group) for result in self.results if result.task.network
                   for group in result.scores.groups]  # fmt: skip
        return {
            name: [
                stack([group, *(one for of, one in further if of == name and one.where == group.where)])
                for group in groups
            ]
            for name, groups in self.scores.items()
        }

    @functools.cached_property
    def matrix(self) -> matrices.Matrix:
        """Return the matrix over all networks."""
        documents = [{"benchmark": one.task.benchmark, "rows": one.scores.rows} for one in self.shown]
        return matrices.over_networks(matrices.build(documents, self.columns, self.reasons), self.of_networks)

    @functools.cached_property
    def tests(self) -> dict[str, significance.ColumnTests]:
        """Return column key -> comparisons."""
        return significance.compare_columns(self.matrix, self.of_networks)
