"""The definition says what the command understands and what its rows hold."""

import copy

import numpy as np
import pytest

from attribution import METHODS
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.registry import benchmark_named
from clevr_xai import evaluate, masks, methods, table
from clevr_xai.answering import Measured
from clevr_xai.definition import BENCHMARK
from clevr_xai.metrics import METRICS, POOLINGS


def parsed(task, command):
    """Return the values of a task's flags as the command reads them."""
    assert command[:2] == ("-m", "clevr_xai.evaluate")
    flag_values = copy.deepcopy(evaluate.FLAGS)
    flag_values(
        ["evaluate", *command[2:], f"--methods={','.join(task.methods)}", f"--metrics={','.join(task.metrics)}"]
    )
    return flag_values


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
def test_the_units_are_commands_whose_rows_the_columns_show(quick):
    tasks = BENCHMARK.report_tasks(quick, 3)
    assert [task.name for task in tasks] == ["clevr_xai_simple", "clevr_xai_complex"]
    columns = (*BENCHMARK.matrix_columns(), *BENCHMARK.columns_of(Metric("insertion", "Insertion")))
    assert [column.key for column in columns] == [
        "clevr_xai mass simple", "clevr_xai rank simple", "clevr_xai mass complex", "clevr_xai rank complex",
        "clevr_xai insertion simple", "clevr_xai insertion complex",
    ]  # fmt: skip
    for task in tasks:
        for command in (task.command, task.trial):
            given = parsed(task, command)
            assert given.seed == 3 and set(given.metrics) == set(METRICS)
            assert set(given.ground_truth) <= set(masks.GROUND_TRUTHS[given.questions])
            assert set(methods.settings(given.methods)) == set(task.methods) and task.model_flag[2:-1] in given
        assert set(parsed(task, task.command).control_methods) <= set(task.methods)
        rows = rows_of(given.questions, given.ground_truth[0])
        for column in columns:
            taken = [row["method"] for row in rows if column.takes(row)]
            assert taken == (["gradient", "uniform"] if given.questions == column.where["questions"] else [])
    assert "--seed" not in " ".join(BENCHMARK.report_tasks(quick, 0)[0].command)


def test_names_are_those_of_methods_controls_and_pictures():
    assert BENCHMARK.report.reasons and not set(BENCHMARK.report.reasons) & set(BENCHMARK.methods)
    assert set(BENCHMARK.method_titles) == set(BENCHMARK.methods) <= set(METHODS) | set(methods.BASELINES)
    names = [control.name for control in BENCHMARK.controls]
    assert names == [*evaluate.FLAGS["controls"].default, "ground_truth"]  # the truth: where a metric asks for it
    assert set(BENCHMARK.report.pictures) == {"question", *METRICS}
    assert all(control.about for control in BENCHMARK.controls) and all(metric.about for metric in BENCHMARK.metrics)
