"""The twelve maps against an oracle that takes one image at a time and knows nothing of batches."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import METHODS
from attribution.batching import generator
from bim import classifiers
from bim.layout import CHANNEL_MEANS
from bim.methods import MAPS, method_named

SAMPLES, POINTS, NOISE = 25, 25, 0.15


class Oracle:
    """BIM's maps of one image after another, by gradient tapes on the file's own functions."""

    def __init__(self, path):
        self.loaded = tf.saved_model.load(path)
        ends = [f"resnet_model/{name}:0" for name in ("block_layer4", "final_dense")]
        self.logits = self.loaded.prune(["input_tensor:0"], [ends[1]])
        self.to_layer = self.loaded.prune(["input_tensor:0"], [ends[0]])
        self.from_layer = self.loaded.prune([ends[0]], [ends[1]])

    def gradient(self, image, target):
        return self.traced_gradient(tf.constant(image[None]), tf.constant(target))[0].numpy().astype(np.float64)

    @tf.function(autograph=False)
    def traced_gradient(self, x, target):
        with tf.GradientTape() as tape:
            tape.watch(x)
            (logits,) = self.logits(x)
            score = logits[0, target]
        return tape.gradient(score, x)

    def integrated(self, image, target):
        black = np.zeros_like(image) - CHANNEL_MEANS
        total = 0.0
        for alpha in np.linspace(0, 1, POINTS):
            total = total + self.gradient((black + alpha * (image - black)).astype(np.float32), target)
        return (image - black) * total / POINTS

    def grad_cam(self, image, target):
        (layer,) = self.to_layer(tf.constant(image[None]))
        with tf.GradientTape() as tape:
            tape.watch(layer)
            (logits,) = self.from_layer(layer)
            score = logits[0, target]
        weights = tape.gradient(score, layer)[0].numpy().mean(axis=(0, 1))
        cam = np.maximum((layer[0].numpy().astype(np.float64) * weights).sum(axis=2), 0)
        cam = cam / cam.max() if cam.max() > 0 else cam
        # Mirrored by one pixel, resized, cropped: what scikit-image does, in TensorFlow's terms.
        height = len(cam)
        scale = len(image) // height
        padded = np.pad(cam, 1, mode="reflect")[..., None]
        big = tf.image.resize(padded, [(height + 2) * scale] * 2).numpy()[..., 0]
        return big[scale:-scale, scale:-scale]

    def smooth(self, method, image, target, key):
        total = 0.0
        for sample in range(SAMPLES):
            noise = generator(3, key, f"bim noise {sample}").standard_normal(image.shape, np.float32)
            total = total + method(image + noise * NOISE * (image.max() - image.min()), target) ** 2
        return total / SAMPLES


@pytest.fixture(scope="module")
def explained(upstream_models):
    model = classifiers.load_classifier(upstream_models, "scene", tensors=True)
    rng = np.random.default_rng(7)
    images = (rng.uniform(0, 255, (3, 32, 32, 3)) - CHANNEL_MEANS).astype(np.float32)
    keys = ["a", "b", "c"]
    maps = attribution.explain_many(MAPS, model, images, batch_size=2, seed=3, keys=keys)
    return model, images, keys, maps


@pytest.fixture(scope="module")
def oracle(upstream_models):
    return Oracle(f"{upstream_models}/scene")


def expected_map(oracle, name, image, target, key):
    if name == "gradient":
        return oracle.gradient(image, target)
    if name == "gradient_x_input":
        return oracle.gradient(image, target) * image
    if name == "smoothgrad":
        return oracle.smooth(oracle.gradient, image, target, key)
    if name == "smoothgrad_x_input":
        return oracle.smooth(oracle.gradient, image, target, key) * image
    if name == "integrated_gradients":
        return oracle.integrated(image, target)
    if name == "grad_cam":
        return oracle.grad_cam(image, target)
    return oracle.smooth(oracle.grad_cam, image, target, key)


@pytest.mark.parametrize(
    "name",
    ["gradient", "smoothgrad", "integrated_gradients", "grad_cam", "grad_cam_smoothgrad", "gradient_x_input",
     "smoothgrad_x_input"],
)  # fmt: skip
def test_maps_equal_those_of_one_image_at_a_time(explained, oracle, name):
    _, images, keys, maps = explained
    for row, image in enumerate(images):
        target = int(oracle.logits(tf.constant(image[None]))[0].numpy().argmax())
        expected = expected_map(oracle, name, image, target, keys[row])
        np.testing.assert_allclose(maps[name][row], expected, atol=1e-4 * np.abs(expected).max())


def test_smoothed_integrated_gradients_equal_625_gradients_one_by_one(explained, oracle):
    _, images, keys, maps = explained
    target = int(oracle.logits(tf.constant(images[1][None]))[0].numpy().argmax())
    expected = oracle.smooth(oracle.integrated, images[1], target, keys[1])
    np.testing.assert_allclose(maps["integrated_gradients_smoothgrad"][1], expected, atol=1e-4 * np.abs(expected).max())


def test_a_map_error_that_needs_all_points_gives_the_authors_maps(explained):
    model, images, keys, maps = explained
    for name in ("integrated_gradients", "integrated_gradients_smoothgrad"):
        method = MAPS[name], {"map_error": 1e-6, **({"samples": 2} if "smooth" in name else {})}
        found = attribution.explain_many({name: method}, model, images[:1], batch_size=16, keys=keys[:1])[name]
        every = attribution.explain_many(
            {name: (MAPS[name], {**method[1], "map_error": 0.0})},
            model,
            images[:1],
            batch_size=16,
            keys=keys[:1],
        )[name]
        np.testing.assert_allclose(found, every, atol=1e-5 * np.abs(every).max())
    assert maps["integrated_gradients"].shape == images.shape


def test_guided_maps_are_products_and_squares_of_the_registrys(explained):
    model, images, keys, maps = explained
    targets = model.predict(images)
    guided = attribution.explain("guided_backprop", model, images, targets, batch_size=2)
    np.testing.assert_array_equal(maps["guided_backprop"], guided)
    np.testing.assert_allclose(maps["guided_grad_cam"], guided * maps["grad_cam"][..., None], rtol=1e-5, atol=1e-9)
    squares = 0.0
    for sample in range(SAMPLES):
        noise = np.stack(
            [generator(3, k, f"bim noise {sample}").standard_normal((32, 32, 3), np.float32) for k in keys]
        )
        spread = np.ptp(images.reshape(3, -1), axis=1)[:, None, None, None]
        noisy = (images + noise * (np.float32(NOISE) * spread)).astype(np.float32)
        squares = squares + attribution.explain("guided_backprop", model, noisy, targets) ** 2.0
    smooth = maps["guided_backprop_smoothgrad"]
    np.testing.assert_allclose(smooth, squares / SAMPLES, atol=1e-4 * smooth.max())
    product = smooth * maps["grad_cam_smoothgrad"][..., None]
    np.testing.assert_allclose(maps["guided_grad_cam_smoothgrad"], product, rtol=1e-4, atol=1e-7 * product.max())


def test_maps_do_not_depend_on_the_batch(explained):
    model, images, keys, maps = explained
    for name in ("smoothgrad", "integrated_gradients_smoothgrad", "grad_cam_smoothgrad"):
        alone = attribution.explain(MAPS[name], model, images[2:], batch_size=1, seed=3, keys=keys[2:])
        np.testing.assert_allclose(alone[0], maps[name][2], atol=1e-4 * np.abs(alone).max())


def test_an_image_costs_702_gradients_less_what_is_shared(explained):
    # The authors: 702 gradients and 26 Grad-CAM passes an image. Here the gradient of SmoothGrad is shared
    # with SmoothGrad x Input, and Grad-CAM's with Guided Grad-CAM.
    model, images, keys, _ = explained
    before = model.counts["backward"]
    attribution.explain_many(MAPS, model, images[:1], batch_size=1, seed=3, keys=keys[:1])
    gradients = 1 + 25 + 1 + 25 + 25 + 625
    cams = 1 + 25 + 25  # the smoothed one is made for two of the twelve
    guided = 25  # smoothed Guided Backprop is made for two, too
    assert model.counts["backward"] - before == gradients + cams + guided


def test_vargrad_is_the_variance_of_smoothgrads_gradients_and_costs_none_in_addition(explained):
    model, images, keys, _ = explained
    options = {"batch_size": 2, "seed": 3, "keys": keys}
    methods = {name: method_named(name) for name in ("smoothgrad", "vargrad")}
    before = model.counts["backward"]
    maps = attribution.explain_many(methods, model, images, [0, 1, 2], **options)
    assert SAMPLES * len(images) <= model.counts["backward"] - before <= SAMPLES * len(images) + 1  # of padding
    mean = attribution.explain(methods["smoothgrad"], model, images, [0, 1, 2], squared=False, **options)
    variance = maps["smoothgrad"] - mean.astype(np.float64) ** 2
    np.testing.assert_allclose(maps["vargrad"], variance, atol=1e-5 * variance.max())
    alone = attribution.explain(methods["vargrad"], model, images, [0, 1, 2], **options)
    np.testing.assert_array_equal(alone, maps["vargrad"])


def test_the_eight_printed_methods_are_in_the_authors_order():
    from bim.metrics import FLAGS

    assert [MAPS[name].title for name in FLAGS["methods"].default] == [
        "Grad-CAM", "Vanilla Gradient", "SmoothGrad", "Integrated Gradients", "Integrated Gradients SmoothGrad",
        "Gradient x Input", "Guided Backprop", "Guided Grad-CAM",
    ]  # fmt: skip
    known = {name: method for name, method in MAPS.items() if name in METHODS}
    assert {name: method.title for name, method in known.items()} == {name: METHODS[name].title for name in known}
    assert list(MAPS) == [
        "gradient", "smoothgrad", "guided_backprop", "guided_backprop_smoothgrad", "integrated_gradients",
        "integrated_gradients_smoothgrad", "grad_cam", "grad_cam_smoothgrad", "guided_grad_cam",
        "guided_grad_cam_smoothgrad", "gradient_x_input", "smoothgrad_x_input",
    ]  # fmt: skip
