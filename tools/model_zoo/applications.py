"""The networks of keras.applications that people use most, at small inputs, with five classes."""

from __future__ import annotations

import keras

from tools.model_zoo.family import keras_family, pictures

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

    return keras_family(name, f"{side}x{side}", build, inputs, quick=False, **options)


FAMILIES = tuple(_family(*network) for network in _NETWORKS)
