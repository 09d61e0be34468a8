"""Methods as other libraries define them: names, steps, the page; ``test_against_libraries`` runs the libraries."""

import pickle

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.batching import generator
from attribution.errors import BadInput
from attribution.methods import map_steps, resizing
from attribution.methods.libraries import libraries
from attribution.methods.perturbation import random_masks
from tools.docs.document_libraries import PAGE, TABLE, page, table

PRESETS = {
    f"{name}@{library.name}": preset
    for library in libraries().values()
    for name, preset in library.presets.items()
}  # fmt: skip
RUNNING = [name for name, preset in PRESETS.items() if preset.is_usable]


@pytest.mark.parametrize("name", RUNNING)
def test_every_preset_is_a_method_with_known_parameters_and_steps(name):
    method, preset = attribution.resolve_method(name), PRESETS[name]
    assert method.name == name and method.family == attribution.METHODS[preset.of].family
    assert method.parameters({}) == attribution.METHODS[preset.of].parameters(preset.parameters)
    assert all(map(map_steps.about, preset.after))
    assert pickle.loads(pickle.dumps(method)) == method  # also after its parameters were read


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - set(RUNNING)))
def test_a_preset_that_is_not_computed_is_refused_with_the_reason(name):
    reason = {"does not run": "could not be run", "not reproduced": "that is not reproduced here"}[PRESETS[name].status]
    with pytest.raises(BadInput) as raised:
        attribution.resolve_method(name)
    assert f"{reason}. {PRESETS[name].evidence}" in str(raised.value) and PRESETS[name].evidence


def test_a_preset_is_the_method_with_its_parameters(models, inputs):
    model, x = models["image"], inputs["image"]
    by_name = attribution.explain("integrated_gradients@saliency", model, x, points=4)
    own = attribution.explain("integrated_gradients", model, x, points=4, quadrature="uniform")
    assert by_name.tobytes() == own.tobytes()


