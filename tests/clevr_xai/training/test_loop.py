"""Stages: steps, rates, resumption; Muon for kernels of convolutions and Adam for everything else."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import relation_network
from clevr_xai.training import batches, loop
from clevr_xai.training.learner import Learner


def stage(steps=4, **settings):
    return loop.Stage("seeing", 1e-2, steps=steps, **settings)


@pytest.fixture
def seen(training_data):
    """Draws batches for the seeing."""
    return lambda rng: batches.seeing_batch(training_data, rng, 2)


def test_rates_rise_stay_and_fall():
    falling = loop.Stage("any", 0.5, constant=0.6, steps=1000)
    rates = [float(falling.rate(step)) for step in (0, 300, 600, 800, 999)]
    np.testing.assert_allclose(rates, [0.5 / loop.WARM_UP, 0.5, 0.5, 0.25, 0.5 / 400], rtol=1e-5)
    assert float(loop.Stage("any", 0.5, steps=1000).rate(999)) == 0.5


def test_a_stopped_stage_ends_with_the_same_weights(make_learner, seen, tmp_path, monkeypatch, eager):
    """Run through by a graph, and stopped eagerly."""
    straight, stopped = make_learner().seeing, make_learner().seeing
    (tmp_path / "straight").mkdir()
    (tmp_path / "stopped").mkdir()
    loop.run(straight, stage(), seen, tmp_path / "straight", seed=0)

    drawn = []

    def breaking(rng):
        drawn.append(rng)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        return seen(rng)

    monkeypatch.setattr(loop, "LOG_STEPS", 1)
    with eager(), pytest.raises(KeyboardInterrupt):
        loop.run(stopped, stage(), breaking, tmp_path / "stopped", seed=0, every=2)
    fresh = make_learner(seed=1).seeing
    with eager():
        loop.run(fresh, stage(), seen, tmp_path / "stopped", seed=0)
    for one, other in zip(straight.variables, fresh.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    steps = [json.loads(line)["step"] for line in (tmp_path / "stopped" / "log.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4]
    with pytest.raises(BadInput, match="is of step 4, the last is 3"):
        loop.run(fresh, stage(3), seen, tmp_path / "stopped", seed=0)


def test_processes_make_the_same_batches_in_order(make_learner, seen, tmp_path, eager):
    ends = []
    for workers in (1, 2):
        model = make_learner().seeing
        with eager():
            (tmp_path / str(workers)).mkdir()
            loop.run(model, stage(3), seen, tmp_path / str(workers), seed=0, workers=workers)
        ends.append(model.get_weights())
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(BadInput, match="the system ended a worker process"):
        loop.run(model, stage(9), lambda rng: os.kill(os.getpid(), signal.SIGKILL), tmp_path, seed=0, workers=2)


TRAINED = """
import keras, numpy as np, pathlib, sys
from clevr_xai import relation_network
from clevr_xai.training import loop
from clevr_xai.training.learner import Learner

def drawn(rng):
    cells = np.concatenate([rng.integers(0, 2, (2, 49, 4)), np.ones((2, 49, 1))], axis=-1)
    return {"image": rng.integers(0, 256, (2, 128, 128, 3)).astype(np.uint8)}, {"cells": cells.astype(np.int32)}

start, network = pathlib.Path(sys.argv[1]), relation_network.build((6, 5), channels=3)
model = Learner(network).seeing
for file, each in ((start / "network.npz", network), (start / "model.npz", model)):
    each.set_weights(list(np.load(file).values())) if file.exists() else np.savez(file, *each.get_weights())
