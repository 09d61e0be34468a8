"""Metrics of parts against cases that are computed by hand."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.parts import metrics, truth
from attribution_benchmarks.stats.coalitions import coalitions

SETS = coalitions(5)


def batch(worth_of_first, target=0, objects=(0.0,), sufficient=((0,),), pair=(-1, -1), pair_parts=((), ())):
    """Return one 6 x 6 image whose five parts are single pixels of the first row, and one object at the bottom.

    ``worth_of_first`` is the logit of class 0 by set of parts, of classes 0 and 1 with 1 always at 1. ``objects`` are
    the drops of class 0 without the object.
    """
    worth = np.stack([np.asarray(worth_of_first, float), np.ones(32)], axis=1)[np.newaxis]
    regions = np.zeros((1, 6, 6, 6), bool)
    for part in range(5):
        regions[0, part, 0, part] = True
    regions[0, 5, 5, 5] = True
    without = np.array([[[worth[0, -1, 0] - drop, 1.0] for drop in objects]])
    return Batch(
        np.zeros((1, 6, 6, 3), np.float32), ["one"], np.array([target]),
        masks={"parts": regions[:, :5].any(axis=1)},
        truth={
            "worth": worth, "without_object": without, "there": np.ones((1, len(objects)), bool), "regions": regions,
            "sufficient": np.array([[set(np.flatnonzero(each)) in map(set, sufficient) for each in SETS]]),
            "pair": np.array([pair]), "pair_parts": np.array([[np.isin(range(5), each) for each in pair_parts]]),
        },
    )  # fmt: skip


def additive(*values):
    return SETS @ np.array(values, float)


def a_map(*values, elsewhere=0.0):
    found = np.full((1, 6, 6), elsewhere)
    found[0, 0, :5] = values
    return found


def important(*parts, distracted=False):
    """Return the regions that are important at one threshold."""
    return np.array([[[*np.isin(range(5), parts), distracted]]])


LINEAR = batch(additive(4, 2, 0, -1, 0))


def test_exact_values_of_an_additive_game_are_its_terms():
    np.testing.assert_allclose(truth.exact_values(LINEAR), [[4, 2, 0, -1, 0]], atol=1e-12)
    np.testing.assert_allclose(truth.single_drops(LINEAR), [[4, 2, 0, -1, 0]], atol=1e-12)


def test_single_deletion_misses_redundant_parts():
    either = batch(np.where(SETS[:, :2].any(axis=1), 6.0, 0.0) + additive(0, 0, 1, 0, 0))
    np.testing.assert_allclose(truth.exact_values(either), [[3, 3, 1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(truth.single_drops(either), [[0, 0, 1, 0, 0]], atol=1e-12)
    assert "100.0 % of the images" in truth.findings(either)[2]


def test_the_game_of_the_probability():
    logits = np.where(SETS[:, 0], 1.0, 1.0 - np.log(3))
    np.testing.assert_allclose(truth.exact_values(batch(logits), probability=True), [[0.25, 0, 0, 0, 0]], atol=1e-12)


def test_agreement_with_the_exact_values():
    named = {metric.name: metric.measure for metric in metrics.METRICS}

    def value(name, found):
        return named[name].compute(found, LINEAR, None)[0, 0]

    assert value("shapley_correlation", a_map(4, 2, 0, -1, 0)) == pytest.approx(1)
    assert value("shapley_correlation", a_map(0, 0, 0, 0, 0)) == 0  # as the uniform map
    assert value("sign_agreement", a_map(1, -1, 5, -1, 5)) == pytest.approx(2 / 3)
    signs = np.array([[1.0, 2, 1]]), np.array([[-4.0, 2, 1]])
    assert metrics.sign_agreement(*signs) == metrics.sign_agreement(*map(np.negative, signs)) == pytest.approx(2 / 3)
    assert value("top_part", a_map(3, 2, 0, 0, 0)) == 1 and value("top_part", a_map(1, 1, 0, 0, 0)) == 0.5
    assert value("top_part", a_map(1, 1, 1, 0, 0)) == pytest.approx(1 / 3)
    assert value("share_outside", a_map(1, 1, 1, 1, 1, elsewhere=1.0)) == pytest.approx(31 / 36)
    # The parts' pixels with their neighbors two pixels away are three whole rows.
    assert value("share_outside_dilated", a_map(1, 1, 1, 1, 1, elsewhere=1.0)) == pytest.approx(18 / 36)
    spread = a_map(1, 1, 1, 1, 1)
    np.testing.assert_allclose(metrics.region_sums(spread, LINEAR, True)[0, :5], [3, 4, 5, 4, 3])


def test_controlled_synthetic_data_check_is_the_largest_share_of_a_sufficient_set():
    known = batch(additive(4, 2, 0, -1, 0), sufficient=((0, 1), (2, 3, 4)))
    assert metrics.data_check(important(0), known)[0, 0] == pytest.approx(1 / 2)
    assert metrics.data_check(important(2, 3), known)[0, 0] == pytest.approx(2 / 3)
    assert metrics.data_check(important(), known)[0, 0] == 0


def test_preservation_and_deletion_checks():
    # Class 0 is predicted where its logit is above 1: with part 0.
    assert (
        metrics.preservation_check(important(0), LINEAR) == 1 and metrics.preservation_check(important(2), LINEAR) == 0
    )
    assert metrics.deletion_check(important(0, 1), LINEAR) == 1 and metrics.deletion_check(important(2), LINEAR) == 0


def test_checks_are_undefined_for_misclassified_images():
    wrong = batch(additive(0, 0, 0, 0, 0))
    for check in (metrics.data_check, metrics.preservation_check, metrics.deletion_check):
        assert np.isnan(check(important(0), wrong)).all()


def test_distractibility_counts_regions_without_influence():
    # Of 5 logits, 5 % are 0.25: parts 2, 3 (it rises without it) and 4, and the object have no influence.
    assert metrics.distractibility(important(0, 2), LINEAR)[0, 0] == pytest.approx(1 - 1 / 4)
    assert metrics.distractibility(important(2, 3, 4, distracted=True), LINEAR)[0, 0] == 0
    matters = batch(additive(4, 2, 0, -1, 0), objects=(1.0,))
    assert metrics.distractibility(important(0, 2), matters)[0, 0] == pytest.approx(1 - 1 / 3)
    against = truth.without_influence(batch(additive(-4, -2, 0, 1, 0)))  # five per cent of a logit of -5
    assert against.tolist() == [[True, True, True, False, True, True]]
    assert truth.background_independence(LINEAR) == 1 and truth.background_independence(matters) == 0


def test_important_parts_exceed_a_share_of_the_whole_map():
    found = metrics.important_regions(1 + a_map(3, 0, 0, 0, 0), LINEAR)
    at = dict(zip(np.round(metrics.THRESHOLDS, 4), found[0], strict=True))
    # The sum is 36 + 3. The dilated first part has 3 x 3 pixels in the corner, of the sum 12, a share of 0.308.
    shares = [share for share, regions in at.items() if regions[0]]
    assert max(shares) == pytest.approx(12 / 39, abs=0.0062) and max(shares) < 12 / 39


def test_single_deletion_is_a_rank_correlation_from_0_to_1():
    known = batch(additive(5, 4, 3, 2, 1))
    # The dilated sums are 9, 9, 0, -9, -9, of the ranks 4.5, 4.5, 3, 1.5, 1.5.
    correlation = 9 / np.sqrt(9 * 10)
    assert metrics.single_deletion(a_map(9, 0, 0, 0, -9), known, None)[0] == pytest.approx((1 + correlation) / 2)
    assert metrics.single_deletion(a_map(-9, 0, 0, 0, 9), known, None)[0] == pytest.approx((1 - correlation) / 2)


def test_target_sensitivity():
    # Class 0 needs parts 0 and 1, class 1 parts 3 and 4; the image is of a third class.
    worth = np.stack([additive(1, 1, 0, 0, 0), additive(0, 0, 0, 1, 1), additive(2, 2, 2, 2, 2)], axis=1)[np.newaxis]
    plain = batch(additive(0, 0, 0, 0, 0), pair=(0, 1), pair_parts=((0, 1), (3, 4)))
    known = Batch(plain.inputs, plain.seeds, np.array([2]), truth={**plain.truth, "worth": worth})
    left, right = a_map(1, 1, 0, 0, 0), a_map(0, 0, 0, 1, 1)
    assert metrics.target_sensitivity(left, known, lambda other: left if other.targets[0] == 0 else right)[0] == 1
    assert metrics.target_sensitivity(left, known, lambda other: left)[0] == 0
    assert (
        metrics.target_sensitivity(left, known, lambda other: right if other.targets[0] == 0 else 2 * right)[0] == 0.5
    )
    for classes in ([1, 0, 2], [0, 0, 2], [1, 1, 2]):  # the network behaves otherwise, in both classes or in one
        swapped = Batch(plain.inputs, plain.seeds, np.array([2]), truth={**plain.truth, "worth": worth[..., classes]})
        assert np.isnan(metrics.target_sensitivity(left, swapped, None)[0])
    assert np.isnan(metrics.target_sensitivity(left, LINEAR, None)[0])  # no such classes


def test_thresholds_are_the_best_of_the_other_half():
    count, best = 40, 7
    curves = {name: np.zeros((count, 80)) for name in metrics.CHECKS}
    curves["distractibility"][:, best] = 1
    assert (metrics.cross_fitted(curves)["distractibility"] == 1).all()
    # One image alone that is good at another threshold decides the threshold of the other half only.
    curves["distractibility"][:] = 0
    curves["distractibility"][3, 50] = 1
    assert metrics.cross_fitted(curves)["distractibility"].sum() == 0
    for name, curve in curves.items():  # the other three count as one
        curve[:] = 0
        curve[:, best if name == "distractibility" else 20] = 1 if name == "distractibility" else 0.9
    assert (metrics.cross_fitted(curves)["distractibility"] == 1).all()
    curves["distractibility"][:, best] = 0.8
    assert (metrics.cross_fitted(curves)["data_check"] == 0.9).all()


def test_thresholds_of_a_network_that_is_never_correct():
    """Warnings are errors here."""
    curves = {name: np.full((4, 80), np.nan) for name in metrics.CHECKS}
    curves["distractibility"] = np.tile(np.arange(80) == 9, (4, 1)).astype(float)
    assert (metrics.cross_fitted(curves)["distractibility"] == 1).all()
    assert np.isnan(metrics.mean_over_inputs(curves["data_check"])).all()


def test_mean_scores_are_those_of_the_paper():
    # The published figures of ResNet-50 with Input x Gradient.
    checks = {"data_check": 0.7353, "preservation_check": 0.602, "deletion_check": 0.532, "distractibility": 0.5437}
    found = metrics.mean_scores(checks, 0.5459, 0.806)
    three = (0.7353 + 0.602 + 0.532) / 3
    assert found["completeness"] == pytest.approx((three + 0.5437) / 2) and found["correctness"] == 0.5459
    assert found["mean_score"] == pytest.approx((found["completeness"] + 0.5459 + 0.806) / 3)
