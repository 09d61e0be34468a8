"""Layers are found by what the graph computes, and by the names users know them by."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.graph.layers import Layout


def test_the_default_layer_is_the_activation_of_the_last_convolution(models):
    for kind, scope in (("signal", "conv1d"), ("image", "activation"), ("two_inputs", "conv2d")):
        explain_input = "image" if kind == "two_inputs" else None
        layer = models[kind].layer(explain_input=explain_input)
        assert models[kind].graph.nodes[layer].op == "Relu" and scope in layer
        # Nothing after it is convolutional.
        after = models[kind].graph.below([layer])
        assert not [name for name in after if models[kind].graph.nodes[name].op == "Conv2D"]


def test_a_layer_is_found_by_node_tensor_or_scope(models):
    model = models["signal"]
    node = model.layer()
    component = node.split("/")[-2]
    assert model.layer(node) == model.layer(node + ":0") == model.layer(component) == node
    assert model.layer(model.layers()[0]) == model.layers()[0] != node


def each_alone(x):
    kernel = tf.ones((3, 3, 2, 2))
    return tf.reduce_mean(tf.map_fn(lambda image: tf.nn.conv2d(image[None], kernel, 1, "SAME")[0], x), (1, 2))


@pytest.mark.parametrize(
    ("scores", "shape", "words"),
    [
        (lambda x: tf.matmul(x, tf.ones((3, 2))), (3,), "no convolution"),
        (each_alone, (8, 8, 2), "no convolution outside of a loop"),
    ],
)
def test_a_model_without_convolution_has_no_default_layer(scores, shape, words, from_function):
    with pytest.raises(BadInput, match=words):
        attribution.explain("grad_cam", from_function(scores, *shape), np.zeros((1, *shape), np.float32))


@pytest.mark.parametrize("scope", ["", "network"])
@pytest.mark.parametrize("convolutions", [1, 2])
def test_the_last_convolution_of_a_network_without_scopes_ends_with_its_bias(scope, convolutions, from_function):
    def scores(x):
        with tf.name_scope(scope) if scope else contextlib.nullcontext():
            for number in range(convolutions):
                x = tf.nn.bias_add(tf.nn.conv2d(x, tf.fill((3, 3, 2, 2), 0.1 + number), 1, "SAME"), [0.5, -1.0])
            return tf.reduce_mean(tf.nn.relu(x * tf.abs(x)), [1, 2])

    model = from_function(scores, 6, 6, 2)
    layer = model.layer("last convolution")
    users = [model.graph.nodes[name].op for name in model.graph.consumers[layer]]
    assert model.graph.nodes[layer].op == "BiasAdd" and set(users) == {"Abs", "Mul"}


L = keras.layers


def image_network(build, shape=(12, 12, 3), dtype="float32"):
    image = keras.Input(shape, dtype=dtype, name="image")
    return keras.Model(image, build(image))


def head(x):
    return L.Dense(4, activation="softmax")(L.GlobalAveragePooling2D()(x))


class ClassToken(L.Layer):
    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[-1]), initializer="random_normal")

    def call(self, x):
        token = keras.ops.broadcast_to(self.token, (keras.ops.shape(x)[0], 1, x.shape[-1]))
        return keras.ops.concatenate([token, x, token], axis=1)


def attention_block(x, channels):
    y = L.LayerNormalization()(x)
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(y, y)])
    return L.Add()([x, L.Dense(channels)(L.Dense(10, activation="gelu")(L.LayerNormalization()(x)))])


def patches(image):
    return L.Reshape((16, 8))(L.Conv2D(8, 3, strides=3)(image))


def mobile(image):
    x = L.ReLU(6.0, name="last")(L.BatchNormalization()(L.Conv2D(8, 3, strides=2, use_bias=False)(image)))
    x = L.Conv2D(5, 1)(L.GlobalAveragePooling2D(keepdims=True)(x))
    return L.Softmax()(L.Flatten()(x))


def gated(image):
    x = L.Conv2D(6, 3, activation="swish")(image)
    gate = L.Conv2D(6, 1, activation="sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(x))
    return head(L.Activation("swish", name="last")(L.BatchNormalization()(L.Conv2D(7, 1)(x * gate))))


def branches(image):
    x = L.Conv2D(4, 3, activation="relu")(image)
    return head(
        L.Concatenate(name="last")([L.Conv2D(3, 1, activation="relu")(x), L.Conv2D(5, 1, activation="relu")(x)])
    )


def dense_block(image):
    x = L.Conv2D(4, 3)(image)
    x = L.Concatenate()([x, L.Conv2D(3, 3, padding="same")(L.ReLU()(L.BatchNormalization()(x)))])
    return head(L.ReLU(name="last")(L.BatchNormalization()(x)))


def dilated(image):
    x = L.Conv2D(4, 3, activation="relu")(image)
    return head(L.Conv2D(5, 3, padding="same", dilation_rate=2, activation="relu", name="last")(x))


def vit_with_class_token(image):
    x = attention_block(ClassToken()(ClassToken()(patches(image))), 8)
    x = L.Add(name="last")([x, L.Dense(8)(x)])
    x = L.LayerNormalization()(attention_block(x, 8))
    return L.Dense(4)(x[:, 0])


def mixer(image):
    x = patches(image)
    y = L.Permute((2, 1))(L.Dense(16)(L.Permute((2, 1))(L.LayerNormalization()(x))))
    return L.Dense(4)(L.GlobalAveragePooling1D()(L.Add(name="last")([x, y])))


def group_norm(image):
    x = L.GroupNormalization(2)(L.Conv2D(6, 3)(image))
    return head(L.PReLU(shared_axes=[1, 2], name="last")(x))


def up_and_down(image):
    x = L.MaxPooling2D()(L.Conv2D(4, 3, padding="same", activation="relu")(image))
    x = L.UpSampling2D(interpolation="bilinear")(L.Conv2D(6, 3, padding="same", activation="relu")(x))
    return L.Conv2D(3, 1, activation="softmax")(L.Conv2D(5, 1, activation="relu", name="last")(x))


def windows(image):
    """Attention within windows of 3 x 3, shifted by one (Swin)."""
    x = L.Conv2D(8, 2, strides=2)(image)
    for shift in (0, 1):
        y = keras.ops.roll(x, (-shift, -shift), axis=(1, 2)) if shift else x
        y = keras.ops.transpose(keras.ops.reshape(y, (-1, 2, 3, 2, 3, 8)), (0, 1, 3, 2, 4, 5))
        y = attention_block(keras.ops.reshape(y, (-1, 9, 8)), 8)
        y = keras.ops.transpose(keras.ops.reshape(y, (-1, 2, 2, 3, 3, 8)), (0, 1, 3, 2, 4, 5))
        y = keras.ops.reshape(y, (-1, 6, 6, 8))
        x = keras.ops.roll(y, (shift, shift), axis=(1, 2)) if shift else y
    return L.Dense(4)(L.GlobalAveragePooling2D()(L.LayerNormalization(name="last")(x)))


def windows_left_open(image):
    """The same without normalization at its end, so that the last layer is what puts windows together."""
    x = L.Conv2D(8, 2, strides=2)(image)
    y = keras.ops.transpose(keras.ops.reshape(x, (-1, 2, 3, 2, 3, 8)), (0, 1, 3, 2, 4, 5))
    y = attention_block(keras.ops.reshape(y, (-1, 9, 8)), 8)
    y = keras.ops.transpose(keras.ops.reshape(y, (-1, 2, 2, 3, 3, 8)), (0, 1, 3, 2, 4, 5))
    return L.Dense(4)(L.GlobalAveragePooling2D()(L.Reshape((6, 6, 8), name="last")(y)))


def segmentation_of_scores(image):
    """Scores at each position, without a softmax."""
    return L.Conv2D(3, 1)(L.Conv2D(5, 3, padding="same", activation="relu", name="last")(image))


DEFAULTS = {
    "windows": (windows, (6, 6, 8)),
    "windows_left_open": (windows_left_open, (6, 6, 8)),
    "segmentation_of_scores": (segmentation_of_scores, (12, 12, 5)),
    "mobile": (mobile, (5, 5, 8)),
    "gated": (gated, (10, 10, 7)),
    "branches": (branches, (10, 10, 8)),
    "dense_block": (dense_block, (10, 10, 7)),
    "dilated": (dilated, (10, 10, 5)),
    "vit_with_class_token": (vit_with_class_token, (4, 4, 8)),
    "mixer": (mixer, (4, 4, 8)),
    "group_norm": (group_norm, (10, 10, 6)),
    "up_and_down": (up_and_down, (12, 12, 5)),
}


# What the node's scope does not say, because the default is not the scope's last node or has no scope of its own.
NAMED_BY_SCOPE_ALONE = ("gated", "mixer", "vit_with_class_token")
SEGMENTED = ("up_and_down", "segmentation_of_scores")


@pytest.mark.parametrize("family", DEFAULTS)
def test_the_default_layer_is_the_last_one_ahead_of_pooling_and_head(family, tmp_path):
    """It holds what the Keras layer called "last" does, and nothing else does so later."""
    build, shape = DEFAULTS[family]
    network = image_network(build)
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path, position=(5, 6) if family in SEGMENTED else None)
    x = np.random.default_rng(0).random((3, 12, 12, 3), dtype=np.float32)
    expected = keras.Model(network.inputs, network.get_layer("last").output)(x).numpy()
    seen = {}

    def look(passes):
        seen["values"], seen["gradients"] = passes.layer_gradient(None)
        return passes.inputs

    attribution.explain(look, model, x)
    tokens = expected[:, 2:-2] if family == "vit_with_class_token" else expected
    np.testing.assert_allclose(seen["values"], tokens.reshape(3, *shape), rtol=1e-5, atol=1e-5)
    assert seen["gradients"].shape == (3, *shape) and np.abs(seen["gradients"]).max() > 0
    assert attribution.explain("grad_cam", model, x).shape == (3, 12, 12)
    assert model.layer("last") == model.layer() or family in NAMED_BY_SCOPE_ALONE


def test_windows_across_inputs_are_no_layer(tmp_path):
    """36 positions are no whole number of windows of 8."""

    def build(image):
        x = keras.ops.reshape(L.Conv2D(8, 2, strides=2, name="last")(image), (-1, 8, 8))
        return L.Dense(4)(L.GlobalAveragePooling2D()(keras.ops.reshape(L.Dense(8)(x), (-1, 6, 6, 8))))

    image_network(build).export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    assert model.layer() == model.layer("last")


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """Three convolutions as Keras names them itself, of 4, 5 and 6 channels."""
    path = tmp_path_factory.mktemp("numbered")
    names = ["conv2d", "conv2d_1", "conv2d_2"]
    network = keras.Sequential(
        [keras.Input((12, 12, 3))]
        + [L.Conv2D(4 + i, 3, activation="relu", name=name) for i, name in enumerate(names)]
        + [L.GlobalAveragePooling2D(), L.Dense(3)]
    )
    network.export(path, verbose=False)
    return attribution.load_model(path)


@pytest.mark.parametrize(("name", "channels"), [("conv2d", 4), ("conv2d_1", 5), ("conv2d_2", 6)])
def test_a_name_means_the_keras_layer_of_that_name(name, channels, numbered):
    assert numbered.graph.shape(numbered.layer(name))[-1] == channels
    assert numbered.graph.nodes[numbered.layer(name)].op == "Relu"


def test_a_name_that_no_layer_has_is_answered_with_keras_names(numbered):
    with pytest.raises(BadInput, match=r"no layer 'conv2d_3'; its layers are 'conv2d_2', 'conv2d_1', 'conv2d'$"):
        numbered.layer("conv2d_3")


def test_what_has_no_positions_is_no_layer(tmp_path, numbered):
    node = next(name for name, node in numbered.graph.nodes.items() if node.op == "MatMul")
    with pytest.raises(BadInput, match="has no positions for a map"):
        numbered.layer(node)
    image_network(dilated).export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    inside = [name for name, node in model.graph.nodes.items() if node.op == "Conv2D"][-1]
    assert inside not in model.layers()  # its positions are spread over the batch
    assert model.graph.nodes[model.layer(inside)].op == "BatchToSpaceND"  # where they come together again


def test_time_distributed_layers_come_together_again(tmp_path):
    video = keras.Input((3, 10, 10, 2))
    x = L.TimeDistributed(L.Conv2D(4, 3, activation="relu"))(video)
    x = L.LSTM(4)(L.TimeDistributed(L.GlobalAveragePooling2D())(x))
    keras.Model(video, L.Dense(3)(x)).export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    x = np.random.default_rng(0).random((2, 3, 10, 10, 2), dtype=np.float32)
    assert attribution.explain("grad_cam", model, x, resize=False).shape == (2, 3, 8, 8)
    assert attribution.explain("grad_cam", model, x).shape == (2, 3, 10, 10)


def folded_steps(x):
    """Two halves of a signal in the batch, with other channels than the signal's."""
    return tf.reshape(x, (-1, 2, 8))


