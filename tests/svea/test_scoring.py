"""Scores of methods whose result is known, regions as a measure of maps, and the stored answers of machines."""

import json
import unittest.mock

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore
from svea import metrics, scoring
from svea.metrics import METRICS
from svea.mnist1d import TRAIN_SIGNALS


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


@pytest.fixture(scope="module")
def scored(score):
    functions = (absolute_signal, absolute_signal_without_channel, nothing, every_other_point)
    return score({function.__name__: (function, {}) for function in functions})


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
    places = np.arange(40) - scored.controls["argmax_abs"].starts[TRAIN_SIGNALS:, None]
    kept = np.where((places >= 0) & (places < 12), data.test.signals, 0)
    before, after = (model.scores(x[..., None], 500) for x in (data.test.signals, kept))
    top = before.argmax(axis=1)[:, None]
    y, o = (np.take_along_axis(scores, top, axis=1)[:, 0].astype(np.float64) for scores in (before, after))
    values = scored.controls["argmax_abs"].values
    np.testing.assert_allclose(values["drop"], 100 * np.where(o < y, 1 - o / y, 0), atol=1e-3)
    assert values["increase"].mean() == pytest.approx(100 * np.mean(o > y), abs=0.2)


def test_the_accuracy_is_that_of_the_probabilities(scored, data):
    assert scored.accuracy(data) == pytest.approx(100 * np.mean(scored.probabilities.argmax(1) == data.test.labels))


def test_maps_without_one_value_a_point_raise(score):
    with pytest.raises(BadInput, match=r"two_channels.*are needed"):
        score({"two_channels": (two_channels, {})})


def test_maps_of_a_layers_resolution_are_resized_to_the_signal(scored):
    starts = scored.methods["every_other_point"].starts
    assert starts.shape == (5000,) and len(set(starts)) > 20


def test_batches_hold_all_signals_in_order_with_their_truth(data):
    parts = list(scoring.batches(data, 1500))
    batches = [part.load() for part in parts]
    assert [len(batch) for batch in batches] == [1500, 1500, 1500, 500]
    np.testing.assert_array_equal(
        np.concatenate([batch.pictures[..., 0] for batch in batches]),
        np.concatenate([data.train.signals, data.test.signals]),
    )
    assert [name for part in parts for name in part.names] == list(map(str, range(5000)))
    assert parts[0].files[0] == "train_0000" and parts[-1].files[-1] == "test_0999"


def test_the_first_test_signal_counts_and_the_last_of_training_does_not():
    measure = PerSampleMetric("sum", lambda maps, batch, scores: maps.sum(axis=1))
    batch = Batch(np.zeros((2, 3, 1)), [TRAIN_SIGNALS - 1, TRAIN_SIGNALS])
    found = scoring.of_test_signals(measure).function(np.ones((2, 3)), batch, None)
    np.testing.assert_array_equal(found, [[np.nan], [3]])


@pytest.fixture
def trained(monkeypatch):
    found = unittest.mock.Mock(side_effect=metrics.linear_svm_correct)
    monkeypatch.setattr(metrics, "linear_svm_correct", found)
    monkeypatch.setattr(scoring, "code_fingerprint", lambda function: "")  # the mock counts its calls
    return found


def test_only_machines_of_other_windows_are_trained(trained, data, tmp_path):
    signals = np.concatenate([data.train.signals, data.test.signals])
    first, other = (metrics.windows(signals, np.full(len(signals), start)) for start in (3, 20))
    plain = metrics.linear_svm_correct(
        first[:TRAIN_SIGNALS], data.train.labels, first[TRAIN_SIGNALS:], data.test.labels
    )
    trained.reset_mock()
    for _ in range(2):
        machines = scoring.SvmCache(data, ScoreStore(str(tmp_path)))
        for _ in range(2):
            np.testing.assert_array_equal(machines.correct(first), plain)
        assert trained.call_count == 1
    assert (machines.correct(other) != plain).any() and trained.call_count == 2
    ((key, answers),) = ScoreStore(tmp_path).contents().items()
    wrong = {name: answer.replace("0", "2") for name, answer in answers.items()}
    ScoreStore(tmp_path / "wrong").series(**json.loads(key)).append(wrong)
    with pytest.raises(BadInput, match="holds no answers of machines"):
        scoring.SvmCache(data, ScoreStore(tmp_path / "wrong")).correct(first)
