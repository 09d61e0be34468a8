"""Class activation maps: a layer's channels, weighted by what they mean to the target.

Every function takes the model queries of a batch of inputs and returns maps without the channel axis, ``(N, T)`` or
``(N, H, W)``, non-negative; at the input's resolution (bilinear), or at the layer's with ``resize=False``.
``layer`` is a name as ``Model.layer`` takes it; the default is the last layer ahead of pooling and head.
A is the layer's output, g the gradient of the target score with respect to it, sums run over positions.
"""

from __future__ import annotations

import numpy as np

from attribution.methods import modified_relu, resizing
from attribution.methods.queries import ModelQueries


def grad_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """Grad-CAM (Selvaraju et al. 2017): ReLU of Σ_c mean(g_c) A_c."""
    values, gradients = queries.layer_gradient(layer)
    return _combine(queries, values, gradients.mean(axis=_positions(values)), resize)


def guided_grad_cam(queries: ModelQueries, *, layer: str | None = None) -> np.ndarray:
    """Guided Grad-CAM (Selvaraju et al. 2017): upsampled Grad-CAM times Guided Backprop.

    Signed, and unlike the other maps here of the input's shape.
    """
    return grad_cam(queries, layer=layer)[..., np.newaxis] * modified_relu.guided_backprop(queries)


def grad_cam_plus_plus(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """Grad-CAM++ (Chattopadhay et al. 2018): weights Σ α relu(g) with α = g² / (2 g² + ΣA · g³).

    α is 0 where its denominator is, which is where g is 0.
    """
    values, gradients = queries.layer_gradient(layer)
    axes = _positions(values)
    square = np.square(gradients)
    denominator = 2 * square + values.sum(axis=axes, keepdims=True) * square * gradients
    alpha = np.divide(square, denominator, out=np.zeros_like(square), where=denominator != 0)
    return _combine(queries, values, (alpha * np.maximum(gradients, 0)).sum(axis=axes), resize)


def layer_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """LayerCAM (Jiang et al. 2021): ReLU of Σ_c relu(g_c) A_c, weights at each position by themselves."""
    values, gradients = queries.layer_gradient(layer)
    maps = np.maximum((np.maximum(gradients, 0) * values).sum(axis=-1), 0)
    return resizing.resize(maps, queries.inputs.shape[1:-1]) if resize else maps


def xgrad_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """XGrad-CAM (Fu et al. 2020): weights Σ A g / Σ A; 0 for a channel that sums to 0."""
    values, gradients = queries.layer_gradient(layer)
    axes = _positions(values)
    mass = values.sum(axis=axes)
    weights = np.divide((values * gradients).sum(axis=axes), mass, out=np.zeros_like(mass), where=mass != 0)
    return _combine(queries, values, weights, resize)


def score_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """Score-CAM (Wang et al. 2020): weights are the softmax over channels of the masked inputs' target scores.

    The mask of a channel is the channel itself, upsampled and scaled to [0, 1]. A channel that is constant
    over positions has no mask and takes no part.
    """
    values, _ = queries.layer_gradient(layer)
    scores = _masked_scores(queries, values, layer, _live(values))
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min))
    total = exponentials.sum(axis=1, keepdims=True)
    weights = np.divide(exponentials, total, out=np.zeros_like(exponentials), where=total > 0)
    return _combine(queries, values, weights, resize)


