"""Presets of PyTorch's libraries: closed forms of their definitions, and the record of the comparison with them."""

import json

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods import resizing
from attribution.methods.libraries import libraries
from libraries import compare

POINTS = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
CELLS = [
    f"{name}@{library.name}"
    for library in libraries().values()
    for name, preset in library.presets.items()
    if library.framework != "TensorFlow" and preset.is_usable
]


@pytest.mark.parametrize("cell", CELLS)
def test_a_preset_agreed_with_its_library_on_three_networks(cell):
    record = json.loads(compare.MEASURED.read_text("utf-8"))
    found = record["cells"][cell]
    assert len(found) >= 3 and all(map(compare.agrees, found.values())), found
    library = libraries()[cell.partition("@")[2]]
    assert record["versions"][library.package] == library.version


def test_a_measured_cell_that_is_not_reproduced_differs():
    cells = json.loads(compare.MEASURED.read_text("utf-8"))["cells"]
    others = {name for name in cells if not compare.PRESETS[name].is_usable}
    assert others
    for name in others:
        assert not all(map(compare.agrees, cells[name].values())), name


@pytest.mark.parametrize(("library", "share"), [("captum", 1.0), ("zennit", 1.05)])
def test_the_rule_of_integrated_gradients_on_a_square(library, share, closed_form):
    maps = attribution.explain(f"integrated_gradients@{library}", closed_form, POINTS, 0)
    np.testing.assert_allclose(maps[:, 1], share * POINTS[:, 1] ** 2, rtol=1e-5)


def test_noise_tunnel_averages_absolute_values(closed_form):
    maps = attribution.explain("smoothgrad@captum", closed_form, POINTS, 1)
    np.testing.assert_allclose(maps[:, 0], 5, rtol=1e-5)  # the gradient is -5
    signed = attribution.explain("smoothgrad@captum", closed_form, POINTS, 1, absolute=False)
    assert (maps >= np.abs(signed) - 1e-5).all() and (maps[:, 1] > np.abs(signed[:, 1]) + 0.1).any()


def test_one_sample_of_zennit_is_the_input(closed_form):
    noisy = attribution.explain("smoothgrad", closed_form, POINTS, 0, samples=19, noise=0.1)
    expected = (19 * noisy + attribution.explain("gradient", closed_form, POINTS, 0)) / 20
    np.testing.assert_allclose(attribution.explain("smoothgrad@zennit", closed_form, POINTS, 0), expected, rtol=1e-5)
    with pytest.raises(BadInput, match="includes_input=True needs at least 2 samples"):
        attribution.explain("smoothgrad@zennit", closed_form, POINTS, 0, samples=1)


def test_occlusion_of_zennit_is_the_score_of_a_patch_alone(closed_form):
    maps = attribution.explain("occlusion@zennit", closed_form, POINTS, 0, patch=1, stride=1)
    expected = np.stack([5 * POINTS[:, 0], POINTS[:, 1] ** 2, np.sin(POINTS[:, 2])], axis=1)
    np.testing.assert_allclose(maps, expected, atol=1e-5)


@pytest.mark.parametrize("method", ["shapley_sampling@captum", "kernel_shap@captum", "kernel_shap@shap"])
def test_values_of_an_additive_function_need_no_antithetic_samples(method, closed_form):
    expected = np.stack([5 * POINTS[:, 0], POINTS[:, 1] ** 2, np.sin(POINTS[:, 2])], axis=1)
    np.testing.assert_allclose(attribution.explain(method, closed_form, POINTS, 0), expected, atol=1e-4)


def test_independent_permutations_and_coalitions_differ_from_pairs(from_function):
    product = from_function(lambda v: tf.reduce_prod(v, axis=1, keepdims=True), 5)
    x = np.full((1, 5), 2, np.float32)
    pairs = attribution.explain("shapley_sampling", product, x, 0, permutations=2)
    apart = attribution.explain("shapley_sampling", product, x, 0, permutations=2, antithetic=False)
    assert np.count_nonzero(pairs) <= 2 and not np.array_equal(pairs, apart)
    every = attribution.explain("kernel_shap", product, x, 0, samples=30)
    np.testing.assert_allclose(every, 32 / 5, rtol=1e-4)
    few = attribution.explain("kernel_shap", product, x, 0, samples=30, paired=False)
    assert np.ptp(few) > 0.1 and few.sum() == pytest.approx(32, rel=1e-4)


