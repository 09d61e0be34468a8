"""Write SavedModels as Keras 2 does: ``python keras2_models.py DIRECTORY [NAME ...]``.

``keras2_models.tar.xz`` has those of Keras 2.21; the paths in it are relative to its folder.

Each network is compiled and fitted for one step, so that its optimizer has slot variables. ``DIRECTORY/NAME.npz`` has
inputs and the network's scores of them. This runs in a process of its own: a process that has imported ``tf_keras``
loads these files even with ``tf.saved_model.load``.
"""

import pathlib
import sys

import numpy as np
import tf_keras
from tf_keras import layers

OPTIMIZERS = {"adam": tf_keras.optimizers.Adam, "legacy": tf_keras.optimizers.legacy.Adam}


def networks(directory):
    """Yield the name of each network, its optimizer's, its layers and eight inputs."""
    generator = np.random.default_rng(0)
    images = generator.normal(size=(8, 8, 8, 3)).astype(np.float32)
    signals = generator.normal(size=(8, 6, 4)).astype(np.float32)
    tokens = generator.integers(1, 9, (8, 7)) * (np.arange(7) < generator.integers(1, 8, (8, 1)))
    text = np.array([["a b"], ["b c"], ["d e"], ["f"], ["a"], ["b"], ["c d e"], ["a f"]])
    image = [
        layers.Conv2D(4, 3, activation="swish"),
        layers.BatchNormalization(),
        layers.Conv2D(4, 3, activation="tanh"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(3),
    ]
    yield "image", "legacy", image, images
    yield "gru", "adam", [layers.GRU(5), layers.Dense(3)], signals
    yield "masked_tokens", "legacy", [layers.Embedding(9, 4, mask_zero=True), layers.LSTM(5), layers.Dense(3)], tokens
    normalization = layers.Normalization()
    normalization.adapt(signals)
    yield "normalized", "legacy", [normalization, layers.Flatten(), layers.Dense(5, "tanh"), layers.Dense(3)], signals
    vectorization = layers.TextVectorization(20, output_sequence_length=6)
    vectorization.adapt(text)
    yield "text", "adam", [vectorization, layers.Embedding(20, 4), layers.Flatten(), layers.Dense(3)], text
    (directory / "vocabulary.txt").write_text("a\nb\nc\n")
    lookup = layers.StringLookup(vocabulary=str(directory / "vocabulary.txt"))
    words = np.array([["a", "b"], ["b", "c"], ["a", "a"], ["c", "z"]] * 2)
    yield "words", "legacy", [lookup, layers.Embedding(5, 4), layers.Flatten(), layers.Dense(3)], words


def main(directory, *names):
    for name, optimizer, parts, inputs in networks(directory):
        if names and name not in names:
            continue
        tf_keras.utils.set_random_seed(0)
        dtype = "string" if inputs.dtype.kind == "U" else inputs.dtype
        network = tf_keras.Sequential([layers.Input(inputs.shape[1:], dtype=dtype), *parts])
        network.compile(OPTIMIZERS[optimizer](0.1), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                        run_eagerly=True)  # fmt: skip
        network.fit(inputs, np.arange(len(inputs)) % 3, verbose=0)
        network.save(directory / name, save_format="tf")
        np.savez(directory / f"{name}.npz", inputs=inputs, scores=network(inputs, training=False))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
