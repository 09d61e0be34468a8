"""The networks of keras.applications that people use most, at small inputs, with five classes."""

from __future__ import annotations

import keras

from tools.model_zoo.family import keras_family, pictures

# Name in keras.applications, side of the input, whether preprocessing is part of it, what it is made of.
_NETWORKS = (
    ("VGG16", 64, False, dict(piecewise_linear=True)),
    ("ResNet50", 64, False, dict(piecewise_linear=True)),
    ("ResNet50V2", 64, False, dict(piecewise_linear=True)),
    ("InceptionV3", 75, False, dict(piecewise_linear=True)),
    ("Xception", 71, False, dict(piecewise_linear=True)),
    ("DenseNet121", 64, False, dict(piecewise_linear=True)),
    ("MobileNet", 64, False, {}),
    ("MobileNetV2", 64, False, {}),
    ("MobileNetV3Small", 64, True, {}),
    ("EfficientNetB0", 64, True, {}),
    ("EfficientNetV2B0", 64, True, {}),
    ("NASNetMobile", 64, False, dict(piecewise_linear=True)),
    ("ConvNeXtTiny", 64, True, {}),
)


def _family(name, side, preprocesses, options):
    inputs = pictures(side, side, 3, low=0.0, high=255.0) if preprocesses else pictures(side, side, 3)

    def build():
        return getattr(keras.applications, name)(
            weights=None, classes=5, input_shape=(side, side, 3), classifier_activation=None
        )

    return keras_family(name, f"{side}x{side}", build, inputs, quick=False, **options)


FAMILIES = tuple(_family(*network) for network in _NETWORKS)
