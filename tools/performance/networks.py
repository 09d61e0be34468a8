"""What the measurements share: networks of random weights, one thread, compiled passes, and the file of results."""

import pathlib
import re
import typing

import keras
import tensorflow as tf


def use_one_thread():
    """Restrict TensorFlow to one thread and return its version."""
    keras.utils.disable_interactive_logging()  # tf-explain's occlusion shows Keras's progress bar
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf.__version__


def compiled_gradient(network):
    """Return a compiled function: the gradient of the first score of a live network."""

    @tf.function(reduce_retracing=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = network(x, training=False)[:, 0]
        return tape.gradient(score, x)

    return gradient


def write_part(path: pathlib.Path, text: str) -> None:
    """Replace the part of a file that has the same heading of the first level; append it if there is none."""
    known = re.split(r"(?m)^(?=# )", path.read_text(encoding="utf-8")) if path.exists() else []
    parts = {part.split("\n", 1)[0]: part.strip() for part in known if part.strip()}
    parts[text.split("\n", 1)[0]] = text.strip()
    path.write_text("\n\n".join(parts.values()) + "\n", encoding="utf-8")


def small_resnet():
    """A residual network of 1 million parameters at 128x128, ten classes, logits."""
    keras.utils.set_random_seed(0)
    layers = keras.layers

    def convolution(x, width, size, stride):
        return layers.BatchNormalization()(layers.Conv2D(width, size, stride, padding="same", use_bias=False)(x))

    inputs = keras.Input((128, 128, 3))
    x = layers.ReLU()(convolution(inputs, 32, 5, 2))
    for width, stride in ((32, 1), (64, 2), (128, 2), (160, 2)):
        y = layers.ReLU()(convolution(x, width, 3, stride))
        y = convolution(y, width, 3, 1)
        if stride > 1:
            x = convolution(x, width, 1, stride)
        x = layers.ReLU()(layers.Add()([x, y]))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def resnet50():
    """ResNet-50 (He et al. 2016) at 224x224, 1,000 classes, logits."""
    keras.utils.set_random_seed(0)
    return keras.applications.ResNet50(weights=None, classifier_activation=None)


def efficientnet():
    """EfficientNetB0 (Tan and Le 2019) at 224x224, 1,000 classes, logits."""
    keras.utils.set_random_seed(0)
    return keras.applications.EfficientNetB0(weights=None, classifier_activation=None)


def small_vit():
    """A vision transformer (Dosovitskiy et al. 2021) of 2.8 million parameters at 112x112, 49 tokens, 100 classes."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    image = keras.Input((112, 112, 3))
    x = layers.Reshape((49, 192))(layers.Conv2D(192, 16, 16)(image))
    for _ in range(6):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(3, 64)(y, y)])
        y = layers.Dense(768, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(192)(y)])
    return keras.Model(image, layers.Dense(100)(layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))))


class Work(typing.NamedTuple):
    """How much each method has to do.

    A ratio depends on neither the number of images nor of passes once batches are full, so that a large network gets
    fewer passes an image.
    """

    images: int  # explained by each method
    few: int  # explained by Score-CAM and occlusion
    samples: int  # gradients of SmoothGrad, VarGrad and Integrated Gradients
    masks: int  # of RISE
    patches: int  # of occlusion, along each axis
    relu: int  # which of the network's ReLUs Score-CAM stands on: the first, 0, or the last, -1


class Network(typing.NamedTuple):
    """A network to be timed."""

    build: typing.Callable
    work: Work


NETWORKS = {
    "small-resnet-128": Network(small_resnet, Work(32, few=8, samples=8, masks=32, patches=8, relu=-1)),
    "resnet50-224": Network(resnet50, Work(32, few=4, samples=2, masks=8, patches=4, relu=0)),
}
