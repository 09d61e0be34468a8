"""Networks sampled from generators, whose exact Shapley values are counted with two baselines and in closed form.

The networks of one generator are outputs of one SavedModel: rectified layers, in which each network has units that no
other reads. Networks of vectors and sequences have twelve positions, so that all coalitions are counted. Units of
networks of images read at most twelve pixels, and Shapley values are additive over units.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import attribution
from attribution.methods.perturbation import positions
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.exact.definition import FEATURES
from attribution_benchmarks.exact.known_networks import KnownNetwork
from attribution_benchmarks.exact.metrics import MOST_FEATURES
from attribution_benchmarks.exact.xai_tris import BACKGROUNDS, SIDE, HiddenUnits, draw
from attribution_benchmarks.metrics.imputation import mean_colour
from attribution_benchmarks.metrics.map_values import flat

TRUTHS = {  # name -> what an absent position is
    "zero": "zero",
    "mean": "the mean of the input, as in most metrics",
    "closed form": "averaged over its distribution, in closed form",
}
_DRAWN = 600  # inputs of a network, by which its output is scaled
_SPREAD = 1.5  # standard deviation of the output, a logit
_WIDTH = 16  # units of a hidden layer
_EXAMPLES, _EPOCHS = 4000, 8  # of a training

Layers = list[tuple[np.ndarray, np.ndarray]]  # weights (inputs, units) and biases (units,); rectified but for the last


@dataclasses.dataclass(frozen=True)
class _Sample:
    """A network with one output, and inputs that it was made for."""

    layers: Layers
    inputs: np.ndarray  # (M, positions..., channels)
    masks: np.ndarray | None = None  # (M, positions...) where the evidence is; None for the positions that are read
    # (positions..., channels) means of the inputs where these are independent and normal with standard deviation 1.
    means: np.ndarray | None = None


def outputs(layers: Layers, inputs: np.ndarray) -> np.ndarray:
    """Return the outputs of rectified layers, (N, outputs) float64."""
    values = flat(inputs).astype(np.float64)
    for weights, biases in layers[:-1]:
        values = np.maximum(values @ weights + biases, 0)
    return np.asarray(values @ layers[-1][0] + layers[-1][1])


def _means(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return inputs' means: half of them near zero, so that zero and the mean are different baselines."""
    return generator.normal(size=shape) * generator.integers(0, 2, shape)


# Terms of closed forms as rectified units: (weights of the features a, b and c, bias, weight of the unit's output).
_TERMS: tuple[Callable[[float], list[tuple[tuple[float, float, float], float, float]]], ...] = (
    lambda t: [((1, 0, 0), 0, 1), ((-1, 0, 0), 0, -1)],  # a
    lambda t: [((1, 0, 0), 0, 1), ((-1, 0, 0), 0, 1)],  # |a|
    lambda t: [((1, 1, 0), -t, 1)],  # relu(a + b - t)
    lambda t: [((1, 0, 0), 0, 1), ((-1, 0, 0), 0, -1), ((-1, 1, 0), 0, 1)],  # max(a, b)
    lambda t: [((4, 0, 0), -4 * t, 1), ((4, 0, 0), -4 * t - 1, -1)],  # a step at t
    lambda t: [((-1, -1, -1), 1 + t, -1)],  # min(a + b + c, 1 + t) - 1 - t
)


def _closed_form(generator: np.random.Generator) -> _Sample:
    """Sample a sum of terms, of random features and weights."""
    units = []
    relevant = generator.permutation(FEATURES)[: generator.integers(6, FEATURES + 1)]
    for term in generator.integers(len(_TERMS), size=8):
        features, weight = generator.choice(relevant, 3, replace=False), generator.normal()
        for weights, bias, output in _TERMS[term](generator.uniform()):
            row = np.zeros(FEATURES)
            row[features] = weights
            units.append((row, bias, weight * output))
    first, biases, last = (np.array(each, np.float64) for each in zip(*units, strict=True))
    means = _means(generator, (FEATURES,))
    return _Sample(
        [(first.T, biases), (last[:, np.newaxis], np.zeros(1))],
        means + generator.normal(size=(_DRAWN, FEATURES)),
        means=means,
    )


def _dense(generator: np.random.Generator, sizes: Sequence[int]) -> Layers:
    """Sample layers as He et al. initialize them, with small biases."""
    return [
        (generator.normal(size=(before, after)) * np.sqrt(2 / before), generator.normal(size=after) / 4)
        for before, after in itertools.pairwise(sizes)
    ]


def _mixed(generator: np.random.Generator, count: int) -> np.ndarray:
    """Return correlated normal vectors, (count, 12)."""
    mixing = np.eye(FEATURES) + 0.3 * generator.normal(size=(FEATURES, FEATURES))
    return _means(generator, (FEATURES,)) + generator.normal(size=(count, FEATURES)) @ mixing


def _random_relu(generator: np.random.Generator) -> _Sample:
    """Sample the weights of two hidden layers that read a part of the features."""
    layers = _dense(generator, (FEATURES, _WIDTH, _WIDTH, 1))
    layers[0][0][generator.permutation(FEATURES)[: generator.integers(0, 7)]] = 0
    return _Sample(layers, _mixed(generator, _DRAWN))


