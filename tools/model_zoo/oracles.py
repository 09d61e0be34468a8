"""What maps must be, computed without this project's graphs: through the file's own signature, step by step."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from attribution.methods import perturbation
from attribution.model import batching
from tools.model_zoo.family import BEHIND, Family

SEED = 0
SAMPLES = 3  # of SmoothGrad, VarGrad, Expected Gradients
POINTS = 4  # of Integrated Gradients
MASKS, CELLS = 4, 3  # of RISE


class Oracle:
    """A family's file, asked through its signature alone.

    Channels are last in everything that goes in and comes out here, whatever the file has.

    Parameters
    ----------
    family, path, inputs
        A family, its file, and N inputs for it.
    targets
        ``(N,)`` classes.
    load
        Function that loads a SavedModel, as TensorFlow's does.

    Attributes
    ----------
    values : np.ndarray
        What is explained, of the inputs' shape or the inner tensor's.
    """

    def __init__(
        self, family: Family, path: pathlib.Path, inputs, targets: np.ndarray, load: Callable = tf.saved_model.load
    ):
        self._family = family
        self._targets = tf.constant(targets, tf.int32)
        self._loaded = load(str(path) + BEHIND if family.inner else str(path))
        signatures = self._loaded.signatures
        self._others = {}
        if family.inner:
            name = _only(signatures["ahead"].structured_input_signature[1])
            values = signatures["ahead"](**{name: tf.constant(inputs)})["values"].numpy()
            self._function = signatures["behind"]
            self._name = _only(self._function.structured_input_signature[1])
        else:
            self._function = signatures[family.load.get("signature") or _only(signatures)]
            names = self._function.structured_input_signature[1]
            given = inputs if isinstance(inputs, dict) else {_only(names): inputs}
            self._name = family.explain_input or _only(names)
            values = given[self._name]
            self._others = {name: tf.constant(array) for name, array in given.items() if name != self._name}
        self._dtype = values.dtype
        self.values = np.moveaxis(values, 1, -1) if family.channels_first else values
        self._gradient = tf.function(self._tape, autograph=False)

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return target scores ``(N,)``."""
        return self._target_scores(tf.constant(self._as_given(values))).numpy().astype(np.float64)

    def gradient(self, values: np.ndarray | None = None) -> np.ndarray:
        """Return the gradient of the target scores, by default at the inputs."""
        found = self._gradient(tf.constant(self._as_given(self.values if values is None else values)))
        found = tf.convert_to_tensor(found).numpy().astype(np.float64)
        return np.moveaxis(found, 1, -1) if self._family.channels_first else found

    def gradient_x_input(self) -> np.ndarray:
        """Return Gradient x Input."""
        return self.values * self.gradient()

    def integrated_gradients(self) -> np.ndarray:
        """Return Integrated Gradients from 0, by the trapezoidal rule."""
        weights = np.array([0.5, *[1.0] * (POINTS - 2), 0.5]) / (POINTS - 1)
        path = zip(weights, np.linspace(0, 1, POINTS, dtype=np.float32), strict=True)
        return self.values * sum(weight * self.gradient(alpha * self.values) for weight, alpha in path)

    def smoothgrad(self) -> np.ndarray:
        """Return the mean gradient at noisy copies."""
        return np.mean(self._noisy(), axis=0)

    def vargrad(self) -> np.ndarray:
        """Return the variance of the gradient at noisy copies."""
        return np.var(self._noisy(), axis=0)

    def expected_gradients(self) -> np.ndarray:
        """Return Expected Gradients from 0."""
        alphas = np.empty((len(self.values), SAMPLES), np.float32)
        for row in range(len(alphas)):
            generator = batching.generator(SEED, row, "expected gradients")
            generator.integers(0, 1, SAMPLES)
            alphas[row] = generator.random(SAMPLES, np.float32)
        factors = np.moveaxis(alphas, 1, 0).reshape(SAMPLES, -1, *(1,) * (self.values.ndim - 1))
        return sum(self.values * self.gradient(factor * self.values) / SAMPLES for factor in factors)

    def occlusion(self) -> np.ndarray:
        """Return how much the scores fall under each half of each axis, on average where halves overlap."""
        spatial = self.values.shape[1:-1]
        whole, drops, cover = self.scores(self.values), np.zeros(self.values.shape[:-1]), np.zeros(spatial)
        for window in perturbation.occlusion_windows(spatial, patch_of(spatial)):
            covered = np.array(self.values)
            covered[(slice(None), *window)] = 0
            drops[(slice(None), *window)] += (whole - self.scores(covered)).reshape(-1, *(1,) * len(spatial))
            cover[window] += 1
        return drops / cover

    def rise(self) -> np.ndarray:
        """Return RISE's mean of masks."""
        total = 0
        for number in range(MASKS):
            generator = batching.generator(SEED, number, "rise")
            mask = perturbation.random_mask(generator, self.values.shape[1:-1], CELLS, 0.5)
            total = total + np.multiply.outer(self.scores(self.values * mask[..., np.newaxis]), mask)
        return total / (MASKS * 0.5)

    def as_map(self, array: np.ndarray) -> np.ndarray:
        """Return a map of the inputs' shape with its channels where the file has them."""
        whole = array.ndim == self.values.ndim
        return np.moveaxis(array, -1, 1) if self._family.channels_first and whole else array

    def _noisy(self):
        axes = tuple(range(1, self.values.ndim))
        values = self.values.astype(np.float32) if self._dtype == np.float16 else self.values
        spread = 0.15 * (values.max(axis=axes, keepdims=True) - values.min(axis=axes, keepdims=True))
        generators = [batching.generator(SEED, row, "noise") for row in range(len(values))]
        gradients = []
        for _ in range(SAMPLES):
            noise = [generator.standard_normal(values.shape[1:], np.float32) for generator in generators]
            gradients.append(self.gradient(values + spread * np.stack(noise)))
        return gradients

    def _tape(self, values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            scores = self._target_scores(values)
        return tape.gradient(scores, values)

    def _target_scores(self, values):
        outputs = self._function(**{self._name: values}, **self._others)
        scores = outputs[self._family.load.get("output") or _only(outputs)]
        position = self._family.load.get("position")
        scores = scores[(slice(None), *position)] if position else scores
        scores = tf.reshape(scores, (len(self.values), -1))  # of a file without classes, or with axes of size 1
        return tf.gather(tf.cast(scores, tf.float32), self._targets, batch_dims=1)

    def _as_given(self, values):
        values = np.moveaxis(values, -1, 1) if self._family.channels_first else values
        return values.astype(self._dtype)


def patch_of(spatial) -> int:
    """Return the side of occlusion's patch: half of the longest axis."""
    return -(-max(spatial, default=1) // 2)


def _only(names) -> str:
    """Return the only name of several kinds of collection, or TensorFlow's default among signatures."""
    names = list(names)
    return "serving_default" if "serving_default" in names else names[0]
