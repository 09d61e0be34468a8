"""What the measurements share: networks of random weights, one thread, compiled passes, and the file of results."""

import pathlib
import re
import time
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


def seconds_of(run, *arguments):
    """Return a call's CPU time."""
    start = time.process_time()
    run(*arguments)
    return time.process_time() - start


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
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)), name="small_resnet")


def resnet50():
    """ResNet-50 (He et al. 2016) at 224x224, 1,000 classes, logits."""
    keras.utils.set_random_seed(0)
    return keras.applications.ResNet50(weights=None, classifier_activation=None)


def efficientnet():
    """EfficientNetB0 (Tan and Le 2019) at 224x224, 1,000 classes, logits."""
    keras.utils.set_random_seed(0)
    return keras.applications.EfficientNetB0(weights=None, classifier_activation=None)


def small_vit(side=112, blocks=6, classes=100, name="small_vit"):
    """A vision transformer (Dosovitskiy et al. 2021), mean over tokens; 2.8 million parameters, 49 tokens, logits."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    image = keras.Input((side, side, 3))
    x = layers.Reshape(((side // 16) ** 2, 192))(layers.Conv2D(192, 16, 16)(image))
    for _ in range(blocks):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(3, 64)(y, y)])
        y = layers.Dense(768, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(192)(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.Dense(classes)(x), name=name)


def vit_tiny():
    """The blocks of ViT-Ti/16 at 224x224: 5.7 million parameters, 196 tokens, 1,000 classes."""
    return small_vit(224, 12, 1000, "vit_tiny")


def cnn1d():
    """The architecture of saved_models/svea/baseline, logits: signals of 40 values, ten classes."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    inputs = x = keras.Input((40, 1))
    for width in (5, 3, 3):
        x = layers.ReLU()(layers.Conv1D(25, width, padding="same")(x))
    return keras.Model(inputs, layers.Dense(10)(layers.Flatten()(x)), name="cnn1d")


def lstm():
    """A recurrent network of 32 units over 40 steps of 8 values, ten classes, logits."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((40, 8))
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.LSTM(32)(inputs)), name="lstm")


class Work(typing.NamedTuple):
    """How much each method has to do; few passes an input for a large network, because ratios hardly depend on it."""

    images: int  # explained by each method
    few: int  # explained by Score-CAM and occlusion
    samples: int  # gradients of SmoothGrad, VarGrad, Integrated Gradients and Expected Gradients
    masks: int  # of RISE
    patches: int  # of occlusion, along each axis
    relu: int = 0  # the ReLU whose channels Score-CAM takes: the first, 0, or the last, -1
    skip: tuple = ()  # methods that do not fit the network, or equal another one on it
    same_weights: bool = False  # in PyTorch; other networks pad otherwise there, or have other layers


NO_RELU = ("Guided Backprop", "Score-CAM")
NO_CONVOLUTION = (*NO_RELU, "Grad-CAM", "Grad-CAM++")
NETWORKS = {  # by name, how it is built and what is timed
    "cnn1d-40": (cnn1d, Work(64, few=64, samples=8, masks=32, patches=8, relu=-1, same_weights=True)),
    "small-resnet-128": (small_resnet, Work(16, few=4, samples=8, masks=32, patches=8, relu=-1)),
    "resnet50-224": (resnet50, Work(4, few=1, samples=2, masks=8, patches=4, same_weights=True)),
    "efficientnetb0-224": (efficientnet, Work(4, few=4, samples=2, masks=4, patches=2, skip=NO_RELU)),
    "vit-tiny-224": (vit_tiny, Work(4, few=4, samples=2, masks=4, patches=2, skip=NO_CONVOLUTION)),
}
