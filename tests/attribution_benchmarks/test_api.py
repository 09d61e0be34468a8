import numpy as np
import pytest

import attribution_benchmarks
from attribution.errors import BadInput


def absolute(queries):
    """Return the absolute gradient, a custom method."""
    return abs(queries.input_gradient())


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield attribution_benchmarks.score([absolute, "integrated_gradients", "grad_cam"], ["exact"])


def test_rows_have_methods_and_baselines(results):
    kinds = {row["method"]: row["kind"] for row in results.rows if "of" not in row}
    assert kinds["absolute"] == kinds["integrated_gradients"] == "method"
    assert "control" in kinds.values()
    assert all(row["low"] <= row["value"] <= row["high"] for row in results.rows if row["value"] is not None)


def test_a_method_that_a_benchmark_refuses_is_named(results):
    (place,) = results.skipped
    assert place.endswith(": grad_cam") and results.skipped[place] in str(results.table())
    assert "Integrated Gradients" in str(results.table())


def test_compare_is_the_mean_difference_of_the_same_inputs(results):
    (part,) = results.parts
    (group,) = [group for group in part.input_scores if group.where == {"metric": "distance"}]
    (row,) = [row for row in results.compare("absolute") if row["metric"] == "distance"]
    expected = np.mean(np.subtract(group.values["integrated_gradients"], group.values["absolute"]))
    assert (row["method"], row["minus"]) == ("integrated_gradients", "absolute")
    assert row["difference"] == pytest.approx(expected, abs=1e-12)
    assert row["low"] < row["difference"] < row["high"] < 0  # integrated gradients are exact on most problems


def test_compare_scores_a_method_that_is_missing(results):
    table = results.compare("gradient_x_input")
    assert {row["method"] for row in table} == {"absolute", "integrated_gradients"}
    assert "minus Gradient x Input" in str(table)


def test_plot_has_a_panel_for_each_metric(results):
    axes = [axis for axis in results.plot().axes if axis.get_title()]
    assert len(axes) == len(results.parts[0].metrics)
    assert "absolute" in [label.get_text() for label in axes[0].get_yticklabels()]


@pytest.mark.parametrize(
    ("methods", "benchmarks", "message"),
    [
        (["gradient", "gradient"], ["exact"], "different names"),
        ("no_such_method", ["exact"], "no_such_method"),
        ("gradient", ["no_such_benchmark"], "no_such_benchmark"),
        ("grad_cam", ["exact"], "grad_cam"),
    ],
)
def test_invalid_arguments_raise(methods, benchmarks, message):
    with pytest.raises(BadInput, match=message):
        attribution_benchmarks.score(methods, benchmarks)
