"""Which examples are shown, and that every figure is drawn whatever the maps look like."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from svea import metrics, pictures
from svea.definition import BENCHMARK
from svea.metrics import METRICS
from svea.scoring import NetworkScores, SourceScores


@pytest.fixture(scope="module")
def drawn(data):
    generator = np.random.default_rng(0)
    maps = {"rise": generator.random((5000, 40)), "gradient": np.zeros((5000, 40)), "my:own": -np.ones((5000, 40))}
    sources = {
        MapSource(name): SourceScores(
            {metric: generator.random(1000) for metric in METRICS}, 0, metrics.region_of_explanation(array)
        )
        for name, array in maps.items()
    }
    sources[MapSource(control="raw_signal")] = SourceScores({"roe_test": generator.random(1000)})
    probabilities = np.eye(10)[np.where(np.arange(1000) % 7, data.test.labels, (data.test.labels + 1) % 10)]
    return NetworkScores(sources, probabilities), {name: array[4000:] for name, array in maps.items()}


@pytest.fixture(scope="module")
def network(drawn):
    return drawn[0]


@pytest.fixture(scope="module")
def maps(drawn):
    return drawn[1]


@pytest.fixture(scope="module")
def titles(network):
    return BENCHMARK.row_titles(network.sources)


def test_examples_are_right_and_wrong_ones_of_different_classes(network, data):
    labels = data.test.labels
    right, wrong = pictures.choose_examples(labels, network.probabilities)
    predicted = network.probabilities.argmax(axis=1)
    assert len(right) == len(wrong) == 3
    assert (predicted[right] == labels[right]).all() and (predicted[wrong] != labels[wrong]).all()
    assert len(set(labels[right])) == len(set(labels[wrong])) == 3


def test_a_network_without_mistakes_has_no_wrong_examples():
    right, wrong = pictures.choose_examples(np.arange(10), np.eye(10))
    assert len(right) == 3 and len(wrong) == 0


def test_all_figures_are_written_and_nothing_else_twice_the_same(network, maps, titles, data, tmp_path, table_of):
    rows = table_of([network]).rows
    written = pictures.save_figures(tmp_path / "plots", data, network, maps, rows, titles)
    assert [path.name for path in written] == ["examples.png", "roe_test_scores.png", "positions.png"]
    assert sorted((tmp_path / "plots").iterdir()) == sorted(written)
    first = [path.read_bytes() for path in written]
    pictures.save_figures(tmp_path / "plots", data, network, maps, rows, titles)
    assert [path.read_bytes() for path in written] == first


def test_methods_of_other_libraries_have_a_colour_of_their_own(network, titles, table_of):
    rows = [{**row, "kind": "peer"} if row["method"] == "my:own" else row for row in table_of([network]).rows]
    figure = pictures.roe_figure(rows, titles)
    scored = sorted((row for row in rows if row["metric"] == "roe_test"), key=lambda row: row["value"])
    drawn = {}
    for row, bar in zip(scored, figure.axes[0].patches, strict=False):
        drawn.setdefault(row["kind"], set()).add(bar.get_facecolor())
    legend = {text.get_text().split(",")[0] for text in figure.axes[0].get_legend().get_texts()}
    assert all(len(colours) == 1 for colours in drawn.values()) and len(set.union(*drawn.values())) == 3
    assert legend == {"paper", "method", "control", "peer"}


def test_the_places_of_windows_are_drawn_for_all_that_have_windows(network, titles, data, table_of):
    figure = pictures.positions_figure(data, network, table_of([network]).rows, titles)
    mesh = np.asarray(figure.axes[0].collections[0].get_array())
    windows = [one for one in (*network.methods.values(), *network.controls.values()) if one.starts is not None]
    assert mesh.shape[0] == len(figure.axes[0].get_yticklabels()) == len(windows)
    np.testing.assert_allclose((mesh**2).sum(axis=1), 100, atol=1e-6)  # every window is somewhere
    assert figure.axes[1].get_ylabel() == "of the test signals, a point"


def test_the_regions_drawn_are_the_regions_scored(network, maps, titles, data):
    figure = pictures.examples_figure(data, network, maps, titles)
    right, wrong = pictures.choose_examples(data.test.labels, network.probabilities)
    for axis, row in zip(figure.axes, [*right, *wrong], strict=True):
        assert len(axis.patches) == len(network.methods)
        for patch, name in zip(axis.patches, network.methods, strict=True):
            box = patch.get_extents().transformed(axis.transData.inverted())
            start = network.methods[name].starts[4000 + row]
            assert (box.x0, box.x1) == pytest.approx((start - 0.5, start + 11.5))