loop.run(model, loop.Stage("seeing", 1e-2, constant=0.5, steps=4), drawn, start, seed=0, every=3)
image, question = np.linspace(0, 1, 2 * 128 * 128 * 3).reshape(2, 128, 128, 3), np.array([[5, 7, 2, 0], [3, 9, 0, 0]])
np.save(start / "logits.npy", keras.ops.convert_to_numpy(network([image, question])))
"""


def test_jax_trains_and_answers_as_tensorflow_does(tmp_path, quick_python):
    ends = {}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    for backend, python in (("tensorflow", quick_python), ("jax", sys.executable)):
        environment["KERAS_BACKEND"] = backend
        subprocess.run([python, "-c", TRAINED, tmp_path], env=environment, check=True, timeout=240)
        checkpoint = np.load((tmp_path / "seeing.npz").rename(tmp_path / f"{backend}.npz"))
        ends[backend] = {**checkpoint, "logits": np.load(tmp_path / "logits.npy")}
    for name, expected in ends["tensorflow"].items():
        np.testing.assert_allclose(ends["jax"][name], expected, rtol=1e-3, atol=1e-4)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(losses[:2], losses[2:], rtol=1e-3)


def test_a_checkpoint_of_another_network_is_refused(make_learner, seen, tmp_path, eager):
    other = Learner(relation_network.build((6, 5), channels=4))
    with eager():
        loop.run(make_learner().seeing, stage(1), seen, tmp_path, seed=0)
        with pytest.raises(BadInput, match="another network"):
            loop.run(other.seeing, stage(1), seen, tmp_path, seed=0)


def test_convolutions_are_as_slow_as_a_stage_says(make_learner, training_data, tmp_path, eager):
    aided = make_learner()
    training_data = dataclasses.replace(training_data, codes=aided.codes(training_data))

    def kernels():
        """Not the moving statistics of the normalization."""
        layers = {name: aided.network.get_layer(name) for name in ("convolutions", "relations", "f")}
        return {name: [w.copy() for w in layer.get_weights() if w.ndim > 1] for name, layer in layers.items()}

    before = kernels()
    with eager():
        loop.run(
            aided.answering(2, 128),
            stage(2, slow_share=0.0),
            lambda rng: batches.answering_batch(training_data, rng, 2, 2, 128),
            tmp_path,
            seed=0,
        )
    same = {name: all(map(np.array_equal, after, before[name])) for name, after in kernels().items()}
    assert same == {"convolutions": True, "relations": False, "f": False}


def moved(shape, gradients, name="kernel", optimizer=loop.Muon, **settings):
    """Return how far a variable has moved after some gradients."""
    variable = keras.Variable(np.zeros(shape), dtype="float32", name=name)
    taken = optimizer(0.1, **settings)
    for gradient in gradients:
        taken.apply([keras.ops.convert_to_tensor(gradient, "float32")], [variable])
    return variable.numpy()


def test_all_singular_values_come_near_to_one():
    generator = np.random.default_rng(0)
    for rows, columns in ((27, 24), (216, 24), (5, 40)):
        left, _ = np.linalg.qr(generator.normal(size=(rows, rows)))
        right, _ = np.linalg.qr(generator.normal(size=(columns, columns)))
        number = min(rows, columns)
        values = np.geomspace(0.02, 1.0, number)
        matrix = (left[:, :number] * values) @ right[:number]
        found = np.asarray(loop.orthogonalise(keras.ops.convert_to_tensor(matrix, "float32")))
        there = left[:, :number].T @ found @ right[:number].T
        np.testing.assert_allclose(there, np.diag(np.diag(there)), atol=1e-4)  # the same singular vectors
        assert 0.6 < np.diag(there).min() and np.diag(there).max() < 1.25


def test_a_kernel_steps_as_far_whatever_the_gradients_size_and_direction():
    generator = np.random.default_rng(1)
    gradient = generator.normal(size=(3, 3, 8, 24))
    step = moved(gradient.shape, [gradient])
    assert np.sqrt((step**2).mean()) == pytest.approx(0.1 * loop.KERNEL_STEP, rel=0.2)
    np.testing.assert_allclose(moved(gradient.shape, [1e3 * gradient]), step, atol=1e-4)
    one = np.zeros_like(gradient)
    one[..., 0] = 100 * gradient[..., 0]  # one channel's gradient is a hundred times the others'
    lifted = moved(gradient.shape, [gradient + one])
    size = np.sqrt((lifted**2).mean(axis=(0, 1, 2)))
    assert size.max() / size.min() < 3
    assert (step * gradient).sum() < 0  # downhill


def test_everything_else_moves_as_adam_moves_it():
    for shape in ((7,), (5, 6), (2, 3, 4)):
        gradients = np.random.default_rng(2).normal(size=(4, *shape))
        expected = moved(shape, gradients, optimizer=keras.optimizers.Adam)
        np.testing.assert_allclose(moved(shape, gradients), expected, rtol=1e-6)


def test_momentum_is_a_mean_over_steps():
    """After steps up and down the second one's momentum still leads up, by Nesterov's sum of the last gradient."""
    generator = np.random.default_rng(3)
    one, other = generator.normal(size=(2, 3, 3, 4, 6))
    momentum = 0.05 * 0.95 * one + 0.05 * other
    ahead = keras.ops.convert_to_tensor(0.95 * momentum + 0.05 * other, "float32")
    both, first = moved(one.shape, [one, other]), moved(one.shape, [one])
    np.testing.assert_allclose(both - first, -0.1 * np.asarray(loop.kernel_step(ahead)), atol=1e-5)


@pytest.mark.parametrize("shape", [(2,), (3, 3, 2, 4)])
def test_a_slow_variable_takes_a_share_of_the_others_step(shape):
    gradients = [np.random.default_rng(4).normal(size=shape)] * 3
    other = moved(shape, gradients, "relations_kernel", slow_share=0.25)
    slow = moved(shape, gradients, "convolutions_kernel", slow_share=0.25)
    np.testing.assert_allclose(slow, other * 0.25, rtol=1e-4, atol=1e-6)
