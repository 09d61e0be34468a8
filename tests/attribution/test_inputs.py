"""Preprocessings against Keras' own, and what is taken where nobody says."""

import keras
import numpy as np
import pytest

import attribution
from attribution import inputs
from attribution.errors import BadInput

PIXELS = np.random.default_rng(5).integers(0, 256, (2, 4, 5, 3)).astype(np.float32)
KERAS = {
    "caffe": keras.applications.vgg16.preprocess_input,
    "-1..1": keras.applications.mobilenet.preprocess_input,
    "imagenet": keras.applications.densenet.preprocess_input,
    "0..255": keras.applications.efficientnet.preprocess_input,
}


@pytest.mark.parametrize("name", KERAS)
def test_they_are_those_of_keras_applications(name):
    ours = inputs.preprocessing_named(name).apply(PIXELS)
    np.testing.assert_allclose(ours, KERAS[name](PIXELS.copy()), atol=1e-4)
    np.testing.assert_allclose(inputs.preprocessing_named(name).invert(ours), PIXELS, atol=1e-3)


def test_those_of_colours_refuse_grey_pictures():
    for name in ("imagenet", "imagenet-mean", "caffe"):
        with pytest.raises(BadInput, match=f"'{name}' is one of three colours, not of 1 channels; there are '0..1'"):
            inputs.preprocessing_named(name).apply(PIXELS[..., :1])
    assert inputs.preprocessing_named("0..1").apply(PIXELS[..., :1]).max() <= 1


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (keras.layers.Rescaling(1 / 255), "0..255"),
        (keras.layers.Rescaling(1 / 127.5, offset=-1), "0..255"),
        (keras.layers.Normalization(mean=[120.0, 115.0, 100.0], variance=[3400.0, 3300.0, 3200.0]), "0..255"),
        (keras.layers.Rescaling(2.0, offset=-1), "0..1"),
        (keras.layers.Conv2D(3, 1), "0..1"),
        (keras.layers.Normalization(mean=[0.5, 0.4, 0.4], variance=[0.1, 0.1, 0.1]), "0..1"),
    ],
)
def test_a_file_that_scales_pixels_by_itself_is_recognised(first, name, tmp_path):
    network = keras.Sequential(
        [keras.Input((8, 8, 3)), first, keras.layers.Conv2D(2, 3), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    way, reason = inputs.likely_preprocessing(model, model.explained_input())
    assert way.name == name and reason
