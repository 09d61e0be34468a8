"""Inputs whose values are fixed while a file is loaded: what they rule out is no part of the network."""

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import cli
from attribution.errors import BadInput
from attribution.inspect import __main__ as inspection

v1 = tf.compat.v1
KERNEL = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)


def in_a_branch(x, training):
    return tf.cond(training, lambda: tf.nn.dropout(x, 0.5), lambda: tf.identity(x)) @ KERNEL


def in_nested_branches(x, training):
    inner = lambda: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.dropout(x, 0.3), lambda: x)  # noqa: E731
    return tf.cond(tf.logical_not(training), lambda: x, inner) @ KERNEL


def in_a_case(x, training):
    noisy = lambda: x + tf.random.normal(tf.shape(x))  # noqa: E731
    return tf.switch_case(tf.cast(training, tf.int32), [lambda: x * 1.0, noisy]) @ KERNEL


def with_noise_in_weights(x, training):
    return tf.cond(training, lambda: x @ (KERNEL + tf.random.normal((6, 3))), lambda: x @ KERNEL)


@pytest.fixture
def save(tmp_path):
    def write(function, **others):
        module = tf.Module()
        signature = {name: tf.TensorSpec((), tf.as_dtype(dtype), name=name) for name, dtype in others.items()}
        call = tf.function(lambda x, **kwargs: {"scores": function(x, **kwargs)}, autograph=False)
        module.call = call.get_concrete_function(tf.TensorSpec((None, 6), tf.float32, name="x"), **signature)
        tf.saved_model.save(module, str(tmp_path), signatures=module.call)
        return tmp_path

    return write


def check_linear(model):
    """The scores are the product with the kernel; the input that was given is no input any more."""
    assert list(model.inputs) == ["x"]
    np.testing.assert_allclose(model.scores(X), X @ KERNEL, rtol=1e-5, atol=1e-5)
    for method in ("gradient", "lrp_epsilon", "deeplift"):
        maps = attribution.explain(method, model, X, targets=[0, 1, 2, 0])
        expected = KERNEL.T[[0, 1, 2, 0]]
        np.testing.assert_allclose(maps, expected if method == "gradient" else expected * X, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [in_a_branch, in_nested_branches, in_a_case, with_noise_in_weights],
    ids=lambda function: function.__name__,
)
def test_a_network_that_is_random_in_training_is_loaded_for_inference(function, save):
    path = save(function, training="bool")
    advice = r"at every call, because of .* load it with given= for 'training' .* --given=training=False"
    with pytest.raises(BadInput, match=advice):
        attribution.load_model(path)
    check_linear(attribution.load_model(path, given={"training": False}))
    with pytest.raises(BadInput, match="gives other scores at every call, because of the operation Random"):
        attribution.load_model(path, given={"training": True})


def test_noise_that_is_computed_is_refused_whatever_it_is_multiplied_by(save):
    path = save(lambda x, rate: tf.nn.dropout(x, rate=rate) @ KERNEL, rate="float32")
    for given in (None, {"rate": 0.0}):
        with pytest.raises(BadInput, match=r"because of the operation RandomUniform .* export it for inference"):
            attribution.load_model(path, given=given)


def test_a_fixed_input_of_a_network_without_noise(save):
    path = save(lambda x, temperature: x @ KERNEL / temperature, temperature="float32")
    model = attribution.load_model(path, given={"temperature": 2}, explain_input="x")
    np.testing.assert_allclose(model.scores(X), X @ KERNEL / 2, rtol=1e-5)
    everything = attribution.load_model(path).scores({"x": X, "temperature": np.float32(2)})
    np.testing.assert_allclose(model.scores(X), everything, rtol=1e-6)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"trainin": False}, "its inputs are 'training', 'x'"),
        ({"training": 2}, "numbers other than 0 and 1"),
        ({"training": [False, True]}, r"shape \(2,\)"),
        ({"training": "no"}, "training"),
        ({"training": False, "x": X}, "some inputs"),
        ("training=False", "by name"),
        (False, "by name"),
    ],
)
def test_what_cannot_be_given_is_refused(given, message, save):
    path = save(in_a_branch, training="bool")
    with pytest.raises(BadInput, match=message):
        attribution.load_model(path, given=given)


def test_the_flag_gives_the_same(save, capsys):
    path = save(in_a_branch, training="bool")

    def inspect(*arguments):
        code = cli.execute(
            inspection.main, inspection.FLAGS, inspection.__doc__, ["inspect", f"--model={path}", *arguments]
        )
        said = capsys.readouterr()
        return code, said.out + said.err

    code, said = inspect("--given=training=False", "--notry_methods")
    assert code == 0
    known = {"attribution": attribution, "inputs": X}
    exec(said.split("to load it:")[1], known)
    check_linear(known["model"])
    code, said = inspect()
    assert code == 2 and "--given=training=False" in said.splitlines()[-1]
    code, said = inspect("--given=training")
    assert code == 2 and "expected NAME=VALUE" in said


def tensorflow1(path, build):
    with tf.Graph().as_default(), v1.Session() as session:
        inputs, outputs = build()
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), inputs, outputs)
    return path


def switches(x, training):
    """As TensorFlow 1 wrote branches; one of them is a constant."""
    v1.disable_control_flow_v2()
    try:
        rate = v1.cond(training, lambda: tf.constant(0.5), lambda: tf.constant(1.0))
        dropped = v1.cond(training, lambda: v1.nn.dropout(x, rate=0.5), lambda: tf.identity(x))
        inner = lambda: v1.cond(tf.reduce_sum(x) > 9, lambda: tf.random.normal(tf.shape(x)), lambda: x * 2.0)  # noqa: E731
        return rate * dropped @ KERNEL + 0 * v1.cond(training, inner, lambda: x) @ KERNEL
    finally:
        v1.enable_control_flow_v2()


@pytest.mark.parametrize("default", [False, True])
def test_branches_of_tensorflow_1(default, tmp_path):
    def build():
        x = v1.placeholder(tf.float32, (None, 6), "x")
        training = v1.placeholder_with_default(False, (), "training") if default else v1.placeholder(tf.bool, (), "t")
        inputs = {"x": x} if default else {"x": x, "training": training}
        return inputs, {"scores": switches(x, training)}

    path = tensorflow1(tmp_path / "model", build)
    if not default:
        with pytest.raises(BadInput, match="load it with given= for 'training'"):
            attribution.load_model(path)
    model = attribution.load_model(path, given=None if default else {"training": False})
    np.testing.assert_allclose(model.scores(X), X @ KERNEL, rtol=1e-5, atol=1e-5)
    assert "Merge" not in {node.op for node in model.graph.nodes.values()}
