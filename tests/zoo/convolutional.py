"""Convolutional networks in blocks of our own, one peculiarity each."""

from __future__ import annotations

import functools

import keras

from zoo.family import keras_family, linear_family, pictures

layers = keras.layers
_IMAGE = (16, 16, 3)


def normalized(x, width, size=3, **options):
    """Convolution and batch normalization."""
    return layers.BatchNormalization()(layers.Conv2D(width, size, padding="same", use_bias=False, **options)(x))


def classifier(inputs, x, classes=5, **options):
    """Mean over positions and the last layer."""
    x = layers.GlobalAveragePooling2D()(x) if len(x.shape) == 4 else x
    return keras.Model(inputs, layers.Dense(classes, **options)(x))


def residual(x, width, stride=1):
    """A residual block of two convolutions (He et al. 2016)."""
    shortcut = normalized(x, width, 1, strides=stride)
    y = layers.Activation("relu")(normalized(x, width, strides=stride))
    return layers.Activation("relu")(layers.Add()([normalized(y, width), shortcut]))


def residual_network():
    """Two residual blocks."""
    inputs = keras.Input(_IMAGE)
    x = layers.Activation("relu")(normalized(inputs, 8))
    return classifier(inputs, residual(residual(x, 8, 2), 12, 2))


def with_block(block):
    """Return the builder of a network around a block of (tensor) that has 8 channels at its beginning."""

    def build():
        inputs = keras.Input(_IMAGE)
        x = layers.ReLU()(normalized(inputs, 8))
        return classifier(inputs, block(x))

    return build


def bias_free():
    """Convolutions, ReLUs and pooling without any bias."""
    inputs = keras.Input(_IMAGE)
    x = inputs
    for width in (8, 12, 16):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return classifier(inputs, x, use_bias=False)


def pre_activation(x):
    """Normalization ahead of activations: it cannot be folded into the layer below (He et al. 2016b)."""
    for _ in range(2):
        y = layers.ReLU()(layers.BatchNormalization()(x))
        y = layers.Conv2D(8, 3, padding="same")(y)
        x = layers.Add()([x, y])
    return layers.ReLU()(layers.BatchNormalization()(x))


def dense_block(x):
    """Each layer sees all before it (DenseNet)."""
    for _ in range(3):
        y = layers.Conv2D(4, 3, padding="same", use_bias=False)(layers.ReLU()(layers.BatchNormalization()(x)))
        x = layers.Concatenate()([x, y])
    return layers.ReLU()(layers.BatchNormalization()(x))


def squeeze_and_excitation(x):
    """Channels are scaled by gates (SENet)."""
    y = layers.ReLU()(normalized(x, 12, strides=2))
    gate = layers.Dense(4, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(y))
    return layers.Multiply()([y, layers.Dense(12, activation="sigmoid")(gate)])


def inverted_residual(x, activation="silu"):
    """A mobile block: expansion, depthwise convolution, gates, projection (MobileNetV2, EfficientNet)."""
    y = layers.Activation(activation)(normalized(x, 24, 1))
    y = layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(y))
    y = layers.Activation(activation)(y)
    gate = layers.Dense(6, activation=activation)(layers.GlobalAveragePooling2D(keepdims=True)(y))
    y = layers.Multiply()([y, layers.Dense(24, activation="sigmoid")(gate)])
    return layers.Activation(activation)(normalized(layers.Add()([x, normalized(y, 8, 1)]), 16, 1))


def group_normalized(x):
    """Group normalization in place of batch normalization."""
    y = layers.GroupNormalization(4)(layers.Conv2D(12, 3, padding="same")(x))
    return layers.ReLU()(
        layers.GroupNormalization(3)(layers.Conv2D(12, 3, strides=2, padding="same")(layers.ReLU()(y)))
    )


def rms_normalized(x):
    """Root mean square normalization."""
    y = layers.RMSNormalization()(layers.Conv2D(12, 3, padding="same")(x))
    return layers.ReLU()(layers.Conv2D(12, 3, strides=2, padding="same")(y))


def convnext_block(x):
    """Depthwise 7x7, layer normalization, GELU, residual sum (ConvNeXt), here with a grouped convolution."""
    y = layers.LayerNormalization()(layers.Conv2D(8, 7, padding="same", groups=8)(x))
    return layers.Add()([x, layers.Dense(8)(layers.Dense(32, activation="gelu")(y))])


def unit(layer, **options):
    """Return a block of a layer of 3x3 positions between two convolutions."""

    def block(x):
        return layers.ReLU()(normalized(layer(8, 3, padding="same", activation="relu", **options)(x), 10))

    return block


def activation(layer, *arguments, **options):
    """Return a block whose second activation is this layer."""

    def block(x):
        return layer(*arguments, **options)(normalized(x, 10))

    return block


