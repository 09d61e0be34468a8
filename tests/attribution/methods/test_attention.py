"""Attention rollout and gradient x rollout against loops over layers on a transformer whose attention is known."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods import cam

HEADS, TOKENS, WIDTH = 2, 5, 4
METHODS = ["attention_rollout", "gradient_rollout"]
generator = np.random.default_rng(8)
WEIGHTS = [generator.normal(0, 0.6, (3, HEADS, WIDTH, WIDTH)).astype(np.float32) for _ in range(2)]
HEAD = generator.normal(size=(WIDTH, 3)).astype(np.float32)
CLASS = generator.normal(size=(1, 1, WIDTH)).astype(np.float32)
SIGNALS = generator.normal(size=(4, 8, WIDTH)).astype(np.float32)


def transformer(x):
    """Two layers of attention on patches of two steps and a class token; return scores and each layer's attention."""
    tokens = tf.nn.avg_pool1d(x, 2, 2, "VALID")
    tokens = tf.concat([tf.tile(CLASS, (tf.shape(x)[0], 1, 1)), tokens], axis=1)
    used = []
    for query, key, value in WEIGHTS:
        parts = [tf.einsum("ntd,hde->nhte", tokens, kernel) for kernel in (query, key, value)]
        used.append(tf.nn.softmax(tf.matmul(parts[0], parts[1], transpose_b=True)))
        tokens += tf.reduce_sum(tf.matmul(used[-1], parts[2]), axis=1)
    return tf.matmul(tokens[:, 0], HEAD), used


@pytest.fixture(scope="module")
def model(from_function):
    return from_function(lambda x: transformer(x)[0], 8, WIDTH)


def expected_row(method, x, target):
    """The class token's row over the patches of one signal, head by head."""
    with tf.GradientTape() as tape:
        x = tf.constant(x[np.newaxis])
        tape.watch(x)
        scores, used = transformer(x)
        score = scores[0, target]
    rolled = np.eye(TOKENS)
    for weights, slope in zip(used, tape.gradient(score, used), strict=True):
        mean = np.zeros((TOKENS, TOKENS))
        for head in range(HEADS):
            a, g = weights[0, head].numpy(), slope[0, head].numpy()
            mean += (a if method == "attention_rollout" else np.maximum(a * g, 0)) / HEADS
        rolled = (mean + np.eye(TOKENS)) / 2 @ rolled if method == "attention_rollout" else rolled + mean @ rolled
    return rolled[0, 1:]


