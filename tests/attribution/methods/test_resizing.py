"""Resizing agrees with TensorFlow's bilinear resizing."""

import numpy as np
import pytest
import tensorflow as tf

from attribution.methods import resizing


@pytest.mark.parametrize("shape", [(7, 7), (1, 5), (3, 8), (40, 41)])
@pytest.mark.parametrize("new", [(14, 14), (7, 9), (1, 1), (33, 20)])
def test_images_are_resized_like_tensorflow_does(shape, new):
    maps = np.random.default_rng(0).random((2, *shape), dtype=np.float32)
    expected = tf.image.resize(maps[..., np.newaxis], new, "bilinear")[..., 0]
    # TensorFlow computes positions in float32: they, and so the values, are off by some units in the last place.
    rounding = 4 * max(shape) * np.finfo(np.float32).eps / 2
    np.testing.assert_allclose(resizing.resize(maps, new), expected, atol=rounding)


def test_signals_are_images_of_one_line():
    signals = np.random.default_rng(0).random((3, 9), dtype=np.float32)
    np.testing.assert_allclose(
        resizing.resize(signals, (20,)), resizing.resize(signals[:, np.newaxis], (1, 20))[:, 0], atol=1e-7
    )


def test_the_same_size_changes_nothing():
    maps = np.random.default_rng(0).random((2, 4, 6), dtype=np.float32)
    assert resizing.resize(maps, (4, 6)).tobytes() == maps.tobytes()


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(
    "matrix_of",
    [
        resizing.interpolation_matrix,
        resizing.aligned_matrix,
        resizing.mirrored_matrix,
        resizing.nearest_matrix,
        resizing.bicubic_matrix,
    ],
)
def test_a_constant_stays_constant(matrix_of, size):
    for new_size in (1, 2, 3, 9):
        np.testing.assert_allclose(matrix_of(size, new_size).sum(axis=1), 1, rtol=1e-6)