def u_net(interpolation):
    """Down and up again with a skip connection."""

    def block(x):
        low = layers.ReLU()(normalized(x, 12, strides=2))
        up = layers.UpSampling2D(2, interpolation=interpolation)(low)
        return layers.ReLU()(normalized(layers.Concatenate()([x, up]), 8))

    return block


def strided_transpose(x):
    """A transposed convolution upwards."""
    low = layers.ReLU()(normalized(x, 12, strides=2))
    return layers.ReLU()(layers.Conv2DTranspose(8, 3, strides=2, padding="same")(low))


def max_pooled():
    """Global max pooling ahead of the classifier."""
    inputs = keras.Input(_IMAGE)
    x = layers.ReLU()(normalized(layers.ReLU()(normalized(inputs, 8)), 12, strides=2))
    return classifier(inputs, layers.GlobalMaxPooling2D()(x))


def convolutional_head():
    """The classifier is a 1x1 convolution after pooling (MobileNet)."""
    inputs = keras.Input(_IMAGE)
    x = layers.ReLU(6.0)(normalized(layers.ReLU(6.0)(normalized(inputs, 8)), 12, strides=2))
    x = layers.Conv2D(5, 1)(layers.GlobalAveragePooling2D(keepdims=True)(x))
    return keras.Model(inputs, layers.Activation("softmax")(layers.Flatten()(x)))


def volumes():
    """3-D convolutions and pooling."""
    inputs = keras.Input((8, 8, 8, 2))
    x = layers.MaxPooling3D()(layers.Conv3D(6, 3, padding="same", activation="relu")(inputs))
    x = layers.BatchNormalization()(layers.Conv3D(8, 3, padding="same", use_bias=False)(x))
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling3D()(layers.ReLU()(x))))


def signals():
    """A 1-D residual network."""
    inputs = keras.Input((32, 2))
    x = layers.Conv1D(8, 5, padding="same", activation="relu")(inputs)
    for width in (8, 12):
        shortcut = layers.BatchNormalization()(layers.Conv1D(width, 1, strides=2, use_bias=False)(x))
        y = layers.BatchNormalization()(layers.Conv1D(width, 3, strides=2, padding="same", use_bias=False)(x))
        y = layers.BatchNormalization()(layers.Conv1D(width, 3, padding="same", use_bias=False)(layers.ReLU()(y)))
        x = layers.ReLU()(layers.Add()([y, shortcut]))
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


_hard_swish = functools.partial(inverted_residual, activation="hard_silu")
FAMILIES = (
    linear_family("residual", "ResNet block", residual_network),
    linear_family("bias_free", "convolutions without biases", bias_free, bias=0.0, conserving=True),
    linear_family("signal_residual", "1-D ResNet", signals, pictures(32, 2)),
    linear_family("pre_activation", "ResNetV2 block", with_block(pre_activation)),
    linear_family("dense_block", "DenseNet block", with_block(dense_block)),
    keras_family("squeeze_excitation", "SE block", with_block(squeeze_and_excitation)),
    keras_family("inverted_residual", "EfficientNet block (swish, SE)", with_block(inverted_residual)),
    keras_family("inverted_hard_swish", "MobileNetV3 block (hard swish)", with_block(_hard_swish)),
    keras_family("convnext_block", "ConvNeXt block (grouped, LayerNorm, GELU)", with_block(convnext_block)),
    keras_family("group_norm", "GroupNorm", with_block(group_normalized)),
    keras_family("rms_norm", "RMSNorm", with_block(rms_normalized)),
    linear_family("prelu", "PReLU", with_block(activation(layers.PReLU, shared_axes=(1, 2)))),
    linear_family("leaky_relu", "LeakyReLU", with_block(activation(layers.LeakyReLU))),
    keras_family("relu6", "Relu6", with_block(activation(layers.ReLU, 6.0))),
    keras_family("elu", "ELU", with_block(activation(layers.ELU))),
    *(keras_family(name, title, with_block(activation(layers.Activation, name)))
      for name, title in (("gelu", "GELU"), ("tanh", "tanh"), ("softplus", "softplus"))),
    linear_family("dilated", "dilated convolution", with_block(unit(layers.Conv2D, dilation_rate=2))),
    linear_family("grouped", "grouped convolution (ResNeXt)", with_block(unit(layers.Conv2D, groups=4))),
    linear_family("depthwise", "separable convolution (Xception)", with_block(unit(layers.SeparableConv2D))),
    linear_family("transposed", "transposed convolution", with_block(strided_transpose)),
    linear_family("u_net_bilinear", "U-Net, bilinear", with_block(u_net("bilinear"))),
    linear_family("u_net_nearest", "U-Net, nearest", with_block(u_net("nearest"))),
    linear_family("global_max", "global max pooling", max_pooled),
    keras_family("convolutional_head", "1x1 convolution as classifier, softmax", convolutional_head,
                 score="probabilities"),
    linear_family("volume", "Conv3D", volumes, pictures(8, 8, 8, 2)),
)  # fmt: skip
