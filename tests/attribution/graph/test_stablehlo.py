"""Modules of StableHLO as operations of TensorFlow; the oracle is XLA, which runs the module itself."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo as portable
from tensorflow.compiler.tf2xla.python import xla

from attribution.graph import stablehlo
from attribution.graph.stablehlo import text
from attribution.graph.view import Untranslatable, pure_subgraph

TYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": tf.bfloat16.as_numpy_dtype, "i1": np.bool_,
    "i8": np.int8, "i32": np.int32, "i64": np.int64, "ui8": np.uint8, "ui32": np.uint32,
}  # fmt: skip


def module(arguments, results, body):
    """Return a module with one function."""
    given = ", ".join(f"%{name}: tensor<{kind}>" for name, kind in arguments.items())
    kinds = ", ".join(f"tensor<{kind}>" for kind in results)
    lines = body if "\n      return " in body else f"{body}\n  return %y : {kinds}"
    main = f"func.func public @main({given}) -> ({kinds}) {{\n  {lines}\n}}"
    return f"module attributes {{jax.uses_shape_polymorphism = true}} {{\n {main} }}"


def parts(kind):
    """Return the sizes and the type of a tensor as StableHLO writes them."""
    *sizes, dtype = kind.split("x")
    return [None if size == "?" else int(size) for size in sizes], TYPES[dtype]


def called(arguments, results, body="", whole=""):
    """Return a function from arrays that runs a module, by default of a body, with a signature of its sizes."""
    text = whole or module(arguments, results, body)
    program = portable.serialize_portable_artifact_str(text.encode(), portable.get_current_version())
    specs = [tf.TensorSpec(*parts(kind)) for kind in arguments.values()]
    sizes, dtypes = zip(*map(parts, results), strict=True)

    @tf.function(input_signature=specs, autograph=False)
    def function(*given):
        return xla.call_module(given, version=9, module=program, Sout=[tf.TensorShape(one) for one in sizes],
                               Tout=[tf.as_dtype(one) for one in dtypes], platforms=["CPU"])  # fmt: skip

    return function.get_concrete_function()


def lowered(function):
    """Return a function as its lowered graph, with the graph."""
    graph_def, renamed = stablehlo.lower(function.graph.as_graph_def(), {})
    assert all(node.op != "XlaCallModule" for node in graph_def.node)
    inputs = [tensor.name for tensor in function.inputs]
    outputs = [renamed.get(name := tensor.op.inputs[0].name, name) for tensor in function.outputs]
    found = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph_def, name=""), [])
    return found.prune(inputs, outputs), pure_subgraph(graph_def, outputs)


def random(kind, rows, low, generator):
    sizes, dtype = parts(kind)
    shape = [rows if size is None else size for size in sizes]
    if np.issubdtype(dtype, np.bool_):
        return generator.random(shape) > 0.5
    if np.issubdtype(dtype, np.integer):
        return generator.integers(max(low, 0), 4, shape).astype(dtype)
    return generator.uniform(low, 2, shape).astype(dtype)


def compare(arguments, results, body, rows=(3, 1, 4), low=-2, tolerance=2e-6):
    """Compare a module with its translation; return the operations of the translation."""
    function = called(arguments, results, body)
    translated, graph_def = lowered(function)
    generator = np.random.default_rng(0)
    is_open = any("?" in kind for kind in arguments.values())
    for count in rows if is_open else rows[:1]:
        given = [tf.constant(random(kind, count, low, generator)) for kind in arguments.values()]
        for ours, theirs in zip(translated(*given), function(*given), strict=True):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            tight = tolerance if theirs.dtype.size > 2 else 1e-2
            np.testing.assert_allclose(
                ours.numpy().astype(theirs.numpy().dtype), theirs.numpy(), tight, tight, equal_nan=True
            )
    return [node.op for node in graph_def.node]


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
@pytest.mark.parametrize(
    "operation", "abs exponential exponential_minus_one negate logistic tanh sine cosine floor ceil sign "
    "round_nearest_even".split()
)  # fmt: skip
def test_functions_of_one_variable(operation, kind):
    compare(
        {"x": f"?x3x{kind}"}, [f"?x3x{kind}"], f"%y = stablehlo.{operation} %x : tensor<?x3x{kind}>", tolerance=1e-5
    )


@pytest.mark.parametrize("operation", ["sqrt", "rsqrt", "log", "log_plus_one"])
def test_functions_of_a_positive_variable(operation):
    compare({"x": "2x3xf32"}, ["2x3xf32"], f"%y = stablehlo.{operation} %x : tensor<2x3xf32>", low=0.1)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [(one, kind) for one in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power")
     for kind in ("f32", "i32", "f16") if (one, kind) != ("remainder", "f16")],
)  # fmt: skip
def test_functions_of_two_variables(operation, kind):
    body = f"%y = stablehlo.{operation} %a, %b : tensor<2x3x{kind}>"
    compare({"a": f"2x3x{kind}", "b": f"2x3x{kind}"}, [f"2x3x{kind}"], body, low=1)


@pytest.mark.parametrize(("a", "b"), [(-7, 2), (7, -2), (-7, -2), (7, 2), (-6, 3), (1, 5), (-1, 5)])
@pytest.mark.parametrize("operation", ["divide", "remainder"])
def test_counts_are_divided_toward_zero(operation, a, b):
    body = f"""%a = stablehlo.constant dense<{a}> : tensor<i32>
      %b = stablehlo.constant dense<{b}> : tensor<i32>
      %c = stablehlo.{operation} %a, %b : tensor<i32>
      %y = stablehlo.add %c, %x : tensor<i32>"""
    compare({"x": "i32"}, ["i32"], body)


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_comparisons_and_choices(direction):
    body = f"""%c = stablehlo.compare {direction}, %a, %b, FLOAT : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
      %n = stablehlo.not %c : tensor<4x3xi1>
      %o = stablehlo.or %n, %c : tensor<4x3xi1>
      %x = stablehlo.xor %o, %n : tensor<4x3xi1>
      %y = stablehlo.select %x, %a, %b : tensor<4x3xi1>, tensor<4x3xf32>"""
    compare({"a": "4x3xf32", "b": "4x3xf32"}, ["4x3xf32"], body)


def test_a_known_choice_and_a_bound_without_effect_leave_nothing():
    body = """%c = stablehlo.constant dense<true> : tensor<i1>
      %i = stablehlo.constant dense<0xFF800000> : tensor<4x3xf32>
      %s = stablehlo.select %c, %a, %i : tensor<i1>, tensor<4x3xf32>
      %y = stablehlo.maximum %i, %s : tensor<4x3xf32>"""
    assert not {"SelectV2", "Maximum"} & set(compare({"a": "4x3xf32"}, ["4x3xf32"], body))


@pytest.mark.parametrize("kind", ["f32", "i32", "i1", "f64", "f16", "ui8"])
def test_constants(kind):
    numbers = "[[1, 2], [3, 200]]" if kind in ("i32", "ui8") else "[[1.5, 0.1], [-2.0e-3, 1.0e+3]]"
    text = "[[true, false], [false, true]]" if kind == "i1" else numbers
    splat = "true" if kind == "i1" else "7" if kind in ("i32", "ui8") else "0.1"
    body = f"""%y = stablehlo.constant dense<{text}> : tensor<2x2x{kind}>
      %z = stablehlo.constant dense<{splat}> : tensor<3x2x{kind}>
      return %y, %z : tensor<2x2x{kind}>, tensor<3x2x{kind}>"""
    compare({"x": "f32"}, [f"2x2x{kind}", f"3x2x{kind}"], body)


def test_long_constants_and_bits_of_infinities():
    numbers = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
    text = '"0x' + numbers.tobytes().hex().upper() + '"'
    body = f"""%c = stablehlo.constant dense<{text}> : tensor<20x30xf32>
      %i = stablehlo.constant dense<0xFF800000> : tensor<20x30xf32>
      %m = stablehlo.maximum %c, %i : tensor<20x30xf32>
      %y = stablehlo.add %m, %x : tensor<20x30xf32>"""
    compare({"x": "20x30xf32"}, ["20x30xf32"], body)


def test_a_zero_is_compared_as_a_relu_and_a_bias_stays_a_vector():
    body = """%z = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
      %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %f = stablehlo.constant dense<4> : tensor<1xi32>
      %s = stablehlo.concatenate %r, %f, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %w = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
      %o = stablehlo.dynamic_broadcast_in_dim %z, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
      %a = stablehlo.add %x, %w : tensor<?x4xf32>
      %y = stablehlo.maximum %a, %o : tensor<?x4xf32>"""
    kinds = compare({"x": "?x4xf32", "b": "4xf32"}, ["?x4xf32"], body)
    assert "Relu" in kinds and "AddV2" in kinds
    assert not {"Maximum", "BroadcastTo", "Shape", "Pack"} & set(kinds)


@pytest.mark.parametrize(
    ("dims", "kind", "result"),
    [("0", "3xf32", "3x2x4xf32"), ("1", "2xf32", "3x2x4xf32"), ("0, 2", "3x4xf32", "3x2x4xf32"),
     ("1, 2", "1x4xf32", "3x2x4xf32"), ("", "f32", "3x2x4xf32"), ("0, 1", "3x1xf32", "3x2x4xf32"),
     ("0, 1, 2", "1x1x1xf32", "3x2x4xf32"), ("1", "1xf32", "1x1x1xf32")],
)  # fmt: skip
def test_broadcasts(dims, kind, result):
    body = f"""%b = stablehlo.broadcast_in_dim %x, dims = [{dims}] : (tensor<{kind}>) -> tensor<{result}>
      %y = stablehlo.multiply %b, %b : tensor<{result}>"""
    compare({"x": kind}, [result], body)
    body = f"""%b = stablehlo.broadcast_in_dim %x, dims = [{dims}] : (tensor<{kind}>) -> tensor<{result}>
      %y = stablehlo.add %b, %o : tensor<{result}>"""
    compare({"x": kind, "o": result}, [result], body)


def test_a_broadcast_of_a_broadcast():
    body = """%b = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
      %c = stablehlo.broadcast_in_dim %b, dims = [0, 2] : (tensor<1x4xf32>) -> tensor<3x2x4xf32>
      %t = stablehlo.transpose %c, dims = [2, 0, 1] : (tensor<3x2x4xf32>) -> tensor<4x3x2xf32>
      %y = stablehlo.reshape %t : (tensor<4x3x2xf32>) -> tensor<12x2xf32>"""
    compare({"x": "4xf32"}, ["12x2xf32"], body)


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("reshape %x : (tensor<2x3x4xf32>)", "6x4xf32"),
        ("transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xf32>)", "4x2x3xf32"),
        ("slice %x [0:2, 1:3, 0:4:2] : (tensor<2x3x4xf32>)", "2x2x2xf32"),
        ("reverse %x, dims = [0, 2] : tensor<2x3x4xf32>", ""),
        ("pad %x, %z, low = [0, 1, 2], high = [0, 2, 0], interior = [0, 0, 0] : (tensor<2x3x4xf32>, tensor<f32>)",
         "2x6x6xf32"),
        ("pad %x, %z, low = [0, -1, 0], high = [0, 0, -2], interior = [0, 0, 0] : (tensor<2x3x4xf32>, tensor<f32>)",
         "2x2x2xf32"),
        ("concatenate %x, %x, dim = 1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>)", "2x6x4xf32"),
        ("convert %x : (tensor<2x3x4xf32>)", "2x3x4xi32"),
        ("clamp %l, %x, %h : (tensor<f32>, tensor<2x3x4xf32>, tensor<f32>)", "2x3x4xf32"),
        ("dynamic_slice %x, %i, %j, %i, sizes = [1, 2, 4] : (tensor<2x3x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>)",
         "1x2x4xf32"),
    ],
)  # fmt: skip
def test_moves(operation, result):
    body = f"""%z = stablehlo.constant dense<0.5> : tensor<f32>
      %l = stablehlo.constant dense<-0.5> : tensor<f32>
      %h = stablehlo.constant dense<1.5> : tensor<f32>
      %i = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.constant dense<7> : tensor<i32>
      %y = stablehlo.{operation}{f" -> tensor<{result}>" if result else ""}"""
    compare({"x": "2x3x4xf32"}, [result or "2x3x4xf32"], body)


@pytest.mark.parametrize(("second", "result", "left"), [("1, 2, 0", "2x3x4xf32", 0), ("1, 0, 2", "2x4x3xf32", 1)])
def test_transposes_are_joined(second, result, left):
    body = f"""%0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %y = stablehlo.transpose %0, dims = [{second}] : (tensor<4x2x3xf32>) -> tensor<{result}>"""
    assert compare({"x": "2x3x4xf32"}, [result], body).count("Transpose") == left


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_of_an_axis(axis):
    compare({"x": "f32"}, ["3x4xf32"], f"%y = stablehlo.iota dim = {axis} : tensor<3x4xf32>")


@pytest.mark.parametrize(
    ("joined", "start"), [("add", "0.0"), ("maximum", "0xFF800000"), ("minimum", "0x7F800000"), ("multiply", "1.0")]
)
def test_reductions(joined, start):
    body = f"""%s = stablehlo.constant dense<{start}> : tensor<f32>
      %y = stablehlo.reduce(%x init: %s) applies stablehlo.{joined} across dimensions = [0, 2]
        : (tensor<2x?x4xf32>, tensor<f32>) -> tensor<?xf32>"""
    compare({"x": "2x?x4xf32"}, ["?xf32"], body)


def test_a_reduction_from_another_start_is_named():
    body = """%s = stablehlo.constant dense<1.0> : tensor<f32>
      %y = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [0]
        : (tensor<2xf32>, tensor<f32>) -> tensor<f32>"""
    with pytest.raises(Untranslatable, match="reduce that does not start"):
        lowered(called({"x": "2xf32"}, ["f32"], body))


@pytest.mark.parametrize(
    ("left", "right", "text", "result"),
    [
        ("?x4xf32", "4x5xf32", "contracting_dims = [1] x [0]", "?x5xf32"),
        ("4x3xf32", "5x4xf32", "contracting_dims = [0] x [1]", "3x5xf32"),
        ("?x3x4xf32", "4x5xf32", "contracting_dims = [2] x [0]", "?x3x5xf32"),
        ("?x3x4xf32", "?x4x5xf32", "batching_dims = [0] x [0], contracting_dims = [2] x [1]", "?x3x5xf32"),
        ("?x3x2x4xf32", "?x3x2x5xf32", "batching_dims = [0, 2] x [0, 2], contracting_dims = [1] x [1]", "?x2x4x5xf32"),
        ("2x3xf32", "4x5xf32", "contracting_dims = [] x []", "2x3x4x5xf32"),
        ("3x4xf32", "3x4xf32", "contracting_dims = [0, 1] x [0, 1]", "f32"),
    ],
)
def test_products_of_matrices(left, right, text, result):
    body = f"%y = stablehlo.dot_general %a, %b, {text} : (tensor<{left}>, tensor<{right}>) -> tensor<{result}>"
    kinds = compare({"a": left, "b": right}, [result], body)
    assert ("MatMul" in kinds) == (left.count("x") == right.count("x") == 2 and result.count("x") == 2)


LAST, FIRST = "b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f", "b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1"
SIGNAL = "b, 0, f]x[0, i, o]->[b, 0, f"
CONVOLUTIONS = {
    "plain": ("?x7x8x3", "3x3x3x4", LAST, "", 1, "?x5x6x4"),
    "same": ("?x7x8x3", "3x3x3x4", LAST, "pad = [[1, 1], [1, 1]]", 1, "?x7x8x4"),
    "strides": ("?x7x8x3", "3x3x3x4", LAST, "stride = [2, 2], pad = [[1, 1], [0, 1]]", 1, "?x4x4x4"),
    "uneven": ("?x7x8x3", "3x2x3x4", LAST, "stride = [2, 1], pad = [[2, 0], [0, 1]]", 1, "?x4x8x4"),
    "cut": ("?x7x8x3", "3x3x3x4", LAST, "pad = [[-1, 1], [1, -2]]", 1, "?x5x5x4"),
    "gaps": ("?x9x9x3", "3x3x3x4", LAST, "pad = [[2, 2], [2, 2]], rhs_dilate = [2, 2]", 1, "?x9x9x4"),
    "depthwise": ("?x7x8x3", "3x3x1x6", LAST, "", 3, "?x5x6x6"),
    "depthwise_uneven": ("?x7x8x3", "3x3x1x6", LAST, "stride = [2, 1]", 3, "?x3x6x6"),
    "grouped": ("?x7x8x4", "3x3x2x6", LAST, "", 2, "?x5x6x6"),
    "first": ("?x3x7x8", "4x3x3x3", FIRST, "pad = [[1, 1], [1, 1]]", 1, "?x4x7x8"),
    "signal": ("?x9x3", "3x3x4", SIGNAL, "stride = [2], pad = [[1, 1]]", 1, "?x5x4"),
    "signal_depthwise": ("?x9x3", "3x1x3", SIGNAL, "stride = [2], pad = [[1, 1]]", 3, "?x5x3"),
    "volume": ("?x4x5x6x2", "2x2x2x2x3", "b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f", "", 1, "?x3x4x5x3"),
    "transposed": ("?x4x4x3", "3x3x3x5", LAST, "pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2]", 1, "?x8x8x5"),
    "transposed_valid": ("?x4x4x3", "3x3x3x5", LAST, "pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2]", 1, "?x9x9x5"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    x, kernel, axes, window, groups, result = CONVOLUTIONS[name]
    body = f"""%y = stablehlo.convolution(%x, %k) dim_numbers = [{axes}], window = {{{window}}}
      {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
      : (tensor<{x}xf32>, tensor<{kernel}xf32>) -> tensor<{result}xf32>""".replace("\n     ", "")
    compare({"x": f"{x}xf32", "k": f"{kernel}xf32"}, [f"{result}xf32"], body, tolerance=1e-5)


WINDOWS = {
    "plain": ("?x6x8x3", "1, 2, 2, 1", "1, 2, 2, 1", "0", "?x3x4x3"),
    "same": ("?x7x8x3", "1, 3, 3, 1", "1, 2, 2, 1", "[[0, 0], [1, 1], [0, 1], [0, 0]]", "?x4x4x3"),
    "uneven": ("?x7x8x3", "1, 3, 3, 1", "1, 2, 2, 1", "[[0, 0], [1, 1], [1, 1], [0, 0]]", "?x4x4x3"),
    "first": ("?x3x6x8", "1, 1, 2, 2", "1, 1, 2, 2", "0", "?x3x3x4"),
    "signal": ("?x6x3", "1, 2, 1", "1, 2, 1", "0", "?x3x3"),
    "volume": ("?x4x4x4x2", "1, 2, 2, 2, 1", "1, 2, 2, 2, 1", "0", "?x2x2x2x2"),
}


def pooled(name, joined, x, result, size, stride, padding):
    """Return the line of an operation over windows."""
    axes = x.count("x") + 1
    pads = f", padding = dense<{padding}> : tensor<{axes}x2xi64>" if padding != "0" else ""
    return f"""%{name} = "stablehlo.reduce_window"(%{name}_x, %s)
        <{{window_dimensions = array<i64: {size}>, window_strides = array<i64: {stride}>{pads}}}> ({{
        ^bb0(%{name}_a: tensor<f32>, %{name}_b: tensor<f32>):
        %{name}_c = stablehlo.{joined} %{name}_a, %{name}_b : tensor<f32>
        stablehlo.return %{name}_c : tensor<f32> }}) : (tensor<{x}xf32>, tensor<f32>) -> tensor<{result}xf32>"""


STARTS = {"maximum": "0xFF800000", "add": "0.0"}


@pytest.mark.parametrize("joined", STARTS)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, joined):
    x, size, stride, padding, result = WINDOWS[name]
    body = f"""%s = stablehlo.constant dense<{STARTS[joined]}> : tensor<f32>
      {pooled("y", joined, x, result, size, stride, padding)}"""
    kinds = compare({"y_x": f"{x}xf32"}, [f"{result}xf32"], body)
    assert any(kind.startswith("AvgPool" if joined == "add" else "MaxPool") for kind in kinds)


@pytest.mark.parametrize("name", WINDOWS)
def test_sums_divided_by_how_many_they_are_are_average_pooling(name):
    x, size, stride, padding, result = WINDOWS[name]
    x, result = x.replace("?", "2"), result.replace("?", "2")
    ones, counts = x.replace("2x", "1x", 1), result.replace("2x", "1x", 1)
    body = f"""%s = stablehlo.constant dense<0.0> : tensor<f32>
      %n_x = stablehlo.constant dense<1.0> : tensor<{ones}xf32>
      {pooled("w", "add", x, result, size, stride, padding)}
      {pooled("n", "add", ones, counts, size, stride, padding)}
      %m = stablehlo.broadcast_in_dim %n, dims = [{", ".join(map(str, range(x.count("x") + 1)))}]
        : (tensor<{counts}xf32>) -> tensor<{result}xf32>
      %y = stablehlo.divide %w, %m : tensor<{result}xf32>"""
    kinds = compare({"w_x": f"{x}xf32"}, [f"{result}xf32"], body)
    # Where the borders are TensorFlow's, it averages as many values.
    assert ("RealDiv" in kinds) == (name == "uneven")


def test_sums_of_a_constant_for_a_batch_of_any_size():
    x, size, stride, padding, result = WINDOWS["uneven"]
    body = f"""%s = stablehlo.constant dense<0.0> : tensor<f32>
      %o = stablehlo.constant dense<1.0> : tensor<f32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<{x}xf32>) -> tensor<i32>
      %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %f = stablehlo.constant dense<[7, 8, 3]> : tensor<3xi32>
      %d = stablehlo.concatenate %r, %f, dim = 0 : (tensor<1xi32>, tensor<3xi32>) -> tensor<4xi32>
      %y_x = stablehlo.dynamic_broadcast_in_dim %o, %d, dims = [] : (tensor<f32>, tensor<4xi32>) -> tensor<{x}xf32>
      {pooled("y", "add", x, result, size, stride, padding)}"""
    compare({"x": f"{x}xf32"}, [f"{result}xf32"], body)


@pytest.mark.parametrize(
    ("table", "indices", "offsets", "axes", "last", "sizes", "result"),
    [
        ("9x4xf32", "?x5x1xi32", "offset_dims = [2], ", "0", 2, "1, 4", "?x5x4xf32"),
        ("4x9xf32", "5x1xi32", "offset_dims = [0], ", "1", 1, "4, 1", "4x5xf32"),
        ("4x9xf32", "5xi32", "offset_dims = [0], ", "1", 1, "4, 1", "4x5xf32"),
        ("3x3x2xf32", "5x2xi32", "offset_dims = [1], ", "0, 1", 1, "1, 1, 2", "5x2xf32"),
        ("3x3xf32", "5x2xi32", "", "1, 0", 1, "1, 1", "5xf32"),
    ],
)
def test_rows_of_tables(table, indices, offsets, axes, last, sizes, result):
    collapsed = ", ".join(sorted(axes.split(", ")))
    body = f"""%y = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<{offsets}
      collapsed_slice_dims = [{collapsed}], start_index_map = [{axes}], index_vector_dim = {last}>,
      slice_sizes = array<i64: {sizes}>}}> : (tensor<{table}>, tensor<{indices}>) -> tensor<{result}>"""
    compare({"t": table, "i": indices}, [result], body)


@pytest.mark.parametrize(
    ("table", "indices", "numbers", "sizes", "result"),
    [
        (
            "2x5x6x3xf32", "4x2xi32",
            "offset_dims = [0, 1, 2, 3], start_index_map = [1, 2]", "2, 3, 2, 3", "2x3x2x3x4xf32",
        ),
        ("5x6xf32", "4x7x1xi32", "offset_dims = [0, 3], start_index_map = [1]", "5, 4", "5x4x7x4xf32"),
        (
            "5x6x3xf32", "4x2xi32",
            "offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0, 1]", "1, 2, 3", "4x2x3xf32",
        ),
        ("5x6x3xf32", "4x2xi32", "offset_dims = [1, 2, 3], start_index_map = [1, 0]", "3, 1, 3", "4x3x1x3xf32"),
        (
            "?x5x4xf32", "?x2xi32",
            "offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1]", "1, 1, 4", "?x4xf32",
        ),
        (
            "?x5x6x4xf32", "2x?x2xi32", "offset_dims = [2, 3], collapsed_slice_dims = [3], operand_batching_dims = [0],"
            "start_indices_batching_dims = [1], start_index_map = [3, 1]", "1, 3, 6, 1", "2x?x3x6xf32",
        ),
    ],
)  # fmt: skip
def test_windows_of_tables(table, indices, numbers, sizes, result):
    last = indices.count("x") - 1
    body = f"""%y = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<{numbers},
      index_vector_dim = {last}>, slice_sizes = array<i64: {sizes}>}}>
      : (tensor<{table}>, tensor<{indices}>) -> tensor<{result}>"""
    compare({"t": table, "i": indices}, [result], body)


LOOP = """%zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %end = stablehlo.constant dense<4> : tensor<i32>
      %far = stablehlo.constant dense<99> : tensor<i32>
      %f = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %r:3 = stablehlo.while(%i = %zero, %h = %s, %o = %start) : tensor<i32>, tensor<1x3xf32>, tensor<4x3xf32>
      cond {
        %c = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %v = stablehlo.dynamic_slice %x, %PLACE, %zero, sizes = [1, 3]
          : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
        %a = stablehlo.add %v, %h : tensor<1x3xf32>
        %t = stablehlo.tanh %a : tensor<1x3xf32>
        %u = stablehlo.dynamic_update_slice %o, %t, %PLACE, %zero
          : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
        %n = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %n, %t, %u : tensor<i32>, tensor<1x3xf32>, tensor<4x3xf32>
      }
      return %r#1, %r#2 : tensor<1x3xf32>, tensor<4x3xf32>"""


