"""Train and write the networks of XAI-TRIS, all in one SavedModel with two outputs a problem.

    python tools/make_tetromino_networks.py --output_dir=saved_models/exact/tetrominoes

Each hidden unit reads at most twelve pixels, so that exact Shapley values can be counted. The dense units are trained
with an L1 penalty, cut to their twelve largest weights, and trained again. Translations and rotations are learned by a
convolution with windows of 3 x 3 pixels.

Cost: a minute on one core. The weights differ in the last digits from one processor to another.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution import cli
from attribution.files import check_directory
from attribution_benchmarks.exact.metrics import MOST_FEATURES
from attribution_benchmarks.exact.xai_tris import NAMES, SIDE, draw, two_classes

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "output_dir", "saved_models/exact/tetrominoes", "folder of the network's versions", flag_values=FLAGS
)
flags.DEFINE_integer("seed", 0, "of data, first weights and order of the training", flag_values=FLAGS)

UNITS, FILTERS = 24, 8
EXAMPLES, HELD_OUT, EPOCHS, PENALTY = 20_000, 2000, 12, 3e-4


def trained(name: str, seed: int) -> tuple[list[np.ndarray], float]:
    """Train the network of one problem; return its weights by layer, and its accuracy on new images."""
    import keras

    keras.utils.set_random_seed(seed)
    images, labels, _ = draw(name, EXAMPLES + HELD_OUT, np.random.default_rng([seed, NAMES.index(name), 1]))
    convolves = name.startswith("translations")
    penalty = keras.regularizers.L1(PENALTY)
    hidden = (
        [keras.layers.Conv2D(FILTERS, 3, activation="relu"), keras.layers.GlobalAveragePooling2D()]
        if convolves
        else [keras.layers.Flatten(), keras.layers.Dense(UNITS, "relu", kernel_regularizer=penalty)]
    )
    network = keras.Sequential([keras.Input((SIDE, SIDE, 1)), *hidden, keras.layers.Dense(1)])

    def fit(constraint=None):
        if constraint:
            network.layers[1].kernel.constraint = constraint
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        network.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, EPOCHS * 157)), loss)
        network.fit(images[:EXAMPLES], labels[:EXAMPLES], batch_size=128, epochs=EPOCHS, verbose=0)

    fit()
    if not convolves:
        kernel = network.layers[1].kernel.numpy()
        left = np.abs(kernel) >= np.sort(np.abs(kernel), axis=0)[-MOST_FEATURES]
        network.layers[1].kernel.assign(kernel * left)
        fit(lambda values: values * left)
    found = network.predict(images[EXAMPLES:], verbose=0)[:, 0] > 0
    return network.get_weights(), float((found == labels[EXAMPLES:]).mean())


def save(directory: pathlib.Path, seed: int = 0) -> dict[str, float]:
    """Train all networks, write the SavedModel, and return the accuracy of each."""
    import tensorflow as tf

    weights, accuracies = {}, {}
    for name in NAMES:
        weights[name], accuracies[name] = trained(name, seed)
    dense = [name for name in NAMES if len(weights[name][0]) == SIDE**2]
    windows = [name for name in NAMES if name not in dense]

    def outputs(names: list[str]) -> np.ndarray:
        """Return the weights from the hidden units of some networks to all outputs."""
        parts = []
        for name in names:
            part = np.zeros((len(weights[name][2]), len(NAMES)), np.float32)
            part[:, NAMES.index(name)] = weights[name][2][:, 0]
            parts.append(part)
        return np.concatenate(parts)

    by_class = two_classes(np.eye(len(NAMES), dtype=np.float32))

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.dense = tf.Variable(np.concatenate([weights[name][0] for name in dense], axis=1))
            self.dense_bias = tf.Variable(np.concatenate([weights[name][1] for name in dense]))
            self.dense_out = tf.Variable(outputs(dense))
            self.kernel = tf.Variable(np.concatenate([weights[name][0] for name in windows], axis=3))
            self.kernel_bias = tf.Variable(np.concatenate([weights[name][1] for name in windows]))
            self.kernel_out = tf.Variable(outputs(windows))
            self.constant = tf.Variable(np.array([weights[name][3][0] for name in NAMES]))

        @tf.function(input_signature=[tf.TensorSpec([None, SIDE, SIDE, 1], tf.float32, name="images")])
        def serve(self, images):
            flat = tf.reshape(images, [-1, SIDE * SIDE])
            units = tf.nn.relu(tf.matmul(flat, self.dense) + self.dense_bias)
            found = tf.nn.relu(tf.nn.conv2d(images, self.kernel, 1, "VALID") + self.kernel_bias)
            pooled = tf.reduce_mean(found, axis=[1, 2])
            log_odds = tf.matmul(units, self.dense_out) + tf.matmul(pooled, self.kernel_out) + self.constant
            return {"logits": tf.matmul(log_odds, by_class)}

    network = Network()
    tf.saved_model.save(network, str(directory), signatures=network.serve)
    return accuracies


def main(flag_values: flags.FlagValues) -> None:
    """Train, save, and print the accuracy on new images."""
    check_directory("output_dir", flag_values.output_dir)
    for name, accuracy in save(pathlib.Path(flag_values.output_dir) / "1", flag_values.seed).items():
        print(f"{name}: {100 * accuracy:.1f} % of new images correct")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
