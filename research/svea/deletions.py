"""Train SVEA's network with deleted segments, so that what it says of a signal with a hole is said of what it knows.

    python -m research.svea.deletions --seed=0

writes saved_models/svea/deletions/1 (saved_models/svea/deletions_seed1/1 for seed 1, and so on) and MODEL_CARD.md
beside it. The network and its optimiser are those of svea.baseline. A signal is cut into ten segments of four points,
and half of what the network learns from are signals without one of them, zeros in its place; which segments are
deleted says assets/deletions.json inside the SavedModel, where the metric in_domain_deletion finds it. After Hesse,
Schaub-Meyer and Roth, "Benchmarking the Attribution Quality of Vision Models", NeurIPS 2024.

Cost: a minute on one core.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import print_line
from attribution_benchmarks.core import keras_export
from attribution_benchmarks.metrics.in_domain import Deletions
from svea import baseline, mnist1d

if TYPE_CHECKING:
    import keras

SEGMENTS = 10  # of four points; the shape that is looked for has some twelve
EPOCHS = 10  # over ten times each signal and ten deletions of it: as many steps as the baseline's 200
DELETIONS = Deletions((SEGMENTS,), 0.0)
CARD = pathlib.Path(__file__).with_name("deletions_card.md")

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_integer(
    "epochs", EPOCHS, "passes over the signals, whole and with deletions", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_string(
    "output_dir", "",
    "directory to write the version directory 1 and MODEL_CARD.md to; saved_models/svea/deletions for seed 0 and "
    "saved_models/svea/deletions_seedN for seed N when empty", flag_values=FLAGS,
)  # fmt: skip


def with_deletions(signals: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, 40, 1) signals as often whole as with a segment deleted, each segment once: (20 N, 40, 1), (20 N,)."""
    deleted = [DELETIONS.without(signals, segment) for segment in range(SEGMENTS)]
    return np.concatenate([*[signals] * SEGMENTS, *deleted]), np.tile(labels, 2 * SEGMENTS)


def accuracy_with_deletions(model: keras.Model, data: mnist1d.Mnist1D) -> float:
    """Return the accuracy in percent on the test signals, each without each segment."""
    signals, labels = data.test.signals[..., None], data.test.labels
    right = [
        model.predict(DELETIONS.without(signals, segment), batch_size=500, verbose=0).argmax(axis=1) == labels
        for segment in range(SEGMENTS)
    ]
    return float(100 * np.mean(right))


def model_card(seed: int, epochs: int, accuracies: dict[str, float], deleted: float) -> str:
    """Return the model card in Markdown, from what was computed."""
    command = f"python -m research.svea.deletions --seed={seed}" + (f" --epochs={epochs}" if epochs != EPOCHS else "")
    return CARD.read_text("utf-8").format(
        seed=seed,
        command=command,
        accuracies=accuracies,
        deleted=deleted,
        epochs=epochs,
        segments=SEGMENTS,
        points=mnist1d.LENGTH // SEGMENTS,
        copies=2 * SEGMENTS,
        fingerprint=mnist1d.FINGERPRINT,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Train, evaluate, export, and print the accuracies."""
    seed, epochs = flag_values.seed, flag_values.epochs
    name = "deletions" if seed == 0 else f"deletions_seed{seed}"
    directory = baseline.free_directory(flag_values.output_dir, name)
    baseline.use_one_thread()
    model, data = baseline.build(seed), mnist1d.load()
    accuracies = baseline.train(model, data, epochs, with_deletions)
    deleted = accuracy_with_deletions(model, data)
    keras_export.export(model, directory, model_card(seed, epochs, accuracies, deleted), add_files=DELETIONS.save)
    for split, accuracy in {**accuracies, "test, without a segment": deleted}.items():
        print_line(f"accuracy, {split}: {accuracy:.1f} %")
    print_line(f"exported to {directory / '1'}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