def leading_steps(x):
    """Four steps before the batch, as many as there are inputs."""
    return tf.reshape(tf.transpose(tf.reshape(x, (-1, 4, 1, 8)), (1, 0, 2, 3)), (4, -1, 8))


@pytest.mark.parametrize("reshaped", [folded_steps, leading_steps])
@pytest.mark.parametrize("batch_size", [3, 32])
def test_a_layer_whose_first_axis_is_not_the_batch_is_refused(reshaped, batch_size, from_function):
    kernel = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)

    def scores(x):
        values = tf.nn.relu(reshaped(x), name="inner")
        if reshaped is leading_steps:
            values = tf.transpose(values, (1, 0, 2))
        return tf.matmul(tf.reshape(values, (-1, 32)), kernel)

    model = from_function(scores, 8, 4)
    x = np.random.default_rng(1).normal(size=(4, 8, 4)).astype(np.float32)
    with pytest.raises(BadInput, match="its first axis does not count the inputs"):
        attribution.explain("layer_cam", model, x, 0, layer="inner", batch_size=batch_size)


def test_a_layer_that_puts_time_first_is_not_offered(from_function):
    """As recurrent layers of Keras 2 do."""
    kernel = np.random.default_rng(0).normal(size=(8, 4, 3)).astype(np.float32)
    model = from_function(lambda x: tf.reduce_sum(tf.nn.relu(tf.transpose(x, (1, 0, 2)) @ kernel), axis=0), 8, 4)
    assert model.scores(np.ones((2, 8, 4), np.float32)).shape == (2, 3)
    assert not [name for name in model.layers() if model.graph.shape(name)[0] is not None]


