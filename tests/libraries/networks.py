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
LAYERS = _CONVOLUTIONS | _DENSE
IMAGES, VECTORS = tuple(_CONVOLUTIONS), tuple(_DENSE)
SHAPES = dict.fromkeys(IMAGES, (12, 12, 3)) | dict.fromkeys(VECTORS, (8,))


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
    """Return a network as a Keras model."""
    import keras

    layers, kinds = keras.layers, LAYERS[name]
    makers = {
        "conv": lambda width: layers.Conv2D(width, 3),
        "norm": lambda _: layers.BatchNormalization(),
        "relu": lambda _: layers.Activation("relu"),
        "max": lambda _: layers.MaxPooling2D(2),
        "average": lambda _: layers.AveragePooling2D(2),
        "flatten": lambda _: layers.Flatten(),
        "global": lambda _: layers.GlobalAveragePooling2D(),
        "dense": layers.Dense,
    }
    x = given = keras.Input(SHAPES[name])
    for number, kind in enumerate(kinds):
        x = makers[kind](4 if number == len(kinds) - 1 else 8)(x)
    return keras.Model(given, x)


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
        np.savez(folder / f"{name}.npz", **given, **weights)
