"""A stage of the training: its steps, optimizer, learning rate, checkpoints and log.

Kernels of convolutions are trained by Muon (Jordan et al. 2024), everything else by Adam. Muon takes the momentum of a
kernel as a matrix, from input to output channels, and brings its singular values near to one before it steps. The
network is limited by its 24 channels, which Adam trains slowly: after 4,000 steps the shape of an object was predicted
correctly in 88 % of the cells instead of Adam's 80 %, which needed some 20,000 steps for as much.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent import futures
from typing import Any

import keras
import numpy as np
from keras import ops

from attribution.errors import BadInput, print_line
from attribution.files import atomic_write
from attribution.reading import opened
from attribution_benchmarks.beam.workers import end_with_parent, killed_worker_is_bad_input
from clevr_xai.training.batches import Batch
from clevr_xai.training.learner import LOSSES

WARM_UP = 200  # steps
LOG_STEPS = 100  # steps between lines of the log
GRADIENT_NORM = 5.0
SLOW = "convolutions"  # variables with this in their path have a share of the others' learning rate
MOMENTUM = 0.95
# Root mean square of a kernel's step over the rate. Adam's is about 0.2 (Liu et al. 2025); kernels of convolutions are
# stable at ten times as much.
KERNEL_STEP = 2.0
# Newton and Schulz's iteration as Muon has it: five rounds bring singular values of 0.01 to 1 to between 0.6 and 1.25.
ROUNDS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of the training.

    Attributes
    ----------
    name, steps
        Of the stage and its checkpoint.
    learning_rate
        The highest; it rises linearly over the first 200 steps.
    constant
        Share of the steps after which it falls linearly to zero: 1.0 for a stage that another one continues.
    slow_share
        Factor of the learning rate of the convolutions.
    num_questions
        About each image in a step; 0 for a stage without questions about images.
    """

    name: str
    learning_rate: float
    constant: float = 1.0
    slow_share: float = 1.0
    num_questions: int = 0
    steps: int = 0

    def rate(self, step: keras.KerasTensor | int) -> keras.KerasTensor:
        """Return the learning rate of a step, a number or a scalar tensor."""
        step = ops.cast(step, "float32")
        left = (self.steps - step) / max(self.steps * (1 - self.constant), 1)
        return self.learning_rate * ops.minimum(ops.minimum((step + 1) / WARM_UP, left), 1.0)


def run(
    model: keras.Model,
    stage: Stage,
    make_batch: Callable[[np.random.Generator], Batch],
    directory: pathlib.Path,
    seed: int,
    evaluate: Callable[[], dict] = dict,
    every: int = 1000,
    workers: int = 1,
) -> None:
    """Train a model through a stage, from its checkpoint if there is one.

    Parameters
    ----------
    model, stage
        One of a ``Learner``'s models, and how to train it.
    make_batch
        Makes a batch, ahead of its step.
    directory
        For checkpoints, ``<stage>.npz``, and the log, ``log.jsonl``.
    seed
        Of the batches; each depends on the seed, the stage and the step alone.
    evaluate
        Called at the end and every ``every`` steps; its result goes to the log.
    every
        Steps between checkpoints and evaluations.
    workers
        Processes that make batches; with 1, a thread makes them.

    Raises
    ------
    BadInput
        If the checkpoint is of another network or a later step, or the loss is not finite.
    """
    outputs = list(model.output)
    optimizer = _compile(model, stage, outputs)
    file = directory / f"{stage.name}.npz"
    step = _restore(file, model, optimizer, stage.steps)
    number = sum(map(ord, stage.name))

    def batch(step: int) -> Batch:
        return make_batch(np.random.default_rng((seed, number, step)))

    with contextlib.closing(_made_ahead(batch, range(step, stage.steps), workers)) as made:
        while step < stage.steps:
            following = min(step - step % length + length for length in (LOG_STEPS, every))
            number_of_steps = min(following, stage.steps) - step
            started = time.monotonic()
            result = _train(model, outputs, itertools.islice(made, number_of_steps))
            step += number_of_steps
            entry = _entry(stage, step, number_of_steps / (time.monotonic() - started), result)
            if step % every == 0 or step == stage.steps:
                _save(file, model, optimizer, step)
                entry |= evaluate()
            _log(directory, entry)


