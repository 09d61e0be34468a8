"""Files with a module of StableHLO: translated where its scores and its gradient stay, kept as it is elsewhere."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo as portable
from tensorflow.compiler.tf2xla.python import xla

import attribution
from attribution import cli
from attribution.errors import BadInput
from attribution.graph import stablehlo
from attribution.inspect import __main__ as inspection

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
SINE = """%s = stablehlo.sine %x : tensor<?x4xf32>
    %y = stablehlo.multiply %s, %x : tensor<?x4xf32>"""
SORTED = """%y = "stablehlo.sort"(%x) <{dimension = 1 : i64}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1> }) : (tensor<?x4xf32>) -> tensor<?x4xf32>"""
TWICE = "%y = stablehlo.add %x, %x : tensor<?x4xf32>"


def called(body, x):
    """Return what a module computes of ``(N, 4)``."""
    main = f"func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {{ {body} return %y : tensor<?x4xf32> }}"
    text = f"module attributes {{jax.uses_shape_polymorphism = true}} {{ {main} }}"
    module = portable.serialize_portable_artifact_str(text.encode(), portable.get_current_version())
    return xla.call_module([x], version=9, module=module, Sout=[(None, 4)], Tout=[tf.float32], platforms=["CPU"])[0]


def saved(path, function):
    module = tf.Module()
    module.f = tf.function(function, input_signature=[tf.TensorSpec([None, 4], name="x")], autograph=False)
    tf.saved_model.save(module, str(path), signatures=module.f)
    return str(path)


def inspected(path, capsys):
    command = ["inspect", f"--model={path}", "--notry_methods"]
    assert cli.execute(inspection.main, inspection.FLAGS, inspection.__doc__, command) == 0
    return capsys.readouterr().out


def test_a_module_is_translated(tmp_path, capsys):
    path = saved(tmp_path / "m", lambda x: called(SINE, x))
    model = attribution.load_model(path)
    assert {"Sin", "Mul"} <= {node.op for node in model.graph.nodes.values()}
    np.testing.assert_allclose(model.scores(X), np.sin(X) * X, 1e-6, 1e-6)
    expected = np.sin(X) + X * np.cos(X)
    expected = np.where(np.arange(4) == 1, expected, 0)
    np.testing.assert_allclose(attribution.explain("gradient", model, X, [1, 1, 1]), expected, 1e-6, 1e-6)
    assert "are those of the file; the file has no gradient" in inspected(path, capsys)


def test_a_module_without_translation_is_kept_and_the_operation_named(tmp_path, capsys):
    path = saved(tmp_path / "m", lambda x: called(SORTED, x))
    model = attribution.load_model(path)
    np.testing.assert_allclose(model.scores(X), np.sort(X, 1))
    with pytest.raises(BadInput, match=r"XlaCallModule, which is not translated: stablehlo.sort has no translation"):
        attribution.explain("gradient", model, X)
    with pytest.raises(BadInput, match=r"no relevance rule for .*XlaCallModule"):
        attribution.explain("lrp_epsilon", model, X)
    with pytest.raises(BadInput, match="deeplift has no rule for 'XlaCallModule"):
        attribution.explain("deeplift", model, X)
    assert attribution.explain("occlusion", model, X).shape == X.shape
    printed = inspected(path, capsys)
    assert "module of StableHLO: kept as one operation; stablehlo.sort has no translation" in printed


def test_a_gradient_of_its_own_is_kept_with_its_module(tmp_path):
    @tf.custom_gradient
    def function(x):
        return called(SINE, x), lambda upstream: called(TWICE, upstream)

    model = attribution.load_model(saved(tmp_path / "m", function))
    np.testing.assert_allclose(model.scores(X), np.sin(X) * X, 1e-6, 1e-6)
    found = attribution.explain("gradient", model, X, [1, 1, 1])
    np.testing.assert_array_equal(found, np.where(np.arange(4) == 1, 2, 0) * np.ones_like(X))


def test_the_gradient_that_jax_stores_beside_a_module_is_not_needed(tmp_path):
    slope = """%s = stablehlo.sine %x : tensor<?x4xf32>
      %c = stablehlo.cosine %x : tensor<?x4xf32>
      %p = stablehlo.multiply %c, %x : tensor<?x4xf32>
      %y = stablehlo.add %s, %p : tensor<?x4xf32>"""

    @tf.custom_gradient
    def function(x):
        return called(SINE, x), lambda upstream: upstream * called(slope, x)

    model = attribution.load_model(saved(tmp_path / "m", function))
    assert not any(node.op in ("XlaCallModule", "IdentityN") for node in model.graph.nodes.values())
    assert attribution.explain("gradient", model, X).shape == X.shape


def test_a_wrong_translation_is_not_used(tmp_path, monkeypatch):
    path = saved(tmp_path / "m", lambda x: called(SINE, x))
    monkeypatch.setitem(stablehlo.operations._ELEMENTWISE, "sine", tf.sinh)
    model = attribution.load_model(path)
    np.testing.assert_allclose(model.scores(X), np.sin(X) * X, 1e-6, 1e-6)
    with pytest.raises(BadInput, match="not translated: the translation gives other scores"):
        attribution.explain("gradient", model, X)


def test_a_translation_is_used_without_recognition_that_fails(tmp_path, monkeypatch):
    def recognize(*_):
        raise IndexError("list index out of range")

    monkeypatch.setattr(stablehlo, "recognize", recognize)
    model = attribution.load_model(saved(tmp_path / "m", lambda x: called(SINE, x)))
    assert {"Sin", "Mul"} <= {node.op for node in model.graph.nodes.values()}
    np.testing.assert_allclose(model.scores(X), np.sin(X) * X, 1e-6, 1e-6)


def test_a_small_difference_is_not_taken_for_rounding(tmp_path, monkeypatch):
    path = saved(tmp_path / "m", lambda x: called(SINE, x))
    monkeypatch.setitem(stablehlo.operations._ELEMENTWISE, "sine", lambda x: tf.sin(x) + 3e-5)
    with pytest.raises(BadInput, match="other scores"):
        attribution.explain("gradient", attribution.load_model(path), X)


def test_rounding_that_a_network_amplifies_is_none_of_the_translation(tmp_path, monkeypatch):
    body = """%k = stablehlo.constant dense<0.999> : tensor<f32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
      %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %f = stablehlo.constant dense<4> : tensor<1xi32>
      %s = stablehlo.concatenate %r, %f, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %w = stablehlo.dynamic_broadcast_in_dim %k, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
      %b = stablehlo.exponential %x : tensor<?x4xf32>
      %c = stablehlo.log %b : tensor<?x4xf32>
      %a = stablehlo.multiply %x, %w : tensor<?x4xf32>
      %y = stablehlo.subtract %c, %a : tensor<?x4xf32>"""
    path = saved(tmp_path / "m", lambda x: called(body, x))
    monkeypatch.setitem(stablehlo.operations._ELEMENTWISE, "log", lambda x: tf.math.log(x * (1 + 2**-23)))
    assert "Log" in {node.op for node in attribution.load_model(path).graph.nodes.values()}


def test_a_translation_without_gradient_leaves_gradients_to_the_file(tmp_path):
    remainder = "%y = stablehlo.remainder %x, %x : tensor<?x4xf32>"  # TensorFlow has no gradient of it

    @tf.custom_gradient
    def function(x):
        return called(remainder, x), lambda upstream: called(TWICE, upstream)

    model = attribution.load_model(saved(tmp_path / "m", function))
    found = attribution.explain("gradient", model, X, [1, 1, 1])
    np.testing.assert_array_equal(found, np.where(np.arange(4) == 1, 2, 0) * np.ones_like(X))
