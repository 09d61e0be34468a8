"""What a file is, from the file; which methods apply, by trying them; and a line of Python that works."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import cli
from attribution.batching import random_feed
from attribution.inspect import __main__ as inspection
from attribution.trial import try_method


@pytest.fixture
def inspect(capsys):
    def call(*arguments):
        code = cli.execute(inspection.main, inspection.FLAGS, inspection.__doc__, ["inspect", *arguments])
        said = capsys.readouterr()
        assert said.err == "" or code == 2
        return code, said.out + said.err

    return call


def test_signatures_scores_layers_and_methods_are_told(inspect, exported, models):
    code, said = inspect(f"--model={exported['signal']}")
    assert code == 0
    for line in ("in   keras_tensor", "float32 (any, 20, 2)", "classes: 4", f"logits: {models['signal'].logits} "):
        assert line in said, line
    assert f"  {models['signal'].layer()}  (20, 5)  default" in said
    apply, refused = said.split("methods that do not:")
    assert "methods that apply: gradient, " in apply and "deeplift" in apply
    refused = [line.split()[0] for line in refused.split("to load it:")[0].splitlines() if line.strip()]
    assert refused == ["xrai", "attention_rollout", "gradient_rollout"]  # it takes no images and has no attention


def test_the_lines_it_writes_load_and_explain(inspect, exported, inputs):
    options = "--explain_input=image", "--score=probabilities", "--notry_methods"
    _, said = inspect(f"--model={exported['two_inputs']}", *options)
    lines = said.split("to load it:")[1]
    known = {"attribution": attribution, "inputs": inputs["two_inputs"]}
    exec(lines, known)
    assert known["maps"].shape == (7, 16, 16, 3) and known["model"].score == "probabilities"


def test_several_inputs_of_floating_point_are_described_together(inspect, tmp_path):
    module = tf.Module()
    signature = {name: tf.TensorSpec((None, 3), tf.float32, name) for name in ("age", "pay")}
    module.call = tf.function(lambda age, pay: {"scores": tf.nn.relu(age) + pay}, autograph=False)
    tf.saved_model.save(module, str(tmp_path), signatures=module.call.get_concrete_function(**signature))
    _, said = inspect(f"--model={tmp_path}")
    assert "explained inputs: age, pay\n" in said
    apply = said.split("methods that apply: ")[1].splitlines()[0].split(", ")
    assert {"gradient", "lrp_epsilon", "deeplift", "kernel_shap", "occlusion"} <= set(apply)
    (reason,) = [line for line in said.splitlines() if line.split()[:1] == ["grad_cam"]]
    assert reason.split(maxsplit=1)[1] == "it explains one input at a time, by its positions"
    known = {"attribution": attribution, "inputs": dict.fromkeys(("age", "pay"), np.ones((2, 3)))}
    exec(said.split("to load it:")[1], known)
    assert {name: maps.shape for name, maps in known["maps"].items()} == {"age": (2, 3), "pay": (2, 3)}


def test_methods_that_do_not_apply_are_listed_with_their_reason(inspect, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)  # not installed
    keras.Sequential(
        [keras.Input((12, 12, 3)), keras.layers.Flatten(), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)]
    ).export(tmp_path, verbose=False)
    _, said = inspect(f"--model={tmp_path}")
    apply = said.split("methods that apply: ")[1].splitlines()[0].split(", ")
    assert "gradient" in apply and "rise" in apply and "grad_cam" not in apply and "guided_backprop" not in apply
    (reason,) = [line for line in said.splitlines() if line.split()[:1] == ["grad_cam"]]
    assert "the model has no convolution" in reason
    assert any(
        line.startswith("  xrai ") and "xrai needs scikit-image: pip install" in line for line in said.splitlines()
    )
    assert "only to inputs in a range, 0 to 1 unless --parameters=low=0,high=255: lrp_epsilon_gamma_box" in said
    model = attribution.load_model(tmp_path)
    for name in apply:  # what is said to apply does
        options = {"masks": 4} if name == "rise" else {}
        attribution.explain(name, model, np.ones((1, 12, 12, 3), np.float32), **options)


def test_tokens_are_explained_at_their_embedding(inspect, tmp_path):
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(9, 4, name="embedding")(tokens)
    keras.Model(tokens, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x))).export(tmp_path, verbose=False)
    _, said = inspect(f"--model={tmp_path}")
    apply = said.split("methods that apply: ")[1].splitlines()[0].split(", ")
    assert "embedding" in said and "gradient" in apply and "lrp_epsilon" in apply


def test_a_trial_ends_with_its_first_pass(models):
    """A method of thousands of passes costs a handful."""
    model = models["image"]
    feed = random_feed(model)
    for name in ("rise", "score_cam", "occlusion", "smoothgrad", "integrated_gradients"):
        model.counts.clear()
        assert try_method(name, model, feed).applies
        assert model.counts["forward"] + model.counts["backward"] <= 3, name


def test_a_crash_is_a_reason(models, monkeypatch):
    def broken(passes):
        raise RuntimeError("some\nlines")

    trial = try_method(broken, models["image"], random_feed(models["image"]))
    assert (trial.applies, trial.reason) == (False, "RuntimeError: some lines")


def test_a_file_that_leaves_a_choice_is_described_and_the_choice_named(inspect, tmp_path):
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Flatten()(inputs)
    outputs = {"first": keras.layers.Dense(2)(x), "second": keras.layers.Dense(3)(x)}
    keras.Model(inputs, outputs).export(tmp_path, verbose=False)
    code, said = inspect(f"--model={tmp_path}")
    assert code == 2 and "  out  first: float32 (any, 2)" in said and "has several outputs" in said


def test_files_of_tensorflow_1_without_signature(inspect, tf1):
    path, _ = tf1
    code, said = inspect(f"--model={path}", "--notry_methods")
    assert code == 2 and "no signature; a TensorFlow 1 file" in said and "in   input_tensor:0: float32" in said
    assert said.count("  in   ") == 1  # the weights are not inputs


def test_nothing_of_a_refused_file_is_run(inspect, tmp_path):
    v1, target = tf.compat.v1, tmp_path / "target"
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": tf.tanh(x)})
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        written = tf.io.write_file(str(target), "written")
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=written)
        builder.save()
    code, said = inspect(f"--model={tmp_path / 'model'}")
    assert "in   x: float32 (any, 3)" in said and said.count("'WriteFile'") == 1 and not target.exists()
    assert code == 2


def test_an_output_with_positions(inspect, tmp_path):
    inputs = keras.Input((8, 2))
    outputs = {"first": keras.layers.Conv1D(3, 3)(inputs), "second": keras.layers.Dense(4)(inputs)}
    keras.Model(inputs, outputs).export(tmp_path, verbose=False)
    code, said = inspect(f"--model={tmp_path}", "--output_tensor=second", "--position=5", "--notry_methods")
    assert code == 0 and "classes: 4" in said and "position=(5,))" in said
    code, said = inspect(f"--model={tmp_path}", "--output_tensor=second", "--position=x")
    assert code == 2 and "--position=x: expected integers" in said


@pytest.mark.parametrize("name, dtype", [("training", "bool"), ("temperature", "float32"), ("k", "int32")])
def test_a_single_value_is_fed_as_one(inspect, tmp_path, monkeypatch, name, dtype):
    apply = ["gradient", "lrp_epsilon", "deeplift", "kernel_shap", "occlusion"]
    monkeypatch.setattr(inspection, "METHODS", {one: inspection.METHODS[one] for one in (*apply, "xrai")})
    module = tf.Module()
    dense = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)

    def scores(x, **single):
        return {"scores": tf.nn.relu(x) @ dense + tf.cast(single[name], tf.float32)}

    signature = {name: tf.TensorSpec((), tf.as_dtype(dtype), name), "x": tf.TensorSpec((None, 6), tf.float32, "x")}
    module.call = tf.function(scores, autograph=False).get_concrete_function(**signature)
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    code, said = inspect(f"--model={tmp_path}")
    assert code == 0 and f"methods that apply: {', '.join(apply)}\n" in said, said
    feed = random_feed(attribution.load_model(tmp_path))
    assert feed[name].shape == () and feed[name].dtype == dtype and not (dtype == "bool" and feed[name])
    assert feed["x"].shape == (1, 6)


def with_defaults(path):
    """Write a frozen graph whose inputs have defaults, and whose dropout is in a branch."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        image = v1.placeholder_with_default(np.zeros((1, 4, 4, 1), np.float32), (None, 4, 4, 1), "img")
        training = v1.placeholder_with_default(False, (), "training")
        kernel = np.random.default_rng(0).normal(size=(3, 3, 1, 2)).astype(np.float32)
        maps = tf.nn.conv2d(image, kernel, 1, "SAME")
        maps = tf.cond(training, lambda: tf.nn.dropout(maps, 0.5), lambda: tf.identity(maps))
        tf.identity(tf.ensure_shape(maps, (None, 4, 4, 2)), "prob")
        v1.placeholder(tf.string, (), "file")
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"])
        builder.save()
    return path


def test_inputs_with_a_default_are_inputs(inspect, tmp_path):
    path = with_defaults(tmp_path / "model")
    code, said = inspect(f"--model={path}", "--notry_methods")
    assert code == 2 and "in   img:0: float32 (any, 4, 4, 1)" in said and "in   training:0: bool ()" in said
    assert "out  prob:0: float32 (any, 4, 4, 2)" in said
    x = np.random.default_rng(1).random((2, 4, 4, 1), dtype=np.float32)
    named = ["img:0", "training:0"]
    model = attribution.load_model(path, inputs=named, output="prob:0", position=(2, 2), given={"training": False})
    assert attribution.explain("gradient", model, x, targets=1).shape == x.shape
    with pytest.raises(attribution.errors.BadInput, match=r"given=\{'training': False\}"):
        attribution.load_model(path, inputs=named, output="prob:0", position=(2, 2))
