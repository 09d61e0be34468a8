"""Poolings and accuracies against closed forms, Quantus and an average over every order; how numbers are kept."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from clevr_xai import metrics
from clevr_xai.metrics import (
    ACCURACIES,
    HEADING,
    METRICS,
    POOLINGS,
    path_gap,
    pool,
    relevance_accuracy,
    relevance_mass_accuracy,
    relevance_rank_accuracy,
    score_maps,
    subset_members,
)

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


def test_where_the_highest_pixels_are_those_that_are_sampled_it_is_a_sort():
    values = np.arange(128.0 * 128) + 128**2 * (np.arange(128 * 128) % metrics._SAMPLED == 0)
    mask = np.arange(128 * 128).reshape(1, 128, 128) < 1000
    assert relevance_rank_accuracy(values.reshape(mask.shape), mask) == by_sorting(values, mask)


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


def test_who_belongs_to_which_subset():
    right = np.arange(12) < 10
    pixels, confidence = np.array([0, *range(500, 1600, 100)]), np.linspace(0.99998, 1, 12)
    assert subset_members("all", right, pixels, None).tolist() == [False] + [True] * 9 + [False] * 2
    sure = subset_members("confident", right, pixels, confidence, (confidence[3], 1000))
    assert np.flatnonzero(sure).tolist() == [4, 5, 6, 7, 8, 9]  # a softmax of the bound is not above it
    assert subset_members("confident", right, pixels, None) is None
    large = subset_members("large_mask", right, pixels, confidence)
    assert np.flatnonzero(large).tolist() == [7, 8, 9]  # 1,000 pixels are not more than 1,000


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


# One pixel of three relevances, by hand: sum -1, positive part 2 + 1.
BY_HAND = {
    "sum,abs": 1.0,
    "sum,pos": 0.0,
    "l1-norm": 7.0,
    "max-norm": 4.0,
    "l2-norm": 21**0.5,
    "l2-norm,sq": 21.0,
    "pos,sum": 3.0,
    "pos,max-norm": 2.0,
    "pos,l2-norm": 5**0.5,
    "pos,l2-norm,sq": 5.0,
}
MAPS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    elements=st.floats(-1000, 1000, width=32),
)


def test_one_pixel_by_hand():
    assert list(POOLINGS) == list(BY_HAND)
    for name in POOLINGS:
        pooled = pool(np.array([2.0, -4.0, 1.0], np.float32).reshape(1, 1, 1, 3), [name])[name]
        assert pooled.shape == (1, 1, 1) and pooled.dtype == np.float64
        assert pooled[0, 0, 0] == BY_HAND[name], name


@given(MAPS)
def test_the_laws_between_poolings(maps):
    pooled = pool(maps)
    assert all((values >= 0).all() for values in pooled.values())
    magnitude = pool(np.abs(maps))
    for name in ("l1-norm", "max-norm", "l2-norm", "l2-norm,sq"):  # blind to signs
        np.testing.assert_array_equal(pooled[name], magnitude[name])
    positive = pool(np.maximum(maps, 0))
    for name in ("pos,sum", "pos,max-norm", "pos,l2-norm", "pos,l2-norm,sq"):  # blind to what is negative
        np.testing.assert_array_equal(pooled[name], positive[name])
        np.testing.assert_array_equal(pooled[name], positive[{"pos,sum": "l1-norm"}.get(name, name[4:])])
    np.testing.assert_allclose(pooled["l2-norm"] ** 2, pooled["l2-norm,sq"], rtol=1e-12)
    slack = 1e-9 * pooled["l1-norm"]
    assert (pooled["max-norm"] <= pooled["l2-norm"] + slack).all()
    assert (pooled["l2-norm"] <= pooled["l1-norm"] + slack).all()
    assert (pooled["sum,pos"] <= pooled["sum,abs"]).all()
    assert (pooled["sum,pos"] <= pooled["pos,sum"] + slack).all()
    for name in POOLINGS:
        np.testing.assert_array_equal(pool(maps, [name])[name], pooled[name])


def test_a_map_without_channels_has_one():
    maps = np.random.default_rng(0).normal(size=(2, 5, 4))
    for name, pooled in pool(maps).items():
        np.testing.assert_array_equal(pooled, pool(maps[..., None], [name])[name])


def test_what_is_returned_cannot_be_written_to():
    maps = np.ones((1, 2, 2))
    for pooled in pool(maps).values():
        with pytest.raises(ValueError, match="read-only"):
            pooled[0] = 7
    assert (maps == 1).all()


def test_bad_maps_and_names_are_refused():
    with pytest.raises(BadInput, match="no pooling 'l3-norm'; the poolings are 'sum,abs', 'sum,pos'"):
        pool(np.zeros((1, 2, 2, 3)), ["l3-norm"])
    with pytest.raises(BadInput, match=r"float64 of shape \(2, 2\); numbers of shape \(N, H, W, C\)"):
        pool(np.zeros((2, 2)))
    with pytest.raises(BadInput, match="maps are <U1"):
        pool(np.full((1, 2, 2), "x"))


def test_every_pooling_under_every_metric_and_mask():
    generator = np.random.default_rng(0)
    maps = generator.normal(size=(4, 9, 8, 3))
    masks = {"first": generator.random((4, 9, 8)) < 0.3, "second": np.zeros((4, 9, 8), bool)}
    scores = score_maps(maps, masks)
    assert scores.shape == (4, 2, 2, 10) and np.isnan(scores[:, 1]).all()
    for place, pooled in enumerate(pool(maps).values()):
        for number, metric in enumerate(METRICS.values()):
            np.testing.assert_array_equal(scores[:, 0, number, place], metric(pooled, masks["first"]))
    assert set(HEADING) == set(METRICS) == set(ACCURACIES) and set(HEADING.values()) <= set(POOLINGS)
    # The order of the numbers does not depend on the order of the batch.
    batch = Batch(maps, range(4), masks=dict(reversed(masks.items())))
    measure = relevance_accuracy(["first", "second"])
    np.testing.assert_array_equal(measure.function(maps, batch, None), scores.reshape(4, -1))


def test_a_record_keeps_nine_digits_and_what_is_undefined():
    numbers = np.array([np.nan, 1 / 3, 2 / 3, 1e-7 / 3, *range(16)])
    measure, whole = relevance_accuracy(["one"]), relevance_accuracy(["one"], digits=None)
    (record,) = measure.to_records(numbers[None])
    found = measure.from_record(record)
    np.testing.assert_allclose(found, numbers, rtol=5e-9)
    assert measure.to_records(found[None]) == [record]
    with pytest.raises(ValueError, match="20 numbers in place of 40"):
        relevance_accuracy(["one", "two"]).from_record(record)
    np.testing.assert_array_equal(whole.from_record(whole.to_records(numbers[None])[0]), numbers)


def test_the_gap_of_a_path_in_closed_form():
    """A linear score, of which the map is exact for the path from black and misses for any other."""
    generator = np.random.default_rng(1)
    images, weights = generator.random((3, 4, 5, 3)), generator.normal(size=(4, 5, 3))
    batch = Batch({"image": images, "question": np.zeros((3, 2))}, range(3), np.array([1, 1, 0]), explained="image")

    def scores(inputs):
        return np.stack([np.zeros(3), (inputs["image"] * weights).sum(axis=(1, 2, 3))], axis=1)

    found = path_gap("integrated_gradients", 0.0).function(images * weights, batch, scores)
    np.testing.assert_allclose(found[:2], 0, atol=1e-6)
    assert np.isnan(found[2])  # a score that does not change has no share to miss
    twice = path_gap("integrated_gradients", 0.0).function(2 * images * weights, batch, scores)
    np.testing.assert_allclose(twice[:2], 1, rtol=1e-6)
    assert (path_gap("integrated_gradients", "median").function(images * weights, batch, scores)[:2] > 0.01).all()
