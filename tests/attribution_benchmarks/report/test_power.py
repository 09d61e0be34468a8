"""Which metrics tell the truth from a control, by closed forms; and their place on the page."""

import dataclasses

import numpy as np
import pytest

from attribution_benchmarks.core.definition import ORACLE, Column
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import matrix, sections, significance
from attribution_benchmarks.report.formatting import Names

TRUTH = np.array([1.0, 1, 1, 1, 1, 1, 1, 1])
COLUMNS = (
    Column("mine", "sharp", "Sharp", "Mine", excluded={"truth": ORACLE}),
    Column("mine", "blunt", "Blunt", "Mine", excluded={"truth": ORACLE}),
    Column("mine", "cost", "Cost", "Mine", higher_is_better=False, excluded={"truth": ORACLE}),
    Column("mine", "blind", "Blind", "Mine"),
)
VALUES = {
    "sharp": {"truth": TRUTH, "edges": TRUTH - 1, "random": TRUTH - 2},
    "blunt": {"truth": TRUTH, "edges": TRUTH + [1, 1, 1, 0, 0, -1, -1, -1], "random": TRUTH - 2},
    "cost": {"truth": TRUTH, "edges": TRUTH + 1, "random": np.where(np.arange(8) == 0, np.nan, TRUTH + 1)},
    "blind": {"edges": TRUTH, "random": TRUTH},
}


@pytest.fixture
def scored():
    rows = [
        {"method": name, "metric": metric, "value": float(np.nanmean(values)), "low": 0.0, "high": 1.0, "n": 8,
         "paper": None, "kind": "control"}
        for metric, columns in VALUES.items() for name, values in columns.items()
    ]  # fmt: skip
    groups = [
        InputScores({"metric": metric}, list("abcdefgh"), {**columns, "gradient/random": TRUTH})
        for metric, columns in VALUES.items()
    ]
    return matrix.build([{"benchmark": "mine", "rows": rows}], COLUMNS), {"mine": groups}


def test_metrics_stand_in_the_order_of_the_control_that_they_tell_least(scored):
    found = significance.oracle_power(*scored)
    assert [one.column.metric for one in found] == ["sharp", "cost", "blunt"]  # without a truth there is no telling
    sharp, cost, blunt = found
    assert {each.control: (each.share, each.n) for each in sharp.shares} == {"edges": (1, 8), "random": (1, 8)}
    assert {each.control: (each.share, each.n) for each in cost.shares} == {"edges": (1, 8), "random": (1, 7)}
    assert [(each.control, each.share) for each in blunt.shares] == [("edges", 0.5), ("random", 1)]
    assert blunt.shares[0].low < 0.5 < blunt.shares[0].high and blunt.value == 1
    (line,) = sections.power_lines([blunt], Names({"edges": "Edges", "truth": "The truth"}, []))
    assert (line["control"], line["least"], line["others"]) == ("Edges", "0.50", "random 1.00")
    assert line["truth"] == "The truth (1.000)" and line["direction"] == "more"


def test_a_control_that_has_its_figure_by_construction_is_no_rival(scored):
    built, groups = scored
    columns = [
        dataclasses.replace(column, excluded={**column.excluded, "edges": "ceiling"}) for column in built.columns
    ]
    found = significance.oracle_power(dataclasses.replace(built, columns=tuple(columns)), groups)
    assert {tuple(each.control for each in one.shares) for one in found} == {("random",)}
