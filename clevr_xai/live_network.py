"""The live Keras network behind a Relation Network's SavedModel, for methods that ask for ``passes.keras_model``."""

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

    path = model.path
    loaded = model.load_file()  # named, since its variables live no longer than it
    variables = loaded.signatures["serving_default"].variables
    values = {variable_name(variable.name.split(":")[0]): variable for variable in variables}
    widths = [
        values[name].shape[-1] for name in _numbered(values, "relations/g1_question/kernel", "relations/g{}/kernel")
    ]
    head = [values[name].shape[-1] for name in _numbered(values, "f/f1/kernel", "f/f{}/kernel")]
    unlike = BadInput(
        f"this method needs the live Keras network behind '{path}', which is no Relation Network as "
        "scripts/train_relation_network.py exports it; none is known for other networks of CLEVR-XAI"
    )
    if not widths or not head or "convolutions/conv1/kernel" not in values:
        raise unlike
    channels = int(values["convolutions/conv1/kernel"].shape[-1])
    live = relation_network.build(widths, head, channels, network.size)
    shapes = {variable_name(weight.path): tuple(weight.shape) for weight in live.weights}
    if {name: tuple(value.shape) for name, value in values.items()} != shapes:
        raise unlike
    live.set_weights([values[variable_name(weight.path)].numpy() for weight in live.weights])
    images = np.random.default_rng(0).integers(0, 256, (len(_SAMPLE), network.size, network.size, 3), np.uint8)
    third_party.take(model, live, network.inputs(images, _SAMPLE))


def variable_name(path: str) -> str:
    """Return a variable's name without the number that Keras gives a layer built for the second time in a process."""
    return re.sub(r"_\d+(?=/recurrent)", "", path)


def _numbered(values, first: str, pattern: str) -> list[str]:
    """Return the names of a chain of layers, from the first on, as far as they exist."""
    names = [first] if first in values else []
    while names and pattern.format(len(names) + 1) in values:
        names.append(pattern.format(len(names) + 1))
    return names
