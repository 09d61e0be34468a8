"""The place of custom methods among the published ones: only theirs are computed, as many as a time limit allows.

Published methods are a fixed family. A custom method is compared with each of them on the same inputs and networks,
and its claims are corrected for its own tests alone.
"""

from __future__ import annotations

import dataclasses
import html
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.definition import Column, ReportTask
from attribution_benchmarks.core.scores import InputScores, Scores
from attribution_benchmarks.report import presets, published, significance
from attribution_benchmarks.report.formatting import Names, cell_interval, cell_score, enumeration, percentages
from attribution_benchmarks.report.matrix import mean_over_networks
from attribution_benchmarks.report.published import PublishedSet
from attribution_benchmarks.report.significance import MARGIN, NOT_COMPARED, PASSES, TOO_FEW, ColumnTests
from attribution_benchmarks.report.tasks import of_fitting

# Scores of a task, by some methods.
Compute = Callable[[ReportTask, Sequence[str]], Scores]
LEGEND = (
    "Rank among the published methods; in brackets, the ranks that the tests leave. "
    f"{PASSES} beats every baseline: each reaches at most {100 * MARGIN:.0f} % of the score. "
    f"{TOO_FEW} does so as measured, on too few networks or inputs to claim it. "
    f"{NOT_COMPARED} was not compared with its maps under every control condition."
)


@dataclasses.dataclass(frozen=True)
class Place:
    """A method's place in one column.

    Attributes
    ----------
    method, column
        The method, and the column.
    row
        Its ``value``, ``low``, ``high`` and ``n``.
    rank, of
        Its rank by mean among ``of`` methods.
    tests
        Its comparisons with the published methods and the baselines.
    """

    method: str
    column: Column
    row: Mapping[str, Any]
    rank: int
    of: int
    tests: ColumnTests

    @property
    def beaten(self) -> list[str]:
        """The methods that it is significantly better than."""
        return [test.second for test in self.tests.pairs if self.tests.better(test) == self.method]

    @property
    def baselines(self) -> list[significance.Baseline]:
        """The baselines that it does not beat by the margin, the one that is hardest to beat first."""
        return self.tests.failed(self.method)

    def cells(self) -> list[str]:
        """Return metric, score, interval, number of networks, rank with its range, and mark."""
        low, high = self.tests.ranks[self.method]
        ranks = f"{self.rank} of {self.of} ({low}–{high})"
        interval, networks = cell_interval(self.row, self.column), str(self.tests.networks)
        mark = self.tests.mark(self.method)
        return [self.column.label, cell_score(self.row, self.column), interval, networks, ranks, mark]

    def sentences(self, names: Names) -> Iterator[str]:
        """Yield which methods it beats, and which baselines it does not."""
        beaten = enumeration(map(names, self.beaten)) if self.beaten else "no method"
        yield f"{self.column.label}: significantly better than {beaten}."
        if self.baselines:
            shares = [f"“{names(one.kind)}”" + _reached(one.share) for one in self.baselines]
            yield f"Not beaten by the margin: {enumeration(shares)}."
        elif self.tests.mark(self.method) == TOO_FEW:
            yield "Every baseline is below the margin as measured, on too few networks or inputs to claim it."


def _reached(share: float) -> str:
    return f" ({percentages([share])} of the score)" if np.isfinite(share) else ""


@dataclasses.dataclass(frozen=True, repr=False)
class Ranking(Scores):
    """Scores of custom methods among the published ones; printed, the places of each method.

    ``places`` has one for each method and column, ``remarks`` what was not computed.
    """

    places: Sequence[Place] = ()
    remarks: Sequence[str] = ()

    @property
    def names(self) -> Names:
        """Printed names of methods and controls."""
        return Names(self.titles)

    def _repr_html_(self) -> str:
        parts, head = [], (*_HEADER, "tests")
        titles = "".join(f"<th scope='col'>{name}</th>" for name in head)
        for method, places in _by_method(self.places).items():
            rows = ""
            for place in places:
                cells = [*place.cells(), " ".join(place.sentences(self.names)).partition(": ")[2]]
                cells = [
                    f"<td data-label='{name}'>{html.escape(cell)}</td>" for name, cell in zip(head, cells, strict=True)
                ]
                rows += f"<tr>{''.join(cells)}</tr>"
            title = html.escape(f"{self.names(method)} among {max(place.of for place in places) - 1} published methods")
            parts.append(
                f"<h2>{title}</h2><table class='places'><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"
            )
        return "".join([*parts, *(f"<p>{html.escape(text)}</p>" for text in (*self.remarks, LEGEND))])


