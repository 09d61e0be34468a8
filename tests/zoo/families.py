"""All families of the zoo, by name; those of keras.applications that people use most, at small inputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import keras

from zoo import convolutional, inputs_and_outputs, transformers
from zoo.family import Family, keras_family, pictures

_LINEAR = {"piecewise_linear": True}
# Name in keras.applications, side of the input, whether preprocessing is part of it, what it is made of.
_NETWORKS = (
    ("VGG16", 64, False, _LINEAR), ("ResNet50", 64, False, _LINEAR), ("ResNet50V2", 64, False, _LINEAR),
    ("InceptionV3", 75, False, _LINEAR), ("Xception", 71, False, _LINEAR), ("DenseNet121", 64, False, _LINEAR),
    ("MobileNet", 64, False, {}), ("MobileNetV2", 64, False, {}), ("MobileNetV3Small", 64, True, {}),
    ("EfficientNetB0", 64, True, {}), ("EfficientNetV2B0", 64, True, {}), ("NASNetMobile", 64, False, _LINEAR),
    ("ConvNeXtTiny", 64, True, {}),
)  # fmt: skip


def _family(name, side, preprocesses, options):
    shape = side, side, 3
    inputs = pictures(*shape, low=0.0, high=255.0) if preprocesses else pictures(*shape)

    def build():
        make = getattr(keras.applications, name)
        return make(weights=None, classes=5, input_shape=shape, classifier_activation=None)

    def build_in_double():
        return keras.models.clone_model(build(), clone_function=_with_gradient_in_double)

    write = {"build_in_double": build_in_double} if name.startswith("ConvNeXt") else {}
    return keras_family(name, f"{side}x{side}", build, inputs, quick=False, **write, **options)


def _with_gradient_in_double(layer):
    """Return a copy of a layer; a convolution with one channel a group becomes a depthwise one.

    TensorFlow has no gradient of grouped convolutions in float64. The kernels have the same numbers in the same order.
    """
    config = layer.get_config()
    if isinstance(layer, keras.layers.Conv2D) and layer.groups == layer.filters > 1:
        kept = ("name", "dtype", "kernel_size", "strides", "padding", "use_bias", "activation")
        return keras.layers.DepthwiseConv2D(**{name: config[name] for name in kept})
    return type(layer).from_config(config)


APPLICATIONS = tuple(_family(*network) for network in _NETWORKS)
GROUPS: Mapping[str, tuple[Family, ...]] = MappingProxyType(
    {
        "keras.applications": APPLICATIONS,
        "Convolutions": convolutional.FAMILIES,
        "Transformers and mixers": transformers.FAMILIES,
        "Recurrent": transformers.RECURRENT,
        "Inputs, outputs, number formats": inputs_and_outputs.FAMILIES,
        "Other files": inputs_and_outputs.OTHER_FILES,
    }
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for families in GROUPS.values() for family in families}
)