@pytest.mark.parametrize("place", ["i", "zero", "one", "far"])
def test_loops_are_unrolled_and_what_they_do_not_write_stays(place):
    kinds = compare({"x": "4x3xf32", "s": "1x3xf32"}, ["1x3xf32", "4x3xf32"], LOOP.replace("PLACE", place))
    assert kinds.count("Tanh") == 4 and "While" not in kinds and "TensorScatterUpdate" not in kinds


def test_a_loop_whose_steps_depend_on_the_input_is_named():
    body = LOOP.replace("%i, %end, SIGNED", "%i, %k, SIGNED").replace("PLACE", "i")
    with pytest.raises(Untranslatable, match="while whose number of steps depends on the input"):
        lowered(called({"x": "4x3xf32", "s": "1x3xf32", "k": "i32"}, ["1x3xf32", "4x3xf32"], body))


def test_a_long_loop_is_named(monkeypatch):
    monkeypatch.setattr(stablehlo, "MOST_OPERATIONS", 20)
    with pytest.raises(Untranslatable, match="more than 20 operations"):
        lowered(called({"x": "4x3xf32", "s": "1x3xf32"}, ["1x3xf32", "4x3xf32"], LOOP.replace("PLACE", "i")))


def test_a_slice_of_all_inputs_keeps_its_shape_where_their_number_was_another():
    numbers = "".join(f"%c{n} = stablehlo.constant dense<{n}> : tensor<1xi32>\n" for n in (0, 1, 2, 3, 4, 8))
    lines = [
        "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4x2xf32>) -> tensor<i32>",
        "%n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
        "%m = stablehlo.multiply %n1, %c2 : tensor<1xi32>",
        *(
            f"%{name} = stablehlo.concatenate %{a}, %{b}, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>"
            for name, a, b in [("folded", "m", "c4"), ("flat", "n1", "c8"), ("starts", "c0", "c2"),
                               ("limits", "n1", "c3"), ("steps", "c1", "c1")]
        ),
        "%w = stablehlo.dynamic_reshape %x, %folded : (tensor<?x4x2xf32>, tensor<2xi32>) -> tensor<?x4xf32>",
        "%v = stablehlo.sine %w : tensor<?x4xf32>",
        "%z = stablehlo.dynamic_reshape %v, %flat : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x8xf32>",
        "%y = stablehlo.real_dynamic_slice %z, %starts, %limits, %steps : "
        "(tensor<?x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x1xf32>",
    ]  # fmt: skip
    assert "Pack" not in compare({"x": "?x4x2xf32"}, ["?x1xf32"], numbers + "\n".join(lines))


