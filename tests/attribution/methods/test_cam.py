"""Class activation maps against straightforward one-image oracles on the live Keras model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution

CAMS = [
    "grad_cam", "grad_cam_plus_plus", "layer_cam", "hires_cam", "eigen_cam", "ablation_cam", "xgrad_cam", "score_cam",
    "score_cam_constant_masks", "sise",
]  # fmt: skip


def layer_of(model):
    kinds = (keras.layers.Activation, keras.layers.Conv1D)
    return [layer for layer in model.layers if isinstance(layer, kinds)][-1]


@pytest.fixture(scope="module")
def activations(live, inputs):
    """By kind of model: each input's activations and the gradient of its target score, from the live model."""
    found = {}
    for kind in ("signal", "image"):
        model = live[kind]
        both = keras.Model(model.inputs, [layer_of(model).output, model.outputs[0]])
        targets = np.arange(7) % model.output_shape[-1]

        @tf.function
        def run(x, both=both, targets=targets):
            with tf.GradientTape() as tape:
                values, scores = both(x)
                score = tf.gather(scores, targets, batch_dims=1)
            return values, tape.gradient(score, values)

        values, gradients = run(inputs[kind])
        found[kind] = values.numpy().astype(float), gradients.numpy().astype(float)
    return found


def upsampled(channel, shape):
    image = channel.reshape(channel.shape if channel.ndim == 2 else (1, -1))
    size = shape if len(shape) == 2 else (1, *shape)
    return tf.image.resize(image[..., np.newaxis].astype(np.float32), size).numpy().reshape(shape)


