"""The definition says what the command understands and what its rows hold."""

import pytest

from attribution import METHODS
from attribution_benchmarks.core.evaluation import prepare
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from clevr_xai import masks, methods
from clevr_xai.data import Dataset
from clevr_xai.definition import BENCHMARK
from clevr_xai.metrics import METRICS


def test_it_is_registered():
    assert benchmark_named("clevr_xai") is BENCHMARK


@pytest.mark.parametrize("quick", [True, False])
def test_the_rows_of_the_tasks_are_what_the_columns_show(quick, evaluation_of, network, answered):
    tasks = BENCHMARK.report_tasks(quick, 3)
    assert [task.name for task in tasks] == ["clevr_xai_simple", "clevr_xai_complex"]
    columns = (*BENCHMARK.matrix_columns(), *BENCHMARK.columns_of(METRIC_REGISTRY["roc_auc"]))
    assert [column.key for column in columns] == [
        "clevr_xai mass simple", "clevr_xai rank simple", "clevr_xai mass complex", "clevr_xai rank complex",
        "clevr_xai roc_auc simple", "clevr_xai roc_auc complex",
    ]  # fmt: skip
    for task in tasks:
        given = task.settings
        run = prepare(BENCHMARK, task.methods, given, metrics=task.metrics)
        assert given.seed == 3 and set(run.metrics) == set(METRICS) and set(run.methods) == set(task.methods)
        assert set(given.ground_truth) <= set(masks.GROUND_TRUTHS[given.questions])
        assert set(given.control_methods) <= set(task.methods)
        few = {"names": ("gradient",), "controls": ("wrong_class", "uniform"), "ground_truth": given.ground_truth}
        data = Dataset(given.questions, answered, size=64)
        evaluation = evaluation_of(network, data, rows=(0, 1, 2), metrics=("mass", "rank", "roc_auc"), **few)
        rows = Scores.joined(evaluation.tables()).rows
        for column in columns:
            taken = [row["method"] for row in rows if column.takes(row)]
            assert taken == (["gradient", "uniform"] if given.questions == column.where["questions"] else [])


def test_names_are_those_of_methods_and_controls():
    assert BENCHMARK.report.reasons and not set(BENCHMARK.report.reasons) & set(BENCHMARK.methods)
    assert set(BENCHMARK.method_titles) == set(BENCHMARK.methods) <= set(METHODS) | set(methods.BASELINES)
    names = [control.name for control in BENCHMARK.controls]
    assert names == [*BENCHMARK.settings().controls, "ground_truth"]  # the truth: where a metric asks for it
    assert all(control.about for control in BENCHMARK.controls) and all(metric.about for metric in BENCHMARK.metrics)
