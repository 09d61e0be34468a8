"""Class activation maps, a weighted sum of a layer's channels, and maps of attention.

Every function takes the queries of a batch of inputs and returns non-negative maps without the channel axis, ``(N, T)``
or ``(N, H, W)``: at the input's resolution (bilinear), or at the layer's with ``resize=False``. Where the network
itself adds an axis of channels to its input, as to a gray image ``(N, H, W)``, they have the input's shape. A layer
whose positions are no axes of the input, such as the frames and bins of a signal's spectrogram, gives maps of its
resolution, ``(N, frames, bins)``, with ``resize=True`` too; methods that lay masks over the input refuse it.
``layer`` is a name as ``Model.layer`` takes it; the default is the last layer before pooling and head.
A is the layer's output, g the gradient of the target score with respect to it; sums run over positions.

The attention of a layer is the output of a Softmax of shape ``(N, heads, tokens, tokens)``; layers are taken in the
order of computation. Tokens are placed on the grid of the patches that they represent; other tokens (class, registers)
are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from attribution.batching import FoldedBatch
from attribution.errors import BadInput, listed
from attribution.methods import modified_relu, resizing
from attribution.methods.queries import ModelQueries

_UPSAMPLING = {
    "half_pixel": resizing.interpolation_matrix,
    "aligned": resizing.aligned_matrix,
    "nearest": resizing.nearest_matrix,
}


def grad_cam(
    queries: ModelQueries,
    *,
    layer: str | None = None,
    resize: bool = True,
    rectify: bool = True,
    guided: bool = False,
) -> np.ndarray:
    """Grad-CAM (Selvaraju et al. 2017): ReLU of Σ_c mean(g_c) A_c.

    Parameters
    ----------
    layer, resize
        See above.
    rectify
        Whether the sum goes through a ReLU.
    guided
        Whether a gradient counts only where it and the activation are positive; the others are 0 in the mean.
    """
    values, gradients = queries.layer_gradient(layer)
    if guided:
        gradients = gradients * ((values > 0) & (gradients > 0))
    weights = gradients.mean(axis=_positions(values))
    return _combine(queries, values, weights, layer, resize, rectify)


def guided_grad_cam(queries: ModelQueries, *, layer: str | None = None, upsampling: str = "half_pixel") -> np.ndarray:
    """Guided Grad-CAM (Selvaraju et al. 2017): upsampled Grad-CAM times Guided Backprop.

    Signed, and unlike the other maps here of the input's shape. ``upsampling`` is "half_pixel" (bilinear between pixel
    centres), "aligned" (bilinear with aligned corners) or "nearest".
    """
    if upsampling not in _UPSAMPLING:
        raise BadInput(f"guided_grad_cam has no upsampling '{upsampling}'; there are {listed(_UPSAMPLING)}")
    spatial = queries.mask_shape(layer)  # maps of no axes of the input cannot be multiplied with it
    masks = grad_cam(queries, layer=layer, resize=False)
    return _masked(modified_relu.guided_backprop(queries), resizing.resize(masks, spatial, _UPSAMPLING[upsampling]))


def grad_cam_plus_plus(
    queries: ModelQueries,
    *,
    layer: str | None = None,
    resize: bool = True,
    averaged: bool = False,
    normalized: bool = False,
    exponential: bool = False,
    epsilon: float = 0.0,
) -> np.ndarray:
    """Grad-CAM++ (Chattopadhay et al. 2018): weights Σ α relu(g) with α = g² / (2 g² + ΣA · g³).

    α is 0 where its denominator is, which is where g is 0.

    Parameters
    ----------
    layer, resize
        See above.
    averaged
        Whether means over positions take the place of both sums.
    normalized
        Whether α is divided by its sum over a channel's positions, where that is not 0.
    exponential
        Whether the weights are multiplied by exp(f_t), which the derivatives of an exponential of the score have.
    epsilon
        Added to the denominator.
    """
    values, gradients = queries.layer_gradient(layer)
    axes = _positions(values)
    combined = np.mean if averaged else np.sum
    square = np.square(gradients)
    denominator = 2 * square + combined(values, axis=axes, keepdims=True) * square * gradients
    if epsilon:
        denominator = np.where(square != 0, denominator + np.float32(epsilon), 0)
    alpha = np.divide(square, denominator, out=np.zeros_like(square), where=denominator != 0)
    if normalized:
        total = alpha.sum(axis=axes, keepdims=True)
        alpha = np.divide(alpha, total, out=np.zeros_like(alpha), where=total != 0)
    if exponential:
        gradients = gradients * np.exp(queries.target_scores).reshape(-1, *(1,) * (gradients.ndim - 1))
    return _combine(queries, values, combined(alpha * np.maximum(gradients, 0), axis=axes), layer, resize)


def layer_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """LayerCAM (Jiang et al. 2021): ReLU of Σ_c relu(g_c) A_c, with a weight for each position."""
    values, gradients = queries.layer_gradient(layer)
    return _rectified(queries, (np.maximum(gradients, 0) * values).sum(axis=-1), layer, resize)


def xgrad_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """XGrad-CAM (Fu et al. 2020): weights Σ A g / Σ A; 0 for a channel that sums to 0."""
    values, gradients = queries.layer_gradient(layer)
    axes = _positions(values)
    mass = values.sum(axis=axes)
    weights = np.divide((values * gradients).sum(axis=axes), mass, out=np.zeros_like(mass), where=mass != 0)
    return _combine(queries, values, weights, layer, resize)


def hires_cam(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """HiResCAM (Draelos and Carin 2020): ReLU of Σ_c g_c A_c, position by position, without an average of gradients."""
    values, gradients = queries.layer_gradient(layer)
    return _rectified(queries, (gradients * values).sum(axis=-1), layer, resize)


def eigen_cam(
    queries: ModelQueries,
    *,
    layer: str | None = None,
    resize: bool = True,
    centered: bool = False,
    oriented: bool = True,
) -> np.ndarray:
    """Eigen-CAM (Muhammad and Yeasin 2020): ReLU of A v, where v is the first right singular vector of A.

    A is the matrix of positions and channels, not centered. The sign of v is that which makes Σ A v positive. The map
    does not depend on the target.

    Parameters
    ----------
    layer, resize
        See above.
    centered
        Whether each channel's mean over positions is subtracted in A, so that v is the first principal component.
    oriented
        Whether the sign is as above; otherwise it is what NumPy's SVD returns, which is arbitrary.
    """
    values, _ = queries.layer_gradient(layer)
    matrices = values.reshape(len(values), -1, values.shape[-1]).astype(np.float64)
    maps = np.empty(matrices.shape[:2])
    for found, matrix in zip(maps, matrices, strict=True):
        if centered:
            matrix -= matrix.mean(axis=0)
        # Signs of the SVD depend on the precision; the library that does not set them computes in float32.
        left, singular, _ = np.linalg.svd(matrix if oriented else matrix.astype(np.float32), full_matrices=False)
        found[:] = left[:, 0] * singular[0] * (-1 if oriented and left[:, 0].sum() < 0 else 1)
    return _rectified(queries, maps.reshape(values.shape[:-1]), layer, resize)


def ablation_cam(
    queries: ModelQueries, *, layer: str | None = None, resize: bool = True, magnitude: bool = True
) -> np.ndarray:
    """Ablation-CAM (Desai and Ramaswamy 2020): weights (f_t - f_t with the channel set to 0) / |f_t|.

    The paper divides by f_t, a positive score; with its ``magnitude``, a negative logit does not turn the map around.
    """
    values, _ = queries.layer_gradient(layer)
    score = queries.target_scores
    weights = np.zeros((len(values), values.shape[-1]))
    rest, axis = queries.at_layer(layer)

    def ablated(channel: int, rows: np.ndarray) -> Any:
        changed = rest.inputs[rows]
        changed[(*[slice(None)] * axis, channel)] = 0
        return changed

    for channel, rows, scores in rest.variant_scores(values.shape[-1], ablated):
        weights[rows, channel] = score[rows] - scores
    scale = (np.abs(score) if magnitude else score)[:, np.newaxis]
    weights = np.divide(weights, scale, out=np.zeros_like(weights), where=scale != 0)
    return _combine(queries, values, weights, layer, resize)


def score_cam(
    queries: ModelQueries,
    *,
    layer: str | None = None,
    resize: bool = True,
    weights: str = "softmax",
    upsampling: str = "half_pixel",
    constant: str = "dropped",
    epsilon: float = 0.0,
) -> np.ndarray:
    """Score-CAM (Wang et al. 2020): weights are the softmax over channels of the masked inputs' target scores.

    The mask of a channel is the channel, upsampled and scaled to [0, 1]. A channel that is constant over positions has
    no mask and is dropped.

    Parameters
    ----------
    layer, resize
        See above.
    weights
        ``"softmax"`` over channels; or ``"probability"``: the target's share of a softmax over the classes, whatever
        the score.
    upsampling
        Of masks, bilinear: ``"half_pixel"`` between pixel centres, or ``"aligned"`` with aligned corners.
    constant
        ``"dropped"``, or ``"zero"``: a constant channel has a mask of zeros and counts.
    epsilon
        Added to a channel's max - min, by which its mask is divided.
    """
    allowed = {"weights": ("softmax", "probability"), "upsampling": tuple(_UPSAMPLING), "constant": ("dropped", "zero")}
    for name, value in {"weights": weights, "upsampling": upsampling, "constant": constant}.items():
        if value not in allowed[name]:
            raise BadInput(f"score_cam has no {name} '{value}'; there are {listed(allowed[name])}")
    values, _ = queries.layer_gradient(layer)
    wanted = _varies(values) | (constant == "zero")
    kind = _Masks(weights == "probability", upsampling, epsilon)
    scores = _masked_scores(queries, values, layer, wanted, kind)
    if kind.of_classes:
        return _combine(queries, values, np.where(wanted, scores, 0), layer, resize)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True, initial=np.finfo(np.float32).min))
    total = exponentials.sum(axis=1, keepdims=True)
    shares = np.divide(exponentials, total, out=np.zeros_like(exponentials), where=total > 0)
    return _combine(queries, values, shares, layer, resize)


@dataclasses.dataclass(frozen=True)
class _Masks:
    """How channels become masks of the input, and whether their scores are shares of a softmax over the classes."""

    of_classes: bool = False
    upsampling: str = "half_pixel"
    epsilon: float = 0.0


def sise(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """SISE (Sattarzadeh et al. 2021) on one layer: masks weighted by the target scores of the masked inputs.

    Only channels with a positive mean gradient count. The paper adds the maps of several layers; on one layer, as in
    SVEA, Σ_c f_t(x · mask_c) mask_c / Σ mask_c remains: each mask, upsampled and scaled to [0, 1], is divided by its
    sum over positions. Where all scores are negative, as logits may be, the map is 0.
    """
    values, gradients = queries.layer_gradient(layer)
    chosen = _varies(values) & (gradients.mean(axis=_positions(values)) > 0)
    scores = _masked_scores(queries, values, layer, chosen)
    spatial = queries.mask_shape(layer)
    low, high, total = (np.zeros(chosen.shape, np.float32) for _ in range(3))  # of the upsampled channels
    for channel in np.flatnonzero(chosen.any(axis=0)):
        flat = resizing.resize(values[..., channel], spatial).reshape(len(values), -1)
        low[:, channel], high[:, channel], total[:, channel] = flat.min(axis=1), flat.max(axis=1), flat.sum(axis=1)
    # A mask is (A - low) / (high - low); the divisor cancels when it is divided by its sum. Upsampling is linear.
    mass = total - np.prod(spatial) * low
    weights = np.divide(scores, mass, out=np.zeros_like(mass), where=chosen & (high > low))
    maps = np.einsum("n...c,nc->n...", values, weights)
    maps -= (weights * low).sum(axis=1).reshape(-1, *(1,) * (values.ndim - 2))
    if resize:
        maps = resizing.resize(maps, spatial)
    positive: np.ndarray = np.maximum(maps, 0)
    return positive


def score_cam_constant_masks(queries: ModelQueries, *, layer: str | None = None, resize: bool = True) -> np.ndarray:
    """Score-CAM with constant masks: Σ_c (f_t(x · m_c) - f_t(0)) A_c, m_c the channel's value in the middle.

    Not published. A resizing that swaps a signal's two axes turns a channel of shape (T, 1) into a single number, the
    mean of its two middle values, before it is stretched to a mask. SVEA's Score-CAM row may have been computed in this
    way, which is not proven.
    """
    values, _ = queries.layer_gradient(layer)
    flat = resizing.resize(np.moveaxis(values, -1, 1).reshape(-1, *values.shape[1:-1]), (1,) * (values.ndim - 2))
    middles = flat.reshape(len(values), values.shape[-1])
    weights = np.zeros(middles.shape, np.float32)

    def dimmed(number: int, rows: np.ndarray) -> Any:
        factor = middles[rows, number - 1] if number else np.zeros(len(rows), np.float32)
        return queries.inputs[rows] * factor.reshape(-1, *(1,) * (queries.inputs.ndim - 1))

    for number, rows, scores in queries.variant_scores(1 + middles.shape[1], dimmed):
        if number:
            weights[rows, number - 1] += scores
        else:
            weights[rows] -= scores[:, np.newaxis]
    return _combine(queries, values, weights, layer, resize)


def _masked_scores(
    queries: ModelQueries, values: np.ndarray, layer: str | None, wanted: np.ndarray, kind: _Masks = _Masks()
) -> np.ndarray:
    """Return target scores ``(N, channels)`` of the inputs times each wanted channel's mask; -inf elsewhere.

    Streamed: only the masks of one pass exist at a time. Methods on the same layer share the scores.
    """
    known = queries.shared(("masked scores", layer, kind), lambda: np.full(wanted.shape, -np.inf, np.float32))
    missing = wanted & np.isneginf(known)
    channels = np.flatnonzero(missing.any(axis=0))
    spatial = queries.mask_shape(layer)

    def masked(number: int, rows: np.ndarray) -> Any:
        masks = resizing.resize(values[rows, ..., channels[number]], spatial, _UPSAMPLING[kind.upsampling])
        flat = masks.reshape(len(masks), -1)
        low, high = flat.min(axis=1, keepdims=True), flat.max(axis=1, keepdims=True)
        spread = high - low + np.float32(kind.epsilon) if kind.epsilon else high - low
        flat = (flat - low) / np.where(spread > 0, spread, 1)
        return _masked(queries.inputs[rows], flat.reshape(masks.shape))

    rows_of = [np.flatnonzero(missing[:, channel]) for channel in channels]
    for number, rows, scores in queries.variant_scores(rows_of, masked, softmax=kind.of_classes):
        known[rows, channels[number]] = scores
    return np.where(wanted, known, -np.inf)


def _combine(
    queries: ModelQueries,
    values: np.ndarray,
    weights: np.ndarray,
    layer: str | None,
    resize: bool,
    rectify: bool = True,
) -> np.ndarray:
    """Return ReLU of the weighted sum of channels; ``weights`` is ``(N, channels)``."""
    return _rectified(queries, np.einsum("n...c,nc->n...", values, weights), layer, resize, rectify)


def _rectified(
    queries: ModelQueries, maps: np.ndarray, layer: str | None, resize: bool, rectify: bool = True
) -> np.ndarray:
    maps, shape = np.maximum(maps, 0) if rectify else maps, queries.map_shape(layer) if resize else None
    return maps if shape is None else resizing.resize(maps, shape)


def _masked(inputs: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Return inputs times masks that have no axis of channels, unless they have the inputs' shape."""
    masked: np.ndarray = inputs * (masks if masks.ndim == inputs.ndim else masks[..., np.newaxis])
    return masked


