"""Attention as an explanation: how much of each token reaches the one that the score is read from.

The attention of a layer is the output of a Softmax of shape ``(N, heads, tokens, tokens)``; layers are taken in the
order in which they are computed. Maps have no channel axis and the input's resolution: tokens are laid out on the grid
of patches they come from, tokens beside the grid (of a class, of registers) left out.
"""

from __future__ import annotations

import numpy as np

from attribution.errors import BadInput
from attribution.methods import resizing
from attribution.methods.queries import ModelQueries
from attribution.model.batching import FoldedBatch

MEAN = "mean"  # in place of a token's number: all tokens are read, as global average pooling does


def attention_rollout(
    queries: ModelQueries, *, token: int | str | None = None, residual: float = 0.5, resize: bool = True
) -> np.ndarray:
    """Attention rollout (Abnar and Zuidema 2020): the product of the layers' attention, residual connections included.

    Ã = (1 - r) mean over heads of A + r I, and the map is a row of Ã_L ... Ã_1. The class plays no part.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    token
        Whose row is the map: its number, or ``"mean"`` of all; by default 0 where the tokens are one more than the
        positions, otherwise the mean.
    residual
        Share r of the residual connection.
    resize
        Whether the map is upsampled to the input's resolution.
    """
    rolled = None
    for attention, _ in _attention(queries):
        mixed = (1 - residual) * attention.mean(axis=1) + residual * np.eye(attention.shape[-1], dtype=np.float32)
        mixed /= mixed.sum(axis=-1, keepdims=True)
        rolled = mixed if rolled is None else mixed @ rolled
    return _on_positions(queries, rolled, token, resize)


def gradient_rollout(queries: ModelQueries, *, token: int | str | None = None, resize: bool = True) -> np.ndarray:
    """Gradient x rollout (Chefer, Gur and Wolf, ICCV 2021): attention weighted by its gradient, rolled out.

    Ā = mean over heads of (∂f_t/∂A ⊙ A)+, and R ← R + Ā R from R = I. The map is a row of R - I, which is specific to
    the class.

    Parameters
    ----------
    queries
        Queries of a batch of inputs.
    token, resize
        See ``attention_rollout``.
    """
    rolled = None
    for attention, gradient in _attention(queries):
        weighted = np.maximum(attention * gradient, 0).mean(axis=1)
        identity = np.eye(attention.shape[-1], dtype=np.float32)
        rolled = identity + weighted if rolled is None else rolled + weighted @ rolled
    return _on_positions(queries, rolled - identity, token, resize)


def _attention(queries) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each layer's attention and its gradient, ``(N, heads, tokens, tokens)``."""
    nodes = queries.attention_nodes()
    if not nodes:
        raise BadInput("the model has no attention: no Softmax of shape (batch, heads, tokens, tokens)")
    try:
        layers = queries.node_gradients(nodes)
    except FoldedBatch as error:
        raise BadInput("attention lies within windows; rollout is defined for attention among all tokens") from error
    shapes = {attention.shape for attention, _ in layers}
    shape = next(iter(shapes))
    if len({shape[-2:] for shape in shapes}) > 1 or shape[-1] != shape[-2]:
        raise BadInput("layers attend to different tokens; rollout is defined for self-attention alone")
    return layers


def _on_positions(queries, rolled, token, resize):
    """Return a row of ``(N, tokens, tokens)`` on the positions of the inputs."""
    spatial = queries.inputs.shape[1:-1]
    beside, grid = token_grid(rolled.shape[-1], spatial)
    if token is None:
        token = 0 if beside else MEAN
    if token != MEAN and not -rolled.shape[-1] <= token < rolled.shape[-1]:
        raise BadInput(f"no token {token}; there are {rolled.shape[-1]}")
    row = rolled.mean(axis=1) if token == MEAN else rolled[:, token]
    maps = row[:, beside:].reshape(len(row), *grid)
    return resizing.resize(maps, spatial) if resize else maps


def token_grid(tokens: int, spatial: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return how many tokens stand before the grid, and the grid of patches of the others.

    Parameters
    ----------
    tokens
        Their number.
    spatial
        The input's positions, ``(T,)`` or ``(H, W)``.

    Raises
    ------
    BadInput
        If no square patch gives such a grid.
    """
    for exact in (True, False):  # patches that cover the input come before those that leave a border out
        for beside in range(min(6, tokens)):
            for patch in range(1, max(spatial) + 1):
                grid = tuple(size // patch for size in spatial)
                if np.prod(grid) == tokens - beside and not (exact and any(size % patch for size in spatial)):
                    return beside, grid
    raise BadInput(f"{tokens} tokens are no grid of square patches on an input of {spatial} positions")
