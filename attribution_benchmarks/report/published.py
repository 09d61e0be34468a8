"""Published scores: the scores of each input by all methods, controls and baselines, on all bundled networks.

``published/sets.toml`` declares the sets, one a task of the full report. A file holds the values of one set as float32,
with the mean over the networks of random weights where there are at least three trained networks, and the manifest of
the code, libraries and processor that computed it.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import platform
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.evaluation import table_of
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import InputScores, Scores, mean_members, stack
from attribution_benchmarks.metrics.descriptions import read_toml
from attribution_benchmarks.report import presets
from attribution_benchmarks.stats.statistics import MIN_NETWORKS

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "published"
POINTS = 2e-3  # by which a percentage may differ on another processor
SHARES = 1e-3  # and any other value, as a share of the largest one, such as by a pixel of a rank accuracy
JUMPS = 0.02  # share of the values that may differ by more: single inputs change their class or their region


@dataclasses.dataclass(frozen=True)
class PublishedSet:
    """A set of ``sets.toml``, which describes the attributes."""

    task: str
    benchmark: str
    start: float
    network: float
    random: float = 0.0

    @property
    def path(self) -> pathlib.Path:
        """The file of its scores."""
        return FOLDER / f"{self.task}.npz"

    @property
    def definition(self) -> Benchmark:
        """Its benchmark."""
        return benchmark_named(self.benchmark)

    @functools.cached_property
    def tasks(self) -> list[ReportTask]:
        """Its task on each trained network, as a full report has them."""
        every = presets.tasks_of(self.definition, self.benchmark, False, 0, networks=presets.MOST_TRAINED)
        return [one for one in every if one.series == self.task]

    def seconds(self, networks: int, random: int) -> float:
        """Return the estimated CPU seconds of a method of one gradient."""
        return self.start + networks * (self.network + random * self.random)

    @functools.cached_property
    def scores(self) -> Scores:
        """The published values of the inputs, without rows and tables; ``with_rows`` adds these."""
        return Scores.load(self.path)


def sets(benchmarks: Collection[str] | None = None, complete: bool = True) -> list[PublishedSet]:
    """Return the sets of some benchmarks, or all; if ``complete``, of those benchmarks that have a file of each."""
    every = [PublishedSet(**one) for one in read_toml(FOLDER / "sets.toml")["set"]]
    lacking = {one.benchmark for one in every if complete and not one.path.exists()}
    return [
        one for one in every if one.benchmark not in lacking and (benchmarks is None or one.benchmark in benchmarks)
    ]


def with_rows(scores: Scores, task: ReportTask) -> Scores:
    """Return scores over networks with the rows of their groups, and the printed table."""
    benchmark = benchmark_named(task.place)
    metrics = benchmark.select_metrics(list(dict.fromkeys(group.where["metric"] for group in scores.groups)))
    networks = max(group.by_network(group.sources[0].name).shape[1] for group in scores.groups)
    lines = [f"{task.title}: means over inputs and {networks} networks" if networks > 1 else task.title]
    found = table_of(benchmark, metrics, scores.groups, lines, benchmark.published_figures)
    return dataclasses.replace(found, groups=scores.groups, titles=scores.titles, manifest=scores.manifest)


def over_networks(parts: Sequence[Scores]) -> list[InputScores]:
    """Return the values of a task on several networks as one, (N, K) values of K networks for each metric.

    Inputs are those of all networks, NaN where a network lacks one. From ``MIN_NETWORKS`` networks on, those of random
    weights are replaced by their mean.
    """
    groups = []
    for group in parts[0].groups:
        same = [one for part in parts for one in part.groups if one.where == group.where]
        stacked = stack(same)
        groups.append(mean_members(stacked) if len(same) >= MIN_NETWORKS else stacked)
    return groups


def publish(one: PublishedSet, parts: Sequence[Scores]) -> None:
    """Write the file of a set, given the scores of each of its networks."""
    models = {name: each for part in parts for name, each in part.manifest["models"].items()}
    about = {**parts[0].manifest, "models": models}
    Scores(groups=over_networks(parts), titles=parts[0].titles, manifest=about).save(one.path)


def processor() -> str:
    """Return the processor and its widest vector instructions, as far as the system reports them."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    widest = [name for name in ("avx512f", "avx2", "sse4_1") if name in fields.get("flags", "").split()]
    return " ".join([fields.get("model name", platform.machine()), *widest[:1]])


def with_methods(published: InputScores, parts: Mapping[int, InputScores]) -> InputScores:
    """Return a published group with the values of further methods by number of network, NaN on all others.

    Inputs are the published ones.
    """
    networks = published.by_network(published.sources[0].name).shape[1]
    place = {name: row for row, name in enumerate(published.inputs)}
    group = next(iter(parts.values()))
    added = [source for source in group.sources if source.method]
    values: dict[str, Any] = {source.name: np.full((len(place), networks), np.nan) for source in added}
    for network, part in parts.items():
        shared = [row for row, name in enumerate(part.inputs) if name in place]
        rows = [place[part.inputs[row]] for row in shared]
        for source in added:
            if source.name in part.values:
                values[source.name][rows, network] = part.by_network(source.name)[shared, 0]
    found = dataclasses.replace(published, values=values, sources=added)
    found = mean_members(found) if networks >= MIN_NETWORKS else found
    return dataclasses.replace(
        published,
        values={**published.values, **found.values},
        sources=list(dict.fromkeys([*published.sources, *found.sources])),
    )


def differences(published: InputScores, found: InputScores, network: int) -> dict[str, np.ndarray]:
    """Return source -> which values of one network differ by more than the tolerance, (N,) bool.

    Sources and inputs are those that both have; values that are undefined in one of the two differ.
    """
    place = {name: row for row, name in enumerate(published.inputs)}
    shared = [row for row, name in enumerate(found.inputs) if name in place]
    rows = [place[found.inputs[row]] for row in shared]
    differ = {}
    for source in found.sources:
        if source.name in published.values:
            expected = published.by_network(source.name)[rows, network]
            given = found.by_network(source.name)[shared, 0]
            largest = np.nanmax(np.abs(expected), initial=1.0)
            tolerance = POINTS if largest > 1.5 else SHARES * largest  # percentages, and all others
            differ[source.name] = ~np.isclose(given, expected, 0, tolerance, True)
    return differ
