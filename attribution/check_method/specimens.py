"""Small networks that methods are tried on: one of signals and one of images, with weights drawn from a seed."""

from __future__ import annotations

import dataclasses
import os
import pathlib

import numpy as np

from attribution.methods.protocols import Inputs, ScoredModel

ROWS = 8  # a multiple of the batch sizes tried, so that no pass is filled up


@dataclasses.dataclass(frozen=True)
class Specimen:
    """A model and inputs to try a method on.

    Attributes
    ----------
    title
        What the inputs are.
    model : attribution.model.model.Model
        The model.
    inputs
        As ``Model.feed`` takes them, ``ROWS`` rows.
    explain_input
        Name of the explained input.
    """

    title: str
    model: ScoredModel
    inputs: Inputs
    explain_input: str


def built_specimens(directory: str | os.PathLike) -> list[Specimen]:
    """Return the two networks, written to a directory; methods find their live Keras networks, too.

    Parameters
    ----------
    directory
        An empty one.
    """
    import keras

    import attribution

    layers = keras.layers
    networks = {
        "signals": keras.Sequential(
            [
                keras.Input((24, 2)),
                layers.Conv1D(6, 5, padding="same", activation="relu"),
                layers.MaxPooling1D(2),
                layers.Conv1D(5, 3, padding="same", activation="relu"),
                layers.Flatten(),
                layers.Dense(4),
            ]
        ),
        "images": keras.Sequential(
            [
                keras.Input((16, 16, 3)),
                layers.Conv2D(6, 3, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
                layers.Conv2D(5, 3, padding="same", activation="relu"),
                layers.Flatten(),
                layers.Dense(4),
            ]
        ),
    }
    generator = np.random.default_rng(0)
    specimens = []
    for title, network in networks.items():
        drawn = [generator.normal(0, 0.3, weight.shape) for weight in network.weights]
        # Positive biases: no channel is dead, so that every class activation map has something to stand on.
        network.set_weights([np.abs(values) if values.ndim == 1 else values for values in drawn])
        path = pathlib.Path(directory) / title
        network.export(path, verbose=False)
        model = attribution.load_model(path, keras_model=network)
        inputs = generator.normal(size=(ROWS, *network.input_shape[1:])).astype(np.float32)
        specimens.append(Specimen(title, model, inputs, model.explained_input()))
    return specimens


def specimen_of(model: ScoredModel, explain_input: str | None = None) -> Specimen:
    """Return a user's own model with random inputs."""
    from attribution.model.inspection import random_feed

    name = model.explained_input(explain_input)
    once = random_feed(model)
    rows = model.batch_size(ROWS)
    generator = np.random.default_rng(0)
    feed = {key: np.repeat(array[:1], rows, axis=0) for key, array in once.items()}
    feed[name] = generator.random(feed[name].shape, dtype=np.float32).astype(feed[name].dtype)
    return Specimen(str(model.path), model, feed, name)