def sise(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """SISE (Sattarzadeh et al. 2021) on one layer: masks weighted by the target scores of the masked inputs.

    Only channels with a positive mean gradient take part. The paper adds up the maps of several layers; on one layer,
    as in SVEA, what remains is Σ_c f_t(x · mask_c) mask_c / Σ mask_c: each mask, upsampled and scaled to [0, 1], is
    divided by its sum over positions. Where all scores are negative, as logits may be, the map is 0.
    """
    values, gradients = queries.layer_gradient(layer)
    chosen = _live(values) & (gradients.mean(axis=_positions(values)) > 0)
    scores = _masked_scores(queries, values, layer, chosen)
    low, high, total = _upsampled(values, chosen, queries.inputs.shape[1:-1])
    # A mask is (A - low) / (high - low); the divisor falls out where it is divided by its sum. Upsampling is linear.
    mass = total - np.prod(queries.inputs.shape[1:-1]) * low
    weights = np.divide(scores, mass, out=np.zeros_like(mass), where=chosen & (high > low))
    maps = np.einsum("n...c,nc->n...", values, weights) - _as_maps((weights * low).sum(axis=1), values)
    if resize:
        maps = resizing.resize(maps, queries.inputs.shape[1:-1])
    return np.maximum(maps, 0)


def score_cam_constant_masks(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """Score-CAM with constant masks: Σ_c (f_t(x · m_c) - f_t(0)) A_c, m_c the channel's value in the middle.

    No paper proposes it. A resizing that swaps a signal's two axes turns a channel of shape (T, 1) into a single
    number, the mean of its two middle values, before it is stretched to a mask. It is offered because it may be how
    SVEA's Score-CAM row was computed, which is not proven.
    """
    values, _ = queries.layer_gradient(layer)
    flat = resizing.resize(np.moveaxis(values, -1, 1).reshape(-1, *values.shape[1:-1]), (1,) * (values.ndim - 2))
    middles = flat.reshape(len(values), values.shape[-1])
    weights = np.zeros(middles.shape, np.float32)

    def dimmed(number, rows):
        factor = middles[rows, number - 1] if number else np.zeros(len(rows), np.float32)
        return queries.inputs[rows] * _as_maps(factor, queries.inputs)[..., np.newaxis]

    for number, rows, scores in queries.variant_scores(1 + middles.shape[1], dimmed):
        if number:
            weights[rows, number - 1] += scores
        else:
            weights[rows] -= scores[:, np.newaxis]
    return _combine(queries, values, weights, resize)


def _upsampled(values, chosen, spatial):
    """Return least and greatest value and sum of each chosen channel at the inputs' resolution, ``(N, channels)``."""
    low, high, total = (np.zeros(chosen.shape, np.float32) for _ in range(3))
    for channel in np.flatnonzero(chosen.any(axis=0)):
        flat = resizing.resize(values[..., channel], spatial).reshape(len(values), -1)
        low[:, channel], high[:, channel], total[:, channel] = flat.min(axis=1), flat.max(axis=1), flat.sum(axis=1)
    return low, high, total


def _as_maps(numbers, values):
    """Return one number per input with an axis for each of its positions."""
    return numbers.reshape(-1, *(1,) * (values.ndim - 2))


def _masked_scores(queries, values, layer, wanted):
    """Return target scores ``(N, channels)`` of the inputs times each wanted channel's mask; -inf elsewhere.

    Streamed: no more masks exist at a time than fit into one pass. Methods on the same layer share them.
    """
    known = queries.shared(("masked scores", layer), lambda: np.full(wanted.shape, -np.inf, np.float32))
    missing = wanted & np.isneginf(known)
    channels = np.flatnonzero(missing.any(axis=0))
    spatial = queries.inputs.shape[1:-1]

    def masked(number, rows):
        masks = resizing.resize(values[rows, ..., channels[number]], spatial)
        flat = masks.reshape(len(masks), -1)
        low, high = flat.min(axis=1, keepdims=True), flat.max(axis=1, keepdims=True)
        flat = (flat - low) / np.where(high > low, high - low, 1)
        return queries.inputs[rows] * flat.reshape(masks.shape)[..., np.newaxis]

    rows_of = [np.flatnonzero(missing[:, channel]) for channel in channels]
    for number, rows, scores in queries.variant_scores(rows_of, masked):
        known[rows, channels[number]] = scores
    return np.where(wanted, known, -np.inf)


def _combine(queries, values, weights, resize):
    """Return ReLU of the weighted sum of channels, upsampled unless told otherwise."""
    maps = np.maximum(np.einsum("n...c,nc->n...", values, weights), 0)
    return resizing.resize(maps, queries.inputs.shape[1:-1]) if resize else maps


def _positions(values):
    return tuple(range(1, values.ndim - 1))


def _range(values):
    axes = _positions(values)
    return values.min(axis=axes, keepdims=True), values.max(axis=axes, keepdims=True)


def _live(values):
    """Return which channels are not constant over positions, ``(N, channels)`` bool."""
    low, high = _range(values)
    return (high > low).reshape(len(values), -1)
