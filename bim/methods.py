"""The twelve attribution maps of BIM, with its authors' settings, as methods of the registry.

Settings: SmoothGrad is the mean of the *squares* over 25 copies with noise of 0.15 (max - min); Integrated
Gradients takes 25 points with both ends from a black image; Grad-CAM uses block_layer4, is divided by
its maximum and resized as scikit-image does. Inputs are RGB minus the channel means, so black is minus the
means. The noise of a copy follows from the run's seed, the input's key and the copy's number.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from attribution import METHODS, Method, explain, resolve_method
from attribution.batching import Moments
from attribution.errors import BadInput
from attribution.methods.gradients import path_means, with_noise
from attribution.methods.modified_relu import guided_backprop, guided_rules
from attribution_benchmarks.core.controls import CENTRE_PRIOR, EDGE_DETECTOR, RANDOM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import network as random_network
from bim.layout import CHANNEL_MEANS
from bim.scores import resize_like_skimage

CAM_LAYER = "block_layer4"
SAMPLES, NOISE, POINTS = 25, 0.15, 25
COSTLY = ("integrated_gradients_smoothgrad",)  # 625 gradients a map: not compared with maps on random networks
MASKED = ("score_cam", "sise", "rise")  # hundreds of masked images a map: compared with one of those networks
# Model-independent controls.
# The same region of one image gets the same from them under every model: no contrast, and no change by a patch.
CONTROLS = (
    dataclasses.replace(RANDOM, trivial_max_of=("mcs", "iir")),
    dataclasses.replace(CENTRE_PRIOR, trivial_max_of=("mcs", "idr", "iir")),
    dataclasses.replace(EDGE_DETECTOR, trivial_max_of=("mcs",)),
)


def _noisy_copies(passes, sample: int, rows=None) -> np.ndarray:
    """Return one noisy copy of each input, (rows, H, W, 3) float32."""
    rows = np.arange(len(passes)) if rows is None else rows
    generators = (passes.generator(int(row), f"bim noise {sample}") for row in rows)
    return with_noise(passes, NOISE, rows, generators)


def _moments(passes, samples: int) -> Moments:
    """Return the moments of the gradients at noisy copies."""
    return passes.gradient_moments(
        samples, lambda sample, rows: _noisy_copies(passes, sample, rows), key=("bim smoothgrad", samples)
    )


def _smoothgrad(passes, *, samples=SAMPLES, squared=True):
    """Gradient SmoothGrad as in BIM: the mean of the squared gradients at noisy copies."""
    moments = _moments(passes, samples)
    return moments.mean_square if squared else moments.mean


def _vargrad(passes, *, samples=SAMPLES):
    """Variance of the gradients at the noisy copies of SmoothGrad, so that both share one set of gradients."""
    return _moments(passes, samples).variance


def _smoothgrad_x_input(passes, *, samples=SAMPLES, squared=True):
    """Gradient SmoothGrad times the input minus the channel means."""
    return _smoothgrad(passes, samples=samples, squared=squared) * passes.inputs


def _mean_on_path(passes: Any, difference: np.ndarray, points: int, map_error: float) -> np.ndarray:
    """Return the mean of the gradients at ``points`` points from black to black + ``difference``, or at fewer."""
    means, _ = path_means(
        passes, difference, lambda share, rows: difference[rows] * share - CHANNEL_MEANS, points, "uniform",
        map_error=map_error,
    )  # fmt: skip
    return means


def _integrated_gradients(passes, *, points=POINTS, map_error=0.0):
    """Integrated Gradients from black: (x - b) times the plain mean of the gradients at ``points`` points."""
    difference = passes.inputs + CHANNEL_MEANS
    if map_error:
        return difference * _mean_on_path(passes, difference, points, map_error)
    total = np.zeros(passes.inputs.shape)
    for _, rows, gradients in passes.variant_gradients(
        points, lambda point, rows: difference[rows] * _share(point, points) - CHANNEL_MEANS
    ):
        total[rows] += gradients
    return difference * total / points


def _integrated_gradients_smoothgrad(passes, *, points=POINTS, samples=SAMPLES, map_error=0.0):
    """Mean of the squared Integrated Gradients of noisy copies, each with its own path from black."""
    squares = np.zeros(passes.inputs.shape)
    if map_error:
        for sample in range(samples):
            copies = _noisy_copies(passes, sample) + CHANNEL_MEANS
            squares += np.square(copies * _mean_on_path(passes, copies, points, map_error))
        return squares / samples
    kept = {}

    def difference(sample):
        """Return the noisy copies minus black; the last sample's are kept, since its points follow on it."""
        if sample not in kept:
            kept.clear()
            kept[sample] = _noisy_copies(passes, sample) + CHANNEL_MEANS
        return kept[sample]

    def on_path(number, rows):
        sample, point = divmod(number, points)
        return difference(sample)[rows] * _share(point, points) - CHANNEL_MEANS

    path_sum = np.zeros(passes.inputs.shape)
    for number, rows, gradients in passes.variant_gradients(points * samples, on_path):
        sample, point = divmod(number, points)
        path_sum[rows] += gradients
        if point == points - 1:
            copies = _noisy_copies(passes, sample, rows) + CHANNEL_MEANS
            squares[rows] += np.square(copies * path_sum[rows] / points)
            path_sum[rows] = 0
    return squares / samples


