"""A file is cut down to what its signatures use, checked, and loaded as it was checked."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import attribution
from attribution.errors import BadInput
from attribution.savedmodel.file import SavedFile

SCRIPT = pathlib.Path(__file__).with_name("keras2_models.py")
KERAS2 = ("image", "gru", "masked_tokens", "normalized", "text", "words")


@pytest.fixture(scope="session")
def keras2(tmp_path_factory):
    """Directory of files that Keras 2 saved after training, each with inputs and scores."""
    directory = tmp_path_factory.mktemp("keras2")
    shutil.unpack_archive(SCRIPT.with_suffix(".tar.xz"), directory)
    return directory


@pytest.mark.parametrize("name", KERAS2)
def test_files_that_keras_2_saved_after_training_give_its_scores_and_gradients(name, keras2, monkeypatch):
    check_scores_and_gradients(keras2, name, monkeypatch)


def test_so_do_files_of_the_installed_keras_2(tmp_path, monkeypatch, quick_python):
    done = subprocess.run([quick_python, SCRIPT, tmp_path, "masked_tokens"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    check_scores_and_gradients(tmp_path, "masked_tokens", monkeypatch)


def check_scores_and_gradients(keras2, name, monkeypatch):
    """Gradients equal central differences. The process cannot import Keras 2, as where it is not installed."""
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    model, saved = attribution.load_model(keras2 / name), np.load(keras2 / f"{name}.npz")
    inputs, explain_input = saved["inputs"], None
    if inputs.dtype.kind == "U":  # text has no gradient
        inputs = inputs.astype(object)
        explain_input = next(node for node in model.graph.nodes if node.endswith("/embedding_lookup"))
    np.testing.assert_allclose(model.scores(inputs), saved["scores"], rtol=1e-5, atol=1e-6)
    view = model.at(explain_input)
    feed, targets = view.feed_of(model.feed(inputs)), np.arange(len(inputs)) % 3
    values, gradients = feed[view.input], attribution.explain("gradient", view, feed, targets)
    direction = np.random.default_rng(3).normal(size=values.shape).astype(np.float32)

    def scores(step):
        moved = {**feed, view.input: values + np.float32(step) * direction}
        return view.scores(moved)[np.arange(len(targets)), targets].astype(np.float64)

    differences = (scores(1e-2) - scores(-1e-2)) / 2e-2
    along = (gradients * direction).reshape(len(values), -1).sum(axis=1)
    np.testing.assert_allclose(along, differences, atol=2e-3 * np.abs(differences).max())


def test_slot_variables_and_training_functions_are_not_loaded(keras2):
    loaded = SavedFile(keras2 / "image").load()
    assert len(loaded.variables) == 10  # the network's: 2 of each convolution, 4 of the normalization, 2 of the head
    assert not hasattr(loaded, "optimizer") and not callable(loaded)


def test_the_directory_is_left_as_it_is(keras2):
    def state():
        files = sorted(path for path in (keras2 / "words").rglob("*") if path.is_file())
        return {path: (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) for path in files}

    before = state()
    attribution.load_model(keras2 / "words")
    assert state() == before


@pytest.mark.parametrize("name", ["image", "words"])
def test_a_path_may_have_the_characters_of_a_pattern(name, keras2, tmp_path, monkeypatch):
    directory = shutil.copytree(keras2, tmp_path / "run [1]*?\\", ignore=lambda *_: set(KERAS2) - {name})
    check_scores_and_gradients(directory, name, monkeypatch)


def test_what_was_read_is_what_is_loaded(exported, tmp_path):
    directory = shutil.copytree(exported["signal"], tmp_path / "model")
    file = SavedFile(directory)
    (directory / "saved_model.pb").write_bytes(b"another file")
    assert file.load(["serve"]).signatures["serve"](tf.zeros((1, 20, 2)))["output_0"].shape == (1, 4)


class Chosen(tf.Module):
    """A model with a signature that only computes, and much else."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.scale = tf.Variable([[1.0, 2.0], [0.5, 1.0], [3.0, 0.1]])

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32)])
    def scores(self, x):
        return {"scores": x @ self.scale}

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32)])
    def logged(self, x):
        with tf.control_dependencies([tf.io.write_file(self.path, "written")]):
            return {"scores": x @ self.scale}


