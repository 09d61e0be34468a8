"""Perturbation methods where the answer is known."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import batching
from attribution.errors import BadInput
from attribution.methods import perturbation

WEIGHTS = np.random.default_rng(4).normal(size=(8, 8, 2, 3)).astype(np.float32)
IMAGES = np.random.default_rng(5).random((4, 8, 8, 2), dtype=np.float32)


@pytest.fixture(scope="module")
def linear(from_function):
    """Scores that are weighted sums of the input."""
    return from_function(lambda x: tf.einsum("nhwc,hwck->nk", x, WEIGHTS), 8, 8, 2)


def test_occlusion_of_a_linear_model_is_the_patch_s_share(linear):
    shares = (IMAGES[..., np.newaxis] * WEIGHTS).sum(axis=3)[..., 1]
    patches = shares.reshape(4, 4, 2, 4, 2).sum(axis=(2, 4))
    maps = attribution.explain("occlusion", linear, IMAGES, 1, patch=2)
    np.testing.assert_allclose(maps, patches.repeat(2, axis=1).repeat(2, axis=2), atol=1e-5)
    # One position at a time: exactly input times weight.
    np.testing.assert_allclose(attribution.explain("occlusion", linear, IMAGES, 1, patch=1), shares, atol=1e-5)


def test_occlusion_averages_over_the_patches_that_cover_a_position(linear):
    maps = attribution.explain("occlusion", linear, IMAGES, 1, patch=3, stride=2)
    shares = (IMAGES[..., np.newaxis] * WEIGHTS).sum(axis=3)[..., 1]
    starts = [0, 2, 4, 5]  # the last patch ends at the border
    total, cover = np.zeros((4, 8, 8)), np.zeros((8, 8))
    for top in starts:
        for left in starts:
            window = (slice(top, top + 3), slice(left, left + 3))
            total[(slice(None), *window)] += shares[(slice(None), *window)].sum(axis=(1, 2))[:, None, None]
            cover[window] += 1
    np.testing.assert_allclose(maps, total / cover, atol=1e-5)


def test_occlusion_with_the_value_that_is_there_changes_nothing(linear):
    maps = attribution.explain("occlusion", linear, IMAGES[:3], 1, baseline=IMAGES[:3])  # 32 / 3 inputs a pass
    np.testing.assert_allclose(maps, 0, atol=1e-6)


def test_the_number_of_forward_passes(linear):
    for name, overrides, expected in (
        ("occlusion", {"patch": 2}, 16 * 4),
        ("occlusion", {}, 64 * 4),
        ("rise", {"masks": 12}, 12 * 4),
        ("random", {}, 0),
    ):
        linear.counts.clear()
        attribution.explain(name, linear, IMAGES, batch_size=4, **overrides)
        predicting = 0 if name == "random" else 4
        # Occlusion needs the score itself, RISE only the prediction; both come with one pass.
        assert linear.counts["forward"] == expected + predicting, name
        assert linear.counts["backward"] == 0


@pytest.mark.parametrize(("probability", "baseline"), [(0.5, 0.0), (0.3, 0.4), (0.9, IMAGES[::-1])])
def test_rise_is_the_mean_of_masks_weighted_by_scores(probability, baseline, linear):
    generators = [batching.generator(3, number, "rise") for number in range(30)]
    masks = perturbation.random_masks(generators, (8, 8), 4, probability)
    scores = [linear.scores(baseline + (IMAGES - baseline) * mask[..., np.newaxis])[:, 2] for mask in masks]
    expected = np.einsum("mn,mhw->nhw", scores, masks) / (30 * probability)
    options = {"masks": 30, "cells": 4, "probability": probability, "baseline": baseline, "seed": 3}
    maps = attribution.explain("rise", linear, IMAGES, 2, batch_size=5, **options)
    np.testing.assert_allclose(maps, expected, rtol=1e-5, atol=1e-6)


def test_rise_scores_equal_masks_of_a_signal_once(from_function):
    model = from_function(lambda x: tf.nn.softmax(x[:, :4, 0] * x[:, 4:8, 0]), 8, 1)
    signals = np.random.default_rng(0).normal(size=(2, 8, 1)).astype(np.float32)
    masks = perturbation.random_masks([batching.generator(0, number, "rise") for number in range(60)], (8,), 3, 0.4)
    scores = [model.scores(signals * mask[:, np.newaxis])[:, 1].astype(float) for mask in masks]
    total = np.einsum("mn,mp->np", scores, masks.astype(float))
    model.counts.clear()
    options = {"masks": 60, "cells": 3, "probability": 0.4}
    maps = attribution.explain("rise", model, signals, 1, batch_size=2, **options)
    np.testing.assert_allclose(maps, total / (60 * 0.4), rtol=1e-5)
    assert model.counts["forward"] == 2 * len(np.unique(masks, axis=0)) <= 2 * 2**3 * 3
    maps = attribution.explain("rise", model, signals, 1, divide_by="masks", **options)
    np.testing.assert_allclose(maps, total / masks.sum(axis=0), rtol=1e-4)


@pytest.mark.parametrize("probability", [0.2, 0.7])
def test_a_mask_is_a_random_crop_of_a_grid_that_is_a_cell_larger(probability):
    """As in the authors' code, with TensorFlow's bilinear resizing in place of scikit-image's."""
    found, shifts = np.random.default_rng(1), np.random.default_rng(1)
    starts = []
    for _ in range(12):
        mask = perturbation.random_masks([found], (21, 30), 7, probability)[0]
        grid = (shifts.random((7, 7)) < probability).astype(np.float32)
        upsampled = tf.image.resize(grid[..., np.newaxis], (8 * 3, 8 * 5))[..., 0].numpy()
        top, left = shifts.integers(0, 3), shifts.integers(0, 5)
        np.testing.assert_allclose(mask, upsampled[top : top + 21, left : left + 30], atol=1e-6)
        starts.append((top, left))
    assert {top for top, _ in starts} == {0, 1, 2} and len({left for _, left in starts}) > 3


@pytest.mark.parametrize("spatial", [(40,), (9, 16)])
def test_masks_are_cropped_from_an_upsampled_grid(spatial):
    generator = np.random.default_rng(0)
    masks = perturbation.random_masks([generator] * 400, spatial, 7, 0.5)
    assert masks.shape == (400, *spatial) and masks.min() >= 0 and masks.max() <= 1
    assert abs(masks.mean() - 0.5) < 0.02
    # Neighbours differ by at most one cell's slope per axis.
    for axis, size in enumerate(spatial, start=1):
        assert np.abs(np.diff(masks, axis=axis)).max() <= 7 / (8 * -(-size // 7)) + 1e-6
    np.testing.assert_array_equal(perturbation.random_masks([generator], spatial, 7, 1.0), 1)


@pytest.mark.parametrize(
    ("name", "overrides"), [("rise", {"masks": 0}), ("rise", {"probability": 0.0}), ("occlusion", {"patch": 0})]
)
def test_impossible_parameters_are_refused(name, overrides, linear):
    with pytest.raises(BadInput, match=f"{name} needs"):
        attribution.explain(name, linear, IMAGES, **overrides)


def test_a_stride_that_leaves_gaps_is_refused(linear):
    with pytest.raises(BadInput, match=r"a stride of at most the patch .*, not 5"):
        attribution.explain("occlusion", linear, IMAGES, patch=2, stride=5)