@pytest.mark.parametrize("method", METHODS)
def test_maps_equal_a_loop_over_layers_and_heads(method, model):
    targets = np.array([0, 1, 2, 0])
    maps = attribution.explain(method, model, SIGNALS, targets, resize=False)
    assert maps.shape == (4, 4)
    for row in range(4):
        np.testing.assert_allclose(maps[row], expected_row(method, SIGNALS[row], targets[row]), rtol=1e-4)
    full = attribution.explain(method, model, SIGNALS, targets)
    assert full.shape == (4, 8) and (full >= 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_batches_change_nothing_and_the_class_matters_to_gradients_alone(method, model):
    maps = attribution.explain(method, model, SIGNALS, 0)
    np.testing.assert_allclose(attribution.explain(method, model, SIGNALS, 0, batch_size=1), maps, atol=1e-6)
    other = attribution.explain(method, model, SIGNALS, 1)
    assert (np.abs(other - maps).max() > 1e-3) == (method == "gradient_rollout")


def test_the_mean_over_tokens_is_another_map(model):
    maps = [attribution.explain("gradient_rollout", model, SIGNALS, 0, token=token) for token in (0, "mean")]
    rows = [attribution.explain("gradient_rollout", model, SIGNALS, 0, token=token) for token in range(TOKENS)]
    np.testing.assert_allclose(maps[1], np.mean(rows, axis=0), atol=1e-6)
    assert np.abs(maps[0] - maps[1]).max() > 1e-4
    with pytest.raises(BadInput, match="no token 5; there are 5"):
        attribution.explain("gradient_rollout", model, SIGNALS, 0, token=5)


@pytest.mark.parametrize("method", METHODS)
def test_the_mean_leaves_out_padding(method, from_function):
    """Tokens that none attends to get nothing, and their rows are no part of the mean."""
    hidden = np.where(np.arange(8) < 6, 0, -1e9).astype(np.float32)
    real = (hidden == 0).astype(np.float32)[:, np.newaxis]

    def scores(x):
        for query, key, value in WEIGHTS:
            parts = [tf.einsum("ntd,hde->nhte", x, kernel) for kernel in (query, key, value)]
            attention = tf.nn.softmax(tf.matmul(parts[0], parts[1], transpose_b=True) + hidden)
            x += tf.reduce_sum(tf.matmul(attention, parts[2]), axis=1)
        return tf.matmul(tf.reduce_sum(x * real, axis=1) / 6, HEAD)

    model = from_function(scores, 8, WIDTH)
    found = attribution.explain(method, model, SIGNALS, 0)
    rows = [attribution.explain(method, model, SIGNALS, 0, token=token) for token in range(6)]
    assert not found[:, 6:].any()
    np.testing.assert_allclose(found, np.mean(rows, axis=0), rtol=1e-5)


def test_both_need_one_pass(model):
    model.counts.clear()
    attribution.explain_many(METHODS, model, SIGNALS, 0)
    assert model.counts == {"backward": 4, "backward_passes": 1}


@pytest.mark.parametrize("method", METHODS)
def test_a_model_without_attention_is_refused(method, models, inputs):
    with pytest.raises(BadInput, match="the model has no attention"):
        attribution.explain(method, models["image"], inputs["image"])


def windowed(windows):
    """Attention within windows of the time axis that are folded into the batch, as Swin does in two dimensions."""

    def scores(x):
        steps = tf.reshape(x, (-1, 8 // windows, WIDTH))
        query, key, value = (tf.einsum("ntd,hde->nhte", steps, kernel) for kernel in WEIGHTS[0])
        mixed = tf.reduce_sum(tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True)), value), axis=1)
        return tf.matmul(tf.reduce_mean(tf.reshape(mixed, (-1, 8, WIDTH)), axis=1), HEAD)

    return scores


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "batch_size"), [(1, 1), (2, 32), (4, 1), (4, 3)])
def test_attention_within_windows_is_refused(method, rows, batch_size, from_function):
    model = from_function(windowed(2), 8, WIDTH)
    with pytest.raises(BadInput, match="attention lies within windows"):
        attribution.explain(method, model, SIGNALS[:rows], 0, batch_size=batch_size)


@pytest.mark.parametrize("method", METHODS)
def test_a_single_window_is_attention_among_all_tokens(method, from_function):
    model = from_function(windowed(1), 8, WIDTH)
    maps = attribution.explain(method, model, SIGNALS, 0)
    assert maps.shape == (4, 8)
    np.testing.assert_allclose(attribution.explain(method, model, SIGNALS[:1], 0), maps[:1], atol=1e-6)


@pytest.mark.parametrize(
    ("tokens", "spatial", "expected"),
    [
        (16, (16, 16), (0, (4, 4))),
        (17, (16, 16), (1, (4, 4))),
        (197, (224, 224), (1, (14, 14))),
        (198, (224, 224), (2, (14, 14))),
        (8, (16, 32), (0, (2, 4))),
        (5, (8,), (1, (4,))),
        (16, (18, 18), (0, (4, 4))),
    ],
)
def test_the_grid_of_patches(tokens, spatial, expected):
    assert cam.token_grid(tokens, spatial) == expected


def test_no_grid_no_map():
    for spatial in ((16, 16), ()):  # and none for tokens as numbers of floating point, whose inputs have no positions
        with pytest.raises(BadInput, match="70 tokens are no grid"):
            cam.token_grid(70, spatial)
