"""The definition says what the command understands and what its rows hold."""

import numpy as np
import pytest

from attribution import METHODS
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.evaluation import prepare
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.registry import benchmark_named
from clevr_xai import masks, methods, table
from clevr_xai.answering import Measured
from clevr_xai.definition import BENCHMARK
from clevr_xai.metrics import METRICS, POOLINGS


def rows_of(kind, truth):
    """Return the rows of a made-up run of two questions, and of a metric of all benchmarks."""
    truths = masks.GROUND_TRUTHS[kind]
    labels = (MapSource("gradient"), MapSource("gradient", "wrong_class"), MapSource(control="uniform"))
    measured = Measured(
        kind, truths, np.arange(2), np.arange(2), ["a.png", "b.png"], np.ones(2, bool), np.ones(2),
        {name: np.full(2, 9) for name in truths}, "f", labels,
        lambda label: np.full((2, len(truths), len(METRICS), len(POOLINGS)), 0.5),
        shared={"insertion": lambda label: np.full(2, 0.5)},
    )  # fmt: skip
    return table.long_rows(measured, [truth, "all_objects"], ["mass", "rank"]) + table.shared_rows(measured, truth)


def test_it_is_registered():
    assert benchmark_named("clevr_xai") is BENCHMARK


@pytest.mark.parametrize("quick", [True, False])
def test_the_rows_of_the_tasks_are_what_the_columns_show(quick):
    tasks = BENCHMARK.report_tasks(quick, 3)
    assert [task.name for task in tasks] == ["clevr_xai_simple", "clevr_xai_complex"]
    columns = (*BENCHMARK.matrix_columns(), *BENCHMARK.columns_of(Metric("insertion", "Insertion")))
    assert [column.key for column in columns] == [
        "clevr_xai mass simple", "clevr_xai rank simple", "clevr_xai mass complex", "clevr_xai rank complex",
        "clevr_xai insertion simple", "clevr_xai insertion complex",
    ]  # fmt: skip
    for task in tasks:
        given = task.settings
        for settings in (given, task.trial):
            run = prepare(BENCHMARK, task.methods, settings, metrics=task.metrics)
            assert settings.seed == 3 and set(run.metrics) == set(METRICS) and set(run.methods) == set(task.methods)
            assert set(settings.ground_truth) <= set(masks.GROUND_TRUTHS[settings.questions])
        assert set(given.control_methods) <= set(task.methods) and not task.trial.control_methods
        rows = rows_of(given.questions, given.ground_truth[0])
        for column in columns:
            taken = [row["method"] for row in rows if column.takes(row)]
            assert taken == (["gradient", "uniform"] if given.questions == column.where["questions"] else [])


def test_names_are_those_of_methods_controls_and_pictures():
    assert BENCHMARK.report.reasons and not set(BENCHMARK.report.reasons) & set(BENCHMARK.methods)
    assert set(BENCHMARK.method_titles) == set(BENCHMARK.methods) <= set(METHODS) | set(methods.BASELINES)
    names = [control.name for control in BENCHMARK.controls]
    assert names == [*BENCHMARK.settings().controls, "ground_truth"]  # the truth: where a metric asks for it
    assert set(BENCHMARK.report.pictures) == {"question", *METRICS}
    assert all(control.about for control in BENCHMARK.controls) and all(metric.about for metric in BENCHMARK.metrics)
