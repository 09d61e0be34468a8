import sys

import pytest

import attribution_benchmarks
from attribution.errors import BadInput
from attribution_benchmarks.__main__ import command
from attribution_benchmarks.core.scores import Scores

METRICS = """
from attribution_benchmarks.core.metric import of_maps
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
    assert value == own and "Vanilla Gradient (tf-explain)" in str(results)


def test_a_method_that_a_benchmark_refuses_is_named(results):
    skipped = results.manifest["skipped"]
    assert list(skipped) == ["Toy: grad_cam"] and skipped["Toy: grad_cam"] in str(results)
    assert "Integrated Gradients" in str(results)


def test_the_command_prints_the_same_table(results, toy, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["attribution-benchmarks"])
    flags = [f"--benchmarks={toy}:TOY", "--noquick", f"--output={tmp_path / 'scores.json'}"]
    with pytest.raises(SystemExit) as exit_code:
        command(["score", "integrated_gradients", *flags])
    assert exit_code.value.code in (0, None)
    line = next(line for line in str(results).splitlines() if line.startswith("Integrated Gradients"))
    assert line.split() in [one.split() for one in capsys.readouterr().out.splitlines()]
    (row,) = [row for row in Scores.load(tmp_path / "scores.json").rows if row["kind"] == "method"]
    assert row in results.rows


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
        ({"seed": -1}, "seed=-1: expected a number from 0 to"),
        ({"seed": 1.5}, "seed=1.5: expected a whole number"),
        ({"seed": None}, "seed=None: expected a whole number"),
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