def test_scores_of_parts_of_the_inputs_are_refused(from_function):
    """When the file is loaded; for sizes that are not tried there, when it is used."""
    kernel = np.ones((16, 3), np.float32)
    with pytest.raises(BadInput, match="8 rows of scores for 4 inputs"):
        from_function(lambda x: tf.matmul(tf.reshape(x, (-1, 16)), kernel), 8, 4)
    model = from_function(lambda x: tf.matmul(tf.reshape(x, (-1, 10)), kernel[:10]), None)
    x = np.ones((2, 20), np.float32)
    for method in ("gradient", "lrp_epsilon", "deeplift"):
        for batch_size in (1, 2):
            with pytest.raises(BadInput, match=f"{2 * batch_size} rows of scores for {batch_size} inputs"):
                attribution.explain(method, model, x, 0, batch_size=batch_size)


IMAGES = np.random.default_rng(3).normal(0, 0.5, (3, 3, 1, 6)).astype(np.float32)
DENSE = np.random.default_rng(4).normal(size=(6, 3)).astype(np.float32)


CAMS = [
    name for name, method in attribution.METHODS.items() if method.family == "class activation" and not method.library
]
MASKS = ("score_cam", "sise")  # they need scores of masked inputs


def maps_of_dense_head(values, target):
    """Maps of the CAMs whose closed form is simple, where a dense layer follows the mean of ``values``."""
    weights = DENSE[:, target] / np.prod(values.shape[1:-1])
    return {
        "grad_cam": np.maximum(values @ weights, 0),
        "hires_cam": np.maximum(values @ weights, 0),
        "layer_cam": values @ np.maximum(weights, 0),
        "xgrad_cam": np.maximum(values @ weights, 0),
    }


