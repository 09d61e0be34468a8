import copy
import dataclasses
import sys

import numpy as np
import pytest

import attribution_benchmarks
from attribution.errors import BadInput
from attribution_benchmarks import api
from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX
from attribution_benchmarks.report import significance

METRICS = """
from attribution_benchmarks.core.metric import of_maps
from attribution_benchmarks.report import significance
SCALAR = of_maps("scalar", lambda maps, batch, scores: maps.sum())
TEXT = of_maps("text", lambda maps, batch, scores: ["high"] * len(maps))
"""


def absolute(queries):
    """Return the absolute gradient, a custom method."""
    return abs(queries.input_gradient())


def inputs(queries):
    """Return the inputs, of which about half is on the truth."""
    return queries.inputs


@pytest.fixture(scope="module")
def results(toy, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path_factory.mktemp("cache")))
        methods = [absolute, inputs, "integrated_gradients", "grad_cam", "gradient@tf_explain"]
        yield attribution_benchmarks.score(methods, f"{toy}:TOY", quick=False)


def test_rows_have_methods_and_baselines(results):
    kinds = {row["method"]: row["kind"] for row in results.rows}
    assert kinds["absolute"] == kinds["integrated_gradients"] == "method" and kinds["uniform"] == "control"
    assert all(row["low"] <= row["value"] <= row["high"] for row in results.rows if row["value"] is not None)


def test_a_method_as_a_library_defines_it_is_a_row(results):
    """tf-explain's gradient is the absolute one."""
    (value, own) = (
        [row["value"] for row in results.rows if row["method"] == name] for name in ("gradient@tf_explain", "absolute")
    )
    assert value == own and "Vanilla Gradient (tf-explain)" in str(results.table())


def test_a_method_that_a_benchmark_refuses_is_named(results):
    assert list(results.skipped) == ["Toy: grad_cam"] and results.skipped["Toy: grad_cam"] in str(results.table())
    assert "Integrated Gradients" in str(results.table())


def test_compare_is_the_mean_difference_of_the_same_inputs(results):
    (part,) = results.parts
    (group,) = [group for group in part.input_scores if group.where == {"metric": "mass"}]
    table = results.compare("absolute")
    (row,) = [row for row in table if (row["metric"], row["method"]) == ("mass", "inputs")]
    expected = np.mean(np.subtract(group.values["inputs"], group.values["absolute"]))
    assert row["minus"] == "absolute" and row["difference"] == pytest.approx(expected, abs=1e-12)
    assert row["low"] < row["difference"] < row["high"] < 0 and row["n"] == 12
    assert list(results.compare("Uniform map")) == list(results.compare("uniform"))
    with pytest.raises(BadInput, match="no_such_method"):
        results.compare("no_such_method")


def test_advice_on_few_inputs_says_how_many_are_needed(results):
    first, last = results.advice().splitlines()
    assert first == (
        "No verdict on baselines: 12 independent inputs are too few, from 60 independent inputs on a method can pass "
        "(✓)."
    )
    assert last == "Other networks: on Toy, the results hold for the networks that were scored."


def test_advice_names_the_method_that_beats_its_baselines(results, monkeypatch):
    """The absolute gradient is on the truth alone; a uniform map reaches half of its score."""
    monkeypatch.setattr(significance, "INPUTS_FOR_MARK", 12)
    lines = results.advice().splitlines()
    best = "absolute, Integrated Gradients and Vanilla Gradient (tf-explain)"
    assert lines[0].startswith(f"{best} beat every baseline (✓) on ")
    (cost,) = [line for line in lines if line.startswith("Cost of an input: ")]
    assert "Integrated Gradients 1 gradient per point" in cost and "Vanilla Gradient (tf-explain) 1 gradient" in cost
    assert lines[-1] == "Other networks: on Toy, the results hold for the networks that were scored."


def test_compare_scores_a_method_that_is_missing(results):
    table = results.compare("Gradient x Input")
    assert {row["method"] for row in table} == {"absolute", "inputs", "integrated_gradients", "gradient@tf_explain"}
    assert {row["minus"] for row in table} == {"gradient_x_input"} and "minus Gradient x Input" in str(table)


def test_plot_has_a_panel_for_each_metric_and_nothing_is_clipped(results):
    figure = results.plot()
    axes = [axis for axis in figure.axes if axis.get_title(loc="right")]
    assert len(axes) == len(results.parts[0].metrics)
    assert "absolute" in [label.get_text() for label in axes[0].get_yticklabels()]
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["method", "baseline"]
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.get_figwidth() and box.y1 <= figure.get_figheight()


def test_plot_distinguishes_oracles_and_trivial_maxima_from_baselines(results):
    (part,) = results.parts
    for reason, label in ((ORACLE, "oracle (uses the truth)"), (TRIVIAL_MAX, "trivial maximum")):
        changed = copy.copy(results)
        changed.parts = [dataclasses.replace(part, excluded={"mass": {"uniform": reason}})]
        legend = [text.get_text() for text in changed.plot().legends[0].get_texts()]
        assert legend == ["method", label]


def test_small_p_values_are_printed_as_a_limit(results, monkeypatch):
    found = api.compare_pairs
    monkeypatch.setattr(
        api, "compare_pairs", lambda *given: [pair._replace(p_corrected=0.00004) for pair in found(*given)]
    )
    assert "< 0.0001" in str(results.compare("absolute")) and "0.0000" not in str(results.compare("absolute"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["gradient", "gradient"]}, "'gradient' twice; name it once"),
        ({"methods": 3}, "methods are names or functions, not 3"),
        ({"benchmarks": 3}, "benchmarks are names, not 3"),
        ({"methods": "no_such_method"}, "no_such_method"),
        ({"benchmarks": "no_such_benchmark"}, "no_such_benchmark"),
        ({"methods": "grad_cam"}, "grad_cam"),
        ({"metrics": "metrics.py:SCALAR"}, r"'scalar' must return numbers of the shape \(6,\) for 6 maps, not \(\)"),
        ({"metrics": "metrics.py:TEXT"}, r"'text' must return numbers of the shape \(6,\) for 6 maps, not list"),
        ({"model": "no_such_model"}, "'no_such_model' does not exist"),
        ({"model": object()}, "model is the path of a SavedModel or of a .keras or .h5 file, not <object"),
        ({"benchmarks": []}, "benchmarks is empty; choose of 'svea'"),
        ({"methods": ""}, "methods has the invalid name ''"),
        ({"methods": "gradient,rise"}, "no method 'gradient,rise'"),
        ({"methods": "gra\ndient"}, "no method 'gra dient'"),
        ({"seed": -1}, "seed=-1: a whole number from 0 on"),
        ({"seed": 1.5}, "seed=1.5: a whole number"),
        ({"seed": None}, "seed=None: a whole number"),
    ],
)
def test_invalid_arguments_raise(toy, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics.py").write_text(METRICS)
    with pytest.raises(BadInput, match=message):
        attribution_benchmarks.score(**{"methods": "gradient", "benchmarks": f"{toy}:TOY", **arguments})


def test_a_missing_model_is_reported_without_tensorflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # an import would raise
    with pytest.raises(BadInput, match="does not exist"):
        attribution_benchmarks.score("gradient", "exact", model="no_such_model")
