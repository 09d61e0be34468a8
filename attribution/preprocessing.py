"""Named conversions between pixels and the inputs of a model.

A SavedModel does not record how its inputs were scaled, and the wrong scale gives wrong maps. The scale has a name
here, is printed where it was chosen for the user, and is never part of a method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from attribution.errors import BadInput, listed
from attribution.methods.protocols import ScoredModel


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """``values = (pixels - mean) / scale`` of pixels in [0, 255], channel by channel.

    Attributes
    ----------
    name
        As typed on a command line.
    about
        Which networks are trained so.
    mean, scale
        One number, or one for each of three channels in the order of the pixels (red, green, blue).
    reverses
        Whether the channels come in the order blue, green, red.
    """

    name: str
    about: str
    mean: float | tuple[float, float, float] = 0.0
    scale: float | tuple[float, float, float] = 1.0
    reverses: bool = False

    def apply(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels ``(..., C)`` in [0, 255] as the model takes them, float32.

        Raises
        ------
        BadInput
            If the scale is one of colours and there are not three channels.
        """
        self._check(pixels.shape[-1])
        values = (pixels.astype(np.float32) - np.asarray(self.mean, np.float32)) / np.asarray(self.scale, np.float32)
        return np.ascontiguousarray(values[..., ::-1]) if self.reverses else values

    def invert(self, values: np.ndarray) -> np.ndarray:
        """Return model inputs ``(..., C)`` as pixels in [0, 255], float32."""
        self._check(values.shape[-1])
        if self.reverses:
            values = values[..., ::-1]
        pixels = values * np.asarray(self.scale, np.float32) + np.asarray(self.mean, np.float32)
        return np.asarray(np.clip(pixels, 0, 255))

    def _check(self, channels: int) -> None:
        of_colours = isinstance(self.mean, tuple) or isinstance(self.scale, tuple) or self.reverses
        if of_colours and channels != 3:
            raise BadInput(
                f"preprocessing '{self.name}' is one of three colours, not of {channels} channels; "
                f"there are {listed(name for name in PREPROCESSINGS if name[0] in '-0')}"
            )


PREPROCESSINGS: Mapping[str, Preprocessing] = MappingProxyType(
    {
        each.name: each
        for each in (
            Preprocessing("0..1", "most custom networks; CLEVR-XAI's Relation Network", scale=255.0),
            Preprocessing("-1..1", "MobileNet, Inception, Xception, NASNet, ResNetV2, ViT", mean=127.5, scale=127.5),
            Preprocessing("0..255", "networks that scale by themselves: EfficientNet, ConvNeXt, MobileNetV3 of Keras"),
            Preprocessing(
                "imagenet",
                "DenseNet of Keras, networks from PyTorch: [0, 1], then minus ImageNet's mean, by its deviation",
                mean=(123.675, 116.28, 103.53),
                scale=(58.395, 57.12, 57.375),
            ),
            Preprocessing(
                "imagenet-mean", "BIM's networks: minus ImageNet's mean colour", mean=(123.68, 116.78, 103.94)
            ),
            Preprocessing(
                "caffe",
                "VGG, ResNet of Keras: blue, green, red, minus ImageNet's mean colour",
                mean=(123.68, 116.779, 103.939),
                reverses=True,
            ),
        )
    }
)


def preprocessing_named(name: str) -> Preprocessing:
    """Return the preprocessing of a name.

    Raises
    ------
    BadInput
        If there is none.
    """
    if name not in PREPROCESSINGS:
        raise BadInput(f"no preprocessing '{name}'; there are {listed(PREPROCESSINGS)}")
    return PREPROCESSINGS[name]


# Operations that scale or centre pixels, and which magnitudes of their constant say that it is meant for pixels.
_SCALES_PIXELS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "Mul": lambda value: value < 0.1,
    "RealDiv": lambda value: value > 10,
    "Sub": lambda value: value > 10,
}


def likely_preprocessing(model: ScoredModel, explain_input: str) -> tuple[Preprocessing, str]:
    """Return the scale that a model most likely takes, and why, where its user does not say.

    A file whose first step is to scale its input by something like 1/255, or to subtract a mean of pixels, takes
    pixels in [0, 255]. About any other nothing is known, and [0, 1] is taken.

    Parameters
    ----------
    model : attribution.model.model.Model
        The model.
    explain_input
        Name of its input.
    """
    graph, name = model.graph, model.input_node(explain_input)
    if not model.inputs[explain_input].dtype.is_floating:
        return PREPROCESSINGS["0..255"], f"the input is of type {model.inputs[explain_input].dtype.name}"
    while len(following := graph.uses(name)) == 1 and graph.nodes[following[0]].op in ("Identity", "Cast"):
        name = following[0]
    for step in following:
        node = graph.nodes[step]
        others = {entry.split(":")[0] for entry in node.input} - {name}
        if node.op not in _SCALES_PIXELS or len(others) != 1:
            continue
        value = np.abs(graph.constant_values(list(others)).get(*others, np.zeros(0)))
        if value.size and _SCALES_PIXELS[node.op](value).all():
            return PREPROCESSINGS["0..255"], "the model scales pixels by itself"
    return PREPROCESSINGS["0..1"], "the file does not say how its inputs were scaled"
