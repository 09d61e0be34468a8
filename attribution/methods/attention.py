"""Attention as an explanation: how much of each token reaches the token that the score is read from.

The attention of a layer is the output of a Softmax of shape ``(N, heads, tokens, tokens)``; layers are taken in the
order of computation. Maps have no channel axis and the input's resolution. Tokens are placed on the grid of the patches
that they represent; other tokens (class, registers) are dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.methods import resizing
from attribution.methods.queries import ModelQueries
from attribution.model.batching import FoldedBatch

_MEAN = "mean"  # instead of a token's number: the score is read from all tokens, as by global average pooling
_MAX_EXTRA_TOKENS = 6


def attention_rollout(
    queries: ModelQueries, *, token: int | str | None = None, residual: float = 0.5, resize: bool = True
) -> np.ndarray:
    """Attention rollout (Abnar and Zuidema 2020): the product of the layers' attention, residual connections included.

    Ã = (1 - r) mean over heads of A + r I, and the map is a row of Ã_L ... Ã_1. It does not depend on the class.

    Parameters
    ----------
    token
        Number of the token whose row is the map, or ``"mean"`` of all; by default 0 where there are more tokens than
        patches, otherwise the mean.
    residual
        Share r of the residual connection.
    resize
        Whether to upsample the map to the input's resolution.
    """
    layers = _attention(queries)
    identity = np.eye(layers[0][0].shape[-1], dtype=np.float32)
    rolled: Any = None
    for attention, _ in layers:
        mixed = (1 - residual) * attention.mean(axis=1) + residual * identity
        mixed /= mixed.sum(axis=-1, keepdims=True)
        rolled = mixed if rolled is None else mixed @ rolled
    return _on_positions(queries, rolled, token, resize)


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
    return _on_positions(queries, rolled - identity, token, resize)


def _attention(queries: ModelQueries) -> list[tuple[np.ndarray, np.ndarray]]:
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


def _on_positions(queries: ModelQueries, rolled: np.ndarray, token: int | str | None, resize: bool) -> np.ndarray:
    """Return a row of ``(N, tokens, tokens)`` on the positions of the inputs."""
    spatial, tokens = queries.inputs.shape[1:-1], rolled.shape[-1]
    extra, grid = token_grid(tokens, spatial)
    if token is None:
        token = 0 if extra else _MEAN
    if token == _MEAN:
        row = rolled.mean(axis=1)
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