def test_calls_are_part_of_what_calls_them():
    text = """module { func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = call @inner(%x) : (tensor<2xf32>) -> tensor<2xf32>
        return %y : tensor<2xf32> }
      func.func private @inner(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = stablehlo.sine %x : tensor<2xf32>
        return %y : tensor<2xf32> } }"""
    translated, _ = lowered(called({"x": "2xf32"}, ["2xf32"], whole=text))
    np.testing.assert_allclose(translated(tf.constant([1.0, 2.0])), [np.sin([1.0, 2.0])], 1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
         "%w = stablehlo.pad %x, %z, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> "
         "tensor<7xf32>\n%y = stablehlo.slice %w [0:4] : (tensor<7xf32>) -> tensor<4xf32>", "pad between values"),
        ("%a = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<1x4x1xf32>\n"
         "%k = stablehlo.constant dense<1.0> : tensor<3x1x1xf32>\n"
         f"%b = stablehlo.convolution(%a, %k) dim_numbers = [{SIGNAL}], window = {{lhs_dilate = [2]}} "
         "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x1xf32>, tensor<3x1x1xf32>) -> "
         "tensor<1x5x1xf32>\n%c = stablehlo.slice %b [0:1, 0:4, 0:1] : (tensor<1x5x1xf32>) -> tensor<1x4x1xf32>\n"
         "%y = stablehlo.reshape %c : (tensor<1x4x1xf32>) -> tensor<4xf32>",
         "transposed in groups, .* or not over an image"),
        ("%y = stablehlo.custom_call @secret(%x) : (tensor<4xf32>) -> tensor<4xf32>", "custom_call @secret"),
        ('%y = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
         "%c = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
         "stablehlo.return %c : tensor<i1> }) : (tensor<4xf32>) -> tensor<4xf32>", "stablehlo.sort"),
        ("%s = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
         "%v:2 = stablehlo.reduce(%x init: %s), (%x init: %s) across dimensions = [0] : "
         "(tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)\n"
         "reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) {\n"
         "%g = stablehlo.maximum %a, %d : tensor<f32>\n stablehlo.return %g, %b : tensor<f32>, tensor<f32> }\n"
         "%y = stablehlo.broadcast_in_dim %v#0, dims = [] : (tensor<f32>) -> tensor<4xf32>", "of several values"),
    ],
)  # fmt: skip
def test_what_has_no_translation_is_named(body, message):
    with pytest.raises(Untranslatable, match=message):
        lowered(called({"x": "4xf32"}, ["4xf32"], body))