def _positions(values: np.ndarray) -> tuple[int, ...]:
    return tuple(range(1, values.ndim - 1))


def _varies(values: np.ndarray) -> Any:
    """Return which channels are not constant over positions, ``(N, channels)`` bool."""
    axes = _positions(values)
    return values.max(axis=axes) > values.min(axis=axes)


_MEAN = "mean"  # instead of a token's number: the score is read from all tokens, as by global average pooling
_MAX_EXTRA_TOKENS = 6


def attention_rollout(queries: ModelQueries, *, token: int | str | None = None, resize: bool = True) -> np.ndarray:
    """Attention rollout (Abnar and Zuidema 2020): the product of the layers' attention, residual connections included.

    Ã = (mean over heads of A + I) / 2, and the map is a row of Ã_L ... Ã_1. It does not depend on the class.

    Parameters
    ----------
    token
        Number of the token whose row is the map, or ``"mean"`` of all that any token attends to, which padding is not;
        by default 0 where there are more tokens than patches, otherwise the mean.
    resize
        Whether to upsample the map to the input's resolution.
    """
    layers = _attention(queries)
    identity = np.eye(layers[0][0].shape[-1], dtype=np.float32)
    rolled: Any = None
    for attention, _ in layers:
        mixed = (attention.mean(axis=1) + identity) / 2
        mixed /= mixed.sum(axis=-1, keepdims=True)
        rolled = mixed if rolled is None else mixed @ rolled
    return _on_positions(queries, rolled, layers, token, resize)


