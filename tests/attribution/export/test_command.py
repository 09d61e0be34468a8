"""Exported explanations are the local ones, made of TensorFlow's own operations; what cannot be exported says so."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import attribution
from attribution import METHODS, cli, export
from attribution.errors import BadInput
from attribution.export import __main__ as command
from attribution.export.signatures import LAYER, SCORES, SHEET

EXPORTED = [
    "gradient", "gradient_x_input", "integrated_gradients", "deeplift", "guided_backprop", "deconvnet", "lrp_epsilon",
    "lrp_epsilon_plus", "lrp_alpha1beta0", "lrp_gamma", "lrp_epsilon_plus_flat", "lrp_cp", "lrp_attn",
    "excitation_backprop", "grad_cam",
]  # fmt: skip
FEW = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam"]


@pytest.fixture(scope="module")
def written(exported, tmp_path_factory):
    """Return a maker of exported models: kind and methods to the directory of the base path."""

    def write(kind, methods, **options):
        directory = tmp_path_factory.mktemp("served") / kind
        export.export(
            exported[kind], directory, methods, explain_input="image" if kind == "two_inputs" else None, **options
        )
        return directory

    return write


@pytest.fixture(scope="module")
def image_file(written):
    return written("image", EXPORTED)


@functools.cache
def signatures(directory):
    return tf.saved_model.load(str(directory / "1")).signatures


def ask(signature, model, inputs, targets):
    feed = {name: tf.constant(array) for name, array in model.feed(inputs).items()}
    reply = signature(**feed, targets=tf.constant(targets, tf.int32))
    return {name: tensor.numpy() for name, tensor in reply.items()}


def check_maps(directory, model, inputs, explain_input, methods):
    """Served maps equal local ones to 1e-5 of their largest value, for given and for predicted targets."""
    served = signatures(directory)
    predicted = model.predict(inputs)
    given = np.arange(len(predicted)) % model.num_classes
    mixed = np.where(np.arange(len(predicted)) % 2, given, -1)
    meant = np.where(mixed < 0, predicted, given)
    local = attribution.explain_many(methods, model, inputs, meant, explain_input=explain_input)
    scores = model.scores(inputs)[np.arange(len(meant)), meant]
    for name in methods:
        reply = ask(served["explain_" + name], model, inputs, mixed)
        assert set(reply) == {"map", "target", "score"}
        assert reply["target"].tolist() == meant.tolist(), name
        np.testing.assert_allclose(reply["score"], scores, rtol=1e-5)
        assert np.abs(local[name]).max() > 0, name
        assert export.relative_difference(reply["map"], local[name]) <= 1e-5, name


def test_every_exported_method_equals_the_local_one(image_file, models, inputs):
    check_maps(image_file, models["image"], inputs["image"], None, EXPORTED)


def test_signals_and_probabilities(written, exported, inputs):
    model = attribution.load_model(exported["signal"], score="probabilities")
    check_maps(written("signal", FEW, score="probabilities"), model, inputs["signal"], None, FEW)


@pytest.mark.parametrize("shape", [(), (6,)])
def test_columns_and_vectors(shape, from_function, tmp_path):
    size = int(np.prod(shape))
    kernel = np.random.default_rng(0).normal(size=(size, 3)).astype(np.float32)
    model = from_function(lambda x: tf.square(tf.matmul(tf.reshape(x, (-1, size)), kernel)), *shape)
    methods = ["integrated_gradients", "deeplift"]
    from_median = {"from_median": ("deeplift", {"baseline": "median"})}
    export.export(model.path, tmp_path / "served", {name: name for name in methods} | from_median)
    x = np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32)
    check_maps(tmp_path / "served", model, x, None, methods)
    reply = ask(signatures(tmp_path / "served")["explain_from_median"], model, x, np.zeros(4))
    np.testing.assert_allclose(reply["map"], attribution.explain("deeplift", model, x, 0, baseline="median"), rtol=1e-5)


def test_models_of_several_inputs(written, models, inputs):
    directory = written("two_inputs", ["gradient", "integrated_gradients"])
    check_maps(directory, models["two_inputs"], inputs["two_inputs"], "image", ["gradient", "integrated_gradients"])


def test_the_models_own_signatures_answer_as_before(image_file, exported, inputs):
    before = tf.saved_model.load(str(exported["image"])).signatures
    after = signatures(image_file)
    assert set(before) < set(after)
    for name, signature in before.items():
        (argument,) = signature.structured_input_signature[1]
        arguments = {argument: tf.constant(inputs["image"])}
        for output, value in signature(**arguments).items():
            np.testing.assert_array_equal(after[name](**arguments)[output], value)


def nodes_of(directory):
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((directory / "1" / "saved_model.pb").read_bytes())
    graph = proto.meta_graphs[0].graph_def
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


def test_nothing_but_tensorflows_own_operations(image_file):
    known = {name.lower() for name in dir(tf.raw_ops)}
    library_free = {"partitionedcall", "statefulpartitionedcall"}
    for node in nodes_of(image_file):
        assert node.op.lower() in known | library_free, node.op
        assert "PyFunc" not in node.op
        # A gradient that only this project registers would be missed by whoever reads the file.
        assert not node.attr["_gradient_op_type"].s.startswith(b"Attribution")


def test_methods_share_the_models_weights(tmp_path):
    """Also where a pass computes normalization with its convolution, whose weights then are none of the file's."""
    layers = tf.keras.layers
    network = tf.keras.Sequential(
        [
            tf.keras.Input((16, 16, 3)),
            layers.Conv2D(96, 7, activation="relu"),
            layers.Conv2D(24, 5),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )
    network.export(tmp_path / "plain", verbose=False)
    export.export(tmp_path / "plain", tmp_path / "served", FEW)

    def weights(directory):
        return sum(path.stat().st_size for path in directory.rglob("variables.data*"))

    own = 4 * network.count_params()
    kernel, normalized_kernel = 7 * 7 * 3 * 96 * 4, 5 * 5 * 96 * 24 * 4
    grown = weights(tmp_path / "served") - own
    assert normalized_kernel <= grown < normalized_kernel + kernel
    assert sum(node.ByteSize() for node in nodes_of(tmp_path / "served") if node.op == "Const") < normalized_kernel


def test_a_client_finds_scores_layer_and_description(image_file, models, inputs, exported):
    model, served = models["image"], signatures(image_file)
    feed = {name: tf.constant(array) for name, array in model.feed(inputs["image"]).items()}
    np.testing.assert_allclose(served[SCORES](**feed)["scores"], model.scores(inputs["image"]), rtol=1e-5, atol=1e-6)
    sheets = served[SHEET](rows=tf.zeros(3, tf.int32))["sheet"].numpy()
    assert len(sheets) == 3 and len(set(sheets)) == 1
    sheet = json.loads(sheets[0])
    assert sheet["source"] == model.fingerprint and sheet["score"] == "logits"
    assert sheet["methods"]["integrated_gradients"]["parameters"] == dict(METHODS["integrated_gradients"].defaults)
    assert sheet["layer"] == model.layer() and sheet["layer_is_default"]
    targets = model.predict(inputs["image"]).astype(np.int32)
    result = model.backward(model.feed(inputs["image"]), targets, model.explained_input(), (sheet["layer"],), False)
    reply = ask(served[LAYER], model, inputs["image"], np.full(len(targets), -1))
    np.testing.assert_allclose(reply["values"], result.values[sheet["layer"]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(reply["gradients"], result.gradients[sheet["layer"]], rtol=1e-5, atol=1e-6)


def test_a_chosen_layer_and_parameters(written, models, inputs):
    layer = models["signal"].layers()[0]
    methods = {
        "early_cam": ("grad_cam", {"layer": layer}),
        "coarse_path": ("integrated_gradients", {"points": 3, "quadrature": "uniform", "baseline": 0.5}),
        "path_from_the_median": ("integrated_gradients", {"points": 4, "baseline": "median"}),
    }
    served = signatures(written("signal", methods))
    for label, (method, overrides) in methods.items():
        local = attribution.explain(method, models["signal"], inputs["signal"], 1, **overrides)
        reply = ask(served["explain_" + label], models["signal"], inputs["signal"], np.full(7, 1))
        assert export.relative_difference(reply["map"], local) <= 1e-5


def test_methods_as_libraries_define_them(written, models, inputs):
    names = [
        "gradient@tf_keras_vis", "integrated_gradients@xplique", "integrated_gradients@tf_explain", "grad_cam@xplique",
    ]  # fmt: skip
    methods = export._by_signature(names)
    assert methods["gradient_tf_keras_vis"] == "gradient@tf_keras_vis"
    check_maps(written("image", methods), models["image"], inputs["image"], None, methods)
    with pytest.raises(BadInput, match="'occlusion_xplique' cannot be exported: it uses more"):
        written("image", {"occlusion_xplique": "occlusion@xplique"})


def own_method(passes, *, power=2):
    return abs(passes.input_gradient()) ** power * passes.inputs


def in_numpy(passes):
    return np.tanh(passes.input_gradient())


def another_one_in_a_graph(passes):
    return passes.inputs * (1.0 if isinstance(passes.inputs, np.ndarray) else 1.001)


def test_own_methods_of_passes_alone_can_be_exported(written, models, inputs):
    served = signatures(written("signal", {"own": own_method}))
    reply = ask(served["explain_own"], models["signal"], inputs["signal"], np.zeros(7))
    local = attribution.explain(own_method, models["signal"], inputs["signal"], 0)
    assert export.relative_difference(reply["map"], local) <= 1e-5


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (["rise"], "'rise' cannot be exported: a request does not carry its random numbers' seeds"),
        (["score_cam"], "'score_cam' cannot be exported: it uses more than its queries"),
        ({"live": "tf_explain.gradient"}, "'live' cannot be exported: it uses more than its queries"),
        ([in_numpy], "'in_numpy' cannot be exported: it uses more than its queries"),
        ([another_one_in_a_graph], "would differ from the local one by 1.0e-03"),
        ({"a b": "gradient"}, "'a b' cannot be part of a signature's name"),
        ([], "no method to export"),
    ],
)
def test_what_cannot_be_exported_says_so_and_leaves_nothing(exported, tmp_path, methods, message):
    with pytest.raises(BadInput) as refused:
        export.export(exported["signal"], tmp_path / "served", methods)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_whole_numbers_are_refused_without_the_name_of_a_tensor_that_cannot_be_exported(from_function, tmp_path):
    model = from_function(lambda x: tf.cast(x, tf.float32) @ tf.ones((3, 2)), 3, dtype=tf.uint8)
    for name in (None, "x"):
        with pytest.raises(BadInput, match="a request carries 'x', of which"):
            export.export(model.path, tmp_path / "served", ["gradient"], explain_input=name)


def test_a_served_version_is_never_changed(exported, image_file):
    before = (image_file / "1" / "saved_model.pb").read_bytes()
    with pytest.raises(BadInput, match=r"exists.*write to '.*/2'"):
        export.export(exported["image"], image_file, ["gradient"])
    assert (image_file / "1" / "saved_model.pb").read_bytes() == before
    with pytest.raises(BadInput, match="has explanations already"):
        export.export(image_file, image_file / "2", ["gradient"])


def test_the_command(exported, tmp_path, capsys):
    def run(*flags):
        return cli.execute(command.main, command.FLAGS, command.__doc__, ["export", *flags])

    model = f"--model={exported['signal']}"
    assert run(model, f"--output={tmp_path}/served/7", "--methods=gradient,grad_cam", "--layer=conv1d_1") == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["explain_gradient", "explain_grad_cam", "written"]
    assert (tmp_path / "served" / "7" / "saved_model.pb").is_file()
    for flags, message in [
        ([model], "--output is empty"),
        ([f"--output={tmp_path}/x"], "--model is empty"),
        ([model, f"--output={tmp_path}/x", "--methods=gradient", "--layer=conv1d_1"], "'gradient' has a parameter"),
        ([model, f"--output={tmp_path}/x", "--methods=grad_cam", "--layer=nowhere"], "no layer 'nowhere'"),
    ]:
        assert run(*flags) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_a_method_that_is_not_the_local_one_is_left_out_and_the_others_stay(exported, tmp_path, monkeypatch):
    """A counterpart that computes something else."""
    from attribution.export import _graph
    from attribution.methods import cam

    def wrong(passes, **parameters):
        return _graph._grad_cam(passes, **parameters) * 1.01

    monkeypatch.setitem(_graph._COUNTERPARTS, cam.grad_cam, wrong)
    with pytest.raises(BadInput, match=r"the map of 'grad_cam' would differ .* by 1\.0e-02"):
        export.export(exported["signal"], tmp_path / "strict", ["gradient", "grad_cam"])
    assert not (tmp_path / "strict").exists()
    left_out = {}
    written = export.export(exported["signal"], tmp_path / "kept", ["gradient", "grad_cam"], left_out=left_out)
    assert set(written) == {"gradient"} and set(left_out) == {"grad_cam"}
    served = signatures(tmp_path / "kept")
    assert "explain_gradient" in served and "explain_grad_cam" not in served
    sheet = json.loads(served[SHEET](rows=tf.zeros(1, tf.int32))["sheet"].numpy()[0])
    assert set(sheet["methods"]) == {"gradient"}
    with pytest.raises(BadInput, match="'grad_cam' is skipped"):  # nothing would be left
        export.export(exported["signal"], tmp_path / "none", ["grad_cam"], left_out={})


@pytest.fixture(scope="module")
def without_relu(tmp_path_factory):
    """A network whose activation is no ReLU, and that has no layer with positions."""
    layers = tf.keras.layers
    network = tf.keras.Sequential([tf.keras.Input((6,)), layers.Dense(5, activation="gelu"), layers.Dense(3)])
    network.export(path := tmp_path_factory.mktemp("without_relu") / "network", verbose=False)
    return path


def only_with_numpy(queries):
    return np.tanh(np.array(queries.input_gradient().tolist()))


def test_methods_that_do_not_fit_are_left_out_with_a_line_each_and_the_others_stay(without_relu, tmp_path, capsys):
    own = f"{__file__}:only_with_numpy"
    wanted = ["rise", "guided_backprop", "gradient", "grad_cam", own, "tf_explain.gradient", "deeplift"]
    arguments = [f"--model={without_relu}", f"--output={tmp_path}/served", f"--methods={','.join(wanted)}"]
    assert cli.execute(command.main, command.FLAGS, command.__doc__, ["export", *arguments]) == 0
    printed = capsys.readouterr()
    kept = ["explain_gradient", "explain_deeplift"]
    assert [line.split()[0] for line in printed.out.splitlines()] == [*kept, "written"]
    names = ["rise", "guided_backprop", "grad_cam", "only_with_numpy", "tf_explain.gradient"]
    assert {line.split("'")[1] for line in printed.err.splitlines() if "is skipped: " in line} == set(names)
    assert f"attribution.inspect --model={without_relu} lists" in printed.err
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures
    assert {name for name in served if name.startswith("explain_")} == set(kept)
    assert LAYER not in served


def test_where_no_method_fits_the_reasons_are_one_line(without_relu, tmp_path, capsys):
    arguments = [f"--model={without_relu}", f"--output={tmp_path}/served", "--methods=guided_backprop,grad_cam"]
    assert cli.execute(command.main, command.FLAGS, command.__doc__, ["export", *arguments]) == 2
    error = capsys.readouterr().err
    assert "'guided_backprop' is skipped: " in error and "'grad_cam' is skipped: " in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.fixture
def unread(monkeypatch):
    """Fail if a model is read."""
    monkeypatch.setattr(attribution.loading, "load_model", lambda *_, **__: pytest.fail("the model was read"))


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["a.py:f", "b.py:f"], "f"),
        (["gradient", "a.py:gradient"], "gradient"),
        (["package.module:g", "grad_cam", "other:g"], "g"),
        (["grad_cam", "grad_cam"], "grad_cam"),
    ],
)
def test_methods_whose_signatures_would_have_one_name_are_refused(names, label, tmp_path, unread, capsys):
    arguments = ["--model=absent", f"--output={tmp_path}/served", f"--methods={','.join(names)}"]
    assert cli.execute(command.main, command.FLAGS, command.__doc__, ["export", *arguments]) == 2
    error = capsys.readouterr().err
    assert f"'{names[0]}' and '{names[-1]}' would both be the signature 'explain_{label}'" in error


@pytest.mark.parametrize("place", ["x.npy", "x.npy/2", "x.npy/deeper/model", "/proc/nope/x", "broken/link"])
def test_an_output_that_cannot_be_written_is_refused_before_the_model_is_read(place, tmp_path, unread):
    (tmp_path / "x.npy").touch()
    (tmp_path / "broken").symlink_to("nowhere")
    with pytest.raises(BadInput, match=r"name a|name another"):
        export.export("absent", tmp_path / place, ["gradient"])
