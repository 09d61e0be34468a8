"""Train the networks of the benchmark "parts" and export them as SavedModels.

    python scripts/train_parts_networks.py --output_dir=saved_models/parts

Every image has random parts and background objects, and the classes that the visible parts allow share its target
(the "multi target" of Hesse et al., FunnyBirds, ICCV 2023). So an image without some parts is an ordinary input. A
network that is there already is left alone, so an interrupted run continues with the next. The images of the tests
are used for the figures of the model card alone.

Cost: about 4 CPU minutes a network. The weights differ in the last digits from one processor to another.
"""

from __future__ import annotations

import pathlib
import sys
import time

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution import cli
from attribution.errors import print_line
from attribution.files import check_directory
from attribution_benchmarks.core import keras_export
from attribution_benchmarks.parts import objects
from attribution_benchmarks.parts.classes import CLASSES, PARTS, allowed

FLAGS = flags.FlagValues()
flags.DEFINE_string("output_dir", "saved_models/parts", "folder of the networks", flag_values=FLAGS)
flags.DEFINE_integer("networks", 5, "of each architecture, with seeds from 0", 1, flag_values=FLAGS)

SCENES, EPOCHS, BATCH, RATE = 6000, 12, 64, 3e-3
WHOLE = 0.4  # share of the training images with all parts; the others have each part with a probability of one half
OBJECT_KEPT = 0.75  # probability of each background object
REPEATED, REPEATS = ("unequal", "equal"), 2  # the exclusive or is learned last, so an epoch has its scenes twice
HELD_OUT = 500  # images of each figure in the model card


ARCHITECTURES = ("plain", "residual")  # of four convolutions; of three residual blocks


def built(architecture: str):
    """Return an untrained network from (N, 48, 48, 3) images of 0 to 1 to logits."""
    import keras

    def convolution(x, width: int, size: int = 3, stride: int = 1, relu: bool = True):
        x = keras.layers.Conv2D(width, size, stride, "same", use_bias=False, kernel_initializer="he_normal")(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3)(x)
        return keras.layers.ReLU()(x) if relu else x

    image = keras.Input((objects.SIDE, objects.SIDE, 3), name="image")
    if architecture == "plain":
        x = convolution(image, 24, 5, 2)
        x = keras.layers.MaxPooling2D()(convolution(x, 40))
        x = convolution(keras.layers.MaxPooling2D()(convolution(x, 56)), 64)
    else:
        x = convolution(image, 16, 3, 2)
        for width, stride in ((16, 1), (32, 2), (56, 2)):
            inner = convolution(convolution(x, width, 3, stride), width, relu=False)
            x = keras.layers.ReLU()(keras.layers.Add()([inner, convolution(x, width, 1, stride, relu=False)]))
    pooled = keras.layers.Flatten()(keras.layers.MaxPooling2D(x.shape[1:3])(x))
    return keras.Model(image, keras.layers.Dense(len(CLASSES))(keras.layers.Dense(64, "relu")(pooled)))