def _grad_cam(passes, *, layer=CAM_LAYER):
    """Grad-CAM divided by its maximum, resized as ``skimage.transform.resize`` does, without channels."""
    values, gradients = passes.layer_gradient(layer)
    cam = np.maximum(np.einsum("nhwc,nc->nhw", values, gradients.mean(axis=(1, 2))), 0)
    top = cam.max(axis=(1, 2), keepdims=True)
    cam = np.divide(cam, top, out=np.zeros_like(cam), where=top > 0)
    return resize_like_skimage(np.moveaxis(cam, 0, -1), passes.inputs.shape[1:3]).transpose(2, 0, 1)


def _grad_cam_smoothgrad(passes, *, layer=CAM_LAYER, samples=SAMPLES):
    """Mean of the squared Grad-CAM maps of noisy copies."""
    total = 0.0
    for sample in range(samples):
        copies = _noisy_copies(passes, sample)
        maps = explain(
            lambda inner: _grad_cam(inner, layer=layer), passes.model, copies, passes.targets, batch_size=len(copies)
        )
        total = total + np.square(maps, dtype=np.float64)
    return total / samples


def _guided_backprop_smoothgrad(passes, *, samples=SAMPLES):
    """Mean of the squared Guided Backprop maps of noisy copies."""
    total = np.zeros(passes.inputs.shape)
    for _, rows, maps in passes.variant_gradients(
        samples, lambda sample, rows: _noisy_copies(passes, sample, rows), rules=guided_rules
    ):
        total[rows] += np.square(maps, dtype=np.float64)
    return total / samples


def _guided_grad_cam(passes, *, layer=CAM_LAYER):
    """Guided Backprop times Grad-CAM, with its sign."""
    return guided_backprop(passes) * _grad_cam(passes, layer=layer)[..., None]


def _guided_grad_cam_smoothgrad(passes, *, layer=CAM_LAYER, samples=SAMPLES):
    """Guided Backprop SmoothGrad times Grad-CAM SmoothGrad."""
    guided = _guided_backprop_smoothgrad(passes, samples=samples)
    return guided * _grad_cam_smoothgrad(passes, layer=layer, samples=samples)[..., None]


def on_random_networks(control: Control, names: Iterable[str]) -> list[str]:
    """Return those of some methods that are scored on a random network, or for a wrong class."""
    further = control.name not in (random_network(1).name, WRONG_CLASS.name)
    return [name for name in names if name not in COSTLY and not (further and name in MASKED)]


