"""Machines of the ROE test are trained once for the same windows, and say the same the next time."""

import json
import unittest.mock

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.store import ScoreStore
from svea import mnist1d, roe
from svea.mnist1d import TRAIN_SIGNALS
from svea.regions import signals_of
from svea.svm_cache import KeptMachines


@pytest.fixture
def trained(monkeypatch):
    found = unittest.mock.Mock(side_effect=roe.linear_svm_correct)
    monkeypatch.setattr(roe, "linear_svm_correct", found)
    return found


def test_only_machines_of_other_windows_are_trained(trained, tmp_path):
    data = mnist1d.load()
    signals = signals_of(data)
    first, other = (roe.windows(signals, np.full(len(signals), start)) for start in (3, 20))
    plain = roe.linear_svm_correct(first[:TRAIN_SIGNALS], data.train.labels, first[TRAIN_SIGNALS:], data.test.labels)
    trained.reset_mock()
    for _ in range(2):
        machines = KeptMachines(data, ScoreStore(str(tmp_path)))
        for _ in range(2):
            np.testing.assert_array_equal(machines.correct(first), plain)
        assert trained.call_count == 1
    assert (machines.correct(other) != plain).any() and trained.call_count == 2
    ((key, answers),) = ScoreStore(tmp_path).contents().items()
    wrong = {name: answer.replace("0", "2") for name, answer in answers.items()}
    ScoreStore(tmp_path / "wrong").series(**json.loads(key)).append(wrong)
    with pytest.raises(BadInput, match="holds no answers of machines"):
        KeptMachines(data, ScoreStore(tmp_path / "wrong")).correct(first)
