"""BIM's metrics worked by hand."""

import random

import numpy as np

from bim import scores


def test_the_99th_percentile_of_a_map_becomes_one_and_negative_values_zero():
    pixels = np.arange(101.0)  # its percentiles are its values
    (scaled,), (flat,) = scores.two_dimensional(pixels.reshape(1, 1, 101, 1) - [0.0, 1e6])
    np.testing.assert_allclose(scaled[0], [*pixels[:100] / 99, 1.0])
    assert not flat


def test_the_attribution_is_the_mean_inside_the_mask_and_the_mask_is_where_the_object_is():
    scaled = np.array([[[0.5, 1.0], [0.0, 0.25]]])
    np.testing.assert_array_equal(scores.object_attribution(scaled, np.array([[[True, False], [True, False]]])), [0.25])
    placed = scores.place_mask(np.array([[True, False], [False, False]]), [2, 4, 4, 6], side=8, image_side=8)
    assert np.argwhere(placed).tolist() == [[2, 4]]


def test_an_image_counts_only_if_both_models_are_right_about_it():
    correct = scores.both_correct([1, 2, 3, 4], [1, 2, 0, 4], [7, 8, 9, 9], [7, 0, 9, 9])
    assert correct.tolist() == [True, False, False, True]


def test_model_contrast_by_hand():
    values = scores.model_contrast_score([0.5, 0.9, 0.2], [0.25, 0.0, 0.4], [True, False, True])
    np.testing.assert_allclose(values, [0.25, -0.2])


def test_input_dependence_is_strict():
    with_object, without = [0.1, 0.3, 0.3, 0.0], [0.2, 0.3, 0.1, 0.9]
    assert scores.input_dependence_rate(with_object, without, [True] * 4).tolist() == [1, 0, 0, 1]
    assert scores.input_dependence_rate(with_object, without, [True, True, False, False]).tolist() == [1, 0]


def test_input_independence_is_strict_at_a_tenth():
    plain = [1.0, 1.0, 1.0, 0.0, 0.5]
    patched = [1.0625, 0.9375, 1.125, 0.0, 0.5]
    assert scores.input_independence_rate(plain, patched, [True] * 5).tolist() == [1, 1, 0, 0, 1]
    assert scores.input_independence_rate([1.0], [1.125], [True], threshold=0.125).tolist() == [0]


def test_nan_of_upstream_counts_as_a_failure_of_the_rates():
    nan = float("nan")
    assert scores.input_dependence_rate([nan, 0.1], [0.5, nan], [True, True]).tolist() == [0, 0]
    assert scores.input_independence_rate([nan], [0.5], [True]).tolist() == [0]


def test_the_authors_images_are_drawn():
    rows = scores.sample_rows(10_000, 10, 0)
    assert rows[:2] == [663, 4242]
    random.seed(4)
    assert scores.sample_rows(100, 7, 4) == sorted(random.sample(range(100), 7))
    assert scores.sample_rows(5, "all") == scores.sample_rows(5, 10) == [0, 1, 2, 3, 4]