class Writing(tf.saved_model.experimental.TrackableResource):
    """A resource that writes a file when it is initialized, which TensorFlow does while it loads a model."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])

    def _initialize(self):
        tf.io.write_file(self.path, "written")


def test_what_the_signature_does_not_use_is_neither_checked_nor_run(tmp_path):
    written = str(tmp_path / "written")
    module = Chosen(written)
    module.resource = Writing(written)
    tf.saved_model.save(
        module, str(tmp_path / "model"), signatures={"serving_default": module.scores, "logged": module.logged}
    )
    model = attribution.load_model(tmp_path / "model")
    np.testing.assert_allclose(model.scores(np.ones((1, 3), np.float32)), [[4.5, 3.1]], rtol=1e-6)
    with pytest.raises(BadInput, match="'WriteFile'"):
        attribution.load_model(tmp_path / "model", signature="logged")
    assert not (tmp_path / "written").exists()


def test_a_trusted_model_stays_trusted_when_its_file_is_loaded_again(tmp_path):
    module = Chosen(str(tmp_path / "written"))
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.logged)
    model = attribution.load_model(tmp_path / "model", trust=True)
    assert set(model.load_file().signatures) == {"serving_default"}


def test_assets_survive_loading_and_saving(tmp_path):
    (tmp_path / "words.txt").write_text("yes\nno\n")
    module = Chosen("")
    module.lists = [tf.saved_model.Asset(str(tmp_path / "words.txt"))]
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.scores)
    loaded = SavedFile(tmp_path / "model").load()
    tf.saved_model.save(loaded, str(tmp_path / "again"), signatures=loaded.signatures)
    assert (tmp_path / "again" / "assets" / "words.txt").read_text() == "yes\nno\n"


def write_tf1(path, add):
    """Write a TensorFlow 1 file of ``x @ w``; ``add(x)`` adds to the graph and may return an initializer."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        w = v1.get_variable("w", initializer=np.arange(6, dtype=np.float32).reshape(3, 2), use_resource=True)
        scores = tf.matmul(x, w, name="scores")
        tf.identity(scores, name="named")
        initializer = add(x)
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": scores})
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=initializer)
        builder.save()


def test_nodes_of_tensorflow_1_that_no_signature_uses_are_left_out(tmp_path):
    def add(x):
        tf.numpy_function(lambda a: a, [x], tf.float32)

    write_tf1(tmp_path / "model", add)
    model = attribution.load_model(tmp_path / "model")
    np.testing.assert_array_equal(model.scores(np.ones((1, 3), np.float32)), [[6, 9]])
    operations = {operation.type for operation in model.load_file().graph.get_operations()}
    assert "PyFunc" not in operations and "SaveV2" not in operations and "Identity" in operations


def test_a_graph_that_restores_from_another_file_is_refused(tmp_path):
    write_tf1(tmp_path / "model", lambda x: None)
    path = tmp_path / "model" / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    graph = message.meta_graphs[0].graph_def
    other = graph.node.add(name="other", op="Const")
    other.attr["dtype"].type = tf.string.as_datatype_enum
    other.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/somewhere/variables"))
    (restore,) = [node for node in graph.node if node.op == "RestoreV2"]
    restore.input[0] = "other"
    path.write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match="'RestoreV2'"):
        attribution.load_model(tmp_path / "model")


@pytest.mark.parametrize("name", ["../variables/variables.index", "/etc/hostname", "absent"])
def test_a_table_is_filled_from_the_models_own_assets_only(name, keras2, tmp_path):
    directory = shutil.copytree(keras2 / "words", tmp_path / "model")
    message = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    for asset in message.meta_graphs[0].asset_file_def:
        asset.filename = name
    (directory / "saved_model.pb").write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match="'InitializeTableFromTextFileV2'"):
        attribution.load_model(directory)


def test_a_table_is_not_filled_through_a_link_out_of_the_model(keras2, tmp_path):
    directory = shutil.copytree(keras2 / "words", tmp_path / "model")
    (tmp_path / "outside").write_text("secret\n")
    for asset in (directory / "assets").iterdir():
        asset.unlink()
        asset.symlink_to(tmp_path / "outside")
    with pytest.raises(BadInput, match="'InitializeTableFromTextFileV2'"):
        attribution.load_model(directory)


@pytest.fixture
def tf1_table(tmp_path):
    """A TensorFlow 1 file whose table is filled from an asset, and a function that edits its graph."""
    v1 = tf.compat.v1
    (tmp_path / "words.txt").write_text("7\n")

    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        asset = tf.constant(str(tmp_path / "words.txt"), name="asset")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        pair = tf.raw_ops.IdentityN(input=[asset, tf.constant(str(tmp_path / "secret"))], name="pair")
        table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.string, shared_name="table")
        fill = tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=table, filename=asset, key_index=-1, value_index=-2, name="fill"
        )
        first = tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=tf.constant([0], tf.int64), default_value=tf.constant("0"), name="first"
        )
        number = tf.reshape(tf.strings.to_number(first), (1,))
        scores = tf.add(x[:, :2] + v1.get_variable("w", (2,)) * 0, number, name="scores")
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": scores})
        with tf.control_dependencies([fill, pair[0].op]):
            main = tf.no_op(name="main")
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, assets_collection=[asset], main_op=main
        )
        builder.save()
    (tmp_path / "secret").write_text("12345\n")

    def edited(change):
        path = tmp_path / "model" / "saved_model.pb"
        message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
        graph = message.meta_graphs[0]
        for packed in graph.collection_def.pop("saved_model_assets").any_list.value:
            packed.Unpack(graph.asset_file_def.add())
        change(graph, {node.name: node for node in graph.graph_def.node})
        path.write_bytes(message.SerializeToString())
        return tmp_path / "model"

    return edited


