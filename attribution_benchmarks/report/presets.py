"""The tasks of a full or a quick report, and their methods and metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from attribution_benchmarks.core.definition import Benchmark, Column, ReportTask
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import NETWORKS, RANDOM_WEIGHTS
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.stats.statistics import MIN_NETWORKS

QUICK_ERROR = 0.2  # of a map
MOST_TRAINED = 20  # networks of a benchmark

# Cheap methods of the benchmarks' papers, scored in all benchmarks, so that more columns have common methods.
_COMPARED = (
    "gradient_x_input", "guided_backprop", "guided_grad_cam", "deconvnet", "vargrad", "lrp_alpha1beta0",
    "excitation_backprop", "grad_cam_plus_plus", "xgrad_cam", "score_cam", "sise",
)  # fmt: skip


def tasks_of(
    benchmark: Benchmark,
    place: str,
    quick: bool,
    seed: int,
    metrics: Sequence[str] = (),
    networks: int = 1,
) -> list[ReportTask]:
    """Return the tasks of a benchmark, and those of its further networks.

    Parameters
    ----------
    benchmark
        The definition.
    place
        Its name, or ``file.py:NAME`` of a custom one.
    quick
        Whether to use few inputs, samples and masks.
    seed
        Of the run.
    metrics
        Names of metrics that the user added.
    networks
        Number of trained networks; those that a benchmark has beyond the first one have tasks of their own.
    """
    of_one = benchmark.report_tasks(quick, seed) if benchmark.report_tasks else [_task_of(benchmark, quick, seed)]
    further = [task.on_network(number) for task in of_one for number in range(1, min(networks, len(task.networks) + 1))]
    return [
        _completed(task, place, quick, _of_random(task, quick, networks), [*_default_metrics(), *metrics])
        for task in (*of_one, *further)
    ]


def _of_random(task: ReportTask, quick: bool, networks: int) -> int:
    """Return the number of random networks: one for each trained one where these are a sample and vary more."""
    trained = min(networks, 1 + len(task.networks))
    return 1 if quick or trained >= MIN_NETWORKS else NETWORKS


def _completed(task: ReportTask, place: str, quick: bool, random_networks: int, metrics: Sequence[str]) -> ReportTask:
    """Return a benchmark's task with what all benchmarks have: random networks, methods and metrics."""
    more = metrics if task.more_metrics else ()
    changed: dict[str, Any] = {"random_networks": random_networks} if task.random_networks else {}
    changed |= {"map_error": QUICK_ERROR} if quick and hasattr(task.settings, "map_error") else {}
    return dataclasses.replace(
        task,
        settings=task.settings.replaced(**changed),
        place=task.place or place,
        methods=tuple(dict.fromkeys([*task.methods, *(_COMPARED if task.shared else ())])),
        metrics=tuple(dict.fromkeys([*task.metrics, *more])),
    )


def columns_of(benchmark: Benchmark, metrics: Sequence[Metric] = ()) -> list[Column]:
    """Return a benchmark's columns of the matrix: its metrics, those of all benchmarks, and custom ones."""
    added = dict.fromkeys([*_default_metrics().values(), *metrics])
    return [*benchmark.matrix_columns(), *(column for metric in added for column in benchmark.columns_of(metric))]


def _default_metrics() -> dict[str, Metric]:
    """Return the metrics of all benchmarks that are computed by default, by name."""
    return {name: metric for name, metric in METRIC_REGISTRY.items() if not metric.on_request}


def _task_of(benchmark: Benchmark, quick: bool, seed: int) -> ReportTask:
    """Return the task of a benchmark without ``report_tasks``."""
    count = benchmark.counts[0 if quick else 1]
    settings = benchmark.settings().replaced(num_imgs=count, seed=seed)
    return ReportTask(
        benchmark.name, benchmark.name, benchmark.title, settings,
        benchmark.methods, f"At most {count:,} inputs.", shared=False,
        networks=tuple(settings.replaced(model=path) for path in benchmark.further_networks),
        metrics=benchmark.default_metrics, random_networks=RANDOM_WEIGHTS in benchmark.controls,
        cost=10 if quick else 30,
    )  # fmt: skip