def convolved(images, stride=1):
    return tf.nn.relu(tf.nn.conv2d(images, IMAGES, stride, "SAME"))


def spectrogram(signal):
    return tf.abs(tf.signal.stft(signal, 32, 16))[..., tf.newaxis]


def last_state(video):
    """A picture of all frames, as a recurrent layer of convolutions leaves it."""
    return tf.reduce_sum(video * tf.reshape(tf.range(3.0), (3, 1, 1, 1)), axis=1)


NEW_POSITIONS = {  # a function to pictures, the input's shape, the layer's positions
    "waveform": (spectrogram, (128,), (7, 17)),
    "waveform with channels": (lambda x: spectrogram(x[..., 0]), (128, 1), (7, 17)),
    "last state of a video": (last_state, (3, 8, 8, 1), (8, 8)),
    "image as a vector": (lambda x: tf.reshape(x, (-1, 8, 10, 1)), (80,), (8, 10)),
    "image of frequencies": (lambda x: tf.abs(tf.signal.rfft2d(x[..., 0]))[..., tf.newaxis], (8, 8, 1), (8, 5)),
}


@pytest.mark.parametrize("kind", NEW_POSITIONS)
def test_maps_of_positions_that_begin_inside_have_the_layers_resolution(kind, from_function):
    to_pictures, shape, positions = NEW_POSITIONS[kind]
    model = from_function(lambda x: tf.reduce_mean(convolved(to_pictures(x)), (1, 2)) @ DENSE, *shape)
    x = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    assert model.graph.nodes[model.layer()].op == "Relu"
    target = int(model.scores(x).mean(axis=0).argmax())
    expected = maps_of_dense_head(convolved(to_pictures(x)).numpy(), target)
    for name in set(CAMS) - set(MASKS):
        model.counts.clear()
        found = attribution.explain(name, model, x, target)
        assert found.shape == (4, *positions) and found.max() > 0
        if name in expected:
            assert model.counts == {"backward": 4, "backward_passes": 1}
            np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-6 * expected[name].max())
        others = attribution.explain(name, model, np.concatenate([x[:1], x[:0:-1]]), target, resize=False, batch_size=3)
        np.testing.assert_allclose(others[0], found[0], rtol=1e-3, atol=1e-5 * found.max())