def gradient_rollout(queries: ModelQueries, *, token: int | str | None = None, resize: bool = True) -> np.ndarray:
    """Gradient x rollout (Chefer, Gur and Wolf, ICCV 2021): attention weighted by its gradient, rolled out.

    Ā = mean over heads of (∂f_t/∂A ⊙ A)+, and R ← R + Ā R from R = I. The map is a row of R - I, which is specific to
    the class.

    Parameters
    ----------
    token, resize
        See ``attention_rollout``.
    """
    layers = _attention(queries)
    identity = np.eye(layers[0][0].shape[-1], dtype=np.float32)
    rolled: Any = None
    for attention, gradient in layers:
        weighted = np.maximum(attention * gradient, 0).mean(axis=1)
        rolled = identity + weighted if rolled is None else rolled + weighted @ rolled
    return _on_positions(queries, rolled - identity, layers, token, resize)


def _attention(queries: ModelQueries) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return each layer's attention and its gradient, ``(N, heads, tokens, tokens)``."""
    nodes = queries.attention_nodes()
    if not nodes:
        raise BadInput("the model has no attention: no Softmax of shape (batch, heads, tokens, tokens)")
    try:
        layers = queries.node_gradients(nodes)
    except FoldedBatch as error:
        raise BadInput("attention lies within windows; rollout is defined for attention among all tokens") from error
    if len({size for attention, _ in layers for size in attention.shape[-2:]}) > 1:
        raise BadInput("layers attend to different tokens; rollout is defined for self-attention alone")
    return layers


