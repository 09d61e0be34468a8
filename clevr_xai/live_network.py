"""The live Keras network behind a Relation Network's SavedModel, for methods that use ``passes.keras_model``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from attribution.errors import BadInput

if TYPE_CHECKING:
    from attribution.methods.protocols import ScoredModel
    from clevr_xai.answering import Answering

_SAMPLE = ["what color is the large cube ?", "is there a small metal thing ?"]


def attach_live_network(model: ScoredModel, network: Answering) -> None:
    """Give a model the live network it was exported from, of two inputs, ``image`` and ``question``.

    Parameters
    ----------
    model : attribution.model.model.Model
        Of ``relation_network``'s architecture, of any width.
    network
        What knows its words: the network of which this is the model, or one with the same weights in other places.

    Raises
    ------
    BadInput
        If it is of another architecture, or gives other logits than the live one.
    """
    from attribution.methods import third_party
    from clevr_xai import relation_network

    loaded = model.load_file()  # a variable, since its variables live no longer than it
    variables = loaded.signatures["serving_default"].variables
    values = {variable_name(variable.name.split(":")[0]): variable for variable in variables}
    widths = _widths(values, "relations/g1_question/kernel", "relations/g{}/kernel")
    head = _widths(values, "f/f1/kernel", "f/f{}/kernel")
    channels = _widths(values, "convolutions/conv1/kernel", "")
    live = relation_network.build(widths, head, channels[0], network.size) if widths and head and channels else None
    if live is None or _shapes(values) != {variable_name(weight.path): tuple(weight.shape) for weight in live.weights}:
        raise BadInput(
            f"this method needs the live Keras network behind '{model.path}', which is not a Relation Network exported "
            "by scripts/train_relation_network.py; no other network of CLEVR-XAI has one"
        )
    live.set_weights([values[variable_name(weight.path)].numpy() for weight in live.weights])
    images = np.random.default_rng(0).integers(0, 256, (len(_SAMPLE), network.size, network.size, 3), np.uint8)
    third_party.take(model, live, network.inputs(images, _SAMPLE))


def variable_name(path: str) -> str:
    """Return a variable's name without the number that Keras gives a layer built for the second time in a process."""
    return re.sub(r"_\d+(?=/recurrent)", "", path)


def _shapes(values) -> dict[str, tuple]:
    return {name: tuple(value.shape) for name, value in values.items()}


def _widths(values, first: str, pattern: str) -> list[int]:
    """Return the last axis of the kernels of a chain of layers, from the first on, as far as they exist."""
    found, name = [], first
    while name in values:
        found.append(int(values[name].shape[-1]))
        name = pattern.format(len(found) + 1)
    return found
