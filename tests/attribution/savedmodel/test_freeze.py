"""SavedModels of every origin give what the live model gives; damaged ones are refused in one line."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.savedmodel import paths

v1 = tf.compat.v1
TARGETS = np.array([0, 1, 2, 3, 3, 2, 1])
TF1_NAMES = {"inputs": ["input_tensor:0"], "output": "resnet_model/final_dense:0"}


def test_freezing_was_tried_on_this_version_of_tensorflow():
    """The function behind ``freeze`` is not public API: a new TensorFlow is a reason to run these tests on it."""
    tried = ("2.20", "2.21")
    assert tf.__version__.rpartition(".")[0] in tried


@pytest.mark.parametrize("kind", ["signal", "image"])
def test_keras_export_equals_the_live_model(kind, live, models, inputs, oracle):
    model, x = models[kind], inputs[kind]
    if kind == "signal":
        model = attribution.load_model(model.path, score="probabilities")
    np.testing.assert_allclose(model.scores(x), live[kind](x).numpy(), atol=1e-6)
    np.testing.assert_allclose(
        attribution.explain("gradient", model, x, TARGETS), oracle(live[kind], x, TARGETS), atol=1e-6
    )


def test_tf_saved_model_save_equals_the_live_model(live, inputs, oracle, tmp_path):
    tf.saved_model.save(live["image"], str(tmp_path))
    model = attribution.load_model(tmp_path)
    np.testing.assert_allclose(
        attribution.explain("gradient", model, inputs["image"], TARGETS),
        oracle(live["image"], inputs["image"], TARGETS),
        atol=1e-6,
    )


def test_tensorflow_1_file_by_tensor_names(tf1, inputs, oracle):
    path, twin = tf1[0], tf1[1]()
    model = attribution.load_model(path, **TF1_NAMES)
    np.testing.assert_allclose(model.scores(inputs["image"]), twin(inputs["image"]), rtol=1e-5, atol=1e-6)
    expected = oracle(twin, inputs["image"], TARGETS)
    np.testing.assert_allclose(
        attribution.explain("gradient", model, inputs["image"], TARGETS), expected, rtol=1e-4, atol=1e-6
    )
    # The layer's name is that of an identity, which freezing removes.
    names = [model.layer(), *(model.layer(name) for name in ("block_layer1", "resnet_model/block_layer1:0"))]
    assert len(set(names)) == 1 and model.graph.nodes[names[0]].op == "Relu"


def test_tensorflow_1_file_by_signature(tf1_with_signature, inputs, oracle):
    path, twin = tf1_with_signature[0], tf1_with_signature[1]()
    model = attribution.load_model(path)
    assert list(model.inputs) == ["pixels"]
    expected = oracle(twin, inputs["image"], TARGETS)
    np.testing.assert_allclose(
        attribution.explain("gradient", model, inputs["image"], TARGETS), expected, rtol=1e-4, atol=1e-6
    )


def test_tensorflow_1_file_without_signature_asks_for_tensor_names(tf1):
    with pytest.raises(BadInput, match="no signature; name its tensors"):
        attribution.load_model(tf1[0])
    with pytest.raises(BadInput, match="placeholders are 'input_tensor:0'"):
        attribution.load_model(tf1[0], inputs=["picture:0"], output="resnet_model/final_dense:0")


def test_the_highest_version_below_a_parent_is_taken(exported, tmp_path):
    for version in ("2", "10"):
        shutil.copytree(exported["signal"], tmp_path / version)
    (tmp_path / "11").mkdir()
    assert paths.find_saved_model(tmp_path) == tmp_path / "10"
    assert paths.find_saved_model(tmp_path / "2") == tmp_path / "2"


@pytest.mark.parametrize("make", ["absent", "empty directory", "file"])
def test_what_is_no_saved_model_is_refused(make, tmp_path):
    path = tmp_path / "model"
    if make == "empty directory":
        path.mkdir()
    elif make == "file":
        path.write_bytes(b"keras")
    with pytest.raises(BadInput) as refusal:
        attribution.load_model(path)
    assert "\n" not in str(refusal.value) and str(path) in str(refusal.value)


@pytest.mark.parametrize(
    "part", ["saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index"]
)
@pytest.mark.parametrize("kept", [0, 0.5])
def test_a_truncated_file_is_refused(part, kept, exported, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported["signal"], copy)
    content = (copy / part).read_bytes()
    (copy / part).write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(BadInput) as refusal:
        attribution.load_model(copy)
    assert "\n" not in str(refusal.value)


def test_a_missing_part_of_the_weights_is_named(exported, tmp_path):
    copy = shutil.copytree(exported["signal"], tmp_path / "copy")
    (copy / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(BadInput, match=r"cannot be read as a SavedModel .*variables\.data-00000-of-00001") as refusal:
        attribution.load_model(copy)
    assert "function_node" not in str(refusal.value)


def test_missing_signature_and_output_are_listed(exported):
    with pytest.raises(BadInput, match=r"no signature 'predict'; its signatures are .*'serving_default'"):
        attribution.load_model(exported["signal"], signature="predict")
    with pytest.raises(BadInput, match=r"no output 'class'; its outputs are 'output_0'"):
        attribution.load_model(exported["signal"], output="class")


def test_one_of_several_outputs_is_chosen_by_name(tmp_path):
    module = tf.Module()
    module.call = tf.function(
        lambda x: {"twice": 2 * x, "thrice": 3 * x}, input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    with pytest.raises(BadInput, match=r"choose one with output= \(--output_tensor=\): 'thrice', 'twice'"):
        attribution.load_model(tmp_path)
    x = np.array([[1.0, 2.0]], np.float32)
    for name, factor in (("twice", 2), ("thrice", 3)):
        np.testing.assert_array_equal(attribution.load_model(tmp_path, output=name).scores(x), factor * x)


def test_the_fingerprint_follows_the_weights(exported, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported["signal"], copy)
    assert paths.fingerprint(copy) == paths.fingerprint(exported["signal"])
    variables = copy / "variables" / "variables.data-00000-of-00001"
    content = bytearray(variables.read_bytes())
    content[-1] ^= 1
    variables.write_bytes(content)
    assert paths.fingerprint(copy) != paths.fingerprint(exported["signal"])


def _looped(x):
    """Return scores that are the same at every call; their steps are a circle in the graph."""
    return v1.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, tf.tanh(2 * y)), (0, x))[1]


def _counted(x):
    return x * v1.assign_add(v1.Variable(1.0, use_resource=False), 1)


@pytest.mark.parametrize(
    ("network", "words"),
    [(_looped, "a loop of TensorFlow 1's control flow"), (_counted, "a reference variable of TensorFlow 1")],
)
def test_what_only_tensorflow_1_writes_is_refused_for_what_it_is(network, words, tmp_path):
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, (None, 3), name="x")
            signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": network(x)})
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(str(tmp_path / "file"))
            builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
            builder.save()
    finally:
        v1.enable_control_flow_v2()
    with pytest.raises(BadInput, match=words):
        attribution.load_model(tmp_path / "file")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"model": "x" * 5000}, "File name too long"),
        ({"model": "x\0y"}, "null byte|does not exist"),
        ({"loaded": 3}, "loaded must be what"),
        ({"trust": "no"}, "trust must be True or False, not 'no'"),
        ({"explain_input": 3}, "explain_input must be the name"),
        ({"score": ["logits"]}, "no score"),
        ({"signature": 3}, "signature must be a name"),
        ({"output": 3}, "output must be a name, not 3"),
        ({"inputs": "x:0"}, "inputs must be a list of tensors' names, such as .*, not 'x:0'"),
        ({"inputs": ["x:0"]}, "inputs= names tensors of a TensorFlow 1 file, and '.*' is none"),
        ({"position": "here"}, "position must be whole numbers"),
        ({"given": 3}, "given must be values"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments, words, exported):
    with pytest.raises(BadInput, match=words):
        attribution.load_model(**{"model": exported["signal"]} | arguments)


@pytest.mark.parametrize("size", [True, 0, 1.5, "8"])
def test_a_batch_size_is_a_number(size, models):
    with pytest.raises(BadInput, match="batch_size must be a whole number"):
        models["signal"].batch_size(size)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "half, double",
    [
        (lambda: tf.constant(0.5), lambda: tf.constant(2.0)),
        (lambda: tf.constant(0.5), lambda: tf.reduce_sum(tf.constant([0.5, 1.5]))),
        (
            lambda: tf.cond(tf.constant(2.0) > tf.reduce_sum(HALF), lambda: tf.constant(0.5), lambda: HALF),
            lambda: HALF * 4,
        ),
    ],
    ids=["constants", "computed", "nested"],
)
def test_a_branch_that_is_a_constant_is_taken_only_if_it_is_chosen(version, half, double, tmp_path):
    (v1.disable_control_flow_v2 if version == 1 else v1.enable_control_flow_v2)()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x, small = v1.placeholder(tf.float32, (None, 3), "x"), v1.placeholder(tf.bool, (), "small")
            inputs = {"x": x, "small": small}
            v1.saved_model.simple_save(session, str(tmp_path / "m"), inputs, {"s": x * v1.cond(small, half, double)})
    finally:
        v1.enable_control_flow_v2()
    model, x = attribution.load_model(tmp_path / "m"), np.ones((2, 3), np.float32)
    for small, factor in ((True, 0.5), (False, 2)):
        feed = {"x": x, "small": small}
        np.testing.assert_array_equal(model.scores(feed), factor * x)
        np.testing.assert_array_equal(attribution.explain("gradient", model, feed, 0), x * factor * [1, 0, 0])


HALF = np.float32(0.5)


def test_of_several_constants_the_chosen_one_is_taken(tmp_path):
    module = tf.Module()
    cases = [lambda: tf.ones(3), lambda: tf.constant([2.0, 2.0, 2.0]) * 1, lambda: tf.fill([3], 3.0)]
    module.call = tf.function(lambda x, k: {"s": x * tf.switch_case(k, cases)}, autograph=False).get_concrete_function(
        tf.TensorSpec((None, 3), tf.float32, name="x"), tf.TensorSpec((), tf.int32, name="k")
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    model, x = attribution.load_model(tmp_path), np.ones((2, 3), np.float32)
    for k in range(3):
        np.testing.assert_array_equal(model.scores({"x": x, "k": k}), (k + 1) * x)
        alone = attribution.load_model(tmp_path, given={"k": k})
        np.testing.assert_array_equal(attribution.explain("gradient", alone, x, 0), x * (k + 1) * [1, 0, 0])


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("layer", [keras.layers.Dense, keras.layers.LSTM])
def test_half_precision_is_refused(policy, layer):
    network = keras.Sequential([keras.Input((5, 4)), layer(3, dtype=policy), keras.layers.Flatten()])
    kind = policy.removeprefix("mixed_")
    with pytest.raises(BadInput, match=f"computes in {kind}, which is too coarse for gradients; export it in float32"):
        attribution.load_model(network)