def expected_map(method, model, x, target, values, gradients):
    axes = tuple(range(values.ndim - 1))
    spatial = x.shape[:-1]

    def mask_of(channel):
        mask = upsampled(values[..., channel], spatial)
        return (mask - mask.min()) / (mask.max() - mask.min())

    def masked_scores(masks):
        return model((x * np.stack(masks)[..., np.newaxis]).astype(np.float32)).numpy()[:, target].astype(float)

    channels = range(values.shape[-1])
    live = [c for c in channels if values[..., c].max() > values[..., c].min()]
    result = np.zeros(values.shape[:-1])
    if method == "grad_cam":
        weights = {c: gradients[..., c].mean() for c in channels}
    elif method == "layer_cam":
        for c in channels:
            result += np.maximum(gradients[..., c], 0) * values[..., c]
        weights = {}
    elif method == "hires_cam":
        result = (gradients * values).sum(axis=-1)
        weights = {}
    elif method == "eigen_cam":
        matrix = values.reshape(-1, values.shape[-1])
        _, vectors = np.linalg.eigh(matrix.T @ matrix)  # eigenvalues ascend
        result = (matrix @ vectors[:, -1]).reshape(values.shape[:-1])
        result *= np.sign(result.sum())
        weights = {}
    elif method == "ablation_cam":
        rest = keras.Model(layer_of(model).output, model.outputs[0])
        ablated = np.stack([np.where(np.arange(values.shape[-1]) == c, 0, values) for c in (-1, *channels)])
        score, *without = rest(ablated.astype(np.float32)).numpy()[:, target].astype(float)
        weights = {c: (score - one) / abs(score) for c, one in zip(channels, without, strict=True)}
    elif method == "xgrad_cam":
        weights = {c: (values[..., c] * gradients[..., c]).sum() / values[..., c].sum() for c in live}
    elif method == "grad_cam_plus_plus":
        weights = {}
        for c in channels:
            g, mass = gradients[..., c], values[..., c].sum()
            alpha = np.array([v**2 / (2 * v**2 + mass * v**3) if v else 0.0 for v in g.ravel()]).reshape(g.shape)
            weights[c] = (alpha * np.maximum(g, 0)).sum()
    elif method == "score_cam":
        scores = masked_scores([mask_of(c) for c in live])
        weights = dict(zip(live, np.exp(scores) / np.exp(scores).sum(), strict=True))
    elif method == "score_cam_constant_masks":
        middle = [slice((size - 1) // 2, size // 2 + 1) for size in values.shape[:-1]]
        constants = [0.0, *(values[(*middle, c)].mean() for c in channels)]
        nothing, *scores = masked_scores([np.full(spatial, constant) for constant in constants])
        weights = dict(zip(channels, np.array(scores) - nothing, strict=True))
    else:
        masks = [mask_of(c) for c in live if gradients[..., c].mean(axis=axes) > 0]
        scores = masked_scores(masks) if masks else []
        return np.maximum(sum(score * mask / mask.sum() for score, mask in zip(scores, masks, strict=True)), 0)
    for c, weight in weights.items():
        result += weight * values[..., c]
    return upsampled(np.maximum(result, 0), spatial)


@pytest.mark.parametrize("kind", ["signal", "image"])
@pytest.mark.parametrize("method", CAMS)
def test_maps_equal_the_definition(method, kind, live, by_score, inputs, activations):
    model, x = by_score["probabilities" if kind == "signal" else "logits", kind], inputs[kind]
    targets = np.arange(len(x)) % model.num_classes
    maps = attribution.explain(method, model, x, targets, batch_size=3)
    assert maps.shape == x.shape[:-1]
    for row in range(len(x)):
        values, gradients = (part[row] for part in activations[kind])
        expected = expected_map(method, live[kind], x[row], targets[row], values, gradients)
        np.testing.assert_allclose(maps[row], expected, rtol=1e-4, atol=1e-5 * max(expected.max(), 1e-3))


def test_the_layers_resolution_is_kept_on_request(models, inputs):
    coarse = attribution.explain("grad_cam", models["image"], inputs["image"], resize=False)
    fine = attribution.explain("grad_cam", models["image"], inputs["image"])
    assert coarse.shape == (7, 8, 8) and fine.shape == (7, 16, 16)
    np.testing.assert_allclose(tf.image.resize(coarse[..., np.newaxis], (16, 16))[..., 0], fine, atol=1e-6)


def test_another_layer_by_name(models, inputs):
    model = models["image"]
    first = next(name for name in model.layers() if model.graph.nodes[name].op == "Relu")
    maps = attribution.explain("grad_cam", model, inputs["image"], layer=first, resize=False)
    assert maps.shape == (7, 16, 16)


def dead_network(x):
    """Two channels: one copies the input, the other is always off; the score sees both."""
    y = tf.nn.relu(tf.nn.conv2d(x, np.array([[[[1.0, 0.0]]]], np.float32), 1, "SAME") + [0.0, -100.0])
    sums = tf.reduce_sum(y, axis=[1, 2])
    return tf.stack([sums[:, 0], sums[:, 1] - sums[:, 0]], axis=1)


@pytest.fixture(scope="module")
def dead(from_function):
    return from_function(dead_network, 4, 4, 1)


@pytest.mark.parametrize("method", CAMS)
@pytest.mark.parametrize("target", [0, 1])
def test_dead_channels_and_zero_gradients_give_no_nan(method, target, dead):
    x = np.stack([np.zeros((4, 4, 1)), np.eye(4)[..., np.newaxis]]).astype(np.float32)
    maps = attribution.explain(method, dead, x, target)
    assert np.isfinite(maps).all() and (maps >= 0).all()
    np.testing.assert_array_equal(maps[0], 0)


def test_score_cam_and_sise_skip_channels_without_weight(dead):
    x = np.random.default_rng(0).random((5, 4, 4, 1), dtype=np.float32)
    dead.counts.clear()
    attribution.explain("score_cam", dead, x, 0)
    assert dead.counts["forward"] == 5  # one varying channel each
    dead.counts.clear()
    attribution.explain("sise", dead, x, 1)
    assert dead.counts["forward"] == 0  # no channel has a positive gradient