@pytest.mark.parametrize("kind", NEW_POSITIONS)
def test_masks_of_such_a_layer_are_refused_with_the_tensor_to_explain(kind, from_function):
    """Explained from there on, all class activation maps exist, and lie on that tensor's positions."""
    to_pictures, shape, positions = NEW_POSITIONS[kind]
    model = from_function(lambda x: tf.reduce_mean(convolved(to_pictures(x)), (1, 2)) @ DENSE, *shape)
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    for name in (*MASKS, "guided_grad_cam"):
        with pytest.raises(BadInput, match="are no axes of the input and give no mask of it") as refusal:
            attribution.explain(name, model, x, 1)
    begin = str(refusal.value).split("explain_input='")[1].rstrip("'")
    for name in CAMS:
        assert attribution.explain(name, model, x, 1, explain_input=begin).shape == (2, *positions)
    found = attribution.explain("gradient_x_input", model, x, 1, explain_input=begin)
    np.testing.assert_allclose(found.sum(axis=(1, 2, 3)), model.scores(x)[:, 1], rtol=1e-4)


def as_reshaped(x):
    return tf.reshape(x, (-1, *x.shape[1:], 1))


ADDED_CHANNELS = {
    "gray image": (as_reshaped, (8, 10), convolved, (1, 2)),
    "spectrogram": (lambda x: tf.expand_dims(x * 2.0 - 1.0, -1), (8, 10), lambda x: convolved(x, 2), (1, 2)),
    "waveform": (
        lambda x: x[..., tf.newaxis], (24,), lambda x: tf.nn.relu(tf.nn.conv1d(x, IMAGES[0], 2, "SAME")), (1,)
    ),
    "volume": (
        as_reshaped, (4, 6, 6), lambda x: tf.nn.relu(tf.nn.conv3d(x, IMAGES[np.newaxis], [1] * 5, "SAME")), (1, 2, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ADDED_CHANNELS)
def test_maps_have_the_shape_of_an_input_to_which_the_network_adds_channels(kind, from_function):
    with_channels, shape, convolve, axes = ADDED_CHANNELS[kind]
    model = from_function(lambda x: tf.reduce_mean(convolve(with_channels(x)), axes) @ DENSE, *shape)
    twin = from_function(lambda x: tf.reduce_mean(convolve(x), axes) @ DENSE, *shape, 1)
    x = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    values = convolve(with_channels(tf.constant(x))).numpy()
    for name, expected in maps_of_dense_head(values, 1).items():
        found = attribution.explain(name, model, x, 1, resize=False)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * expected.max())
    for name in CAMS:
        assert attribution.explain(name, model, x, 1).shape == x.shape
    if kind == "gray image":  # the same network for images with channels
        for name in [*CAMS, "guided_grad_cam"]:
            found = attribution.explain(name, model, x, 1)
            expected = attribution.explain(name, twin, x[..., np.newaxis], 1).reshape(x.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def conformer(x):
    """Frames of a convolution become tokens with attention and a convolution over time."""
    x = L.Reshape((12, 10, 1))(x)
    x = L.Conv2D(4, 3, strides=2, padding="same", activation="relu", name="front")(x)
    x = L.Dense(8)(L.Reshape((6, 20))(x))
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)])
    y = L.DepthwiseConv1D(3, padding="same", activation="swish")(x)
    return L.Dense(3)(L.GlobalAveragePooling1D()(L.Add(name="last")([x, y])))