def test_a_table_of_tensorflow_1_is_filled_from_the_models_own_asset(tf1_table):
    def nothing(graph, nodes):
        pass

    directory = tf1_table(nothing)
    for path in (directory, shutil.copytree(directory, directory.parent / "run [1]")):
        scores = attribution.load_model(path).scores(np.zeros((1, 3), np.float32))
        np.testing.assert_array_equal(scores, [[7, 7]])


@pytest.mark.parametrize("absolute", [True, False])
def test_a_second_path_for_the_same_asset_must_be_the_models_own(absolute, tf1_table, tmp_path):
    def two_paths(graph, nodes):
        other = graph.asset_file_def.add()
        other.tensor_info.name = "asset:0"
        other.filename = str(tmp_path / "secret") if absolute else "../../secret"

    with pytest.raises(BadInput, match="'InitializeTableFromTextFileV2'"):
        attribution.load_model(tf1_table(two_paths))


def test_a_signature_that_fills_a_table_reads_the_asset_and_not_the_path_in_the_graph(tf1_table, tmp_path):
    def filled_by_the_signature(graph, nodes):
        nodes["asset"].attr["value"].tensor.string_val[:] = [str(tmp_path / "secret").encode()]
        nodes["first"].input.append("^fill")
        nodes["main"].input.remove("^fill")

    loaded = SavedFile(tf1_table(filled_by_the_signature)).load()
    scores = loaded.signatures["serving_default"](x=tf.zeros((1, 3)))["scores"]
    np.testing.assert_array_equal(scores, [[7, 7]])


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
@pytest.mark.parametrize("has_objects", [True, False])
def test_a_pipe_in_place_of_the_variables_is_refused(name, has_objects, exported, tmp_path):
    if has_objects:
        shutil.copytree(exported["signal"], tmp_path / "model")
    else:
        write_tf1(tmp_path / "model", lambda x: None)
    pipe = tmp_path / "model" / "variables" / name
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match=f"{name} is not a regular file"):
        attribution.load_model(tmp_path / "model")


@pytest.mark.parametrize("damaged", ["the map of signatures", "a signature"])
def test_signatures_that_are_not_functions_are_one_line(damaged, exported, tmp_path):
    directory = shutil.copytree(exported["signal"], tmp_path / "model")
    message = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    objects = message.meta_graphs[0].object_graph_def.nodes
    (signatures,) = [node for node in objects if node.user_object.identifier == "signature_map"]
    if damaged == "a signature":
        for child in signatures.children:
            objects[child.node_id].user_object.identifier = "_generic_user_object"
    else:
        signatures.user_object.identifier = "_generic_user_object"
    (directory / "saved_model.pb").write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match=r"^'.*' cannot be read as a SavedModel.*: its signatures are not functions$"):
        attribution.load_model(directory)


def test_two_functions_of_one_name_are_refused(exported, tmp_path):
    """TensorFlow runs one of them, and the check must not have looked at the other."""
    shutil.copytree(exported["image"], tmp_path / "model")
    path = next((tmp_path / "model").rglob("saved_model.pb"))
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    library = message.meta_graphs[0].graph_def.library
    library.function.extend(list(library.function))
    path.write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match="two of its functions have one name"):
        attribution.load_model(tmp_path / "model")


def test_only_the_signature_that_takes_a_ragged_or_sparse_tensor_is_refused(tmp_path):
    dense, ragged = tf.TensorSpec((None, 4), tf.float32), tf.RaggedTensorSpec((None, None), tf.float32, 1)
    kernel = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)

    class Several(tf.Module):
        @tf.function(input_signature=[ragged])
        def train(self, rows):
            return {"loss": tf.reduce_sum(rows, 1)}

        @tf.function(input_signature=[dense, dense])
        def two(self, x, x_1):
            """Its inputs are named as the parts of a ragged tensor are, and it makes one itself."""
            total = self.train(tf.RaggedTensor.from_tensor(x))["loss"]
            return {"scores": (x + 2 * x_1) @ kernel + 0 * total[:, tf.newaxis]}

        @tf.function(input_signature=[dense, tf.SparseTensorSpec((None, 4), tf.float32)])
        def sparse(self, a, rows):
            return {"scores": a @ kernel + tf.sparse.sparse_dense_matmul(rows, kernel)}

        @tf.function(input_signature=[ragged, dense])
        def mixed(self, z, a):
            return {"scores": tf.reduce_sum(z, 1, keepdims=True) + a @ kernel}

    module = Several()
    names = ("train", "two", "sparse", "mixed")
    for folder in ("saved", "saved again"):
        tf.saved_model.save(
            module, str(tmp_path / folder), signatures={name: getattr(module, name, None) for name in names}
            if folder == "saved" else module.signatures,
        )  # fmt: skip
        model = attribution.load_model(tmp_path / folder, signature="two")
        x = np.eye(4, dtype=np.float32)
        np.testing.assert_allclose(model.scores({"x": x, "x_1": x}), 3 * kernel, rtol=1e-5)
        for name in ("train", "sparse", "mixed"):
            with pytest.raises(BadInput, match=r"seems to be a part of a ragged or sparse tensor; export .* dense"):
                attribution.load_model(tmp_path / folder, signature=name)
        module = tf.saved_model.load(str(tmp_path / folder))


