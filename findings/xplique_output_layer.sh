#!/usr/bin/env bash
# Xplique: `output_layer` of its explainers, recommended for the layer before a softmax, has no effect on the map.
#
# Guess: `Saliency(model, output_layer="logits")` of a network that ends in Dense "logits" and Softmax gives the
# gradient of the logit. From its documentation; its source, read before the run, had corrected it.
# Seen with Xplique 2.0.2, TensorFlow 2.20.0 (the newest that it allows) and Keras 3.15.1: the gradient of the
# probability. Each of the ten explainers that take output_layer gives the same map with it as without, bit for bit, and
# another one for `keras.Model(model.input, model.get_layer("logits").output)`.
# A reader without tools answered: the gradient of the logit.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorflow==2.20.0 keras==3.15.1 tf_keras==2.20.1 \
  tensorflow-probability==0.25.0 scikit-image==0.25.2 scikit-learn==1.7.2 scipy==1.15.3 matplotlib==3.10.8 \
  opencv-python-headless==4.12.0.88 deprecated==1.3.1 einops==0.8.2 numpy==2.2.6
# Without what it requires: TensorFlow for a GPU, and an OpenCV with windows.
"$folder/venv/bin/pip" install --quiet --no-deps xplique==2.0.2
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - <<'PYTHON'
import keras
import numpy as np
import tensorflow as tf
import xplique.attributions as attributions

print("TensorFlow", tf.__version__, "keras", keras.__version__, "numpy", np.__version__)
keras.utils.set_random_seed(0)
pictures = keras.Input((8, 8, 3))
hidden = keras.layers.Flatten()(keras.layers.Conv2D(4, 3, activation="relu")(pictures))
logits = keras.layers.Dense(3, name="logits")(hidden)
whole, before = keras.Model(pictures, keras.layers.Softmax()(logits)), keras.Model(pictures, logits)
rows = tf.constant(np.random.RandomState(0).randn(2, 8, 8, 3), "float32")
classes = tf.one_hot([0, 1], 3)


def gradient(network):
    with tf.GradientTape() as tape:
        tape.watch(rows)
        score = tf.reduce_sum(network(rows) * classes)
    return np.abs(tape.gradient(score, rows)).max(-1, keepdims=True)


def explained(name, network, **options):
    tf.random.set_seed(0)  # the same noise each time
    return getattr(attributions, name)(network, **options).explain(rows, classes).numpy()


np.testing.assert_allclose(explained("Saliency", whole, output_layer="logits"), gradient(whole), atol=1e-6)
np.testing.assert_allclose(explained("Saliency", before), gradient(before), atol=1e-6)
gradients = ("Saliency", "GradientInput", "IntegratedGradients", "SmoothGrad", "SquareGrad", "VarGrad")
for name in (*gradients, "GuidedBackprop", "DeconvNet", "GradCAM", "GradCAMPP"):
    maps = explained(name, whole), explained(name, whole, output_layer="logits"), explained(name, before)
    print(name, "maxima: probability, output_layer, logit:", *(f"{one.max():.6f}" for one in maps))
    np.testing.assert_array_equal(maps[0], maps[1])
    assert np.abs(maps[1] - maps[2]).max() > 0.1 * maps[2].max()
PYTHON