def _trained(generator: np.random.Generator) -> _Sample:
    """Train two hidden layers on a sum of products, sines and magnitudes of random features."""
    inputs = _mixed(generator, _EXAMPLES)
    order, weights = generator.permutation(FEATURES), generator.normal(size=5)
    a, b, c, d, e, f, g = inputs[:, order[:7]].T
    wanted = np.stack([a * b, np.sin(2 * c), np.abs(d), e * f, g], axis=1) @ weights
    layers = _fitted(generator, inputs, wanted / wanted.std(), (_WIDTH, _WIDTH), "mse")
    taught = np.isin(np.arange(FEATURES), order[:7])
    return _Sample(layers, inputs[:_DRAWN], np.broadcast_to(taught, (_DRAWN, FEATURES)))


def _fitted(
    generator: np.random.Generator, inputs: np.ndarray, wanted: np.ndarray, units: Sequence[int], loss: Any
) -> Layers:
    """Return layers that are trained by Adam; units of the first one are cut to twelve weights, and trained again."""
    import keras

    keras.utils.set_random_seed(int(generator.integers(2**31)))
    network = keras.Sequential([keras.Input((flat(inputs).shape[1],)), *(keras.layers.Dense(n, "relu") for n in units)])
    network.add(keras.layers.Dense(1))
    for _ in range(2):
        kernel = network.layers[0].kernel.numpy()
        left = (np.abs(kernel) >= np.sort(np.abs(kernel), axis=0)[-min(MOST_FEATURES, len(kernel))]).astype(np.float32)
        network.layers[0].kernel.assign(kernel * left)
        network.layers[0].kernel.constraint = lambda values, left=left: values * left
        network.compile(keras.optimizers.Adam(0.005), loss)
        network.fit(flat(inputs), wanted, batch_size=64, epochs=_EPOCHS, verbose=0)
        if len(kernel) <= MOST_FEATURES:
            break
        network.layers[0].kernel.constraint = None
    found = [each.astype(np.float64) for each in network.get_weights()]
    return list(zip(found[::2], found[1::2], strict=True))


def _tetrominoes(generator: np.random.Generator) -> _Sample:
    """Train a hidden layer to tell a T from an L, on a random problem of XAI-TRIS and background."""
    import keras

    problem, background = generator.choice(("linear", "multiplicative", "xor")), generator.choice(BACKGROUNDS)
    images, labels, masks = draw(f"{problem}_{background}", _EXAMPLES, generator)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return _Sample(_fitted(generator, images, labels, (_WIDTH,), loss), images[:_DRAWN], masks[:_DRAWN])


def _units_on_images(generator: np.random.Generator) -> _Sample:
    """Sample units of random weights, each of a random window of 3 x 3 pixels."""
    from scipy.ndimage import gaussian_filter

    count = int(generator.integers(10, 31))
    weights = np.zeros((SIDE, SIDE, count))
    for unit in range(count):
        row, column = generator.integers(0, SIDE - 2, 2)
        weights[row : row + 3, column : column + 3, unit] = generator.normal(size=(3, 3)) / 2
    means = gaussian_filter(generator.normal(size=(SIDE, SIDE, 1)), (1.5, 1.5, 0)) * 4
    return _Sample(
        [
            (weights.reshape(SIDE**2, count), generator.normal(size=count) / 2),
            (generator.normal(size=(count, 1)), np.zeros(1)),
        ],
        means + generator.normal(size=(_DRAWN, SIDE, SIDE, 1)),
        means=means,
    )


def _sequences(generator: np.random.Generator) -> _Sample:
    """Sample two convolutions of three steps, and a weighted sum over a random window of the result."""
    filters = 4
    layers: Layers = []
    for steps, channels in ((FEATURES, 1), (FEATURES - 2, filters)):
        kernel = generator.normal(size=(3, channels, filters)) * np.sqrt(2 / 3 / channels)
        matrix = np.zeros((steps, channels, steps - 2, filters))
        for step in range(steps - 2):
            matrix[step : step + 3, :, step] = kernel
        biases = np.tile(generator.normal(size=filters) / 4, steps - 2)
        layers.append((matrix.reshape(steps * channels, -1), biases))
    first, length = generator.integers(0, 4), generator.integers(3, 6)
    kept = np.isin(np.arange(FEATURES - 4), np.arange(first, first + length))[:, np.newaxis]
    layers.append(((generator.normal(size=(FEATURES - 4, filters)) * kept).reshape(-1, 1), np.zeros(1)))
    inputs = generator.normal(size=(_DRAWN, FEATURES))
    for step in range(1, FEATURES):
        inputs[:, step] += 0.7 * inputs[:, step - 1]
    return _Sample(layers, inputs[..., np.newaxis] + generator.normal())