def test_the_places_of_the_program_become_names():
    text = """module { func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = stablehlo.sine %x : tensor<2xf32> loc(#loc1)
        return %y : tensor<2xf32> } }
      #loc1 = loc("jit(f)/block/dense/sin")"""
    _, graph_def = lowered(called({"x": "2xf32"}, ["2xf32"], whole=text))
    assert any(node.name.endswith("/block/dense/Sin") for node in graph_def.node)


def test_infinities_are_neutral_in_reductions_of_integers():
    body = f"""%s = stablehlo.constant dense<{-(2**31)}> : tensor<i32>
      %y = stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [0]
        : (tensor<5xi32>, tensor<i32>) -> tensor<i32>"""
    assert "Max" in compare({"x": "5xi32"}, ["i32"], body)


def test_regions_within_regions_have_an_end():
    deep = "module {\nfunc.func public @main() {\n" + '%y = "stablehlo.case"(%x) ({\n' * 60
    with pytest.raises(Untranslatable, match="more than 40 regions within each other"):
        text.read(deep)


@pytest.mark.parametrize(
    ("line", "message"),
    [("%y = stablehlo.tuple %x : tuple<tensor<f32>>", "the type"), ("?", "the line"),
     ("%y = stablehlo.add %x, %x : tensor<f8E5M2>", "numbers of the type f8E5M2"),
     ("%y = stablehlo.add %x, %x : tensor<complex<f32>>", "numbers of the type complex<f32>"),
     ("^bb1(%x: tensor<f32>):", "blocks")],
)  # fmt: skip
def test_lines_of_another_form_are_named(line, message):
    lines = ["func.func public @main(%x: tensor<f32>) {", "%z = stablehlo.sine %x : tensor<f32>", line, "}"]
    with pytest.raises(Untranslatable, match=message):
        text.read("\n".join(lines))


