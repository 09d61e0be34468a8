"""Write a network of the exact benchmarks: hand-set units and, of "problems", two trained parts, an output a problem.

    python tools/make_exact_networks.py --output_dir=saved_models/exact/problems
    python tools/make_exact_networks.py --output_dir=saved_models/exact/units

The hand-set parts are the same everywhere; the trained ones differ in the last digits from one processor to another.

Cost: half a minute on one core.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution import cli
from attribution.files import check_directory
from attribution_benchmarks.exact.definition import FEATURES, HAND_SET, Problem
from attribution_benchmarks.exact.xai_units import PROBLEMS

FLAGS = flags.FlagValues()
flags.DEFINE_string("output_dir", "saved_models/exact/problems", "folder of the network's versions", flag_values=FLAGS)
flags.DEFINE_integer("seed", 0, "of data, first weights and order of the training", flag_values=FLAGS)

WIDTH = 16
EXAMPLES, EPOCHS = 8000, 15


def hand_set_weights(problems: tuple[Problem, ...] = HAND_SET) -> tuple[np.ndarray, ...]:
    """Return float32 weights (12, H), biases (H,), output weights (H, P), linear weights (12, P) and biases (P,)."""
    units = [(place, unit) for place, problem in enumerate(problems) for unit in problem.units]
    first, biases = np.zeros((FEATURES, len(units)), np.float32), np.zeros(len(units), np.float32)
    last = np.zeros((len(units), len(problems)), np.float32)
    linear = np.zeros((FEATURES, len(problems)), np.float32)
    for number, (place, (weights, bias, output)) in enumerate(units):
        for feature, weight in weights.items():
            first[feature, number] = weight
        biases[number], last[number, place] = bias, output
    for place, problem in enumerate(problems):
        for feature, weight in problem.linear.items():
            linear[feature, place] = weight
    return first, biases, last, linear, np.array([problem.bias for problem in problems], np.float32)


def taught(inputs: np.ndarray) -> np.ndarray:
    """Return what the trained parts learn, (N,): products, a sine, and features that count alone or not at all."""
    x = np.asarray(inputs, np.float64)
    return x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + np.abs(x[:, 3]) - 0.5 * x[:, 4] * x[:, 5] + 0.5 * x[:, 6]


def trained_weights(activation: str, seed: int) -> tuple[list[np.ndarray], float]:
    """Train one part, "relu" or "leaky_relu"; return its weights and biases by layer, and its explained variance."""
    import keras

    keras.utils.set_random_seed(seed)
    inputs = np.random.default_rng(seed).normal(size=(EXAMPLES + 2000, FEATURES)).astype(np.float32)
    hidden = [keras.layers.Dense(WIDTH * 2, activation) for _ in range(2)]
    network = keras.Sequential([keras.Input((FEATURES,)), *hidden, keras.layers.Dense(1)])
    network.compile(keras.optimizers.Adam(0.003), "mse")
    network.fit(inputs[:EXAMPLES], taught(inputs[:EXAMPLES]), batch_size=64, epochs=EPOCHS, verbose=0)
    wanted = taught(inputs[EXAMPLES:])
    left = np.square(network.predict(inputs[EXAMPLES:], verbose=0)[:, 0] - wanted).mean()
    return network.get_weights(), float(1 - left / wanted.var())


def save(directory: pathlib.Path, problems: tuple[Problem, ...] = HAND_SET, seed: int | None = 0) -> dict[str, float]:
    """Write the SavedModel of some problems, and return the share of variance that each trained part explains.

    ``seed`` is that of the trained parts, None for none.
    """
    import tensorflow as tf

    trained = {} if seed is None else {kind: trained_weights(kind, seed) for kind in ("relu", "leaky_relu")}

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.hand_set = [tf.Variable(each) for each in hand_set_weights(problems)]
            self.relu = [tf.Variable(each) for each in trained["relu"][0]] if trained else []
            self.leaky = [tf.Variable(each) for each in trained["leaky_relu"][0]] if trained else []

        @tf.function(input_signature=[tf.TensorSpec([None, FEATURES], tf.float32, name="features")])
        def serve(self, features):
            first, biases, last, linear, bias = self.hand_set
            parts = [tf.nn.relu(features @ first + biases) @ last + features @ linear + bias]
            for layers, activation in ((self.relu, tf.nn.relu), (self.leaky, tf.nn.leaky_relu)):
                if layers:
                    hidden = activation(features @ layers[0] + layers[1])
                    parts.append(activation(hidden @ layers[2] + layers[3]) @ layers[4] + layers[5])
            return {"logits": tf.concat(parts, axis=1)}

    network = Network()
    tf.saved_model.save(network, str(directory), signatures=network.serve)
    answers = network.serve(tf.zeros((1, FEATURES)))["logits"]
    if answers.shape[1] != len(problems) + len(trained):
        raise ValueError(f"{answers.shape[1]} answers for {len(problems) + len(trained)} problems")
    return {f"trained_{kind.removesuffix('_relu')}": explained for kind, (_, explained) in trained.items()}


def main(flag_values: flags.FlagValues) -> None:
    """Train, save, and print the accuracy of the trained parts."""
    check_directory("output_dir", flag_values.output_dir)
    directory = pathlib.Path(flag_values.output_dir)
    which = (PROBLEMS, None) if directory.name == "units" else (HAND_SET, flag_values.seed)
    for name, explained in save(directory / "1", *which).items():
        print(f"{name}: {100 * explained:.1f} % of the variance of new examples explained")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