_HEADER = ("metric", "score", "95 %", "networks", "rank", "mark")


def _by_method(places: Sequence[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in places:
        found.setdefault(place.method, []).append(place)
    return found


def compute(
    sets: Sequence[PublishedSet], methods: Sequence[str], score: Compute, seconds: float, say: Callable[[str], object]
) -> tuple[dict[str, dict[int, Scores]], list[str]]:
    """Score methods on the networks of some sets; return task -> number of the network -> scores, and remarks.

    The methods are first timed on the first set. They are scored on all networks with their controls if ``seconds``
    suffice for that, else without networks of random weights, else on fewer networks. ``say`` gets the estimate, and
    the places on each set as soon as they are known.
    """
    found: dict[str, dict[int, Scores]] = {}
    remarks: list[str] = []
    begun, ratio = time.monotonic(), 0.0  # measured seconds for an estimated one
    for number, one in enumerate(sets):
        names = [name for name in methods if name not in {source.method for source in one.scores.sources}]
        found[one.task] = {}
        title, left = one.tasks[0].title, seconds - (time.monotonic() - begun)
        if not names:  # all are published
            continue
        if left <= 0:
            remarks.append(f"{title}: not scored for want of time (--time).")
            continue
        try:
            if not ratio:
                ratio = _ratio(one, names, score)
                _, random = _affordable(sets[number:], seconds / ratio)
                total = ratio * sum(each.seconds(len(each.tasks), random) for each in sets[number:])
                say(f"estimate: {min(total, seconds):.0f} s for {len(sets) - number} sets of inputs")
            networks, random = _affordable(sets[number:], left / ratio)
            before = time.monotonic()
            for place, task in enumerate(one.tasks[:networks]):
                if place and time.monotonic() - begun > seconds:
                    break
                found[one.task][place], names = _fitting(task, random, names, score, remarks)
            took = time.monotonic() - before
            if number:  # what the first set prepares once is no measure of the others
                ratio = (ratio + took / one.seconds(len(found[one.task]), random)) / 2
            for each in ranking({one: with_methods(one, found[one.task])}, names).places:
                say(f"{each.column.label}: {each.cells()[1]}, rank {each.cells()[4]} {each.cells()[5]}".strip())
        except BadInput as error:
            if not any(str(error) in remark for remark in remarks):
                remarks.append(f"{title} is not scored: {error}")
            continue
        if len(found[one.task]) < len(one.tasks):
            remarks.append(f"{title}: {len(found[one.task])} of {len(one.tasks)} networks for want of time (--time).")
        if not random and one.random:
            remarks.append(f"{title}: without networks of random weights for want of time (--time), so without a mark.")
    return found, list(dict.fromkeys(remarks))


def _ratio(one: PublishedSet, names: Sequence[str], score: Compute) -> float:
    """Return the seconds that the second network of a set takes, as a share of the estimate, without random networks.

    The first network is not timed: it pays for what is prepared once.
    """
    seconds = one.network
    for task in one.tasks[:2]:
        before = time.monotonic()
        _fitting(task, 0, names, score, [])
        seconds = time.monotonic() - before
    return seconds / one.network


def _fitting(
    task: ReportTask, random: int, names: Sequence[str], score: Compute, remarks: list[str]
) -> tuple[Scores, list[str]]:
    """Return the scores of the methods that fit, and their names."""
    if task.random_networks:
        task = dataclasses.replace(task, settings=task.settings.replaced(random_networks=random))
    part, refused = of_fitting(lambda some: score(task, some), (), names)
    remarks += [f"{task.title}: {name} {why}" for name, why in refused.items()]
    return part, [name for name in names if name not in refused]


def _affordable(sets: Sequence[PublishedSet], seconds: float) -> tuple[int, int]:
    """Return the number of networks of the first set, and of random ones for each, that some seconds suffice for."""
    for random in (1, 0):
        total = sum(one.seconds(len(one.tasks), random) for one in sets)
        if total <= seconds:
            return len(sets[0].tasks), random
    return max(1, int(len(sets[0].tasks) * seconds / total)), 0


def with_methods(one: PublishedSet, of_networks: Mapping[int, Scores]) -> Scores:
    """Return the published scores of a set with those of further methods, given by number of network."""
    groups = []
    for group in one.scores.groups:
        same = {number: each for number, part in of_networks.items() for each in part.groups if is_same(each, group)}
        groups.append(published.with_methods(group, same) if same else group)
    titles = {name: title for part in of_networks.values() for name, title in part.titles.items()}
    return dataclasses.replace(one.scores, groups=groups, titles={**titles, **one.scores.titles})


def is_same(found: InputScores, group: InputScores) -> bool:
    """Return whether a group is of the metric and the questions of a published one."""
    return found.where.items() <= group.where.items()


def ranking(found: Mapping[PublishedSet, Scores], methods: Sequence[str], remarks: Sequence[str] = ()) -> Ranking:
    """Return the places of methods, given the published scores of each set with theirs."""
    places = [
        _place(column, group, name)
        for one, scores in found.items()
        for group in scores.groups
        for column in presets.columns_of(one.definition)
        if column.takes(group.where)
        for name in methods
        if name in group.values
    ]
    uncontrolled = [
        one.tasks[0].title
        for one, scores in found.items()
        if not any(source.method and source.control for source in scores.sources)
    ]
    if uncontrolled:
        note = "no control condition; a mark there means that every map which uses no network is beaten."
        remarks = [*remarks, f"{enumeration(uncontrolled)}: {note}"]
    joined = Scores.joined(found.values())
    titles = {**{each.name: each.title for one in found for each in one.definition.controls}, **joined.titles}
    names = Names(titles)
    text = "".join(
        f"{names(method)} among the published methods\n\n{tables.text_table(_HEADER, [one.cells() for one in some])}\n"
        + tables.paragraphs([" ".join(one.sentences(names)) for one in some]) + "\n"
        for method, some in _by_method(places).items()
    )  # fmt: skip
    rows = [{"method": one.method, "benchmark": one.column.benchmark, "column": one.column.key, **one.row,
             "rank": one.rank, "of": one.of, "mark": one.tests.mark(one.method)} for one in places]  # fmt: skip
    text += tables.paragraphs([*remarks, LEGEND])
    return Ranking(rows, joined.groups, titles, text, text, joined.manifest, places, remarks)


def _place(column: Column, group: Any, method: str) -> Place:
    networks = np.isfinite(group.by_network(method)).any(axis=0)
    values = {
        source.name: group.by_network(source.name)[:, networks]
        for source in group.sources
        if source.method and not source.control
    }
    others = [name for name, one in values.items() if name != method and np.isfinite(one).any(axis=0).all()]
    controls = [source.name for source in group.sources if not source.method]
    mine, sign = values[method], 1 if column.higher_is_better else -1
    means = {
        name: float(sign * np.nanmean(np.where(np.isfinite(mine), values[name], np.nan))) for name in (method, *others)
    }
    tests = significance.compare_alone(column, group, method, others, controls)
    rank = 1 + sum(means[name] > means[method] for name in others)
    return Place(method, column, mean_over_networks(mine, group, column), rank, 1 + len(others), tests)


def differing(known: Scores, of_networks: Mapping[int, Scores]) -> float:
    """Return the share of the values by sources that are published, too, that differ by more than the tolerance."""
    differ: list[np.ndarray] = []
    for network, part in of_networks.items():
        for group in part.groups:
            for expected in (one for one in known.groups if is_same(group, one)):
                differ += published.differences(expected, group, network).values()
    return float(np.concatenate(differ).mean()) if differ else 0.0


def foreign(known: Scores, of_networks: Mapping[int, Scores]) -> str:
    """Return that the baselines of a run are not the published ones; empty if no more than single inputs differ."""
    share = differing(known, of_networks)
    if share <= published.JUMPS:
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(known.manifest["versions"].items()))
    return f"{100 * share:.1f} % of the baselines' values differ from the published ones, which are of {versions}."