def recurrent_images(x):
    x = L.ConvLSTM2D(4, 3, padding="same")(x)
    return L.Dense(3)(L.GlobalAveragePooling2D()(L.Conv2D(6, 3, activation="relu", name="last")(x)))


@pytest.mark.parametrize(
    ("build", "shape", "maps_by_layer"),
    [
        (conformer, (12, 10), {"front": ((6, 5), (12, 10)), "last": ((6,), (6,))}),
        (recurrent_images, (4, 8, 8, 2), {"last": ((6, 6), (6, 6))}),
    ],
)
def test_layers_of_conformers_and_recurrent_images(build, shape, maps_by_layer, tmp_path):
    """Maps at the layer's resolution, and resized where its positions are axes of the input."""
    network = image_network(build, shape)
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    x = np.random.default_rng(0).random((3, *shape), dtype=np.float32)
    for name, (at_layer, resized) in maps_by_layer.items():
        last = keras.Model(network.inputs, [network.get_layer(name).output, network.output])
        with tf.GradientTape() as tape:
            values, scores = last(x)
            score = scores[:, 1]
        gradients, values = tape.gradient(score, values).numpy(), values.numpy()
        weights = gradients.mean(axis=tuple(range(1, values.ndim - 1)), keepdims=True)
        expected = np.maximum((weights * values).sum(axis=-1), 0)
        found = attribution.explain("grad_cam", model, x, 1, layer=name, resize=False)
        assert found.shape == (3, *at_layer)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(values * weights).max())
        assert attribution.explain("grad_cam", model, x, 1, layer=name).shape == (3, *resized)
    assert model.layer() == model.layer(next(iter(maps_by_layer)))


