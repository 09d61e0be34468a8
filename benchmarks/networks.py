"""The two networks whose explanations are timed; weights are random, because time does not depend on them."""

import collections

import keras


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


# A network, how many images methods of one pass and of many passes explain, and what takes too long.
Network = collections.namedtuple("Network", "build images few without")
NETWORKS = {
    "small-resnet-128": Network(small_resnet, 32, 4, ()),
    # Score-CAM would need 2,048 passes an image.
    "resnet50-224": Network(resnet50, 4, 1, ("Score-CAM",)),
}
