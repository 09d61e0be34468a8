"""Everything that a page is computed from."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from attribution_benchmarks.core.definition import Benchmark, Column
from attribution_benchmarks.core.input_scores import InputScores, stack
from attribution_benchmarks.report.formatting import Names


@dataclasses.dataclass(frozen=True)
class Result:
    """What one task gave.

    Attributes
    ----------
    name, benchmark, title, note
        As of ``ReportTask``.
    document
        What its command wrote with ``--output``; None if it failed.
    printed
        Standard output of its command.
    pictures
        Files.
    failed
        Why there is no table.
    examples
        File of ``core.report_examples``; None if there is none.
    """

    name: str
    benchmark: str
    title: str
    note: str
    document: Mapping | None
    printed: str = ""
    pictures: Sequence[pathlib.Path] = ()
    failed: str = ""
    examples: pathlib.Path | None = None

    @property
    def rows(self) -> Sequence[Mapping]:
        """Return the rows of the document; none if the task failed."""
        return self.document["rows"] if self.document else ()


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Results of a run and how to print them.

    Attributes
    ----------
    results
        In the order of the page.
    scores
        Benchmark -> input scores of its main network.
    definitions
        Benchmarks, in the order of the page.
    columns
        Of the matrix.
    titles
        Method or control -> printed name.
    settings
        Texts: ``command``, ``lead``, ``footer``.
    reasons
        As of ``matrix.build``.
    custom
        Methods of the user, which are marked.
    notes
        Sentences for the top of the page, such as why a custom method does not fit.
    seed
        Of permutations and of draws of inputs.
    families
        As of ``matrix.agreement``.
    parents
        Custom method -> the methods that it varies.
    replicates
        Benchmark -> input scores of each further network.
    to_come
        A sentence on what is still to come; empty if nothing is.
    goes_on
        Whether the run goes on, and the page reloads itself.
    """

    results: Sequence[Result]
    scores: Mapping[str, Sequence[InputScores]]
    definitions: Sequence[Benchmark]
    columns: Sequence[Column]
    titles: Mapping[str, str]
    settings: Mapping[str, str]
    reasons: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    custom: Sequence[str] = ()
    notes: Sequence[str] = ()
    seed: int = 0
    families: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parents: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    replicates: Mapping[str, Sequence[Sequence[InputScores]]] = dataclasses.field(default_factory=dict)
    to_come: str = ""
    goes_on: bool = False

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
