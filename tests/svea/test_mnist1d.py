"""MNIST-1D is the published data set, and the template's position is where the generator put it."""

import random

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from attribution.errors import BadInput
from svea import mnist1d


@pytest.fixture(scope="module")
def replay():
    """MNIST-1D written again from its description: signals, labels, and the templates' first and last points."""
    from mnist1d.data import get_templates

    templates = get_templates()["x"]
    draw = np.random.RandomState(42)  # the data set was drawn with this generator
    signals, labels, extents = [], [], []
    for label in range(10):
        for _ in range(500):
            length = 12 + 36 + int(draw.rand() * 25)
            clean = np.zeros(length)
            clean[:12] = templates[label] + 1e-8
            clean = np.interp(np.linspace(0, length - 1, 72), np.arange(length), clean)
            clean *= 1 + 0.4 * (draw.rand() - 0.5)
            clean = np.roll(clean, draw.randint(48))
            inside = np.flatnonzero(clean)
            background = gaussian_filter(0.25 * draw.randn(72), 2)
            signal = np.where(clean != 0, clean, background) + 0.02 * draw.randn(72)
            signal -= 0.75 * (draw.rand() - 0.5) * np.linspace(-0.5, 0.5, 72)
            signals.append(np.interp(np.linspace(0, 71, 40), np.arange(72), signal))
            labels.append(label)
            extents.append(np.array([inside[0], inside[-1]]) * 39 / 71)
    order = draw.permutation(5000)
    signals = np.array(signals)[order]
    return (signals - signals.mean()) / signals.std(), np.array(labels)[order], np.array(extents)[order]


def joined(data, name):
    return np.concatenate([getattr(data.train, name), getattr(data.test, name)])


def test_shapes_and_types(data):
    for split, count in ((data.train, 4000), (data.test, 1000)):
        assert split.signals.shape == (count, 40) and split.signals.dtype == np.float32
        assert split.labels.shape == (count,) and split.labels.dtype == np.int64
        assert split.template_first.shape == split.template_last.shape == split.template_centre.shape == (count,)


def test_five_hundred_signals_a_class_standardised(data):
    assert np.bincount(joined(data, "labels")).tolist() == [500] * 10
    signals = joined(data, "signals").astype(np.float64)
    assert signals.mean() == pytest.approx(0, abs=1e-6) and signals.std() == pytest.approx(1, abs=1e-6)


def test_a_generator_written_anew_gives_the_same_signals(data, replay):
    signals, labels, _ = replay
    np.testing.assert_array_equal(joined(data, "labels"), labels)
    np.testing.assert_allclose(joined(data, "signals"), signals, rtol=0, atol=1e-6)


def test_and_the_same_template_positions(data, replay):
    found = np.stack([joined(data, "template_first"), joined(data, "template_last")], axis=1)
    np.testing.assert_allclose(found, replay[2], rtol=0, atol=1e-12)


def test_templates_span_six_to_ten_points(data):
    support = joined(data, "template_last") - joined(data, "template_first")
    assert support.min() == pytest.approx(11 * 39 / 71) and support.max() == pytest.approx(18 * 39 / 71)


def test_other_data_are_refused_and_the_callers_random_state_stays(monkeypatch):
    generate = mnist1d._generate
    monkeypatch.setattr(mnist1d, "_generate", lambda **changes: generate(**{"num_samples": 500, **changes}))
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    expected = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    with pytest.raises(BadInput, match=r"does not generate the published MNIST-1D; install mnist1d=="):
        mnist1d.load.__wrapped__()
    np.testing.assert_array_equal(np.random.get_state()[1], expected[0])  # noqa: NPY002
    assert random.getstate() == expected[1]


def test_arrays_kept_for_the_next_caller_cannot_be_changed(data):
    with pytest.raises(ValueError, match="read-only"):
        data.train.signals[0, 0] = 0


def test_another_seed_draws_other_signals_of_the_same_distribution(data):
    fresh = mnist1d.load.__wrapped__(7)
    assert fresh.fingerprint != data.fingerprint == mnist1d.FINGERPRINT
    assert not np.isin(fresh.test.signals[:, 0], joined(data, "signals")[:, 0]).any()
    assert np.bincount(joined(fresh, "labels")).tolist() == [500] * 10
    support = joined(fresh, "template_last") - joined(fresh, "template_first")
    assert support.min() == pytest.approx(11 * 39 / 71) and support.max() == pytest.approx(18 * 39 / 71)