GENERATORS: dict[str, tuple[str, Callable[[np.random.Generator], _Sample]]] = {
    "closed_forms": ("sums of terms in closed form, 12 features", _closed_form),
    "random_relu": ("two layers of random weights, 12 features", _random_relu),
    "trained": ("two trained layers, 12 features", _trained),
    "sequences": ("two random convolutions over 12 steps", _sequences),
    "units_on_images": ("random units of 3 x 3 pixels, 8 x 8 pixels", _units_on_images),
    "tetrominoes": ("trained to tell tetrominoes apart, 8 x 8 pixels", _tetrominoes),
}


def generator_of(network: str) -> str:
    """Return the generator of a network's name."""
    return network.partition("/")[0]


def sampled_networks(count: int, inputs: int, seed: int = 0, names: Sequence[str] = ()) -> Iterator[KnownNetwork]:
    """Yield ``count`` networks of each of some ``GENERATORS``, all when empty, with some inputs each, at most 100.

    Each input is there once for each of the ``TRUTHS`` that the network has: ``batch.truth["truth"]`` has their names,
    and ``batch.truth["shapley"]`` the exact maps. Other seeds give other networks and inputs, and other random numbers
    of their corruptions.
    """
    for place, (name, (_, make)) in enumerate(GENERATORS.items()):
        if not names or name in names:
            samples = [_scaled(make(np.random.default_rng([seed, place, number]))) for number in range(count)]
            yield from _of_samples(f"{name}/{seed}", samples, inputs)


def _scaled(sample: _Sample) -> _Sample:
    """Return a network whose output has mean 0 and standard deviation ``_SPREAD`` over its inputs."""
    *before, (weights, biases) = sample.layers
    found = outputs(sample.layers, sample.inputs)
    scale = _SPREAD / max(float(found.std()), 1e-6)
    layers = [*before, (scale * weights, scale * (biases - found.mean()))]
    return dataclasses.replace(sample, layers=layers)


def _of_samples(name: str, samples: Sequence[_Sample], count: int) -> Iterator[KnownNetwork]:
    layers = _joined([each.layers for each in samples])
    model = attribution.load_model(_saved(layers, samples[0].inputs.shape[1:]))
    in_closed_form = len(layers) == 2  # and each unit reads few positions
    units = HiddenUnits(*layers[0], *layers[1]) if in_closed_form else None
    for number, sample in enumerate(samples):
        inputs = sample.inputs[:count].astype(np.float32)
        masks = _read(sample.layers, inputs) if sample.masks is None else sample.masks[:count]
        absent = {"zero": np.zeros_like(inputs), "mean": mean_colour(inputs, np.ones(masks.shape, bool), [])}
        if sample.means is not None:
            absent["closed form"] = np.broadcast_to(sample.means, inputs.shape)
        times = len(absent)
        keys = [f"{name}/{number}/{row}" for row in range(count)] * times
        truth: dict[str, Any] = {
            "key": keys,
            "truth": np.repeat(list(absent), count),
            "absent": np.concatenate(list(absent.values())),
            "spread": np.repeat([float(each == "closed form") for each in absent], count),
        }
        inputs, masks = (np.concatenate([each] * times) for each in (inputs, masks))
        batch = Batch(inputs, keys, np.full(len(keys), number), masks={"evidence": masks}, truth=truth)
        network = KnownNetwork(f"{name}/{number}", model, batch, (number,), units)
        truth["shapley"] = network.exact(batch)[0]
        yield network


def _read(layers: Layers, inputs: np.ndarray) -> np.ndarray:
    """Return the positions from which a path of weights leads to the output, (N, positions...) bool."""
    reached = functools.reduce(np.matmul, (np.abs(weights) for weights, _ in layers)) > 0
    spatial = positions(inputs.shape)
    return np.broadcast_to(reached.reshape(spatial), (len(inputs), *spatial))


def _joined(networks: Sequence[Layers]) -> Layers:
    """Return the layers of all networks side by side, which read the same inputs; one output each."""
    from scipy.linalg import block_diag

    first, *others = zip(*networks, strict=True)

    def biases(layer: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        return np.concatenate([each for _, each in layer])

    return [
        (np.concatenate([weights for weights, _ in first], axis=1), biases(first)),
        *((block_diag(*(weights for weights, _ in layer)), biases(layer)) for layer in others),
    ]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()  # removed when Python ends


def _saved(layers: Layers, shape: tuple[int, ...]) -> pathlib.Path:
    """Write rectified layers as a SavedModel, and return its directory."""
    import tensorflow as tf

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.layers = [[tf.Variable(np.asarray(each, np.float32)) for each in layer] for layer in layers]

        @tf.function(input_signature=[tf.TensorSpec([None, *shape], tf.float32, name="inputs")])
        def serve(self, inputs):
            values = tf.reshape(inputs, [-1, int(np.prod(shape))])
            for weights, biases in self.layers[:-1]:
                values = tf.nn.relu(values @ weights + biases)
            return {"logits": values @ self.layers[-1][0] + self.layers[-1][1]}

    network, directory = Network(), pathlib.Path(tempfile.mkdtemp(dir=_folder().name))
    tf.saved_model.save(network, str(directory), signatures=network.serve)
    return directory