def test_an_argument_that_is_returned_and_an_output_that_is_known():
    body = """%c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      return %x, %c : tensor<2xf32>, tensor<2xf32>"""
    compare({"x": "2xf32"}, ["2xf32", "2xf32"], body)


def test_batch_normalization_by_known_averages():
    body = """%w = stablehlo.exponential %v : tensor<3xf32>
      %y = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %w) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
        : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>"""
    compare({"x": "2x3x4xf32", **dict.fromkeys("somv", "3xf32")}, ["2x3x4xf32"], body, tolerance=1e-5)


@pytest.mark.parametrize(("inner", "reshapes"), [("1x6x4xf32", 0), ("1x4x6xf32", 2), ("1x12x2xf32", 2)])
def test_normalization_of_layers_and_groups_as_pytorch_writes_it(inner, reshapes):
    rows = inner.split("x")[1]
    body = f"""%a = stablehlo.reshape %x : (tensor<2x3x4xf32>) -> tensor<{inner}>
      %s = stablehlo.constant dense<1.0> : tensor<{rows}xf32>
      %o = stablehlo.constant dense<0.0> : tensor<{rows}xf32>
      %n, %m, %v = "stablehlo.batch_norm_training"(%a, %s, %o) <{{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}}>
        : (tensor<{inner}>, tensor<{rows}xf32>, tensor<{rows}xf32>)
        -> (tensor<{inner}>, tensor<{rows}xf32>, tensor<{rows}xf32>)
      %y = stablehlo.reshape %n : (tensor<{inner}>) -> tensor<2x3x4xf32>
      return %y, %m, %v : tensor<2x3x4xf32>, tensor<{rows}xf32>, tensor<{rows}xf32>"""
    kinds = compare({"x": "2x3x4xf32"}, ["2x3x4xf32", f"{rows}xf32", f"{rows}xf32"], body, tolerance=1e-5)
    assert kinds.count("Reshape") == reshapes + 2  # and those of mean and variance


