"""Controls know the template, a rule, or nothing."""

import dataclasses

import numpy as np
import pytest

from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from svea import methods, metrics, scoring

CONTROLS = {control.name: control for control in methods.CONTROLS}


@pytest.fixture(scope="module")
def batch(data):
    (whole,) = scoring.batches(data, scoring.SIGNALS)
    return whole.load()


def starts(batch, name, seed=0):
    return metrics.region_of_explanation(CONTROLS[name].maps(batch, seed))


def score(data, found):
    train, test = np.split(found, [4000])
    cut = [metrics.windows(data.train.signals, train), metrics.windows(data.test.signals, test)]
    return 100 * metrics.linear_svm_correct(cut[0], data.train.labels, cut[1], data.test.labels).mean()


def test_the_window_at_the_true_template_holds_all_of_it_but_an_edge(data, batch):
    found = starts(batch, "template_position")[4000:]
    assert (found <= data.test.template_first + 1).all()
    assert (found + metrics.WINDOW - 1 >= data.test.template_last - 1).all()


def test_the_true_template_is_a_map_of_all_of_it(batch):
    maps, mask = CONTROLS["template_position"].maps(batch, 0), batch.masks["template"]
    np.testing.assert_array_equal(maps > 0, mask)
    for name in ("roc_auc", "average_precision", "iou_at_area", "attribution_localisation", "top_k_intersection"):
        np.testing.assert_array_equal(METRIC_REGISTRY[name].measure.compute(maps, batch, None), 1)
    centre = np.rint(batch.truth["template_centre"]).astype(int)
    np.testing.assert_array_equal(maps.argmax(axis=1), centre)


def test_what_they_score(data, batch):
    scores = {name: round(float(score(data, starts(batch, name))), 1) for name in CONTROLS}
    assert scores["template_position"] == 90.2
    assert scores["argmax_abs"] == 61.4
    assert scores["fixed_centre"] == 18.2
    assert 14.5 <= scores["random_window"] <= 19.5  # 17 within two standard errors


def test_the_sign_of_a_signal_does_not_move_its_largest_point(batch):
    turned = dataclasses.replace(batch, inputs=-batch.inputs)
    np.testing.assert_array_equal(starts(turned, "argmax_abs"), starts(batch, "argmax_abs"))


def test_every_window_is_equally_likely(batch):
    counts = np.bincount(starts(batch, "random_window")[:4000], minlength=29)
    chi_square = ((counts - 4000 / 29) ** 2 / (4000 / 29)).sum()
    assert len(counts) == 29 and chi_square < 56.9  # the 99.9th percentile at 28 degrees of freedom


def test_a_signal_keeps_its_random_window_whatever_comes_with_it(batch):
    whole, part = starts(batch, "random_window", 3), batch.take(range(100, 110))
    np.testing.assert_array_equal(starts(part, "random_window", 3), whole[100:110])
    assert (starts(part, "random_window", 4) != whole[100:110]).any()


def test_the_mask_of_the_template_is_where_it_was_put(data, batch):
    mask = batch.masks["template"]
    assert mask.shape == (5000, 40) and 6 <= mask.sum(axis=1).min() and mask.sum(axis=1).max() <= 10
    np.testing.assert_allclose(
        (mask * np.arange(40)).sum(axis=1) / mask.sum(axis=1), batch.truth["template_centre"], atol=0.51
    )