def test_maxima_of_deeplift_go_to_both_winners_or_to_that_of_the_input(from_function):
    largest = from_function(lambda v: tf.reduce_max(v, axis=1, keepdims=True), 2)
    x, baseline = np.array([[3.0, 1.0]], np.float32), np.array([1.0, 2.0], np.float32)
    cross = attribution.explain("deeplift", largest, x, 0, baseline=baseline)
    options = {"baseline": baseline, "return_residuals": True}
    winner, residuals = attribution.explain("deeplift@captum", largest, x, 0, **options)
    assert cross.sum() == pytest.approx(1) and residuals is None
    np.testing.assert_allclose(winner, [[2, 0]], atol=1e-6)
    with pytest.raises(BadInput, match="no maxima 'none'; there are 'cross' and 'winner'"):
        attribution.explain("deeplift", largest, x, 0, maxima="none")


def test_alpha2_beta1_of_one_convolution(from_function):
    kernel = tf.constant([[[[1.0], [1.0]]]])
    model = from_function(lambda v: tf.nn.conv2d(v, kernel, 1, "VALID")[:, 0, 0], 1, 1, 2)
    x = np.array([[[[3.0, -1.0]]]], np.float32)
    for method, expected in (("lrp_epsilon_alpha2beta1@zennit", [2, -1]), ("lrp_epsilon_plus@zennit", [1, 0])):
        maps = attribution.explain(method, model, x, 0)
        np.testing.assert_allclose(maps[0, 0, 0], expected, atol=1e-5)


def test_relevance_that_starts_at_one_is_a_share_of_the_score(models, inputs):
    model, x = models["image"], inputs["image"]
    targets = model.predict(x)
    score = model.scores(x)[np.arange(len(x)), targets].reshape(-1, 1, 1, 1)
    for method in ("lrp_epsilon", "lrp_epsilon_plus", "lrp_epsilon_plus_flat"):
        whole, share = (attribution.explain(method, model, x, targets, start=start) for start in ("score", "one"))
        np.testing.assert_allclose(whole, score * share, atol=1e-5 * np.abs(whole).max())


def test_ablation_by_the_score_turns_around_where_it_is_negative(models, inputs):
    model, x = models["image"], inputs["image"]
    targets = model.scores(x).argmin(axis=1)
    negative = model.scores(x).min(axis=1) < 0
    turned, plain = (
        attribution.explain("ablation_cam", model, x, targets, magnitude=magnitude, resize=False)[negative]
        for magnitude in (False, True)
    )
    assert negative.any() and np.all(turned * plain == 0)
    assert turned.any() or plain.any()


def test_eigen_cam_of_grad_cam_is_a_principal_component(models, inputs):
    model, x = models["image"], inputs["image"]
    found = []
    attribution.explain(lambda queries: found.append(queries.layer_gradient(None)[0]) or queries.inputs, model, x)
    maps = attribution.explain("eigen_cam", model, x, centered=True, oriented=False, resize=False)
    for values, one in zip(np.concatenate(found), maps, strict=True):
        matrix = values.reshape(-1, values.shape[-1]).astype(float)
        matrix -= matrix.mean(axis=0)
        component = (matrix @ np.linalg.svd(matrix)[2][0]).reshape(one.shape)
        either = [np.abs(np.maximum(sign * component, 0) - one).max() for sign in (1, -1)]
        assert min(either) < 1e-4 * np.abs(component).max()


def test_maps_of_grad_cam_are_scaled(models, inputs):
    model, x = models["image"], inputs["image"]
    for cell in CELLS:
        if cell.endswith("@pytorch_grad_cam"):
            maps = attribution.explain(cell, model, x)
            assert maps.shape == x.shape[:-1] and maps.min() >= 0 and maps.max() <= 1


def test_nearest_neighbours_repeat_each_value():
    np.testing.assert_array_equal(
        resizing.resize(np.array([[1.0, 2.0]]), (4,), resizing.nearest_matrix), [[1, 1, 2, 2]]
    )