def test_a_crop_of_two_open_axes_at_a_place_that_is_computed():
    body = """%b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?x1x4xf32>) -> tensor<i32>
      %t = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?x1x4xf32>) -> tensor<i32>
      %o = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
      %z = stablehlo.constant dense<2> : tensor<i32>
      %e = stablehlo.compare GT, %t, %z, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %h = stablehlo.divide %t, %z : tensor<i32>
      %p = stablehlo.select %e, %h, %t : tensor<i1>, tensor<i32>
      %q = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
      %r = stablehlo.reshape %p : (tensor<i32>) -> tensor<1xi32>
      %s = stablehlo.concatenate %q, %r, %o, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<2xi32>) -> tensor<4xi32>
      %y = "stablehlo.dynamic_gather"(%x, %r, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2],
        collapsed_slice_dims = [2], start_index_map = [1]>}>
        : (tensor<?x?x1x4xf32>, tensor<1xi32>, tensor<4xi32>) -> tensor<?x?x4xf32>"""
    compare({"x": "?x?x1x4xf32"}, ["?x?x4xf32"], body)


def test_rows_by_numbers_without_a_sign_and_a_maximum_from_the_least_number():
    body = """%g = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}>
        : (tensor<9x4xf32>, tensor<5x1xui32>) -> tensor<5x4xf32>
      %s = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
      %y = stablehlo.reduce(%g init: %s) applies stablehlo.maximum across dimensions = [0]
        : (tensor<5x4xf32>, tensor<f32>) -> tensor<4xf32>"""
    assert "Max" in compare({"t": "9x4xf32", "i": "5x1xui32"}, ["4xf32"], body)


