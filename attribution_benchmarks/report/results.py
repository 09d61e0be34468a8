"""Everything that a page is computed from."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from attribution_benchmarks.core.definition import Benchmark, Column
from attribution_benchmarks.core.scores import InputScores, stack
from attribution_benchmarks.report.formatting import Names


@dataclasses.dataclass(frozen=True)
class Result:
    """What one task gave; name, benchmark, title and note are the task's."""

    name: str
    benchmark: str
    title: str
    note: str
    document: Mapping | None  # what its command wrote with ``--output``; None if it failed
    printed: str = ""  # standard output of its command
    pictures: Sequence[pathlib.Path] = ()
    failed: str = ""  # why there is no table
    examples: pathlib.Path | None = None  # file of ``core.report_examples``; None if there is none

    @property
    def rows(self) -> Sequence[Mapping]:
        """Return the rows of the document; none if the task failed."""
        return self.document["rows"] if self.document else ()


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Results of a run and how to print them."""

    results: Sequence[Result]  # in the order of the page
    scores: Mapping[str, Sequence[InputScores]]  # benchmark -> input scores of its main network
    definitions: Sequence[Benchmark]  # in the order of the page
    columns: Sequence[Column]  # of the matrix
    titles: Mapping[str, str]  # method or control -> printed name
    settings: Mapping[str, str]  # texts: ``command``, ``lead``, ``footer``
    reasons: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)  # as of ``matrix.build``
    custom: Sequence[str] = ()  # methods of the user, which are marked
    notes: Sequence[str] = ()  # sentences for the top of the page, such as why a custom method does not fit
    seed: int = 0  # of permutations and of draws of inputs
    families: Mapping[str, str] = dataclasses.field(default_factory=dict)  # as of ``matrix.agreement``
    # Custom method -> the methods that it varies.
    parents: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    # Benchmark -> input scores of each further network.
    replicates: Mapping[str, Sequence[Sequence[InputScores]]] = dataclasses.field(default_factory=dict)
    to_come: str = ""  # a sentence on what is still to come; empty if nothing is
    goes_on: bool = False  # whether the run goes on, and the page reloads itself

    @property
    def names(self) -> Names:
        """Return the printed names."""
        return Names(self.titles, self.custom, self.families)

    @property
    def of_networks(self) -> dict[str, list[InputScores]]:
        """Return benchmark -> input scores over all networks that have them."""
        return {
            name: [
                stack(
                    [
                        group,
                        *(one for more in self.replicates.get(name, ()) for one in more if one.where == group.where),
                    ]
                )
                for group in groups
            ]
            for name, groups in self.scores.items()
        }

    @property
    def documents(self) -> list[Mapping]:
        """Return the documents of the tasks that did not fail."""
        return [result.document for result in self.results if result.document]