def test_positions_are_followed_through_simulated_quantisation(from_function):
    def quantised(values):
        return tf.quantization.fake_quant_with_min_max_vars(values, -4.0, 4.0)

    def scores(x):
        y = quantised(tf.nn.relu(tf.nn.conv2d(quantised(x), quantised(IMAGES), 1, "SAME")))
        return tf.matmul(tf.reduce_mean(y, (1, 2)), DENSE)

    model = from_function(scores, 8, 8, 1)
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 1)).astype(np.float32)
    assert model.graph.nodes[model.layer()].op == "FakeQuantWithMinMaxVars"
    maps = attribution.explain("layer_cam", model, x, 1)
    y = quantised(tf.nn.relu(tf.nn.conv2d(quantised(x), quantised(IMAGES), 1, "SAME"))).numpy()
    np.testing.assert_allclose(maps, (y * np.maximum(DENSE[:, 1], 0)).sum(-1) / 64, rtol=1e-5)


# Sequences of moves of an image (batch, 4, 6, channels), and whether its positions are known behind them.
MOVES = {
    "tokens": ([("reshape", (-1, 24, 5))], True),
    "tokens and back": ([("reshape", (-1, 24, 5)), ("reshape", (-1, 4, 6, 5))], True),
    "channels first, as tokens": (
        [("transpose", (0, 3, 1, 2)), ("reshape", (-1, 5, 24)), ("transpose", (0, 2, 1))], True,
    ),
    "windows": ([("reshape", (-1, 2, 2, 3, 2, 5)), ("transpose", (0, 1, 3, 2, 4, 5)), ("reshape", (-1, 4, 5))], False),
    "windows that come together": (
        [("roll", (1, 2)), ("reshape", (-1, 2, 2, 3, 2, 5)), ("transpose", (0, 1, 3, 2, 4, 5)), ("reshape", (-1, 4, 5)),
         ("reshape", (-1, 2, 3, 2, 2, 5)), ("transpose", (0, 1, 3, 2, 4, 5)), ("reshape", (-1, 4, 6, 5)),
         ("roll", (-1, -2))], True,
    ),
    "rolled": ([("roll", (1, 0))], False),
    "rows as inputs": ([("reshape", (-1, 6, 5))], False),
    "rows as inputs and back": ([("reshape", (-1, 6, 5)), ("reshape", (-1, 4, 6, 5))], True),
    "columns ahead of rows": ([("transpose", (0, 2, 1, 3))], False),
    "columns ahead of rows, as tokens": ([("transpose", (0, 2, 1, 3)), ("reshape", (-1, 24, 5))], False),
    "channels in heads and back": ([("reshape", (-1, 4, 6, 5, 1)), ("reshape", (-1, 4, 6, 5))], True),
}  # fmt: skip


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("batch", [3, None])
def test_values_are_read_at_their_positions_wherever_they_were_moved(moves, batch):
    image = values = np.arange(3 * 4 * 6 * 5).reshape(3, 4, 6, 5)
    layout, is_known = Layout.of(4), MOVES[moves][1]
    for kind, numbers in MOVES[moves][0]:
        before = [batch, *values.shape[1:]]
        if kind == "reshape":
            values = values.reshape(numbers)
            after = [values.shape[0] if batch else None, *values.shape[1:]]
            layout = layout.reshaped(before, after)
        elif kind == "transpose":
            values, layout = values.transpose(numbers), layout.transposed(numbers)
        else:
            values = np.roll(values, numbers, (1, 2))
            layout = layout.moved(dict(enumerate(numbers, start=1)), before)
        assert layout.fits([None, *values.shape[1:]])
    assert layout.is_readable == is_known
    if is_known:
        np.testing.assert_array_equal(layout.read(values), image)
