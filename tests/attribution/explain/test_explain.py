"""One contract for every method and every kind of input; methods of one's own; shared passes."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import Method
from attribution.errors import BadInput

WITHOUT_CHANNELS = {
    "grad_cam", "grad_cam_plus_plus", "layer_cam", "xgrad_cam", "score_cam", "score_cam_constant_masks", "sise",
    "hires_cam", "eigen_cam", "ablation_cam", "rise", "occlusion", "random", "shapley_sampling", "kernel_shap", "lime",
    "xrai", "full_grad",
}  # fmt: skip
OF_ATTENTION = ("attention_rollout", "gradient_rollout")  # tests/attribution/methods/test_attention.py
OWN_METHODS = [name for name, method in attribution.METHODS.items() if not method.library and name not in OF_ATTENTION]
FEWER = {
    "rise": {"masks": 20},
    "smoothgrad": {"samples": 5},
    "vargrad": {"samples": 5},
    "expected_gradients": {"samples": 5},
    "guided_integrated_gradients": {"steps": 5},
    "idgi": {"points": 5},
    "blur_ig": {"steps": 5, "max_sigma": 3},
    "shapley_sampling": {"permutations": 2},
    "kernel_shap": {"samples": 200},
    "lime": {"samples": 100},
    "lrp_clevr_xai": {"low": -4, "high": 4},  # inputs are not between 0 and 1
    "lrp_epsilon_gamma_box": {"low": -4, "high": 4},
}
IMAGES_ONLY = ("xrai",)


def _moved_by_rounding(maps_of, explained, maps):
    """How far inputs that change in their last bit move a map: three times the largest of three trials.

    Other batch sizes add up in another order. Differences and quotients of scores lose more than a float's precision.
    """
    generator = np.random.default_rng(0)
    trials = [(explained * (1 + generator.choice([-1, 0, 1], explained.shape) * 2.0**-23)) for _ in range(3)]
    return 3 * max(np.abs(maps_of(trial.astype(np.float32)) - maps).max() for trial in trials)


@pytest.mark.parametrize("kind", ["signal", "image", "two_inputs"])
@pytest.mark.parametrize("method", OWN_METHODS)
def test_every_method_keeps_the_contract(method, kind, models, inputs):
    if method in IMAGES_ONLY and kind == "signal":
        with pytest.raises(BadInput, match="needs images"):
            attribution.explain(method, models[kind], inputs[kind])
        return
    number = 2 if method == "xrai" else 4  # XRAI segments each input again and again
    model, x = models[kind], inputs[kind]
    x = {name: array[:number] for name, array in x.items()} if kind == "two_inputs" else x[:number]
    options = FEWER.get(method, {}) | ({"explain_input": "image"} if kind == "two_inputs" else {})
    explained = x["image"] if kind == "two_inputs" else x
    improbable = (method, kind) == ("sise", "two_inputs")  # the first class, so that its map is rounding alone
    options["targets"] = model.predict(x) if improbable else np.arange(len(explained)) % model.num_classes

    def maps_of(explained, batch_size=None):
        changed = x | {"image": explained} if kind == "two_inputs" else explained
        return attribution.explain(method, model, changed, batch_size=batch_size, **options)

    maps = maps_of(explained)
    assert maps.dtype == np.float32 and np.isfinite(maps).all()
    assert maps.shape == (explained.shape[:-1] if method in WITHOUT_CHANNELS else explained.shape)
    assert np.abs(maps).max() > 0
    scale = np.abs(maps).max()
    again = maps_of(explained, number - 1)  # 3 and 1 of four; one and one of two
    if not np.allclose(again, maps, atol=2e-6 * scale, rtol=1e-4):
        assert np.abs(again - maps).max() <= _moved_by_rounding(maps_of, explained, maps) < 0.01 * scale
    assert maps_of(explained).tobytes() == maps.tobytes()


def test_the_predicted_class_is_the_default_target(models, inputs):
    model, x = models["image"], inputs["image"]
    predicted = model.predict(x)
    for method in ("gradient", "grad_cam", "smoothgrad", "occlusion"):
        options = FEWER.get(method, {})
        np.testing.assert_allclose(
            attribution.explain(method, model, x, **options),
            attribution.explain(method, model, x, predicted, **options),
            atol=1e-7,
        )


def test_logits_and_probabilities_are_different_questions(exported, inputs):
    maps = [
        attribution.explain("gradient", attribution.load_model(exported["signal"], score=score), inputs["signal"], 1)
        for score in ("logits", "probabilities")
    ]
    assert np.abs(maps[0] - maps[1]).max() > 1e-3


@pytest.mark.parametrize("length", [6, 8])
def test_keys_match_the_inputs(length, models, inputs):
    with pytest.raises(BadInput, match="keys must be a list of 7 names or numbers"):
        attribution.explain("random", models["signal"], inputs["signal"], keys=range(length))


def test_keys_are_what_is_in_them_whatever_holds_them(models, inputs):
    given = (None, range(7), np.arange(7), map(str, range(7)))
    maps = [attribution.explain("random", models["signal"], inputs["signal"], keys=keys).tobytes() for keys in given]
    assert len(set(maps)) == 1


class Unreadable:
    def __array__(self, *_, **__):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"batch_size": True}, "batch_size must be a whole number of at least 1, not True"),
        ({"resize": "no"}, "resize must be True or False, not 'no'"),
        ({"keys": "abcdefg"}, "keys must be a list of 7 names or numbers"),
        ({"keys": [object()] * 7}, "keys must be names or numbers, not of type object"),
        ({"targets": Unreadable()}, r"targets: a Unreadable is not an array \(RuntimeError: no\)"),
        ({"targets": np.eye(4)[:7]}, "targets must be 7 whole numbers, one per input, or one for all, not float64"),
    ],
)
@pytest.mark.parametrize(
    "call", [attribution.explain, lambda method, *a, **k: attribution.explain_many([method], *a, **k)]
)
def test_arguments_of_a_wrong_kind_are_refused(call, options, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        call("random", models["signal"], inputs["signal"], **options)


def test_an_input_that_is_no_array_or_has_no_batch_is_answered_with_what_helps(models, inputs):
    with pytest.raises(BadInput, match=r"input '\w+': a Unreadable is not an array \(RuntimeError: no\)$"):
        attribution.explain("gradient", models["signal"], Unreadable())
    single = inputs["signal"][0]
    with pytest.raises(BadInput, match=r"has shape \(20, 2\), the model takes \(any, 20, 2\); add .* \[np.newaxis\]$"):
        attribution.explain("gradient", models["signal"], single)
    attribution.explain("gradient", models["signal"], single[np.newaxis])
    with pytest.raises(BadInput, match=r"the model takes \(any, 20, 2\)$"):
        attribution.explain("gradient", models["signal"], single[:3])


OWN = """
import numpy as np