def _train(model: keras.Model, outputs: list[str], made: Iterable[Batch]) -> dict[str, float]:
    """Take a step for each batch, one or more, and return the mean losses and metrics of them all."""
    chosen = ((inputs, {name: targets[name] for name in outputs}, None) for inputs, targets in made)
    if keras.backend.backend() == "jax":
        return _train_on_jax(model, chosen)
    results = [model.train_on_batch(*each, return_dict=True) for each in chosen]
    return {name: float(np.mean([result[name] for result in results])) for name in results[0]}


def _train_on_jax(model: keras.Model, chosen: Iterator[tuple[Any, ...]]) -> dict[str, float]:
    """Do so without Keras' writing back of all variables after each step, which takes longer than a step on a GPU."""
    model.train_on_batch(*next(chosen))  # compiles ``train_function``
    groups = [
        model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables,
    ]  # fmt: skip
    state = tuple([variable.value for variable in group] for group in groups)
    for each in chosen:
        _, state = model.train_function(state, iter([each]))
    for variable, value in zip(itertools.chain(*groups), itertools.chain(*state), strict=True):
        variable.assign(value)
    return {name: float(value) for name, value in model.get_metrics_result().items()}


def _made_ahead(make: Callable[[int], Batch], steps: range, workers: int) -> Generator[Batch, None, None]:
    """Yield what ``make`` returns for each step, made by a thread or by several processes while others are used.

    The processes are forked, so that all share one copy of the training data, and end with this one. They compute with
    NumPy alone. Raises ``BadInput`` if the system kills one of them.
    """
    if workers == 1:
        pool: futures.Executor = futures.ThreadPoolExecutor(1)
    else:
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # of JAX, which no worker calls
        fork = multiprocessing.get_context("fork")
        pool = futures.ProcessPoolExecutor(workers, fork, _become_maker, (os.getpid(), make))
        make = _make
    with killed_worker_is_bad_input(), pool:
        waiting: collections.deque[futures.Future[Batch]] = collections.deque()
        try:
            for step in steps:
                waiting.append(pool.submit(make, step))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for late in waiting:
                late.cancel()


_maker: Callable[[int], Batch]  # of this process, if it is a worker


def _become_maker(parent: int, make: Callable[[int], Batch]) -> None:
    global _maker
    end_with_parent(parent)
    _maker = make


def _make(step: int) -> Batch:
    return _maker(step)


def _compile(model: keras.Model, stage: Stage, outputs: list[str]) -> Muon:
    """Compile a model for a stage and return its optimizer."""
    optimizer = Muon(_Schedule(stage), global_clipnorm=GRADIENT_NORM, slow_share=stage.slow_share)
    model.compile(
        optimizer=optimizer,
        loss={name: LOSSES[name][0] for name in outputs},
        loss_weights={name: LOSSES[name][1] for name in outputs},
        metrics={"answer": ["accuracy"]} if "answer" in outputs else None,
        jit_compile=keras.backend.backend() == "jax",  # which would run every operation by itself
    )
    optimizer.build(model.trainable_variables)
    return optimizer


def _entry(stage: Stage, step: int, speed: float, result: dict) -> dict:
    """Return an entry of the log; refuse a loss that is not finite."""
    if not np.isfinite(result["loss"]):
        raise BadInput(f"the loss became {result['loss']} in step {step} of stage {stage.name}; lower its rate")
    entry = {"stage": stage.name, "step": step, "steps_per_second": round(speed, 2)}
    return entry | {name: round(float(value), 4) for name, value in result.items()}


