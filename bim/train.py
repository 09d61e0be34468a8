"""Train BIM's classifiers set by set: recipe, evaluation, model card, export."""

from __future__ import annotations

import contextlib
import os
import sys

import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.file_io.paths import check_directory
from attribution.file_io.reading import read_json
from bim import layout
from bim.dataset import RECORD

PAIR_SET_IMAGES = 60_000  # training images seen, for obj, scene and scene_only
CONTRAST_SET_IMAGES = 40_000  # for scene1 .. scene10, which have a tenth of the distinct images
# Share of the contrast sets' images seen through a window: drawn scenes are too easy without the dog. Chosen
# after looking at RMCS: see CHOICE_OF_WINDOWS, which the models' cards repeat.
CONTRAST_SET_WINDOWS = 0.75
ACCURACY_OF_UNSEEN = (
    "on the set's own validation images, which were not used for training or selection; the network of the last step "
    "is exported."
)
ACCURACY_OF_CONTRAST_SETS = (
    "on the set's own validation images, which were not used for training; the network of the last step is exported."
)
CHOICE_OF_WINDOWS = (
    "Contrast models trained without windows showed no trend in relative MCS. Training through random windows (75 % "
    "of the images; no other share was tried) was then chosen, and kept after looking at the relative MCS of 60 "
    "validation images of `dog_bedroom`. Relative MCS is reported on the same images: for these models it is a check "
    "of the data's sense and no independent result."
)


def train_models(
    data_dir: str,
    output_dir: str,
    names,
    architecture: str = "small_resnet",
    epochs: float = 0.0,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
    threads: int = 2,
) -> None:
    """Train and export the models that are not yet in ``output_dir``.

    Parameters
    ----------
    data_dir
        Folder of the constructed sets, with training images.
    output_dir
        Each model goes to ``output_dir/<name>/1`` with ``MODEL_CARD.md`` beside it.
    names
        Sets to train on, of ``layout.MODEL_NAMES``.
    architecture
        ``small_resnet`` or ``resnet50``.
    epochs
        Passes over the images; 0 for the recipe of the committed models.
    batch_size, learning_rate, seed, threads
        Of the training; ``threads`` of one operation.
    """
    for name in names:
        if name not in layout.MODEL_NAMES:
            raise BadInput(f"no model '{name}'; the models are {listed(layout.MODEL_NAMES)}")
    import keras
    import tensorflow as tf

    from bim import dataset, models

    build = models.architecture(architecture)
    check_directory("output_dir", output_dir)
    record = _construction(data_dir)
    with contextlib.suppress(RuntimeError):  # another command of this process may have begun already
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.experimental.enable_op_determinism()
    strategy = tf.distribute.MirroredStrategy() if len(tf.config.list_physical_devices("GPU")) > 1 else None
    for name in names:
        directory = os.path.join(output_dir, name)
        if os.path.isfile(os.path.join(directory, "MODEL_CARD.md")):
            continue
        images, labels = dataset.load_train(data_dir, name)
        validation = dataset.load_set(data_dir, name)  # before the training, which would be lost without it
        wanted = CONTRAST_SET_IMAGES if name in layout.CONTRAST_SETS else PAIR_SET_IMAGES
        passes = epochs or wanted / len(images)
        windows = CONTRAST_SET_WINDOWS if name in layout.CONTRAST_SETS else 0.0
        keras.utils.set_random_seed(seed)
        with strategy.scope() if strategy else contextlib.nullcontext():
            network = build()
            models.train(network, images, labels, passes, batch_size, learning_rate, seed, windows, _log(name))
        plain = models.folded(network, lambda: build(normalized=False))
        accuracy = _validation_accuracy(plain, validation)
        print_line(f"{name}: validation accuracy {100 * accuracy:.1f} %", flush=True)
        recipe = {
            "architecture": architecture,
            "parameters": int(plain.count_params()),
            "training images": len(images),
            "passes over them": round(passes, 2),
            "optimizer": "AdamW, weight decay 1e-4, cosine schedule to 0",
            "first learning rate": learning_rate,
            "batch size": batch_size,
            "share of the images seen through a random window": windows,
            "seed": seed,
            "TensorFlow": tf.__version__,
            "Keras": keras.__version__,
        }
        models.export(plain, directory, _model_card(name, data_dir, record, recipe, accuracy))
        keras.backend.clear_session()


def _validation_accuracy(model, images) -> float:
    """Return the share of a set's validation images whose highest logit is the label's."""
    from bim import models

    correct = 0
    for start in range(0, len(images), 100):
        rows = range(start, min(len(images), start + 100))
        inputs = models.network_input(images.images(rows), model.input_shape[1])
        correct += int(
            (np.argmax(model(inputs, training=False), axis=1) == images.labels[rows.start : rows.stop]).sum()
        )
    return correct / len(images)


def _construction(data_dir: str) -> dict:
    """Return what the sets were constructed with."""
    path = os.path.join(data_dir, RECORD)
    try:
        record = read_json(path)
        return {key: record[key] for key in ("seed", "num_train", "num_val")}
    except (BadInput, KeyError, TypeError) as error:
        raise BadInput(f"no {path} as scripts/construct_bim_dataset.py writes it; construct the sets first") from error


def _model_card(name: str, data_dir: str, record: dict, recipe: dict, accuracy: float) -> str:
    """Return the text of a model's card; ``record`` is what the sets were constructed with."""
    classes = layout.OBJECTS if name == "obj" else layout.SCENES
    drawn = os.path.isdir(os.path.join(data_dir, "corpora"))
    source = (
        "drawn objects on drawn scenes (`bim/synthetic/drawings.py`)"
        if drawn
        else "MSCOCO objects on MiniPlaces scenes"
    )
    if name == "scene_only":
        what = "the scenes alone"
    elif name in layout.CONTRAST_SETS:
        what = f"a dog in the scenes {', '.join(layout.scenes_with_dog(name))}, the other scenes without object"
    else:
        what = f"every object on every scene, labeled with the {'object' if name == 'obj' else 'scene'}"
    choice = drawn and recipe["share of the images seen through a random window"] > 0
    unseen = ACCURACY_OF_CONTRAST_SETS if choice else ACCURACY_OF_UNSEEN
    lines = [
        f"# BIM classifier `{name}`",
        "",
        f"Distinguishes {len(classes)} classes, in this order: {', '.join(classes)}.",
        "",
        f"**Data.** {what[0].upper() + what[1:]}; {source}, constructed with seed {record['seed']}, "
        f"{record['num_train']} training and {record['num_val']} validation images of each object and scene.",
        "",
        f"**Validation accuracy.** {100 * accuracy:.1f} % {unseen}",
        "",
        "**Input.** `rgb_minus_channel_means`: RGB of 0 to 255 minus (123.68, 116.78, 103.94), unscaled, float32; "
        "the signature `from_rgb` takes uint8 RGB. **Output.** `final_dense`: logits. Layers: block_layer1 to "
        "block_layer4. Batch normalization is folded into the convolutions.",
        "",
        "**Recipe.** " + "; ".join(f"{key}: {value}" for key, value in recipe.items()) + ".",
        "",
        *(["**What was chosen by looking.** " + CHOICE_OF_WINDOWS, ""] if choice else []),
        "**Use.** To score attribution methods with BIM's metrics. It is trained on these pictures only.",
        "",
    ]
    return "\n".join(lines)


def _log(name: str):
    """Return a function that writes the progress of a training to standard error."""

    def log(step: int, steps: int, loss: float) -> None:
        print_line(f"{name}: step {step} of {steps}, loss {loss:.3f}", file=sys.stderr, flush=True)

    return log
