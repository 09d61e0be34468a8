"""SVEA's settings of the methods."""

import numpy as np

import attribution
from attribution_benchmarks.core.evaluation import prepare
from attribution_benchmarks.core.store import ScoreStore
from svea import methods
from svea.definition import BENCHMARK


def test_the_papers_methods_and_smoothgrad_are_scored_by_default():
    assert set(methods.METHODS) == (
        {one["method"] for one in BENCHMARK.paper} - {"raw_signal", *methods.CANDIDATES}
    ) | {"smoothgrad"}
    assert set(methods.METHODS) <= set(attribution.METHODS)


def test_the_vanilla_gradient_is_absolute(data, model):
    signals = data.test.signals[:20, :, None]
    chosen = methods.settings(["gradient"])
    maps = attribution.explain_many(chosen, model, signals)["gradient"]
    np.testing.assert_array_equal(maps, np.abs(attribution.explain("gradient", model, signals)))


def test_settings_of_svea_reach_the_methods():
    chosen = methods.settings(["rise", "integrated_gradients", "occlusion"], rise_masks=17)
    assert chosen["rise"][1] == {"masks": 17}
    assert chosen["integrated_gradients"][1] == {"points": 51, "quadrature": "uniform"}
    assert chosen["occlusion"][1] == {}


def test_under_another_name_a_method_keeps_sveas_settings():
    run = prepare(BENCHMARK, {"mine": "gradient", "IG": "integrated_gradients"}, store=ScoreStore(None))
    assert run.methods["mine"][0] is methods.settings(["gradient"])["gradient"][0]
    assert run.methods["IG"] == methods.settings(["integrated_gradients"])["integrated_gradients"]
