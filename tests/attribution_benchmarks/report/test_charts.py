"""The scale of a chart holds its values."""

import pytest

from attribution_benchmarks.report import charts


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
