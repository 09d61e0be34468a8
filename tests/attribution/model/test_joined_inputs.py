"""Several inputs explained together: the maps of each, and sums over all."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

ROWS = 5
_generator = np.random.default_rng(0)
KERNEL = _generator.normal(size=(3, 3, 2, 4)).astype(np.float32)
DENSE = _generator.normal(size=(8, 6)).astype(np.float32)
LAST = _generator.normal(size=(6, 3)).astype(np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])
SPECS = {
    "age": ((), tf.float32),
    "city": ((), tf.string),
    "kind": ((), tf.int64),
    "pay": ((1,), tf.float64),
    "picture": ((None, 6, 2), tf.float32),
}
FLOATS = ["age", "pay", "picture"]


def scores(age, city, kind, pay, picture):
    """Three scores of two numbers of different types and shapes, a picture of any height, a word and a number."""
    seen = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(picture, KERNEL, 1, "SAME")), (1, 2))
    length = tf.cast(tf.strings.length(city), tf.float32)[:, tf.newaxis]
    columns = [age[:, tf.newaxis], tf.cast(pay, tf.float32), length, tf.one_hot(kind, 2)[:, :1]]
    return tf.nn.relu(tf.concat([seen, *columns], axis=1) @ DENSE) @ LAST


def export(function, specs, path, **options):
    """Write a function of several inputs, loaded."""
    module = tf.Module()
    signature = {name: tf.TensorSpec((None, *shape), dtype, name=name) for name, (shape, dtype) in specs.items()}
    module.call = tf.function(lambda **inputs: {"scores": function(**inputs)}, autograph=False)
    concrete = module.call.get_concrete_function(**signature)
    tf.saved_model.save(module, str(path), signatures=concrete)
    return attribution.load_model(path, **options)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("typed")
    export(scores, SPECS, path)
    return path


@pytest.fixture(scope="module")
def typed(path):
    """A network with inputs of three types, and rows of them."""
    generator = np.random.default_rng(1)
    return attribution.load_model(path), {
        "age": generator.normal(size=ROWS).astype(np.float32),
        "city": np.array(["Bonn", "Rome", "Lagos", "Lima", "Oslo"], object),
        "kind": generator.integers(0, 2, ROWS),
        "pay": generator.normal(size=(ROWS, 1)),
        "picture": generator.normal(size=(ROWS, 4, 6, 2)).astype(np.float32),
    }


def test_gradients_are_those_of_a_tape_of_all_inputs(typed):
    model, feed = typed

    @tf.function
    def gradients(**inputs):
        watched = {name: inputs[name] for name in FLOATS}
        with tf.GradientTape() as tape:
            tape.watch(watched)
            chosen = tf.gather(scores(**inputs), TARGETS, batch_dims=1)
        return tape.gradient(chosen, watched)

    expected = gradients(**{name: tf.constant(array) for name, array in feed.items()})
    found = attribution.explain("gradient", model, feed, TARGETS, explain_input="all")
    assert list(found) == FLOATS
    for name, maps in found.items():
        assert maps.dtype == np.float32 and maps.shape == feed[name].shape
        np.testing.assert_allclose(maps, expected[name].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "method", ["gradient", "gradient_x_input", "guided_backprop", "deconvnet", "lrp_epsilon", "lrp_alpha1beta0"]
)
def test_methods_of_one_backward_pass_give_each_input_the_map_it_has_alone(method, typed):
    """The pass costs as much as that of one input."""
    model, feed = typed
    model.counts.clear()
    found = attribution.explain(method, model, feed, TARGETS, explain_input="picture,age")
    assert model.counts == {"backward": ROWS, "backward_passes": 1}
    assert list(found) == ["picture", "age"]
    for name, maps in found.items():
        alone = attribution.explain(method, model, feed, TARGETS, explain_input=name)
        np.testing.assert_allclose(maps, alone, rtol=1e-4, atol=1e-6)
        assert np.abs(maps).max() > 0


COMPLETE = {
    # Where a ReLU bends, the sum is wrong by up to half a step: 0.06 % of the change of the gradient.
    "integrated_gradients": ({"points": 800}, {"backward": 800 * ROWS, "backward_passes": 25 * ROWS}, 2e-3),
    "deeplift": ({}, {"forward": ROWS, "forward_passes": 1, "backward": ROWS, "backward_passes": 1}, 1e-5),
    "shapley_sampling": ({"permutations": 2}, None, 1e-5),
    "kernel_shap": ({"samples": 300}, None, 1e-5),
    "idgi": ({}, None, 1e-5),
}


@pytest.mark.parametrize("method", COMPLETE)
def test_the_sum_over_all_inputs_is_the_difference_from_their_baselines(method, typed):
    model, feed = typed
    options, counts, tolerance = COMPLETE[method]
    generator = np.random.default_rng(2)
    starts = {"age": 0.3, "pay": generator.normal(size=(ROWS, 1)), "picture": generator.normal(size=(4, 6, 2))}
    model.counts.clear()
    found = attribution.explain(
        method, model, feed, TARGETS, explain_input="all", baseline=starts, batch_size=32, **options
    )
    assert counts is None or model.counts == counts
    at_start = {
        name: np.broadcast_to(starts[name], feed[name].shape).astype(feed[name].dtype) if name in starts else feed[name]
        for name in SPECS
    }
    rows = np.arange(ROWS)
    expected = (model.scores(feed) - model.scores(at_start))[rows, TARGETS]
    sums = {name: maps.reshape(ROWS, -1).sum(axis=1) for name, maps in found.items()}
    np.testing.assert_allclose(sum(sums.values()), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    assert all(np.abs(one).max() > 1e-2 for one in sums.values())  # none of them has it all
    _, residuals = attribution.explain(
        method, model, feed, TARGETS, explain_input="all", baseline=starts, return_residuals=True, **options
    )
    np.testing.assert_allclose(residuals.expected, expected, rtol=1e-5)
    np.testing.assert_allclose(residuals.sums, sum(sums.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["grad_cam", "guided_grad_cam", "attention_rollout", "xrai", "blur_ig", "full_grad"])
def test_methods_of_positions_are_refused_with_those_allowed(method, typed):
    model, feed = typed
    with pytest.raises(BadInput, match=f"'{method}' cannot explain several inputs.*choose of 'gradient', .*'lime'"):
        attribution.explain_many(["gradient", method], model, feed, explain_input="all")


@pytest.mark.parametrize(
    ("explain_input", "options", "message"),
    [
        ("age,kind", {}, "input 'kind' is of type int64 and has no gradient"),
        ("age,height", {}, "has no input 'height'; its inputs are 'age', 'city', 'kind', 'pay', 'picture'"),
        ("age, age", {}, "names an input twice"),
        ("age,,pay", {}, "explain_input='age,,pay' has an empty name"),
        ("age,pay", {"baseline": {"age": 0}}, "given for 'age'; .* for each explained input, 'age', 'pay'"),
        ("age,pay", {"baseline": {"age": 0, "pay": [1, 2]}}, r"the shapes are \(\) of 'age', \(1,\) of 'pay'"),
        ("age,pay", {"baseline": {"age": 0, "pay": "median"}}, "is a number or an array of its shape"),
        ("age,pay", {"baseline": "median"}, "baseline='median' is of one input; give numbers"),
        ("age,pay", {"points": {"age": 0, "pay": 3}}, "'points' .* must be a whole number"),
        (None, {}, "say which to explain with explain_input=, several by comma, or 'all'"),
    ],
)
def test_what_cannot_be_explained_together_is_said(explain_input, options, message, typed):
    model, feed = typed
    with pytest.raises(BadInput, match=message):
        attribution.explain("integrated_gradients", model, feed, explain_input=explain_input, **options)


def test_groups_are_of_the_values_of_all_inputs(typed):
    model, feed = typed
    halves = np.repeat([0, 1], 12).reshape(4, 6)
    groups = np.concatenate([[2], np.repeat(halves.ravel(), 2)])
    found = attribution.explain("occlusion", model, feed, 1, explain_input="age,picture", groups=groups)
    with pytest.raises(BadInput, match="groups='patches' is of one input"):
        attribution.explain("occlusion", model, feed, 1, explain_input="age,picture", groups="patches")
    alone = attribution.explain("occlusion", model, feed, 1, explain_input="picture", groups=halves)
    np.testing.assert_allclose(found["picture"], np.repeat(alone[..., np.newaxis], 2, axis=-1), rtol=1e-5)
    np.testing.assert_allclose(found["age"], attribution.explain("occlusion", model, feed, 1, explain_input="age"))


def test_a_model_is_loaded_with_what_it_explains(path, typed):
    model, feed = typed
    loaded = attribution.load_model(path, explain_input="pay,picture")
    found = attribution.explain("gradient", loaded, feed, 1)
    expected = attribution.explain("gradient", model, feed, 1, explain_input="pay,picture")
    assert list(found) == ["pay", "picture"]
    for name, maps in found.items():
        np.testing.assert_array_equal(maps, expected[name])
    assert attribution.explain("gradient", loaded, feed, 1, explain_input="age").shape == (ROWS,)
    with pytest.raises(BadInput, match="no input 'height'"):
        attribution.load_model(path, explain_input="pay,height")


def test_one_input_of_floating_point_among_others_has_its_name(models, inputs):
    x = inputs["two_inputs"]
    found = attribution.explain("gradient", models["two_inputs"], x, 1, explain_input="all")
    np.testing.assert_allclose(
        found["image"], attribution.explain("gradient", models["two_inputs"], x, 1, explain_input="image"), rtol=1e-5
    )
    assert list(found) == ["image"]


@pytest.mark.parametrize("method", ["gradient", "integrated_gradients", "deeplift", "lrp_epsilon", "kernel_shap"])
def test_an_input_without_gradient_is_named_by_methods_that_need_one(method, tmp_path):
    specs = dict.fromkeys("abc", ((2,), tf.float32))
    model = export(lambda a, b, c: (a + tf.round(b)) @ DENSE[:2] + c @ DENSE[2:4], specs, tmp_path)
    inputs = {name: np.full((1, 2), 0.6, np.float32) for name in specs}
    if method == "kernel_shap":  # which needs scores alone
        maps = attribution.explain(method, model, inputs, targets=1, explain_input="all")
        np.testing.assert_allclose(maps["b"][0], DENSE[:2, 1], rtol=1e-4)
    else:
        with pytest.raises(BadInput, match=r"does not depend on 'b' .* explain the others: explain_input='a,c'"):
            attribution.explain(method, model, inputs, targets=1, explain_input="all")
        maps = attribution.explain(method, model, inputs, targets=1, explain_input="a,c")
        assert np.all(maps["a"] != 0)


def test_embeddings_and_numbers_are_explained_together(tmp_path):
    table = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)

    def by_word(words, size):
        return tf.reduce_sum(tf.gather(table, words, name="embedded") ** 2, 1) * size[:, tf.newaxis]

    model = export(by_word, {"words": ((4,), tf.int32), "size": ((), tf.float32)}, tmp_path)
    feed = {"words": np.array([[0, 4, 2, 2], [1, 1, 8, 0]]), "size": np.array([2.0, -1.0])}
    found = attribution.explain("gradient", model, feed, 1, explain_input="embedded,size")
    embedded = table[feed["words"]]
    np.testing.assert_allclose(found["embedded"][..., 1], 2 * embedded[..., 1] * feed["size"][:, np.newaxis], rtol=1e-5)
    np.testing.assert_allclose(found["size"], (embedded[..., 1] ** 2).sum(axis=1), rtol=1e-5)
    assert not found["embedded"][..., [0, 2]].any()


def test_channels_may_come_first_and_the_batch_may_be_fixed(tmp_path):
    module = tf.Module()

    @tf.function(
        input_signature=[tf.TensorSpec((2, 2, 8, 8), tf.float32, "first"), tf.TensorSpec((2, 3), tf.float32, "rest")],
        autograph=False,
    )
    def call(first, rest):
        seen = tf.nn.relu(tf.nn.conv2d(tf.transpose(first, (0, 2, 3, 1)), KERNEL, 1, "SAME"))
        return {"scores": tf.reduce_mean(seen, (1, 2))[:, :3] + rest**2}

    module.call = call
    tf.saved_model.save(module, str(tmp_path), signatures=call)
    model = attribution.load_model(tmp_path)
    generator = np.random.default_rng(0)
    feed = {"first": generator.normal(size=(3, 2, 8, 8)), "rest": generator.normal(size=(3, 3))}
    feed = {name: array.astype(np.float32) for name, array in feed.items()}
    start = {
        "first": np.broadcast_to(np.median(feed["first"], axis=(2, 3), keepdims=True), feed["first"].shape),
        "rest": np.broadcast_to(np.median(feed["rest"], axis=1, keepdims=True), (3, 3)),
    }
    found = attribution.explain("integrated_gradients", model, feed, 1, explain_input="all", baseline=start)
    total = sum(maps.reshape(3, -1).sum(axis=1) for maps in found.values())
    np.testing.assert_allclose(total, (model.scores(feed) - model.scores(start))[:, 1], rtol=1e-2)
    assert {name: maps.shape for name, maps in found.items()} == {name: array.shape for name, array in feed.items()}