def test_a_file_without_the_tag_serve_says_which_tags_it_has(tmp_path):
    message = saved_model_pb2.SavedModel()
    message.meta_graphs.add().meta_info_def.tags.extend(["serve", "tpu"])
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match=r"with the tag 'serve': its tags are 'serve\+tpu'"):
        attribution.load_model(tmp_path)


@pytest.mark.parametrize("tags", [["mine"], ["train", "serve"]])
def test_the_only_graph_loads_whatever_its_tag(tags, tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": tf.tanh(x)})
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, tags, {"serving_default": signature})
        builder.save()
    scores = attribution.load_model(tmp_path / "model").scores(np.ones((1, 3), np.float32))
    np.testing.assert_allclose(scores, np.tanh(np.ones((1, 3))), rtol=1e-6)


def test_embeddings_whose_function_does_not_return_the_lookup_load(tmp_path):
    """TensorFlow 2.3 could write them so; TensorFlow does not inline such a function."""
    module = tf.Module()
    module.table = tf.Variable(np.arange(12).reshape(6, 2).astype(np.float32))

    @tf.function(autograph=False)
    def inner(x):
        return tf.reduce_sum(tf.gather(module.table, tf.cast(x, tf.int32)), 1)

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")], autograph=False)
    def scores(x):
        return {"scores": inner(x)}

    tf.saved_model.save(module, str(tmp_path), signatures=scores)
    path = tmp_path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    library = message.meta_graphs[0].graph_def.library.function
    (looking_up,) = (one for one in library if any(node.op == "ResourceGather" for node in one.node_def))
    looking_up.control_ret.clear()
    del looking_up.signature.control_output[:]
    for node in looking_up.node_def:
        node.input[:] = [tensor for tensor in node.input if not tensor.startswith("^")]
    path.write_bytes(message.SerializeToString())
    found = attribution.load_model(tmp_path).scores(np.array([[0, 1, 5]], np.float32))
    np.testing.assert_array_equal(found, [[0 + 2 + 10, 1 + 3 + 11]])


def test_one_number_for_all_inputs_is_no_score(tmp_path):
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")], autograph=False)
    def loss(x):
        return {"loss": tf.reduce_sum(x)}

    tf.saved_model.save(module, str(tmp_path), signatures=loss)
    with pytest.raises(BadInput, match=r"output has shape \(\); scores of shape \(batch, classes\) are needed"):
        attribution.load_model(tmp_path)


def test_a_file_without_signature_is_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(BadInput, match=r"has no signature; export it with keras\.Model\.export, or with a signature"):
        attribution.load_model(tmp_path)


def test_a_loop_that_returns_its_variables_loads(tmp_path):
    """TensorFlow 2.0 wrote recurrent layers so."""
    module = tf.Module()
    module.kernel = tf.Variable(tf.fill((3, 3), 0.5))

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")], autograph=False)
    def function(x):
        specs = [tf.TensorSpec((), tf.int32), tf.TensorSpec((None, 3)), tf.TensorSpec((), tf.resource)]

        def step(i, y, kernel):
            return i + 1, y @ tf.raw_ops.ReadVariableOp(resource=kernel, dtype=tf.float32), tf.identity(kernel)

        test = tf.function(lambda i, y, kernel: i < 2).get_concrete_function(*specs)
        body = tf.function(step).get_concrete_function(*specs)
        loop = tf.raw_ops.While(
            input=[0, x, module.kernel.handle], cond=test, body=body, output_shapes=[(), (None, 3), ()]
        )
        with tf.control_dependencies([tf.identity(loop[2])]):
            return {"scores": tf.identity(loop[1])}

    tf.saved_model.save(module, str(tmp_path), signatures=function)
    scores = attribution.load_model(tmp_path).scores(np.ones((1, 3), np.float32))
    np.testing.assert_allclose(scores, np.full((1, 3), 2.25))
