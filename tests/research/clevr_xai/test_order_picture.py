"""The picture of an order shows the means, intervals and poster's figures that the table prints."""

import matplotlib.collections
import numpy as np
import pytest

from attribution_benchmarks.stats.statistics import Estimate
from clevr_xai import paper_table
from research.clevr_xai import network_order
from research.clevr_xai.network_order import Orders

MEANS = {"first $ net": {"lrp_clevr_xai": 0.8, "gradient": 0.4, "uniform": 0.1},
         "second": {"lrp_clevr_xai": 0.7, "gradient": 0.5, "uniform": 0.1},
         "third": {"lrp_clevr_xai": 0.6, "gradient": 0.3, "uniform": 0.1}}  # fmt: skip


@pytest.fixture
def found():
    return lambda questions="simple": Orders(
        {"questions": questions, "ground_truth": "single_object" if questions == "simple" else "union",
         "metric": "mass", "pooling": "l2-norm,sq", "subset": "all"},
        list(MEANS), ["lrp_clevr_xai", "gradient"], ["uniform"], 10, dict.fromkeys(MEANS, 9), {}, np.arange(8),
        {network: {name: Estimate(mean, mean - 0.05, mean + 0.1, 8) for name, mean in columns.items()}
         for network, columns in MEANS.items()}, {}, "f",
    )  # fmt: skip


def test_each_network_has_a_mean_and_its_interval_in_each_row(found):
    figure = network_order.order_figure(found())
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [
        "LRP (CLEVR-XAI)",
        "Vanilla Gradient",
        "Uniform map",
    ]
    drawn = {container.get_label(): container for container in axis.containers}
    assert list(drawn) == ["1: first $ net", "2: second", "3: third"]
    ticks = axis.get_yticks()
    for network, container in zip(MEANS, drawn.values(), strict=True):
        points, _, (lines,) = container
        assert isinstance(lines, matplotlib.collections.LineCollection)
        np.testing.assert_allclose(points.get_xdata(), list(MEANS[network].values()))
        assert np.abs(points.get_ydata() - ticks).max() < 0.5  # in its own row
        ends = np.array([segment[:, 0] for segment in lines.get_segments()])
        np.testing.assert_allclose(ends - points.get_xdata()[:, None], [[-0.05, 0.1]] * 3)


def test_the_poster_stands_where_it_has_a_figure(found):
    def posters(questions):
        (axis,) = network_order.order_figure(found(questions)).axes
        return [line for line in axis.lines if line.get_label() == "poster"]

    (poster,) = posters("simple")
    wanted = [
        paper_table.figure(name, "mass", "simple", "single_object", "all").mean
        for name in MEANS["second"]
        if name != "uniform"
    ]
    assert list(poster.get_xdata()) == wanted and list(poster.get_ydata()) == [2, 1]
    assert not posters("complex")
