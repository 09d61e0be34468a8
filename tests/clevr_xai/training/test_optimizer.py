"""Vectors move as Adam moves them, kernels of convolutions along all of their directions alike."""

import keras
import numpy as np
import pytest

from clevr_xai.training import optimizer


def moved(shape, gradients, name="kernel", start=None, **settings):
    """Return how far a variable has moved after some gradients."""
    start = np.zeros(shape) if start is None else start
    variable = keras.Variable(start, dtype="float32", name=name)
    taken = optimizer.Muon(0.1, **settings)
    for gradient in gradients:
        taken.apply([keras.ops.convert_to_tensor(gradient, "float32")], [variable])
    return variable.numpy() - start


def test_all_singular_values_come_near_to_one():
    generator = np.random.default_rng(0)
    for rows, columns in ((27, 24), (216, 24), (5, 40)):
        left, _ = np.linalg.qr(generator.normal(size=(rows, rows)))
        right, _ = np.linalg.qr(generator.normal(size=(columns, columns)))
        number = min(rows, columns)
        values = np.geomspace(0.02, 1.0, number)
        matrix = (left[:, :number] * values) @ right[:number]
        found = np.asarray(optimizer.orthogonalised(keras.ops.convert_to_tensor(matrix, "float32")))
        there = left[:, :number].T @ found @ right[:number].T
        np.testing.assert_allclose(there, np.diag(np.diag(there)), atol=1e-4)  # the same singular vectors
        assert 0.6 < np.diag(there).min() and np.diag(there).max() < 1.25


def test_a_kernel_steps_as_far_whatever_the_gradients_size_and_direction():
    generator = np.random.default_rng(1)
    gradient = generator.normal(size=(3, 3, 8, 24))
    step = moved(gradient.shape, [gradient])
    assert np.sqrt((step**2).mean()) == pytest.approx(0.1 * optimizer.KERNEL_STEP, rel=0.2)
    np.testing.assert_allclose(moved(gradient.shape, [1e3 * gradient]), step, atol=1e-4)
    one = np.zeros_like(gradient)
    one[..., 0] = 100 * gradient[..., 0]  # one channel's gradient is a hundred times the others'
    lifted = moved(gradient.shape, [gradient + one])
    size = np.sqrt((lifted**2).mean(axis=(0, 1, 2)))
    assert size.max() / size.min() < 3
    assert (step * gradient).sum() < 0  # downhill


def test_everything_else_moves_as_adam_moves_it():
    generator = np.random.default_rng(2)
    for shape in ((7,), (5, 6)):
        gradients = generator.normal(size=(4, *shape))
        expected = keras.Variable(np.zeros(shape), dtype="float32")
        adam = keras.optimizers.Adam(0.1)
        for gradient in gradients:
            adam.apply([keras.ops.convert_to_tensor(gradient, "float32")], [expected])
        np.testing.assert_allclose(moved(shape, gradients), expected.numpy(), rtol=1e-6)


def test_momentum_is_a_mean_over_steps():
    """After steps up and down the second one's momentum still leads up, by Nesterov's sum of the last gradient."""
    generator = np.random.default_rng(3)
    one, other = generator.normal(size=(2, 3, 3, 4, 6))
    momentum = 0.05 * 0.95 * one + 0.05 * other
    ahead = keras.ops.convert_to_tensor(0.95 * momentum + 0.05 * other, "float32")
    both, first = moved(one.shape, [one, other]), moved(one.shape, [one])
    np.testing.assert_allclose(both - first, -0.1 * np.asarray(optimizer.step(ahead)), atol=1e-5)


@pytest.mark.parametrize("shape", [(2,), (3, 3, 2, 4)])
def test_a_slow_variable_takes_a_share_of_the_others_step(shape):
    gradients = [np.random.default_rng(4).normal(size=shape)] * 3
    other = moved(shape, gradients, "relations_kernel", slow_share=0.25)
    slow = moved(shape, gradients, "convolutions_kernel", slow_share=0.25)
    np.testing.assert_allclose(slow, other * 0.25, rtol=1e-4, atol=1e-6)


def test_only_a_convolutions_kernel_is_a_kernel():
    assert optimizer.is_kernel(keras.Variable(np.zeros((3, 3, 2, 4))))
    assert not any(optimizer.is_kernel(keras.Variable(np.zeros(shape))) for shape in ((4,), (3, 4), (2, 3, 4)))
