"""Bars lie where their values are."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from attribution_benchmarks.report import charts
from attribution_benchmarks.report.charts import Scale


@pytest.mark.parametrize(
    ("values", "percent", "ends"),
    [
        ([3.0, 70.0], True, (0, 100)),
        ([0.02, 0.93], False, (0, 1)),
        ([-0.01, 0.32], False, (-0.05, 0.35)),
        ([0.0, 0.0], False, (0, 1e-10)),
    ],
)
def test_scales_have_round_ends_and_hold_everything(values, percent, ends):
    scale = charts.scale_of([{"value": value} for value in values], percent)
    assert scale == pytest.approx(ends, abs=1e-9)
    assert scale.low < scale.high
    for value in values:
        assert scale.low <= value <= scale.high


def test_intervals_and_papers_figures_are_on_the_scale():
    scale = charts.scale_of([{"value": 0.5, "low": -0.2, "high": 1.4, "paper": 2.3}], percent=False)
    assert scale.low <= -0.2 and scale.high >= 2.3


def places(svg, kind):
    return [float(found) for found in re.findall(rf'class="{kind}" x1="([\d.]+)%"', svg)]


def test_a_bar_reaches_from_zero_to_its_value_and_its_interval_lies_over_it():
    row = {"value": 0.5, "low": 0.25, "high": 0.75, "paper": 1.0, "kind": "method"}
    svg = charts.bar(row, Scale(-1.0, 1.0), reference=0.0)
    ElementTree.fromstring(svg)
    assert 'class="method" x="50.00%" y="4" width="25.00%"' in svg
    assert places(svg, "interval") == [62.5, 62.5, 87.5]
    assert places(svg, "zero") == places(svg, "reference") == [50.0]
    assert '<svg x="100.00%"' in svg


def test_a_negative_bar_reaches_from_its_value_to_zero():
    svg = charts.bar({"value": -0.5, "kind": "control"}, Scale(-1.0, 1.0))
    assert 'class="control" x="25.00%" y="4" width="25.00%"' in svg
    assert "interval" not in svg and "paper" not in svg