class Scenes:
    """Drawings of a split, whose images are composed when they are needed."""

    def __init__(self, split: str, count: int):
        drawings = [objects.draw(split, number) for number in range(count)]
        self.grounds, self.layers, self.variants, self.labels = (
            np.stack([getattr(one, name) for one in drawings]) for name in ("ground", "layers", "variants", "label")
        )

    def images(self, rows: np.ndarray, present: np.ndarray, objects_kept: np.ndarray | bool = True) -> np.ndarray:
        """Return the images of some rows with some parts, (N, 5) bool, and background objects."""
        kept = objects.kept_layers(present)
        kept[:, : objects.BACKGROUND_OBJECTS] &= objects_kept
        return objects.compose(self.grounds[rows], self.layers[rows], kept)

    def targets(self, rows: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Return equal probabilities of all classes that the present parts allow, (N, classes) float32."""
        possible = allowed(self.variants[rows], present)
        return (possible / possible.sum(axis=1, keepdims=True)).astype(np.float32)


def train(network, scenes: Scenes, seed: int) -> None:
    """Train a network in place with AdamW and a cosine schedule."""
    import keras

    rng = np.random.default_rng([seed, 1])
    repeated = np.isin(scenes.labels, [tuple(CLASSES).index(name) for name in REPEATED])
    places = np.repeat(np.arange(len(repeated)), np.where(repeated, REPEATS, 1))
    steps = len(places) // BATCH
    schedule = keras.optimizers.schedules.CosineDecay(RATE, EPOCHS * steps)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.AdamW(schedule, weight_decay=1e-4), loss)
    for epoch in range(EPOCHS):
        losses = []
        for rows in rng.permutation(places)[: steps * BATCH].reshape(steps, BATCH):
            present = (rng.random((BATCH, len(PARTS))) < 0.5) | (rng.random((BATCH, 1)) < WHOLE)
            images = scenes.images(rows, present, rng.random((BATCH, objects.BACKGROUND_OBJECTS)) < OBJECT_KEPT)
            if rng.random() < 0.5:
                images = images[:, :, ::-1]
            losses.append(float(network.train_on_batch(images, scenes.targets(rows, present))))
        print_line(f"epoch {epoch + 1} of {EPOCHS}: loss {np.mean(losses):.3f}")


def figures(network, scenes: Scenes) -> dict[str, float]:
    """Return the accuracy on whole objects, and the share of allowed classes among those predicted without parts."""
    rows = np.arange(len(scenes.labels))
    whole = np.ones((len(rows), len(PARTS)), bool)
    some = np.random.default_rng(0).random(whole.shape) < 0.5
    found = network.predict(scenes.images(rows, whole), verbose=0).argmax(axis=1)
    predicted = network.predict(scenes.images(rows, some), verbose=0).argmax(axis=1)
    return {
        "whole objects": float((found == scenes.labels).mean()),
        "with random parts, an allowed class": float((scenes.targets(rows, some)[rows, predicted] > 0).mean()),
    }


def export(network, architecture: str, directory: pathlib.Path, card: str) -> None:
    """Write the SavedModel and its card."""
    import tensorflow as tf

    alone = built(architecture)  # without the state of the optimizer
    alone.set_weights(network.get_weights())
    image = tf.TensorSpec([None, objects.SIDE, objects.SIDE, 3], tf.float32, name="image")
    functions = {"serving_default": (lambda image: {"logits": alone(image, training=False)}, [image])}
    keras_export.export(alone, directory, card, functions)


def card(name: str, seed: int, found: dict[str, dict[str, float]], seconds: float) -> str:
    """Return the model card."""
    accuracies = "\n".join(
        f"| {split} | {what} | {100 * value:.1f} % |" for split, each in found.items() for what, value in each.items()
    )
    return f"""# {name}

A network of the benchmark `parts`, trained by `scripts/train_parts_networks.py` on {SCENES:,} drawings for {EPOCHS}
epochs with seed {seed}, in {seconds / 60:.1f} CPU minutes. Random parts and background objects are missing in training,
and all classes that the visible parts allow share the target. The test images were used for these figures alone.

| images | measured | share |
|---|---|---:|
{accuracies}

Input: `image`, (N, {objects.SIDE}, {objects.SIDE}, 3) float32 of 0 to 1. Output: `logits` of {len(CLASSES)} classes:
{", ".join(f"`{each}`" for each in CLASSES)}.
"""


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing, one network after the other."""
    import keras

    check_directory("output_dir", flag_values.output_dir)
    wanted = [(architecture, seed) for seed in range(flag_values.networks) for architecture in ARCHITECTURES]
    places = {pathlib.Path(flag_values.output_dir) / f"{name}_seed{seed}": (name, seed) for name, seed in wanted}
    missing = {place: each for place, each in places.items() if not (place / "1" / "saved_model.pb").exists()}
    scenes = Scenes("train", SCENES if missing else 0) if missing else None
    for place, (architecture, seed) in missing.items():
        started = time.process_time()
        keras.utils.set_random_seed(seed)
        network = built(architecture)
        train(network, scenes, seed)
        found = {split: figures(network, Scenes(split, HELD_OUT)) for split in ("choice", "test")}
        export(network, architecture, place, card(place.name, seed, found, time.process_time() - started))
        print_line(f"{place.name}: {found}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
