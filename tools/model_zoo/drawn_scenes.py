"""Two small networks trained for a minute on BIM's drawings, so that their maps have something to point at.

Which of four objects stands in a drawn scene? The scene says nothing, since each object stands in each: a network that
has learnt to answer looks at the object.
"""

from __future__ import annotations

import pathlib
import time

import numpy as np

from tools.model_zoo import convolutional, transformers

OBJECTS = ("dog", "kite", "stop_sign", "zebra")
SCENES = ("bedroom", "bamboo_forest", "runway", "track")
SIDE = 64
_SHAPE = (SIDE, SIDE, 3)
_BOX = (28, 44)  # least and greatest side of an object


def pictures(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw objects, which take turns, in scenes.

    Returns
    -------
    pixels : np.ndarray
        ``(number, 64, 64, 3)`` uint8.
    labels : np.ndarray
        ``(number,)`` int32, places in ``OBJECTS``.
    """
    from bim.construct import paste
    from bim.synthetic.draw_objects import draw_object
    from bim.synthetic.draw_scenes import draw_scene

    generator = np.random.default_rng(seed)
    scenes = [draw_scene(SCENES[i % len(SCENES)], generator, SIDE) for i in range(max(4, number // 8))]
    cutouts = [draw_object(OBJECTS[i % len(OBJECTS)], generator, 2 * SIDE) for i in range(max(4, number // 4))]
    labels = (np.arange(number) % len(OBJECTS)).astype(np.int32)
    pixels = np.empty((number, *_SHAPE), np.uint8)
    for row, label in enumerate(labels):
        image, silhouette = cutouts[label + len(OBJECTS) * generator.integers(len(cutouts) // len(OBJECTS))]
        side = generator.integers(*_BOX)
        top, left = generator.integers(0, SIDE - side, 2)
        scene = scenes[generator.integers(len(scenes))]
        pixels[row] = paste(scene, image, silhouette, (top, left, top + side, left + side))
    return pixels, labels


def efficient():
    """Blocks of EfficientNet: swish, depthwise convolutions, gates."""
    import keras

    inputs = keras.Input(_SHAPE)
    x = keras.layers.Rescaling(1 / 127.5, -1)(inputs)
    x = keras.layers.Activation("silu")(convolutional.normalized(x, 8, strides=2))
    x = convolutional.inverted_residual(x)
    x = keras.layers.Activation("silu")(convolutional.normalized(x, 24, strides=2))
    x = keras.layers.Activation("silu")(convolutional.normalized(x, 48, strides=2))
    return convolutional.classifier(inputs, x, classes=len(OBJECTS))


def transformer():
    """A vision transformer: patches of 8 pixels, three blocks, mean over tokens."""
    import keras

    layers = keras.layers
    inputs = keras.Input(_SHAPE)
    x = layers.Rescaling(1 / 127.5, -1)(inputs)
    x = layers.Reshape((-1, 48))(layers.Conv2D(48, 8, 8)(x))
    x = transformers.Positions()(x)
    for _ in range(3):
        x = transformers.encoder(x, heads=4)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(len(OBJECTS))(x))


def train(build, path: pathlib.Path, seconds: float = 60.0, drawings: int = 2000, steps: int = 0) -> float:
    """Train ``efficient`` or ``transformer`` for some seconds of processor time, and export it.

    Parameters
    ----------
    build
        One of the two functions.
    path
        Where the SavedModel is written.
    seconds, steps
        How long to train: so many steps or, if they are 0, as many as the seconds allow.
    drawings
        How many pictures to train on, again and again, mirrored at random.

    Returns
    -------
    float
        Accuracy on 200 pictures of drawings that had no part in the training.
    """
    import keras

    keras.utils.set_random_seed(0)
    pixels, labels = pictures(drawings, seed=1)
    network = build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.AdamW(2e-3, weight_decay=1e-3), loss)
    generator, end, taken = np.random.default_rng(0), time.process_time() + seconds, 0
    while taken < steps if steps else time.process_time() < end:
        taken += 1
        rows = generator.integers(len(pixels), size=64)
        batch = np.where(generator.random((64, 1, 1, 1)) < 0.5, pixels[rows], pixels[rows, :, ::-1])
        network.train_on_batch(batch.astype(np.float32), labels[rows])
    network.export(path, verbose=False)
    unseen, right = pictures(200, seed=2)
    return float((np.asarray(network(unseen.astype(np.float32))).argmax(axis=1) == right).mean())


TRAINED = {
    "efficient": (efficient, "blocks of EfficientNet: swish, depthwise convolutions, gates"),
    "transformer": (transformer, "a vision transformer: patches of 8 pixels, three blocks"),
}
