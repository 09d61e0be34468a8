"""The small networks on which every library is compared with its preset, and the way their weights reach PyTorch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

ROWS = 4
_CONVOLUTIONS = {
    "pooled": ["conv", "relu", "max", "conv", "relu", "flatten", "dense"],
    "averaged": ["conv", "relu", "average", "conv", "relu", "global", "dense", "relu", "dense"],
    "normalized": ["conv", "norm", "relu", "max", "conv", "norm", "relu", "global", "dense"],
}
_DENSE = {"shallow": ["dense", "relu", "dense"], "perceptron": ["dense", "relu", "dense", "relu", "dense"]}
_DENSE["deep"] = ["dense", "relu", *_DENSE["perceptron"]]
_TOKENS = {  # transformers
    "attending": ["attention", "mean", "dense"],
    "repeating": ["layer_norm", "attention", "relu", "attention", "mean", "dense", "relu", "dense"],
    "encoding": ["layer_norm", "attention", "layer_norm", "dense", "gelu", "dense", "mean", "dense"],
    "gating": ["gates", "attention", "layer_norm", "gates", "mean", "dense", "relu", "dense"],
}
LAYERS = _CONVOLUTIONS | _DENSE | _TOKENS
IMAGES, VECTORS, TOKENS = tuple(_CONVOLUTIONS), tuple(_DENSE), tuple(_TOKENS)
SHAPES = dict.fromkeys(IMAGES, (12, 12, 3)) | dict.fromkeys(VECTORS, (8,)) | dict.fromkeys(TOKENS, (6, 8))


def build() -> dict[str, Any]:
    """Return the networks as Keras models, with random weights and statistics."""
    generator = np.random.default_rng(0)
    networks = {}
    for name in LAYERS:
        network = networks[name] = architecture(name)
        for variable in network.weights:
            values = generator.normal(0, 0.4, variable.shape)
            variable.assign(abs(values) + 0.5 if "variance" in variable.path else values)
    return networks


def architecture(name: str) -> Any:
    """Return a network as a Keras model, of Keras 2 or 3."""
    import keras

    kinds = LAYERS[name]
    x = given = keras.Input(SHAPES[name])
    for number, kind in enumerate(kinds):
        x = _applied(keras, kind, 4 if number == len(kinds) - 1 else 8, x)
    return keras.Model(given, x)


def _applied(keras: Any, kind: str, width: int, x: Any) -> Any:
    layers = keras.layers
    if kind == "attention":
        query, key, value = keras.ops.split(layers.Dense(3 * width)(x), 3, axis=-1)
        shares = keras.ops.softmax(query @ keras.ops.swapaxes(key, 1, 2) / width**0.5)
        return x + layers.Dense(width)(shares @ value)
    if kind == "gates":
        gate, value = keras.ops.split(layers.Dense(2 * width)(x), 2, axis=-1)
        return x + layers.Dense(width)(keras.ops.silu(gate) * value)
    makers = {
        "conv": lambda: layers.Conv2D(8, 3),
        "norm": layers.BatchNormalization,
        "relu": lambda: layers.Activation("relu"),
        "max": lambda: layers.MaxPooling2D(2),
        "average": lambda: layers.AveragePooling2D(2),
        "flatten": layers.Flatten,
        "global": layers.GlobalAveragePooling2D,
        "dense": lambda: layers.Dense(width),
        "layer_norm": layers.LayerNormalization,
        "gelu": lambda: layers.Activation("gelu"),
        "mean": layers.GlobalAveragePooling1D,
    }
    return makers[kind]()(x)


def inputs(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a network's inputs ``(4, ...)`` in [0, 1], their targets, and ten references, float32 and int64."""
    generator = np.random.default_rng(1)
    x = generator.random((ROWS, *SHAPES[name]), dtype=np.float32)
    return x, np.arange(ROWS), generator.random((10, *SHAPES[name]), dtype=np.float32)


def write(folder: Any, networks: dict[str, Any]) -> None:
    """Write each network as a SavedModel, and its layers, weights and inputs as ``NAME.npz`` for the libraries."""
    for name, network in networks.items():
        network.export(folder / name, verbose=False)
        x, targets, references = inputs(name)
        weights = {f"weight_{number:02}": weight for number, weight in enumerate(network.get_weights())}
        given = {"x": x, "targets": targets, "references": references, "layers": json.dumps(LAYERS[name]), "name": name}
        rise = [(one.random((8, 8)) < 0.5, one.integers(0, 2), one.integers(0, 2)) for one in _generators("rise", 1000)]
        cells, *offsets = map(np.array, zip(*rise, strict=True))
        given |= {"kept": _kept(4999, 36), "kept_of_few": _kept(999, 9)}
        given |= {"rise_cells": cells, "rise_offsets": np.stack(offsets, axis=1)}
        np.savez(folder / f"{name}.npz", **given, **weights)


def _kept(samples: int, groups: int) -> np.ndarray:
    """Return the groups that ``lime`` keeps, ``(ROWS, samples, groups)`` of 0 and 1."""
    return np.stack([one.random((samples, groups)) < 0.5 for one in _generators("lime", ROWS)]).astype(int)


def _generators(method: str, count: int) -> list[np.random.Generator]:
    """Return the first generators of a method of this project."""
    from attribution.model.batching import generator

    return [generator(0, number, method) for number in range(count)]
