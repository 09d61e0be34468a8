"""Definitions of methods, computed without this project's graphs: by the file's signature, step by step.

Layers, attention and changed ReLUs are read from the signature's graph as TensorFlow freezes it.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import scipy.ndimage
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from attribution import batching
from attribution.methods import gradients, perturbation
from zoo.family import BEHIND, Family
from zoo.relevance_oracle import DEFINITIONS, UnknownLayer, relevance

SEED = 0
SAMPLES = 3  # of SmoothGrad, VarGrad, Expected Gradients
POINTS = 4  # of Integrated Gradients, IDGI and XRAI, and steps of Blur IG
MASKS, CELLS = 4, 3  # of RISE
PERMUTATIONS, COALITIONS = 2, 8  # of Shapley sampling; of KernelSHAP, which are all of three groups, and LIME
_SIGMA = 50.0  # of the strongest blur of Blur IG


class NoOracle(Exception):
    """The definition of a method is not computed for this file."""


class Oracle:
    """A family's file, evaluated through its signature alone.

    A public method without parameters, or with a layer's name and shape, returns a method's map.

    Channels are last in everything that goes in and comes out here, whatever the file has.

    Parameters
    ----------
    family, path, inputs
        A family, its file, and N inputs for it.
    targets
        ``(N,)`` classes.

    Attributes
    ----------
    values : np.ndarray
        What is explained, of the inputs' shape or the inner tensor's.
    """

    def __init__(self, family: Family, path: pathlib.Path, inputs, targets: np.ndarray):
        self._family, self._path, self._inputs = family, path, inputs
        self._targets = np.asarray(targets, np.int32)
        self._loaded = tf.saved_model.load(str(path) + BEHIND if family.inner else str(path))
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

    def idgi(self) -> np.ndarray:
        """Return IDGI from 0."""
        total = np.zeros(self.values.shape)
        path = [alpha * self.values for alpha in np.linspace(0, 1, POINTS, dtype=np.float32)]
        for here, there in itertools.pairwise(path):
            squares = np.square(self.gradient(here))
            sizes = _sums(squares)  # 0 where the gradient is: such a step gives nothing
            gains = (self.scores(there) - self.scores(here)) / np.where(sizes > 0, sizes, np.inf)
            total += squares * self._as_rows(gains)
        return total

    def blur_ig(self) -> np.ndarray:
        """Return Blur IG by the trapezoidal rule."""
        sigmas = _SIGMA * np.linspace(1, 0, POINTS + 1)
        axes = range(1, self.values.ndim - 1)
        path = []
        for sigma in sigmas:
            point = self.values
            for axis in axes if sigma else ():
                point = scipy.ndimage.gaussian_filter1d(point, sigma, axis, mode="constant")
            path.append(point)
        slopes = [self.gradient(point) for point in path]
        pairs = zip(itertools.pairwise(path), itertools.pairwise(slopes), strict=True)
        return sum((there - here) * (slope + next_slope) / 2 for (here, there), (slope, next_slope) in pairs)

    def xrai(self) -> np.ndarray:
        """Return XRAI, with the regions of this project."""
        images = tuple(range(1, self.values.ndim))
        attributions = 0
        for baseline in (self.values.min(axis=images, keepdims=True), self.values.max(axis=images, keepdims=True)):
            # On an image of one color max pooling has ties, which rounding breaks: points are rounded as the method's.
            difference = self.values - baseline
            back = 1 - np.linspace(0, 1, POINTS, dtype=np.float32)
            slopes = [self.gradient(self.values - share * difference) for share in back]
            attributions = attributions + difference * np.trapezoid(slopes, dx=1 / (POINTS - 1), axis=0)
        pairs = zip(attributions.max(axis=-1) / 2, self.values, strict=True)
        return np.stack([gradients._by_region(attribution, gradients._regions(image)) for attribution, image in pairs])

    def guided_integrated_gradients(self) -> np.ndarray:
        """Return the left Riemann sum on the straight path from 0, to which no distance from it confines the method."""
        path = [np.float32(step / POINTS) * self.values for step in range(POINTS)]
        return self.values * np.mean([self.gradient(point) for point in path], axis=0)

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
            mask = perturbation.random_masks([generator], self.values.shape[1:-1], CELLS, 0.5)[0]
            total = total + np.multiply.outer(self.scores(self.values * mask[..., np.newaxis]), mask)
        return total / (MASKS * 0.5)

    def shapley_sampling(self) -> np.ndarray:
        """Return the mean gain of each of three groups over a permutation and its reverse."""
        orders = [batching.generator(SEED, row, "shapley sampling").permutation(3) for row in range(len(self.values))]
        return self._by_permutations([[order, order[::-1]] for order in orders])

    def kernel_shap(self) -> np.ndarray:
        """Return the Shapley values of three groups, by all permutations."""
        return self._by_permutations([list(itertools.permutations(range(3)))] * len(self.values))

    def lime(self) -> np.ndarray:
        """Return the coefficients of LIME's regression on three groups, from its normal equations."""
        scores, found = self._coalition_scores, np.zeros((len(self.values), 3))
        for row, coefficients in enumerate(found):
            drawn = batching.generator(SEED, row, "lime").random((COALITIONS, 3)) < 0.5
            kept = np.concatenate([np.ones((1, 3), bool), drawn])
            targets = np.array([scores[tuple(one)][row] for one in kept])
            weights = np.exp(-np.square((1 - np.sqrt(kept.mean(axis=1))) / 0.25) / 2)
            design = np.column_stack([np.ones(len(kept)), kept])
            matrix = design.T @ (weights[:, np.newaxis] * design) + np.diag([0.0, 1, 1, 1])
            coefficients[:] = np.linalg.solve(matrix, design.T @ (weights * targets))[1:]
        return self._per_position(found)

    @functools.cached_property
    def _coalition_scores(self) -> dict[tuple[bool, ...], np.ndarray]:
        labels = groups_of(self.values.shape[1:-1])[..., np.newaxis]
        every = list(itertools.product((False, True), repeat=3))
        return {kept: self.scores(np.where(np.array(kept)[labels], self.values, 0)) for kept in every}

    def _by_permutations(self, orders):
        gains = np.zeros((len(orders), 3))
        for row, of_row in enumerate(orders):
            for order in of_row:
                kept = np.zeros(3, bool)
                for group in order:
                    before = self._coalition_scores[tuple(kept.tolist())][row]
                    kept[group] = True
                    gains[row, group] += self._coalition_scores[tuple(kept.tolist())][row] - before
            gains[row] /= len(of_row)
        return self._per_position(gains)

    def _per_position(self, of_groups):
        labels = groups_of(self.values.shape[1:-1])
        return (of_groups / np.bincount(labels.ravel()))[:, labels]

    def guided_backprop(self) -> np.ndarray:
        """Return the gradient with Guided Backprop's rule at every rectifier."""
        return self._with_rectifiers("Guided")

    def deconvnet(self) -> np.ndarray:
        """Return the gradient with Deconvnet's rule at every rectifier."""
        return self._with_rectifiers("Deconvnet")

    def grad_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Grad-CAM of a layer whose values have the shape ``(positions..., channels)``, as all below."""
        values, slopes = self._at_layer(layer, shape)
        return self._weighted(values, slopes.mean(axis=_positions(values)))

    def guided_grad_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Guided Grad-CAM."""
        return self.grad_cam(layer, shape)[..., np.newaxis] * self.guided_backprop()

    def grad_cam_plus_plus(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Grad-CAM++."""
        values, slopes = self._at_layer(layer, shape)
        axes = _positions(values)
        below = 2 * slopes**2 + values.sum(axis=axes, keepdims=True) * slopes**3
        alphas = np.where(below == 0, 0, slopes**2 / np.where(below == 0, 1, below))
        return self._weighted(values, (alphas * slopes.clip(0)).sum(axis=axes))

    def layer_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return LayerCAM."""
        values, slopes = self._at_layer(layer, shape)
        return self._upsampled((values * slopes.clip(0)).sum(axis=-1).clip(0))

    def hires_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return HiResCAM."""
        values, slopes = self._at_layer(layer, shape)
        return self._upsampled((values * slopes).sum(axis=-1).clip(0))

    def xgrad_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return XGrad-CAM."""
        values, slopes = self._at_layer(layer, shape)
        axes = _positions(values)
        mass = values.sum(axis=axes)
        return self._weighted(
            values, np.where(mass == 0, 0, (values * slopes).sum(axis=axes) / np.where(mass == 0, 1, mass))
        )

    def eigen_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Eigen-CAM, from the eigenvectors of the channels' products."""
        values, _ = self._at_layer(layer, shape)
        maps = []
        for one in values:
            flat = one.reshape(-1, shape[-1])
            projected = one @ np.linalg.eigh(flat.T @ flat)[1][:, -1]
            maps.append(projected * (1 if projected.sum() >= 0 else -1))
        return self._upsampled(np.stack(maps).clip(0))

    def ablation_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Ablation-CAM: the layer's values are fed, one channel of zeros at a time."""
        values, _ = self._at_layer(layer, shape)
        whole, drops = self._layer_scores(layer)
        return self._weighted(values, (whole[:, np.newaxis] - drops) / np.abs(whole)[:, np.newaxis])

    def score_cam(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Score-CAM."""
        values, _ = self._at_layer(layer, shape)
        scores = self._masked_scores(layer, shape)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return self._weighted(values, weights / weights.sum(axis=1, keepdims=True))

    def sise(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return SISE on one layer."""
        _, slopes = self._at_layer(layer, shape)
        scores, total = self._masked_scores(layer, shape), 0
        for channel, mask in enumerate(self._masks(layer, shape)):
            chosen = (slopes[..., channel].mean(axis=_positions(slopes)) > 0) & np.isfinite(scores[:, channel])
            weights = np.where(chosen, scores[:, channel] / np.where(chosen, _sums(mask), 1), 0)
            total = total + weights.reshape(-1, *(1,) * (mask.ndim - 1)) * mask
        return total.clip(0)

    def score_cam_constant_masks(self, layer: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return Score-CAM whose masks are a channel's value in the middle."""
        values, _ = self._at_layer(layer, shape)
        middle = values
        for size in shape[:-1]:
            middle = middle[:, (size - 1) // 2 : size // 2 + 1].mean(axis=1)
        nothing = self.scores(np.zeros_like(self.values))
        gains = [self.scores(self.values * self._as_rows(factor.astype(np.float32))) - nothing for factor in middle.T]
        return self._weighted(values, np.stack(gains, axis=1))

    def attention_rollout(self) -> np.ndarray:
        """Return attention rollout, with half of each layer for the residual connection."""
        rolled = 1
        for attention, _ in self._attention:
            mixed = (attention.mean(axis=1) + np.eye(attention.shape[-1])) / 2
            rolled = mixed @ rolled if np.ndim(rolled) else mixed
        return self._of_tokens(rolled)

    def gradient_rollout(self) -> np.ndarray:
        """Return gradient x rollout."""
        identity = np.eye(self._attention[0][0].shape[-1])
        rolled = identity
        for attention, slopes in self._attention:
            rolled = rolled + (attention * slopes).clip(0).mean(axis=1) @ rolled
        return self._of_tokens(rolled - identity)

    def relevance(self, name: str, options: Mapping) -> np.ndarray:
        """Return a relevance method's map by its definition on the live network; see ``relevance_oracle``."""
        numbers = {key: options[key] for key in ("epsilon", "gamma", "low", "high") if key in options}
        values = {name: array.numpy() for name, array in self._others.items()} | {
            self._name: self._as_given(self.values)
        }
        names = [tensor.name for tensor in self._network.inputs] if self._others else [self._name]
        try:
            found = relevance(
                self._network,
                [values[one] for one in names],
                names.index(self._name),
                dataclasses.replace(DEFINITIONS[name], **numbers),
                lambda outputs: self._targets_of(outputs if isinstance(outputs, dict) else {"": outputs}),
            )
        except (UnknownLayer, tf.errors.OpError) as error:  # not all operations can compute in float64
            raise NoOracle(error) from error
        finally:
            gc.collect()  # steps refer to each other, and hold gigabytes of a large network
        return np.moveaxis(found, 1, -1) if self._family.channels_first else found

    @functools.cached_property
    def _network(self):
        """The live Keras network in float64."""
        if self._family.network is None:
            raise NoOracle("no live network")
        return self._family.network()

    def as_map(self, array: np.ndarray) -> np.ndarray:
        """Return a map of the inputs' shape with its channels where the file has them."""
        whole = array.ndim == self.values.ndim
        return np.moveaxis(array, -1, 1) if self._family.channels_first and whole else array

    @functools.cached_property
    def _graph(self):
        """The file's signature frozen, and what is fed to it."""
        feed = self._inputs if isinstance(self._inputs, dict) else {"": self._inputs}
        return self._frozen(self._path, self._family.load.get("signature"), feed)

    def _frozen(self, path, signature, feed, rule=""):
        """Load and freeze a signature: TensorFlow cannot freeze one with loops that has been differentiated."""
        loaded = tf.saved_model.load(str(path))  # the signature does not hold its variables
        function = loaded.signatures[signature or _only(loaded.signatures)]
        return Frozen(function, self._targets_of, feed, rule)

    @functools.cache  # noqa: B019  an oracle lives as long as its family is measured
    def _at_layer(self, layer, shape):
        """Return a layer's values and their gradient, ``(N, *shape)`` float64."""
        return [self._positioned(array, shape) for array in self._graph.at([layer])[0]]

    def _positioned(self, array, shape):
        if array.shape[1:] != shape and array.ndim == len(shape) + 1:
            array = np.moveaxis(array, 1, -1)  # channels first
        tokens = np.prod(shape[:-1])  # the last ones: a class token comes before them
        array = array if array.shape[1:] == shape else array[:, array.shape[1] - tokens :].reshape(-1, *shape)
        return array.astype(np.float64)

    @functools.cache  # noqa: B019
    def _layer_scores(self, layer):
        """Return scores ``(N,)`` and, without each channel of a layer, ``(N, channels)``."""
        (values, _), *_ = self._graph.at([layer])
        axis = 1 if self._family.channels_first else values.ndim - 1
        without = []
        for channel in range(values.shape[axis]):
            changed = values.copy()
            changed[(*[slice(None)] * axis, channel)] = 0
            without.append(self._graph.scores({layer: changed}))
        return self._graph.scores({}), np.stack(without, axis=1)

    def _masks(self, layer, shape):
        """Yield each channel of a layer upsampled and scaled to [0, 1], zeros where it is constant."""
        values, _ = self._at_layer(layer, shape)
        for channel in np.moveaxis(values, -1, 0):
            mask = self._upsampled(channel)
            low, high = (self._as_rows(end(mask.reshape(len(mask), -1), axis=1), mask) for end in (np.min, np.max))
            yield (mask - low) / np.where(high > low, high - low, 1)

    @functools.cache  # noqa: B019
    def _masked_scores(self, layer, shape):
        """Return scores ``(N, channels)`` of the inputs times each mask, -inf where a channel is constant."""
        found = []
        for mask in self._masks(layer, shape):
            scores = self.scores(self.values * mask[..., np.newaxis].astype(np.float32))
            found.append(np.where(mask.reshape(len(mask), -1).any(axis=1), scores, -np.inf))
        return np.stack(found, axis=1)

    @functools.cached_property
    def _attention(self):
        """Each layer's attention and its gradient, ``(N, heads, tokens, tokens)`` float64, first to last."""
        return [[array.astype(np.float64) for array in pair] for pair in self._graph.at(self._graph.attention())]

    def _of_tokens(self, rolled):
        spatial, tokens = self.values.shape[1:-1], rolled.shape[-1]
        grid = spatial if np.prod(spatial) == tokens else (int(tokens**0.5),) * len(spatial)
        patches = int(np.prod(grid))
        row = rolled[:, 0] if patches < tokens else rolled.mean(axis=1)
        return self._upsampled(row[:, tokens - patches :].reshape(-1, *grid))

    def _with_rectifiers(self, rule):
        name = self._name if self._others else ""
        feed = {name: self._as_given(self.values)} | {one: array.numpy() for one, array in self._others.items()}
        if self._family.inner:
            frozen = self._frozen(f"{self._path}{BEHIND}", "behind", feed, rule)
        else:
            frozen = self._frozen(self._path, self._family.load.get("signature"), feed, rule)
        found = frozen.at([name or frozen.only])[0][1].astype(np.float64)
        return np.moveaxis(found, 1, -1) if self._family.channels_first else found

    def _weighted(self, values, weights):
        return self._upsampled(np.einsum("n...c,nc->n...", values, weights).clip(0))

    def _upsampled(self, maps):
        """Resize maps ``(N, positions...)`` linearly to the inputs' positions; edges repeat."""
        for axis, size in enumerate(self.values.shape[1:-1], start=1):
            old = maps.shape[axis]
            places = (np.arange(size) + 0.5) * old / size - 0.5
            lines = np.stack([np.interp(places, np.arange(old), line) for line in np.eye(old)])
            maps = np.moveaxis(np.moveaxis(maps, axis, -1) @ lines, -1, axis)
        return maps

    def _as_rows(self, numbers, like=None):
        """Return one number a row with an axis for each of an array's, by default the inputs'."""
        return numbers.reshape(-1, *(1,) * ((self.values if like is None else like).ndim - 1))

    def _noisy(self) -> list[np.ndarray]:
        """Return the gradients at the noisy copies of the inputs of SmoothGrad and VarGrad."""
        axes = tuple(range(1, self.values.ndim))
        values = self.values
        spread = 0.15 * (values.max(axis=axes, keepdims=True) - values.min(axis=axes, keepdims=True))
        generators = [batching.generator(SEED, row, "noise") for row in range(len(values))]
        noises = (
            np.stack([one.standard_normal(values.shape[1:], np.float32) for one in generators]) for _ in range(SAMPLES)
        )
        return [self.gradient(values + spread * noise) for noise in noises]

    def _tape(self, values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            scores = self._target_scores(values)
        return tape.gradient(scores, values)

    def _target_scores(self, values):
        outputs = self._function(**{self._name: values}, **self._others)
        return self._targets_of(outputs)

    def _targets_of(self, outputs):
        """Return the target scores ``(N,)`` of a signature's outputs by name."""
        scores = outputs[self._family.load.get("output") or _only(outputs)]
        position = self._family.load.get("position")
        scores = scores[(slice(None), *position)] if position else scores
        scores = tf.reshape(scores, (len(self.values), -1))  # of a file without classes, or with axes of size 1
        return tf.gather(tf.cast(scores, tf.float32), self._targets, batch_dims=1)

    def _as_given(self, values):
        values = np.moveaxis(values, -1, 1) if self._family.channels_first else values
        return values.astype(self._dtype)


def _give_gradients(graph_def, rule: str) -> None:
    """Give every rectifier of a graph the gradient of a rule."""
    if any("Call" in node.op for node in graph_def.node):
        raise NoOracle("a part of the file stays a call")
    if any(node.op == "Relu" and "Neg" in node.input[0] for node in graph_def.node):
        raise NoOracle("PReLU is made of two ReLUs")
    for node in graph_def.node:
        if node.op in _SLOPES:
            node.attr["_gradient_op_type"].s = f"Zoo{rule}{node.op}".encode()


def _behind_identity(tensor: tf.Tensor) -> tf.Tensor:
    """Return the same value behind a function with a gradient of its own, inside of which there is no gradient."""
    users = tensor.consumers()
    if len(users) != 1 or users[0].type != "IdentityN":
        return tensor
    return users[0].outputs[[each.name for each in users[0].inputs].index(tensor.name)]


class Frozen:
    """A signature frozen by TensorFlow: values and gradients of its nodes, and scores where these are replaced.

    Parameters
    ----------
    function
        The signature.
    targets_of
        Function from outputs by name to the target scores.
    feed
        Arrays by the name of a node; of the only input by the name ``""``.
    rule
        ``"Guided"`` or ``"Deconvnet"``: the gradient of every rectifier; empty for the true one.
    """

    def __init__(self, function, targets_of: Callable, feed: Mapping[str, np.ndarray], rule: str = ""):
        names = sorted(function.structured_outputs)
        function = convert_variables_to_constants_v2(function, lower_control_flow=False)
        graph_def = function.graph.as_graph_def()
        if rule:
            _give_gradients(graph_def, rule)
        self._names = {node.name for node in graph_def.node}
        self.only = function.inputs[0].op.name
        self._graph, self._feed = tf.Graph(), {f"{name or self.only}:0": array for name, array in feed.items()}
        with self._graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
            outputs = [self._graph.get_tensor_by_name(tensor.name) for tensor in function.outputs[: len(names)]]
            self._scores = targets_of(dict(zip(names, outputs, strict=True)))
        self._session = tf.compat.v1.Session(graph=self._graph)

    def at(self, nodes) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the values of nodes and the gradients of the target scores there."""
        if missing := [node for node in nodes if node not in self._names]:
            raise NoOracle(f"TensorFlow's graph has no node {missing[0]}")
        with self._graph.as_default():
            tensors = [_behind_identity(self._graph.get_tensor_by_name(f"{node}:0")) for node in nodes]
            slopes = tf.gradients(self._scores, tensors)
        try:
            return list(zip(*self._session.run((tensors, slopes), self._feed), strict=True))
        except tf.errors.InvalidArgumentError as error:  # a layer's own gradient is lost, as of Keras' int8 layers
            raise NoOracle("TensorFlow cannot differentiate its frozen graph") from error

    def scores(self, replaced: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the target scores ``(N,)`` where nodes have other values, by name."""
        replaced = {f"{name}:0": array for name, array in replaced.items()}
        return self._session.run(self._scores, self._feed | replaced).astype(np.float64)

    def attention(self) -> list[str]:
        """Return the names of softmaxes with heads that scores depend on, first to last."""
        before: dict[str, set[str]] = {}

        def ancestors(operation):
            if operation.name not in before:
                before[operation.name] = {operation.name}.union(*(ancestors(one.op) for one in operation.inputs))
            return before[operation.name]

        found = [self._graph.get_operation_by_name(name) for name in ancestors(self._scores.op)]
        heads = [one.name for one in found if one.type == "Softmax" and one.outputs[0].shape.rank == 4]
        return sorted(heads, key=lambda name: len(before[name]))


# Derivatives of rectifiers by what decides on them: their input, or for the second factor of both rules the gradient.
_SLOPES = {
    "Relu": lambda _, z: tf.cast(z > 0, z.dtype),
    "Relu6": lambda _, z: tf.cast((z > 0) & (z < 6), z.dtype),
    "LeakyRelu": lambda operation, z: tf.where(z > 0, tf.ones_like(z), operation.get_attr("alpha")),
}


def _register(op, slope):
    of_gradient = _SLOPES["Relu"] if op == "Relu6" else slope  # an upper limit is one of values

    @tf.RegisterGradient(f"ZooGuided{op}")
    def guided(operation, gradient):
        return gradient * slope(operation, operation.inputs[0]) * of_gradient(operation, gradient)

    @tf.RegisterGradient(f"ZooDeconvnet{op}")
    def deconvnet(operation, gradient):
        return gradient * of_gradient(operation, gradient)


for _op, _slope in _SLOPES.items():
    _register(_op, _slope)


def groups_of(spatial) -> np.ndarray:
    """Return the group, 0 to 2, of each position: the thirds of the longest axis, which has three positions or more."""
    longest = int(np.argmax(spatial))
    return np.indices(spatial)[longest] * 3 // spatial[longest]


def _positions(values):
    return tuple(range(1, values.ndim - 1))


def _sums(arrays):
    return arrays.reshape(len(arrays), -1).sum(axis=1)


def patch_of(spatial) -> int:
    """Return the side of occlusion's patch: half of the longest axis."""
    return -(-max(spatial, default=1) // 2)


def _only(names) -> str:
    """Return the only name of several kinds of collection, or TensorFlow's default among signatures."""
    names = list(names)
    return "serving_default" if "serving_default" in names else names[0]