@pytest.mark.parametrize("given", [{}, {"resize": True}, {"resize": False}])
def test_the_function_of_a_preset_resizes_as_the_library_by_default(given, models, inputs):
    model, x, method = models["image"], inputs["image"], attribution.resolve_method("grad_cam@xplique")
    found = []
    attribution.explain(lambda queries: found.append(method.function(queries, **given)) or queries.inputs, model, x)
    expected = attribution.explain("grad_cam@xplique", model, x, resize=given.get("resize", True))
    np.testing.assert_array_equal(found[0].astype(np.float32), expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gradient@none", "no library 'none'; 'gradient' exists as 'gradient@"),
        ("none@none", "no library 'none'; the libraries are"),
        ("none@saliency", "saliency 0.2.1 has no 'none'; it has '"),
        ("lime@saliency", "saliency 0.2.1 has no 'lime'; "),
    ],
)
def test_an_unknown_library_or_method_names_what_there_is(name, message):
    with pytest.raises(BadInput) as raised:
        attribution.resolve_method(name)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("smoothgrad", {"noise_scale": "none"}, "no noise_scale 'none'; there are 'range' and 'absolute'"),
        ("smoothgrad", {"logarithm": True}, "needs probabilities"),
        ("vargrad", {"unbiased": True, "samples": 1}, "an unbiased variance needs at least 2 samples, not 1"),
        ("integrated_gradients", {"multiply": False, "tolerance": 0.1}, "a tolerance needs multiply=True"),
        ("blur_ig", {"sigma_step": -1.0}, "blur_ig needs sigma_step >= 0, not -1"),
        ("score_cam", {"weights": "none"}, "score_cam has no weights 'none'; there are 'softmax', 'probability'"),
        ("kernel_shap@shap", {}, "kernel_shap with most_groups=10 cannot explain [0-9]+ groups; choose larger ones"),
        ("lime", {"strongest": 0}, "lime needs a whole number of strongest groups from 1, or None, not 0"),
        ("lime", {"strongest": 2.5}, "lime needs a whole number of strongest groups from 1, or None, not 2.5"),
        ("lime", {"strongest": True}, "lime needs a whole number of strongest groups from 1, or None, not True"),
        ("rise", {"stretch": "none"}, "no stretch 'none'; there are 'cells', 'fraction', 'mirrored'"),
        ("rise", {"groups": "patches", "stretch": "fraction"}, "no cells for divide_by= and stretch=; set cells="),
        ("rise", {"groups": "patches", "divide_by": "masks"}, "no cells for divide_by= and stretch=; set cells="),
        ("occlusion", {"keep": True, "complement": True}, "keep=True or complement=True, not both"),
        ("occlusion", {"border": "none"}, "no border 'none'; there are 'shifted', 'clipped', 'dropped'"),
        ("occlusion@saliency", {"patch": 99}, "skips patches that are cut off, as all of 99 are of [0-9]+"),
        ("occlusion", {"groups": "patches", "overlap": "sum"}, "groups= or patch= and stride=, not both"),
    ],
)
def test_invalid_values_of_parameters_raise(name, options, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain(name, models["image"], inputs["image"], **options)


def test_a_constant_score_gives_a_constant_map_where_rise_is_divided_by_its_masks(from_function):
    model = from_function(lambda x: tf.ones_like(x[:, 0, :1]) * [1.0, 0.0], 8, 2)
    x = np.ones((1, 8, 2), np.float32)
    divided = attribution.explain("rise", model, x, 0, masks=200, divide_by="masks")
    np.testing.assert_allclose(divided, 1, rtol=1e-4)
    assert attribution.explain("rise", model, x, 0, masks=200).std() > 0.01


def test_mirrored_masks_of_rise_are_stretched_as_in_dianna():
    transform = pytest.importorskip("skimage.transform")
    ours = random_masks([generator(0, number, "rise") for number in range(20)], (12, 20), 8, 0.3, "mirrored")
    for number, mask in enumerate(ours):
        drawn = generator(0, number, "rise")
        stretched = transform.resize((drawn.random((8, 8)) < 0.3).astype(float), (9 * 2, 9 * 3))
        top, left = drawn.integers(0, 2), drawn.integers(0, 3)
        np.testing.assert_allclose(mask, stretched[top : top + 12, left : left + 20], atol=1e-6)


def test_patches_at_the_border_are_shifted_clipped_or_dropped(from_function):
    model = from_function(lambda x: tf.reduce_sum(x, 1), 5, 1)
    x = np.ones((1, 5, 1), np.float32)
    for border, expected in {
        "shifted": [2, 2, 2, 4, 2],
        "clipped": [2, 2, 2, 2, 1],
        "dropped": [2, 2, 2, 2, 0],
    }.items():
        maps = attribution.explain("occlusion", model, x, 0, patch=2, border=border, overlap="sum")
        np.testing.assert_allclose(maps[0], expected, err_msg=border)
    each = attribution.explain("occlusion", model, x, 0, patch=2, border="clipped", per_patch=True, complement=True)
    np.testing.assert_allclose(each, [[-2, -2, -3]])


def test_the_page_and_the_table_are_up_to_date():
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "run python -m tools.docs.document_libraries"
    assert table() == TABLE.read_text("utf-8"), "run python -m tools.docs.document_libraries"


@pytest.mark.parametrize(("size", "new_size"), [(4, 16), (7, 20), (5, 12), (3, 3)])
def test_resizings_are_those_of_the_functions_that_they_name(size, new_size):
    import scipy.ndimage

    values = np.random.default_rng(0).random(size)
    bicubic = tf.image.resize(values.reshape(1, size, 1, 1), (new_size, 1), "bicubic").numpy().ravel()
    np.testing.assert_allclose(resizing.bicubic_matrix(size, new_size) @ values, bicubic, atol=1e-6)
    zoomed = scipy.ndimage.zoom(values, new_size / size, order=1)
    np.testing.assert_allclose(resizing.aligned_matrix(size, new_size) @ values, zoomed, atol=1e-6)
    transform = pytest.importorskip("skimage.transform")
    np.testing.assert_allclose(
        resizing.mirrored_matrix(size, new_size) @ values, transform.resize(values, (new_size,)), atol=1e-6
    )
