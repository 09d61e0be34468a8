"""Train SVEA's baseline network on MNIST-1D, evaluate it, and export it as a SavedModel.

    python -m svea.baseline --seed=0

writes saved_models/svea/baseline/1 (for seed 0; saved_models/svea/baseline_seed1/1 for seed 1, and so on) and
MODEL_CARD.md beside it, in about half a minute on one core. It trains on one thread, so that the weights do
not depend on the number of cores; another version of TensorFlow or another kind of processor may still give
other ones.

The network is the paper's: three convolutions and one dense layer, 13,960 parameters. The paper does not give
the training recipe; the one here reaches test accuracies around its 87.7 %. Nothing is chosen on the test
set: the network of the last epoch is exported, whatever it scores.

Cost: half a minute on one core.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line
from attribution.files import check_directory
from attribution.methods import third_party
from attribution_benchmarks.core import keras_export
from attribution_benchmarks.core.bundled_models import default_model
from svea import mnist1d

if TYPE_CHECKING:
    import keras

    from attribution.model.model import Model

SAVED_MODELS = default_model("svea")
PAPER_ACCURACY = 87.7  # percent of the test signals
CARD = pathlib.Path(__file__).with_name("baseline_card.md")

EPOCHS = 200
_LEARNING_RATE = 0.01
_TRAINING_BATCH = 32
_L2 = 5e-4
_VALIDATION_SHARE = 0.1

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_integer("epochs", EPOCHS, "passes over the training set", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string(
    "output_dir",
    "",
    "directory to write the version directory 1 and MODEL_CARD.md to; saved_models/svea/baseline for seed 0 and "
    "saved_models/svea/baseline_seedN for seed N when empty",
    flag_values=FLAGS,
)


def build(seed: int) -> keras.Model:
    """Build the untrained network, (N, 40, 1) float32 -> (N, 10) probabilities.

    Everything random in this process is seeded: the weights and the order of the training signals.
    """
    import keras

    keras.utils.set_random_seed(seed)
    decay = keras.regularizers.L2(_L2)

    def convolution(width):
        return keras.layers.Conv1D(25, width, padding="same", activation="relu", kernel_regularizer=decay)

    return keras.Sequential(
        [
            keras.Input((mnist1d.LENGTH, 1), name="signal"),
            convolution(5),
            convolution(3),
            convolution(3),
            keras.layers.Flatten(),
            keras.layers.Dense(
                mnist1d.CLASSES,
                kernel_initializer=keras.initializers.RandomNormal(stddev=0.5),
                kernel_regularizer=decay,
                name="logits",
            ),
            keras.layers.Softmax(name="probabilities"),
        ]
    )


def live_network(model: Model) -> keras.Model:
    """Return the live network behind a SavedModel of this architecture, for the methods of other libraries."""
    import keras

    network = third_party.with_weights(build(seed=0), model)
    return keras.Model(network.inputs, network.layers[-2].output) if model.score == "logits" else network


def train(
    model: keras.Model, data: mnist1d.Mnist1D, epochs: int = EPOCHS, augment: Callable | None = None
) -> dict[str, float]:
    """Train a network in place by plain stochastic gradient descent, the last tenth of the training signals held out.

    ``epochs`` are passes over the training signals; ``augment(signals, labels)`` returns the signals and labels to
    train on, None for the signals themselves. Returns the accuracy in percent on the 3,600 signals trained on, the 400
    held out and the 1,000 test signals, under ``train``, ``validation`` and ``test``.
    """
    import keras
    from tqdm import tqdm
    from tqdm.keras import TqdmCallback

    held_out = round(len(data.train.labels) * _VALIDATION_SHARE)
    signals, labels = data.train.signals[..., None], data.train.labels
    splits = {
        "train": (signals[:-held_out], labels[:-held_out]),
        "validation": (signals[-held_out:], labels[-held_out:]),
        "test": (data.test.signals[..., None], data.test.labels),
    }
    learnt = augment(*splits["train"]) if augment else splits["train"]
    model.compile(
        optimizer=keras.optimizers.SGD(_LEARNING_RATE, momentum=0.0),
        loss="sparse_categorical_crossentropy",
        steps_per_execution=-(-len(learnt[1]) // _TRAINING_BATCH),  # one call of the runtime an epoch
        jit_compile=False,
    )
    progress = TqdmCallback(verbose=0, tqdm_class=tqdm, desc="training")
    model.fit(*learnt, batch_size=_TRAINING_BATCH, epochs=epochs, verbose=0, callbacks=[progress])
    return {
        name: float(100 * np.mean(model.predict(x, batch_size=500, verbose=0).argmax(axis=1) == y))
        for name, (x, y) in splits.items()
    }


def model_card(model: keras.Model, seed: int, epochs: int, accuracies: dict[str, float]) -> str:
    """Return the model card in Markdown; ``accuracies`` is the result of ``train``, in percent."""
    import keras
    import tensorflow as tf

    return CARD.read_text("utf-8").format(
        seed=seed,
        command=f"python -m svea.baseline --seed={seed}" + (f" --epochs={epochs}" if epochs != EPOCHS else ""),
        parameters=model.count_params(),
        accuracies=accuracies,
        paper_accuracy=PAPER_ACCURACY,
        learning_rate=_LEARNING_RATE,
        batch=_TRAINING_BATCH,
        epochs=epochs,
        decay=_L2,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        device="GPU" if tf.config.list_physical_devices("GPU") else "CPU",
        fingerprint=mnist1d.FINGERPRINT,
    )


def use_one_thread() -> None:
    """Make the weights independent of the number of cores: TensorFlow sums in the same order on one thread."""
    import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow has already started in this process
        print_line("TensorFlow was started before training; the weights depend on its threads", file=sys.stderr)


def free_directory(output_dir: str, name: str) -> pathlib.Path:
    """Return the directory of a network to train: ``output_dir``, or its name below SVEA's networks.

    Raises ``BadInput`` if there is a network already.
    """
    directory = pathlib.Path(output_dir) if output_dir else SAVED_MODELS / name
    check_directory("output_dir", directory)
    if (directory / "1").exists():
        raise BadInput(f"{str(directory / '1')!r} exists; name another directory with --output_dir, or remove it")
    return directory


def main(flag_values: flags.FlagValues) -> None:
    """Train, evaluate, export, and print the accuracies."""
    seed, epochs = flag_values.seed, flag_values.epochs
    directory = free_directory(flag_values.output_dir, "baseline" if seed == 0 else f"baseline_seed{seed}")
    use_one_thread()
    model = build(seed)
    accuracies = train(model, mnist1d.load(), epochs)
    keras_export.export(model, directory, model_card(model, seed, epochs, accuracies))
    for split, accuracy in accuracies.items():
        print_line(f"accuracy, {split}: {accuracy:.1f} %")
    print_line(f"exported to {directory / '1'}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