def test_products_of_short_integers():
    body = """%y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<2x3xi8>, tensor<3x4xi8>) -> tensor<2x4xi32>"""
    compare({"a": "2x3xi8", "b": "3x4xi8"}, ["2x4xi32"], body)


@pytest.mark.parametrize(
    ("place", "sizes", "offsets", "collapsed", "result"),
    [("0, 1", "2, 3", "0, 1", "", "2x3xf32"), ("1, 9", "2, 2", "0, 1", "", "2x2xf32"),
     ("2, 0", "1, 4", "0", "0", "4xf32"), ("1, 3", "1, 1", "", "0, 1", "f32")],
)  # fmt: skip
def test_one_part_of_a_table(place, sizes, offsets, collapsed, result):
    body = f"""%i = stablehlo.constant dense<[{place}]> : tensor<2xi32>
      %y = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [{offsets}],
        collapsed_slice_dims = [{collapsed}], start_index_map = [0, 1]>, slice_sizes = array<i64: {sizes}>}}>
        : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<{result}>"""
    assert "GatherNd" not in compare({"x": "3x4xf32"}, [result], body)


def test_a_huge_constant_is_not_computed_while_translating():
    body = """%c = stablehlo.constant dense<1.0> : tensor<1000000x1000000xf32>
      %y = stablehlo.reshape %c : (tensor<1000000x1000000xf32>) -> tensor<1000000x1000x1000xf32>
      %t = stablehlo.transpose %y, dims = [2, 1, 0] : (tensor<1000000x1000x1000xf32>) -> tensor<1000x1000x1000000xf32>
      return %t : tensor<1000x1000x1000000xf32>"""
    _, graph_def = lowered(called({"x": "f32"}, ["1000x1000x1000000xf32"], body))
    assert "BroadcastTo" in {node.op for node in graph_def.node}
