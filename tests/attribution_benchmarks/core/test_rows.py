import numpy as np

from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.rows import control_row, format_controls
from attribution_benchmarks.stats import statistics

LABEL = MapSource("gradient", "random_weights")


def test_row_is_of_the_mean_over_inputs_and_controls():
    values = np.array([[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 0.0, 0.0]])
    row = control_row(LABEL, "mass", values)
    of_means = statistics.mean_interval(values.T)
    assert {name: row[name] for name in ("value", "low", "high", "n")} == of_means._asdict()
    assert row["networks"] == [0.5, 0.5]
    assert (row["method"], row["of"], row["control"]) == ("gradient/random_weights", "gradient", "random_weights")


def test_several_controls_have_the_mean_of_each():
    hits = np.array([[1.0, 0.0, 1.0, 1.0]])
    alone = control_row(LABEL, "pointing", hits, 1.0, bounds=(0.0, 1.0))
    assert "networks" not in alone
    several = control_row(LABEL, "pointing", np.tile(hits, (2, 1)), 1.0, bounds=(0.0, 1.0))
    assert several["value"] == alone["value"] and several["networks"] == [0.75, 0.75]


def test_without_values_there_are_no_figures():
    row = control_row(LABEL, "mass", np.empty((2, 0)))
    assert np.isnan([row["value"], *row["networks"]]).all() and row["n"] == 0


def test_rows_are_told_with_the_least_and_the_largest():
    rows = [{"of": "a", "value": 0.5, "networks": [0.25, 0.75]}, {"of": "b", "value": 0.125}]
    told = format_controls(rows, {"a": "A", "b": "B"}, "{:.2f}".format)
    assert told == ("A 0.50 [0.25, 0.75], B 0.12", 2)
    assert format_controls([], {}, str) == ("", 0)
