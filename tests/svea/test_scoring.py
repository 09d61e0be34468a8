"""Scores of methods whose result is known without running the benchmark."""

import numpy as np
import pytest

from attribution.errors import BadInput
from svea import baseline, mnist1d, scoring
from svea.metrics import METRICS


@pytest.fixture(scope="module")
def data():
    return mnist1d.load()


@pytest.fixture(scope="module")
def model():
    return scoring.load_network(baseline.SAVED_MODELS / "baseline")


def absolute_signal(passes):
    return np.abs(passes.inputs)


def absolute_signal_without_channel(passes):
    return np.abs(passes.inputs[..., 0])


def nothing(passes):
    return np.zeros_like(passes.inputs)


def two_channels(passes):
    return np.repeat(passes.inputs, 2, axis=2)[:, :, :2]


def every_other_point(passes):
    return np.abs(passes.inputs[:, ::2, 0])


def score(model, data, *own):
    chosen = {function.__name__: (function, {}) for function in own}
    return scoring.score_network(model, data, scoring.explainer(model, chosen, 0, 1000))


@pytest.fixture(scope="module")
def scored(model, data):
    own = (absolute_signal, absolute_signal_without_channel, nothing)
    return score(model, data, *own)


def test_the_absolute_signal_as_a_map_scores_like_the_control_of_that_rule(scored):
    control = scored.controls["argmax_abs"]
    for name in ("absolute_signal", "absolute_signal_without_channel"):
        np.testing.assert_array_equal(scored.methods[name].starts, control.starts)
        for metric in METRICS:
            np.testing.assert_array_equal(scored.methods[name].values[metric], control.values[metric])


def test_zero_maps_are_counted_and_take_the_first_window(scored):
    assert scored.methods["nothing"].zero_maps == 5000
    assert not scored.methods["nothing"].starts.any()
    assert scored.methods["absolute_signal"].zero_maps == 0


def test_values_are_percentages_of_single_signals(scored):
    for scores in [*scored.methods.values(), *scored.controls.values()]:
        for metric, values in scores.values.items():
            assert values.shape == (1000,) and 0 <= values.min() and values.max() <= 100
            if metric != "drop":
                assert set(values) <= {0.0, 100.0}


def test_the_whole_signal_has_no_region_to_mask(scored):
    assert set(scored.controls["raw_signal"].values) == {"roe_test"}


def test_drop_and_increase_are_the_networks_own_answers(scored, model, data):
    start = scored.controls["fixed_centre"].starts[0]
    kept = np.zeros_like(data.test.signals)
    kept[:, start : start + 12] = data.test.signals[:, start : start + 12]
    before, after = (model.scores(x[..., None], 500) for x in (data.test.signals, kept))
    top = before.argmax(axis=1)[:, None]
    y, o = (np.take_along_axis(scores, top, axis=1)[:, 0].astype(np.float64) for scores in (before, after))
    values = scored.controls["fixed_centre"].values
    np.testing.assert_allclose(values["drop"], 100 * np.where(o < y, 1 - o / y, 0), atol=1e-3)
    assert values["increase"].mean() == pytest.approx(100 * np.mean(o > y), abs=0.2)


def test_the_accuracy_is_that_of_the_probabilities(scored, data):
    assert scored.accuracy(data) == pytest.approx(100 * np.mean(scored.probabilities.argmax(1) == data.test.labels))


def test_maps_that_do_not_say_something_of_each_point_are_refused(model, data):
    with pytest.raises(BadInput, match=r"two_channels.*are needed"):
        score(model, data, two_channels)


def test_maps_of_a_layers_resolution_are_resized_to_the_signal(model, data):
    starts = score(model, data, every_other_point).methods["every_other_point"].starts
    assert starts.shape == (5000,) and len(set(starts)) > 20