def cam_layer(model, wanted: str = "") -> str | None:
    """Return the layer of a model's class activation maps, or None for the model's default.

    ``wanted`` is the user's (``BadInput`` if the model has none of this name); empty for the authors' ``block_layer4``,
    which only models of BIM's architecture have.
    """
    if wanted:
        model.layer(wanted)
        return wanted
    try:
        model.layer(CAM_LAYER)
    except BadInput:
        return None
    return CAM_LAYER


def takes_layer(method: Method) -> bool:
    """Return whether a method is of a layer that ``cam_layer`` chooses, not of one that its name says."""
    return method.defaults.get("layer", "") in (None, CAM_LAYER)


def _share(point: int, points: int) -> np.float32:
    """Return how far along its path a point lies, from 0 to 1, both ends included."""
    return np.float32(point / (points - 1))


def _authors(name: str, title: str, function=None, variant_of: str = "") -> Method:
    """Return a method under the name users type, with the registry's method card and the family of its original."""
    known = METHODS.get(name)
    family = METHODS[variant_of or name].family
    return Method(name, title, function or known.function, known.card if known else None, family=family)


_TWELVE = (  # in the authors' order, with the names that the registry prints
    _authors("gradient", "Vanilla Gradient"),
    _authors("smoothgrad", "SmoothGrad", _smoothgrad),
    _authors("guided_backprop", "Guided Backprop"),
    _authors(
        "guided_backprop_smoothgrad", "Guided Backprop SmoothGrad", _guided_backprop_smoothgrad, "guided_backprop"
    ),
    _authors("integrated_gradients", "Integrated Gradients", _integrated_gradients),
    _authors(
        "integrated_gradients_smoothgrad", "Integrated Gradients SmoothGrad", _integrated_gradients_smoothgrad,
        "integrated_gradients",
    ),
    _authors("grad_cam", "Grad-CAM", _grad_cam),
    _authors("grad_cam_smoothgrad", "Grad-CAM SmoothGrad", _grad_cam_smoothgrad, "grad_cam"),
    _authors("guided_grad_cam", "Guided Grad-CAM", _guided_grad_cam),
    _authors(
        "guided_grad_cam_smoothgrad", "Guided Grad-CAM SmoothGrad", _guided_grad_cam_smoothgrad, "guided_grad_cam"
    ),
    _authors("gradient_x_input", "Gradient x Input"),
    _authors("smoothgrad_x_input", "SmoothGrad x Input", _smoothgrad_x_input, "gradient_x_input"),
)  # fmt: skip
MAPS = {method.name: method for method in _TWELVE}
# Which layer of a transformer Grad-CAM should take is asked often: it is a method for each. They are the tokens before
# the first block, after each block, before the last one's attention, and behind the last normalization.
_LAYERS = {
    "stem4": "stem", "block1": "block 1", "block2": "block 2", "block3_norm1": "block 3, first norm",
    "block3": "block 3", "last_norm": "last norm",
}  # fmt: skip
BY_LAYER = {
    f"grad_cam_{layer}": Method(
        f"grad_cam_{layer}", f"Grad-CAM, {title}", functools.partial(_grad_cam, layer=layer), METHODS["grad_cam"].card,
        family=METHODS["grad_cam"].family,
    )
    for layer, title in _LAYERS.items()
}  # fmt: skip
_VARGRAD = dataclasses.replace(METHODS["vargrad"], function=_vargrad)
PRINTED = (
    "grad_cam", "gradient", "smoothgrad", "integrated_gradients", "integrated_gradients_smoothgrad",
    "gradient_x_input", "guided_backprop", "guided_grad_cam",
)  # fmt: skip


def method_named(name: str) -> Method:
    """Return a method with BIM's settings, or one of the registry, or the user's own ``module:function``."""
    return _VARGRAD if name == _VARGRAD.name else MAPS.get(name) or BY_LAYER.get(name) or resolve_method(name)
