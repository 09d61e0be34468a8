"""A stage of the training: steps, learning rates, checkpoints, log."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable
from concurrent import futures

import keras
import numpy as np

from attribution.errors import BadInput, print_line
from attribution.file_io.files import atomic_write
from clevr_xai.training.batches import Batch
from clevr_xai.training.losses import LOSS_WEIGHTS, LOSSES
from clevr_xai.training.optimizer import Muon

WARM_UP = 200  # steps
SHOWN = 100  # steps between lines of the log
GRADIENT_NORM = 5.0


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of the training.

    Attributes
    ----------
    name
        Also of its checkpoint.
    steps
    learning_rate
        The highest; it rises over the first 200 steps.
    constant
        Share of the steps after which it falls linearly to zero: 1.0 for a stage that another one continues.
    slow_share
        What the rate of ``optimizer.SLOW`` is multiplied by.
    """

    name: str
    steps: int
    learning_rate: float
    constant: float = 1.0
    slow_share: float = 1.0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        left = (self.steps - step) / max(self.steps * (1 - self.constant), 1)
        return self.learning_rate * min((step + 1) / WARM_UP, 1.0, left)


def run(
    model: keras.Model,
    stage: Stage,
    make_batch: Callable[[np.random.Generator], Batch],
    directory: pathlib.Path,
    seed: int,
    evaluate: Callable[[], dict] | None = None,
    every: int = 1000,
) -> None:
    """Train a model through a stage, from its checkpoint if there is one.

    Parameters
    ----------
    model
        One of a ``Learner``'s.
    stage
    make_batch
        Draws a batch; called in another thread, while the step before it is taken.
    directory
        For checkpoints, ``<stage>.npz``, and the log, ``log.jsonl``.
    seed
        Of the batches; each is drawn from the seed, the stage and the step alone.
    evaluate
        Called at the end and every so many steps; its result goes to the log.
    every
        Steps between checkpoints and evaluations.
    """
    outputs = list(model.output)
    optimizer = Muon(stage.learning_rate, global_clipnorm=GRADIENT_NORM, slow_share=stage.slow_share)
    model.compile(
        optimizer=optimizer,
        loss={name: LOSSES[name] for name in outputs},
        loss_weights={name: LOSS_WEIGHTS[name] for name in outputs},
        metrics={"answer": ["accuracy"]} if "answer" in outputs else None,
        jit_compile=False,
    )
    optimizer.build(model.trainable_variables)
    file = directory / f"{stage.name}.npz"
    step = restore(file, model, optimizer)
    number = sum(map(ord, stage.name))

    def batch(step):
        return make_batch(np.random.default_rng((seed, number, step)))

    with futures.ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(batch, step) if step < stage.steps else None
        started, begun = time.monotonic(), step
        while step < stage.steps:
            inputs, targets = waiting.result()
            waiting = beside.submit(batch, step + 1) if step + 1 < stage.steps else None
            optimizer.learning_rate = stage.rate(step)
            result = model.train_on_batch(inputs, {name: targets[name] for name in outputs}, return_dict=True)
            step += 1
            if step % SHOWN == 0 or step == stage.steps:
                entry = {"stage": stage.name, "step": step}
                entry["steps_per_second"] = round((step - begun) / (time.monotonic() - started), 2)
                entry |= {name: round(float(value), 4) for name, value in result.items()}
                if not np.isfinite(entry["loss"]):
                    raise BadInput(
                        f"the loss became {entry['loss']} in step {step} of stage {stage.name}; lower its rate"
                    )
                model.reset_metrics()
                if step % every == 0 or step == stage.steps:
                    save(file, model, optimizer, step)
                    entry |= evaluate() if evaluate else {}
                log(directory, entry)


def log(directory: pathlib.Path, entry: dict) -> None:
    """Append an entry to the log, and show it."""
    with open(directory / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    print_line(
        ", ".join(f"{name} {value}" for name, value in entry.items() if not isinstance(value, dict)), file=sys.stderr
    )


def save(file: pathlib.Path, model: keras.Model, optimizer, step: int) -> None:
    """Write a checkpoint, whole or not at all."""
    state = [np.asarray(variable) for variable in (*model.variables, *optimizer.variables)]
    arrays = {str(number): value for number, value in enumerate(state)}
    atomic_write(file, lambda stream: np.savez(stream, step=step, **arrays))


def restore(file: pathlib.Path, model: keras.Model, optimizer) -> int:
    """Read a checkpoint if it is there, and return the step it was written after, 0 without one."""
    if not file.exists():
        return 0
    with np.load(file, allow_pickle=False) as state:
        variables = [*model.variables, *optimizer.variables]
        fits = len(state.files) == len(variables) + 1 and all(
            state[str(number)].shape == tuple(variable.shape) for number, variable in enumerate(variables)
        )
        if not fits:
            raise BadInput(f"{file} is of another network; remove it or name another --checkpoint_dir")
        for number, variable in enumerate(variables):
            variable.assign(state[str(number)])
        return int(state["step"])
