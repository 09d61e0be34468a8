"""What is said of a map is what the oracle says."""

import numpy as np
import pytest

import attribution
from benchmarks.zoo import measure
from benchmarks.zoo.families import FAMILIES


@pytest.fixture
def with_method(monkeypatch):
    """Put another function in place of a method's."""

    def replace(name, function):
        real = attribution.METHODS[name]
        changed = attribution.Method(name, real.title, function, real.facts, asks=real.asks)
        monkeypatch.setattr("attribution.resolve.METHODS", {**attribution.METHODS, name: changed})

    return replace


@pytest.mark.parametrize(
    ("function", "status"),
    [
        (lambda passes: passes.input_gradient(), "exact"),
        (lambda passes: passes.input_gradient() * 1.001, "differs"),
        (lambda passes: np.flip(passes.input_gradient(), 1), "differs"),
        (lambda passes: passes.input_gradient() * np.nan, "crashes"),
        (lambda passes: passes.no_such_thing(), "crashes"),
        (lambda passes: passes.layer_gradient("no_such_layer"), "refused"),
    ],
)
def test_a_map_is_called_what_it_is(function, status, with_method):
    with_method("gradient", function)
    cell = measure.measure(FAMILIES["bias_free"], ["gradient"])["methods"]["gradient"]
    assert cell["status"] == status, cell
    if status == "differs":
        assert cell["difference"] > 5e-4


def test_relevance_that_leaks_differs(with_method):
    with_method("lrp_cp", lambda passes, *, epsilon=0.0: 1.01 * passes.inputs * passes.input_gradient())
    cell = measure.measure(FAMILIES["bias_free"], ["lrp_cp"])["methods"]["lrp_cp"]
    assert (cell["status"], cell["against"]) == ("differs", "conservation")
    assert cell["difference"] == pytest.approx(0.01, rel=1e-2)


def test_what_float64_mends_is_rounding(with_method):
    """A float32 network's gradient that is off by 1e-4, and right in float64, is rounding; one off in both differs."""
    real = attribution.METHODS["gradient"].function

    def rounded(passes):
        is_double = any(node.attr["T"].type == 2 for node in passes.model.graph.nodes.values() if node.op == "Conv2D")
        return real(passes) * (1.0 if is_double else 1.0001)

    with_method("gradient", rounded)
    cell = measure.measure(FAMILIES["bias_free"], ["gradient"])["methods"]["gradient"]
    assert cell["status"] == "rounding" and cell["in_double"] <= measure.TOLERANCE < cell["difference"], cell
    assert cell["of_oracle"] < 1e-6, cell


def test_half_precision_is_compared_with_double():
    for name in ("mixed_float16", "mixed_bfloat16"):
        cell = measure.measure(FAMILIES[name], ["lrp_epsilon"])["methods"]["lrp_epsilon"]
        assert (cell["status"], cell["against"]) == ("exact", "Gradient x Input in float64"), cell