def _on_positions(
    queries: ModelQueries, rolled: np.ndarray, layers: Sequence[Any], token: int | str | None, resize: bool
) -> np.ndarray:
    """Return a row of ``(N, tokens, tokens)`` on the positions of the inputs."""
    spatial, tokens = queries.inputs.shape[1:-1], rolled.shape[-1]
    extra, grid = token_grid(tokens, spatial)
    if token is None:
        token = 0 if extra else _MEAN
    if token == _MEAN:
        # Padding is hidden from all tokens. Its own row would give it what the residual connection carries.
        attended = np.any([attention.any(axis=(1, 2)) for attention, _ in layers], axis=0)
        row = (rolled * attended[:, :, np.newaxis]).sum(axis=1) / attended.sum(axis=1, keepdims=True)
    elif isinstance(token, str) or not -tokens <= token < tokens:
        raise BadInput(f"no token {token}; there are {tokens}")
    else:
        row = rolled[:, token]
    maps = row[:, extra:].reshape(len(row), *grid)
    return resizing.resize(maps, spatial) if resize else maps


def token_grid(tokens: int, spatial: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return the number of tokens before the grid, and the grid of patches of the others.

    Parameters
    ----------
    tokens
        Number of all tokens.
    spatial
        The input's positions, ``(T,)`` or ``(H, W)``.

    Raises
    ------
    BadInput
        If no square patch gives such a grid.
    """
    for exact in (True, False):  # patches that cover the input come before those that leave a border
        for extra in range(min(_MAX_EXTRA_TOKENS, tokens)):
            for patch in range(1, max(spatial, default=0) + 1):
                grid = tuple(size // patch for size in spatial)
                if np.prod(grid) == tokens - extra and not (exact and any(size % patch for size in spatial)):
                    return extra, grid
    raise BadInput(f"{tokens} tokens are no grid of square patches on an input of {spatial} positions")
