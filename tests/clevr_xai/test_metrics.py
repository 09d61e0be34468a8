"""Mass and rank accuracy against closed forms, Quantus, and an average over every order of equal pixels."""

import itertools

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai.metrics import METRICS, pool, relevance_mass_accuracy, relevance_rank_accuracy, summary

GENERATOR = np.random.default_rng(6)


def drawn(count, size=(12, 11)):
    """Return maps without ties and masks of all sizes from one pixel to all."""
    pooled = GENERATOR.permuted(np.tile(np.arange(1.0, np.prod(size) + 1), (count, 1)), axis=1).reshape(count, *size)
    area = np.linspace(0.02, 1, count)[:, None, None]
    mask = GENERATOR.random((count, *size)) < area
    mask[:, 3, 4] = True
    return pooled, mask


def by_sorting(row, mask, kind="stable"):
    order = np.argsort(row.ravel(), kind=kind)[::-1][: mask.sum()]
    return mask.ravel()[order].mean()


@pytest.mark.parametrize("size", [(12, 11), (128, 128)])
def test_without_ties_it_is_a_sort(size):
    pooled, mask = drawn(130, size)  # more than a block, at every size of mask
    expected = [by_sorting(row, inside) for row, inside in zip(pooled, mask, strict=True)]
    np.testing.assert_array_equal(relevance_rank_accuracy(pooled, mask), expected)


def test_equal_to_quantus_without_ties():
    # Not in the test extra: it wants the OpenCV that opens windows in place of the one without; .ci/run installs it.
    localisation = pytest.importorskip("quantus").metrics.localisation
    maps = GENERATOR.normal(size=(6, 32, 32, 3))
    mask = GENERATOR.random((6, 32, 32)) < 0.2
    for name, pooled in pool(maps).items():
        kept = pooled + 1e-9 * GENERATOR.random(pooled.shape)  # the positive parts have ties at zero
        flat, masks = kept.reshape(6, 1, 32, 32), mask.reshape(6, 1, 32, 32)
        for metric, theirs in (
            ("mass", localisation.RelevanceMassAccuracy),
            ("rank", localisation.RelevanceRankAccuracy),
        ):
            scores = theirs(disable_warnings=True).evaluate_batch(a_batch=flat, s_batch=masks)
            np.testing.assert_allclose(METRICS[metric](kept, mask), scores, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("values", [(0, 0, 0, 1, 2), (1, 1, 1, 1, 1), (3, 1, 1, 2, 2), (0, 0, 5, 0, 0)])
def test_the_expectation_is_the_mean_over_every_order_of_equal_pixels(values):
    values = np.array(values, float)
    for chosen in itertools.product((False, True), repeat=5):
        mask = np.array(chosen)
        if not mask.any():
            continue
        scores = []
        for order in itertools.permutations(range(5)):
            order = np.array(order)
            ranked = order[np.argsort(-values[order], kind="stable")]
            scores.append(mask[ranked[: mask.sum()]].mean())
        found = relevance_rank_accuracy(values.reshape(1, 1, 5), mask.reshape(1, 1, 5))
        np.testing.assert_allclose(found, np.mean(scores), rtol=1e-12)


def test_a_constant_map_scores_the_area_of_the_mask():
    mask = GENERATOR.random((4, 9, 9)) < 0.3
    for metric in METRICS.values():
        np.testing.assert_allclose(metric(np.full(mask.shape, 0.25), mask), mask.mean(axis=(1, 2)), rtol=1e-12)


def test_a_map_on_the_mask_alone_scores_one_and_elsewhere_zero():
    mask = GENERATOR.random((4, 9, 9)) < 0.3
    pooled = GENERATOR.random(mask.shape) + 0.1
    for metric in METRICS.values():
        np.testing.assert_array_equal(metric(pooled * mask, mask), np.ones(4))
    np.testing.assert_array_equal(relevance_mass_accuracy(pooled * ~mask, mask), np.zeros(4))
    np.testing.assert_array_equal(relevance_rank_accuracy(pooled * ~mask, mask), np.zeros(4))


def test_mass_grows_with_the_mask_and_neither_metric_knows_the_scale():
    pooled, mask = drawn(20)
    larger = mask | (GENERATOR.random(mask.shape) < 0.5)
    assert (relevance_mass_accuracy(pooled, larger) >= relevance_mass_accuracy(pooled, mask)).all()
    for metric in METRICS.values():
        np.testing.assert_allclose(metric(pooled * 1024, mask), metric(pooled, mask), rtol=0, atol=0)
        halves = [metric(pooled[:7], mask[:7]), metric(pooled[7:], mask[7:])]
        np.testing.assert_array_equal(np.concatenate(halves), metric(pooled, mask))


def test_a_map_of_nothing_and_an_empty_mask_are_undefined():
    pooled = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.ones((3, 3))])
    mask = np.stack([np.eye(3, dtype=bool), np.zeros((3, 3), bool), np.eye(3, dtype=bool)])
    for metric in METRICS.values():
        np.testing.assert_array_equal(np.isnan(metric(pooled, mask)), [True, True, False])
    assert METRICS["mass"](pooled[:0], mask[:0]).shape == (0,)


def test_the_summary_counts_what_is_undefined():
    found = summary([0.0, np.nan, 1.0, 0.5, np.nan, 0.25, 0.75])
    assert (found.n, found.undefined) == (5, 2)
    assert found.mean == found.median == 0.5 and (found.min, found.max) == (0, 1)
    np.testing.assert_allclose(found.std, np.sqrt(0.125))
    np.testing.assert_allclose((found.p20, found.p80), (0.2, 0.8))
    nothing = summary([np.nan])
    assert (nothing.n, nothing.undefined) == (0, 1) and np.isnan(nothing.mean) and np.isnan(nothing.p80)


@pytest.mark.parametrize(
    ("pooled", "mask", "message"),
    [
        (-np.ones((1, 2, 2)), np.ones((1, 2, 2), bool), "negative, NaN or infinite"),
        (np.full((1, 2, 2), np.nan), np.ones((1, 2, 2), bool), "negative, NaN or infinite"),
        (np.full((1, 2, 2), np.inf), np.ones((1, 2, 2), bool), "negative, NaN or infinite"),
        (np.ones((1, 2, 2)), np.ones((1, 2, 2)), "masks float64; numbers and bool are needed"),
        (np.ones((1, 2, 2)), np.ones((1, 2, 3), bool), r"masks \(1, 2, 3\); both must be the same"),
        (np.ones((2, 2)), np.ones((2, 2), bool), r"both must be the same \(N, H, W\)"),
    ],
)
def test_what_is_no_map_or_no_mask_is_refused(pooled, mask, message):
    for metric in METRICS.values():
        with pytest.raises(BadInput, match=message):
            metric(pooled, mask)