def _log(directory: pathlib.Path, entry: dict) -> None:
    """Append an entry to the log, and print it to standard error."""
    with open(directory / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    numbers = [f"{name} {value}" for name, value in entry.items() if not isinstance(value, dict)]
    print_line(", ".join(numbers), file=sys.stderr)


def _state(model: keras.Model, optimizer: Muon) -> dict:
    """Return the variables of a checkpoint by their names in it."""
    return {str(number): variable for number, variable in enumerate((*model.variables, *optimizer.variables))}


def _save(file: pathlib.Path, model: keras.Model, optimizer: Muon, step: int) -> None:
    """Write a checkpoint atomically."""
    arrays = {name: np.asarray(variable) for name, variable in _state(model, optimizer).items()}
    atomic_write(file, lambda stream: np.savez(stream, step=step, **arrays))


def _restore(file: pathlib.Path, model: keras.Model, optimizer: Muon, steps: int) -> int:
    """Read a checkpoint if there is one, and return its step, at most ``steps``; 0 without one."""
    if not file.exists():
        return 0
    variables = _state(model, optimizer)
    with opened(file, "checkpoint") as stream, np.load(stream, allow_pickle=False) as state:
        if {*state.files} != {*variables, "step"} or any(
            state[name].shape != tuple(variable.shape) for name, variable in variables.items()
        ):
            raise BadInput(f"{file} is of another network; remove it or name another --checkpoint_dir")
        step = int(state["step"])
        if not 0 <= step <= steps:
            raise BadInput(f"{file} is of step {step:,}, the last is {steps:,}; add steps or change --checkpoint_dir")
        for name, variable in variables.items():
            variable.assign(state[name])
        return step


def is_done(stage: Stage, directory: pathlib.Path) -> bool:
    """Return whether the checkpoint of a stage is of its last step."""
    file = directory / f"{stage.name}.npz"
    if not file.exists():
        return False
    with opened(file, "checkpoint") as stream, np.load(stream, allow_pickle=False) as state:
        return int(state["step"]) >= stage.steps


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, stage: Stage):
        self._stage = stage

    def __call__(self, step: keras.KerasTensor) -> keras.KerasTensor:
        return self._stage.rate(step)


class Muon(keras.optimizers.Adam):
    """Muon for the kernels of convolutions, Adam for all else; ``slow_share`` scales the rate of ``SLOW`` variables."""

    def __init__(self, *arguments, slow_share: float = 1.0, **settings):
        super().__init__(*arguments, **settings)
        self._slow_share = slow_share

    def build(self, variables):
        """Create the moments."""
        super().build(variables)
        self._shares = [self._slow_share if SLOW in variable.path else 1.0 for variable in variables]
        self._kernel_momentums = [
            # A convolution's kernel has the axes height, width, channels in, channels out.
            self.add_variable_from_reference(variable, name="kernel_momentum") if len(variable.shape) == 4 else None
            for variable in variables
        ]

    def update_step(self, gradient, variable, learning_rate):
        """Take a step for one variable."""
        place = self._get_variable_index(variable)
        rate, momentum = learning_rate * self._shares[place], self._kernel_momentums[place]
        if momentum is None:
            super().update_step(gradient, variable, rate)
            return
        self.assign(momentum, MOMENTUM * momentum + (1 - MOMENTUM) * gradient)
        nesterov = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
        self.assign_sub(variable, ops.cast(rate, variable.dtype) * kernel_step(nesterov))


def kernel_step(momentum):
    """Return a kernel's step at the rate 1, of the momentum's shape; its root mean square is about ``KERNEL_STEP``."""
    matrix = ops.reshape(momentum, (-1, momentum.shape[-1]))
    root_mean_square = 1 / math.sqrt(max(matrix.shape))  # of a matrix whose singular values are 1
    return ops.reshape(orthogonalise(matrix) * (KERNEL_STEP / root_mean_square), momentum.shape)


def orthogonalise(matrix):
    """Return a matrix with the same singular vectors, all of whose singular values are near 1."""
    wide = matrix.shape[0] <= matrix.shape[1]
    result = matrix if wide else ops.transpose(matrix)
    result = result / (ops.norm(result) + 1e-7)
    first, third, fifth = COEFFICIENTS
    for _ in range(ROUNDS):
        square = ops.matmul(result, ops.transpose(result))
        result = first * result + ops.matmul(third * square + fifth * ops.matmul(square, square), result)
    return result if wide else ops.transpose(result)