def largest(passes, *, power=1):
    gradient = np.abs(passes.input_gradient()) ** power
    return gradient.max(axis=-1)

def too_short(passes):
    return passes.inputs[:, :3]

def not_a_number(passes):
    return np.full(passes.inputs.shape, np.nan)
"""


@pytest.fixture
def own_methods(tmp_path, monkeypatch):
    (tmp_path / "own_methods_under_test.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_methods_under_test", None)


@pytest.mark.parametrize("module", ["own_methods_under_test", "own_methods_under_test.py"])
def test_a_method_of_ones_own(module, own_methods, models, inputs):
    model, x = models["signal"], inputs["signal"]
    expected = np.abs(attribution.explain("gradient", model, x)).max(axis=-1)
    np.testing.assert_array_equal(attribution.explain(f"{module}:largest", model, x), expected)
    np.testing.assert_allclose(attribution.explain(f"{module}:largest", model, x, power=2), expected**2, rtol=1e-6)


def test_what_a_method_of_ones_own_returns_is_checked(own_methods, models, inputs):
    model, x = models["signal"], inputs["signal"]
    with pytest.raises(BadInput, match=r"returned float32 of shape \(7, 3, 2\); numbers of shape \(7, 20, 2\)"):
        attribution.explain("own_methods_under_test:too_short", model, x)
    with pytest.raises(BadInput, match="returned NaN or infinite values for input 0"):
        attribution.explain("own_methods_under_test:not_a_number", model, x)
    with pytest.raises(BadInput, match=r"returned a list that is no array; numbers of shape \(7, 20, 2\)"):
        attribution.explain(lambda queries: [[1.0], [1.0, 2.0]], model, x)
    with pytest.raises(BadInput, match="returned a masked array; return a value for every position"):
        attribution.explain(lambda queries: np.ma.masked_less(queries.inputs, 0), model, x)


def test_values_too_large_for_single_precision_are_refused(models, inputs):
    def large(passes):
        return np.where(np.arange(len(passes.inputs))[:, None, None] == 2, 1e300, np.ones(passes.inputs.shape))

    for methods in ([large], ["gradient", large]):
        with pytest.raises(BadInput, match=r"^method 'large' returned values too large for float32 for input 2$"):
            attribution.explain_many(methods, models["signal"], inputs["signal"])


def test_a_function_or_a_method_object_will_do(models, inputs):
    model, x = models["signal"], inputs["signal"]
    expected = attribution.explain("gradient_x_input", model, x)

    def own(passes):
        return passes.inputs * passes.input_gradient()

    np.testing.assert_array_equal(attribution.explain(own, model, x), expected)
    np.testing.assert_array_equal(attribution.explain(Method("own", "Own", own), model, x), expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("grad-cam", "no method 'grad-cam'; did you mean 'grad_cam'"),
        ("saliency", "no method 'saliency'; here it is called 'gradient'"),
        ("no_such_module:f", "cannot import 'no_such_module'"),
        ("json:f", "'json' has no function 'f'"),
    ],
)
def test_unknown_methods_are_answered_with_the_nearest(name, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain(name, models["signal"], inputs["signal"])


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (3, "methods are of type int"),
        ({"a": ("gradient", {}, 1)}, "a method is of type tuple"),
        ({"a": ("gradient", None)}, "a: parameters are of type NoneType"),
    ],
)
def test_methods_of_a_wrong_type_are_refused(methods, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain_many(methods, models["signal"], inputs["signal"])


def test_a_path_and_a_live_network_are_loaded(tmp_path):
    network, x = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), np.ones((1, 3), np.float32)
    network.save(tmp_path / "a.keras")
    for model in (network, tmp_path / "a.keras", str(tmp_path / "a.keras")):
        maps = attribution.explain("gradient", model, x, target=1)
        np.testing.assert_allclose(maps[0], network.layers[0].kernel.numpy()[:, 1])
    with pytest.raises(BadInput, match="targets= or target=, not both"):
        attribution.explain("gradient", network, x, 1, target=1)
    with pytest.raises(BadInput, match=r"expected a SavedModel, a Keras file or a keras\.Model, not int"):
        attribution.explain("gradient", 3, x)


def test_unknown_parameters_are_answered_with_the_known(models, inputs):
    with pytest.raises(
        BadInput, match="'rise' has no parameter 'mask'; its parameters are 'masks', 'cells', 'probability'"
    ):
        attribution.explain("rise", models["signal"], inputs["signal"], mask=3)
    with pytest.raises(BadInput, match="'gradient' has no parameter 'layer'; it has none"):
        attribution.explain("gradient", models["signal"], inputs["signal"], layer="x")
    for name, here in {"n_steps": "points", "baselines": "baseline"}.items():
        with pytest.raises(BadInput, match=rf"has no parameter '{name}' \(here: {here}\)"):
            attribution.explain("integrated_gradients", models["signal"], inputs["signal"], **{name: 3})


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        (
            "smoothgrad",
            {"samples": 2.5},
            "parameter 'samples' of method 'smoothgrad' must be a whole number of at most 10,000,000, not 2.5",
        ),
        (
            "smoothgrad",
            {"noise": "x"},
            "parameter 'noise' of method 'smoothgrad' must be a number of at most 1e30, not 'x'",
        ),
        ("occlusion", {"patch": 2.5}, "whole numbers as patch and stride, not 2.5 and None"),
        ("occlusion", {"baseline": "mean"}, "no baseline 'mean'; give a number, an array or 'median'"),
        ("blur_ig", {"max_sigma": 1e30}, "0 < max_sigma <= 10,000, not 50 and 1e\\+30"),
        ("lrp_clevr_xai", {"low": [0, 1]}, "'low' of method 'lrp_clevr_xai' must be a number"),
        ("grad_cam", {"layer": ["a"]}, "layer must be the name of a layer"),
        ("gradient", {"explain_input": 5}, "explain_input must be the name of an input or of a tensor, not 5"),
        ("smoothgrad", {"keys": set(range(7))}, "keys must be a list of 7 names or numbers"),
        ("integrated_gradients", {"baseline": 1j}, "real numbers is needed, not complex128"),
        ("integrated_gradients", {"baseline": [[1], [2, 3]]}, "parts differ in shape"),
    ],
)
def test_values_of_another_type_are_refused(method, parameters, message, models, inputs):
    with pytest.raises(BadInput, match=message):
        attribution.explain(method, models["signal"], inputs["signal"], **parameters)


def test_whole_numbers_of_numpy_are_parameters_too(models, inputs):
    maps = [attribution.explain("smoothgrad", models["signal"], inputs["signal"], samples=number)
            for number in (3, np.int64(3))]  # fmt: skip
    np.testing.assert_array_equal(*maps)


def test_explained_together_the_maps_are_the_same_bytes(models, inputs):
    methods, x = {name: (name, FEWER.get(name, {})) for name in OWN_METHODS}, inputs["image"][:3]
    together = attribution.explain_many(methods, models["image"], x, 1, batch_size=2)
    assert list(together) == OWN_METHODS
    for name, (_, overrides) in methods.items():
        alone = attribution.explain(name, models["image"], x, 1, batch_size=2, **overrides)
        assert alone.tobytes() == together[name].tobytes(), name


def test_a_path_to_a_predicted_class_has_the_same_bytes_after_another_method_predicted_it(models, inputs):
    x = inputs["image"][:3]
    alone = attribution.explain("integrated_gradients", models["image"], x, points=7)
    methods = {"gradient": "gradient", "path": ("integrated_gradients", {"points": 7})}
    assert attribution.explain_many(methods, models["image"], x)["path"].tobytes() == alone.tobytes()


def test_passes_are_shared(models, inputs):
    model, x = models["image"], inputs["image"]

    def cost(methods):
        model.counts.clear()
        attribution.explain_many(methods, model, x, batch_size=7)
        return model.counts["forward"], model.counts["backward"]

    one_pass = ["gradient", "gradient_x_input", "grad_cam", "grad_cam_plus_plus", "xgrad_cam"]
    assert cost(one_pass) == (0, 7)
    assert cost(["smoothgrad", "vargrad"]) == (0, 26 * 7)
    assert cost([*one_pass, "smoothgrad", "vargrad"]) == (0, 26 * 7)
    both = cost(["score_cam", "sise"])
    assert both == cost(["score_cam"])
    assert cost({"a": ("smoothgrad", {"noise": 0.1}), "b": ("smoothgrad", {"noise": 0.2})}) == (0, 51 * 7)


@pytest.mark.parametrize("method", OWN_METHODS)
def test_maps_of_no_inputs_have_the_shape_of_maps(method, models):
    shape = (0, 16, 16) if method in WITHOUT_CHANNELS else (0, 16, 16, 3)
    assert attribution.explain(method, models["image"], np.zeros((0, 16, 16, 3), np.float32)).shape == shape


COLUMN = np.array([0.5, -2.0, 3.0], np.float32)
FACTORS = np.array([1.5, -0.5], np.float32)
# A single number has no noise, because its range is 0; the steps of the guided path end short of the input.
OF_QUADRATIC = {
    "gradient": lambda x, w: 2 * w * x,
    "gradient_x_input": lambda x, w: 2 * w * x**2,
    "integrated_gradients": lambda x, w: w * x**2,
    "smoothgrad": lambda x, w: 2 * w * x,
    "vargrad": lambda x, w: 0 * x,
    "guided_integrated_gradients": lambda x, w: w * x**2 * (1 - 1 / 5),
    "deeplift": lambda x, w: w * x**2,
    "occlusion": lambda x, w: w * x**2,
}


@pytest.mark.parametrize("shape", [(), (1,)])
def test_maps_of_single_numbers_have_closed_forms(shape, from_function):
    model = from_function(lambda x: tf.square(tf.reshape(x, (-1, 1))) * FACTORS, *shape)
    targets = np.array([0, 1, 1])
    for name, expected in OF_QUADRATIC.items():
        x = COLUMN.reshape(-1, *shape)
        maps = attribution.explain(name, model, x, targets, batch_size=2, **FEWER.get(name, {}))
        assert maps.shape == x.shape, name
        np.testing.assert_allclose(maps.ravel(), expected(COLUMN, FACTORS[targets]), rtol=1e-6, err_msg=name)


def test_every_method_gives_a_column_the_maps_of_vectors_of_one_number(from_function):
    """Of inputs ``(N,)`` and ``(N, 1)``; what is refused, is refused in words for both."""
    first, last = np.array([[1.0, -1.0, 0.5]], np.float32), np.array([[1, 2], [3, -1], [1, 1]], np.float32)

    def scores(x):
        return tf.matmul(tf.nn.relu(tf.matmul(tf.reshape(x, (-1, 1)), first)), last)

    def maps_of(name, shape):
        x = COLUMN.reshape(-1, *shape)
        try:
            maps = attribution.explain(name, models[shape], x, np.array([0, 1, 1]), **FEWER.get(name, {}))
        except BadInput:
            return None
        assert maps.shape == x.shape, name
        return maps.ravel().tolist()

    models = {shape: from_function(scores, *shape) for shape in ((), (1,))}
    found = {name: maps_of(name, ()) for name in (*OWN_METHODS, *OF_ATTENTION)}
    assert found == {name: maps_of(name, (1,)) for name in found}
    refused = {name for name, maps in found.items() if maps is None}
    others = {"sise", "blur_ig", "xrai", "full_grad", *OF_ATTENTION}
    assert refused == {name for name in found if "cam" in name} | others


@pytest.mark.parametrize("shape", [(), (4,), (5, 2)])
def test_the_median_of_an_input_as_the_baseline(shape, from_function):
    """Of the score Σ x², the map is x² - b² where the path is straight."""
    size = int(np.prod(shape))
    model = from_function(lambda x: tf.matmul(tf.square(tf.reshape(x, (-1, size))), tf.ones((size, 2))), *shape)
    x = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
    rows = x.reshape(3, -1, shape[-1] if len(shape) > 1 else 1)
    expected = (rows**2 - np.median(rows, axis=1, keepdims=True) ** 2).reshape(x.shape)
    maps = attribution.explain("integrated_gradients", model, x, 0, baseline="median")
    np.testing.assert_allclose(maps, expected, atol=1e-5)
