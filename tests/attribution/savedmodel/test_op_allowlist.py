"""A SavedModel that uses an operation that is not allowed is refused before it is loaded."""

import glob
import os
from concurrent import futures

import keras
import pytest
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2

import attribution
from attribution.errors import BadInput
from attribution.savedmodel import op_allowlist
from attribution.savedmodel.file import SavedFile

SIGNAL = tf.TensorSpec((None, 3), tf.float32)


class Scaled(tf.Module):
    """A model that computes, with a variable and a table."""

    def __init__(self, target=""):
        super().__init__()
        self.target = target
        self.scale = tf.Variable([[1.0, 2.0], [0.5, 1.0], [3.0, 0.1]])
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([1], tf.int64), tf.constant([2], tf.int64))
        self.table = tf.lookup.StaticHashTable(pairs, 0)

    @tf.function(input_signature=[SIGNAL])
    def __call__(self, x):
        with tf.control_dependencies(self.more(x) or []):
            return {"scores": tf.identity(x) @ self.scale}

    def more(self, x):
        return [self.table.lookup(tf.constant(1, tf.int64))]


def saved(directory, more):
    module = Scaled()
    module.more = more
    tf.saved_model.save(module, str(directory), signatures=module.__call__)
    return str(directory)


def effects(target):
    """Operation -> what makes a graph have it."""
    target = str(target)
    return {
        "WriteFile": lambda x: [tf.io.write_file(target, "gotcha")],
        "ReadFile": lambda x: [tf.io.read_file("/etc/hostname")],
        "MatchingFiles": lambda x: [tf.io.matching_files("/etc/*")],
        "PrintV2": lambda x: [tf.print(x, output_stream=f"file://{target}")],
        "DebugIdentity": lambda x: [tf.raw_ops.DebugIdentity(input=x, debug_urls=[f"file://{target}"])],
        "EagerPyFunc": lambda x: [tf.py_function(lambda a: a, [x], tf.float32)],
        "PyFunc": lambda x: [tf.numpy_function(lambda a: a, [x], tf.float32)],
        "SaveV2": lambda x: [tf.raw_ops.SaveV2(prefix=target, tensor_names=["x"], shape_and_slices=[""], tensors=[x])],
        "RestoreV2": lambda x: tf.raw_ops.RestoreV2(
            prefix=target, tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
        ),
        "ImmutableConst": lambda x: [
            tf.raw_ops.ImmutableConst(dtype=tf.float32, shape=[1], memory_region_name="/etc/hostname")
        ],
        "InitializeTableFromTextFileV2": _table_of_a_file,
        "DecodeProtoV2": lambda x: _decoded(target),
        "EncodeProto": lambda x: [
            tf.io.encode_proto([[1]], [tf.constant([[1]])], ["size"], "tensorflow.TensorShapeProto", target or "/etc")
        ],
        "Abort": lambda x: [tf.raw_ops.Abort()],
        "XlaCustomCall": lambda x: [xla.custom_call([x], "target", "", tf.float32, (1, 3))],
        "XlaCallModule": lambda x: _module('stablehlo.custom_call @target(%x) : (tensor<f32>) -> tensor<f32>'),
        "CopyHost": lambda x: [tf.raw_ops.CopyHost(input=x, debug_ops_spec=[f"DebugIdentity;file://{target};0"])],
    }  # fmt: skip


def _decoded(descriptors):
    """Return what makes a graph decode a message described by descriptors."""
    return tf.io.decode_proto(
        tf.constant([b""]), "tensorflow.TensorShapeProto", ["unknown_rank"], [tf.bool], descriptors
    ).values


def _module(operation):
    """Return the outputs of a module in StableHLO that computes an operation of ``%x``."""
    text = f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{ %y = {operation}  func.return %y : tensor<f32> }}"
    version = stablehlo.get_current_version()
    module = stablehlo.serialize_portable_artifact_str(text.encode(), version)
    return xla.call_module([1.0], version=9, module=module, Sout=[()], Tout=[tf.float32], platforms=["CPU"])


def _table_of_a_file(x):
    handle = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    read = {"filename": "/etc/hostname", "key_index": -2, "value_index": -1}
    tf.raw_ops.InitializeTableFromTextFileV2(table_handle=handle, **read)
    return [tf.raw_ops.LookupTableSizeV2(table_handle=handle)]


@pytest.mark.parametrize("operation", effects(""))
def test_what_reads_writes_or_calls_python_is_named_and_refused(tmp_path, operation):
    target = tmp_path / "target"
    path = saved(tmp_path / "model", effects(target)[operation])
    with pytest.raises(BadInput, match=f"'{operation}'.*--trust_model"):
        attribution.load_model(path)
    assert not list(tmp_path.glob("target*"))


def test_an_initialiser_does_not_run(tmp_path):
    """The attack that was found: a resource whose initialiser writes a file while TensorFlow loads the model."""
    target = str(tmp_path / "target")

    class Resource(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self):
            return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])

        def _initialize(self):
            tf.io.write_file(target, "gotcha")

    module = Scaled()
    module.resource = Resource()
    handle = module.resource.resource_handle  # created outside of the function, which captures it
    module.more = lambda x: [tf.raw_ops.AssignVariableOp(resource=handle, value=0.0)]
    path = str(tmp_path / "model")
    tf.saved_model.save(module, path, signatures=module.__call__)
    with pytest.raises(BadInput, match="'WriteFile'"):
        attribution.load_model(path)
    assert not os.path.exists(target)
    attribution.load_model(path, trust=True)
    assert os.path.exists(target)


def test_trust_belongs_to_a_call_and_not_to_its_process(tmp_path):
    path = saved(tmp_path / "model", lambda x: [tf.io.write_file(str(tmp_path / "target"), "")])
    network, environment = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), dict(os.environ)

    def load(number):
        if number % 3:
            return attribution.load_model(network) is not None
        with pytest.raises(BadInput, match="'WriteFile'"):
            attribution.load_model(path)
        return True

    with op_allowlist.trusted(), futures.ThreadPoolExecutor(4) as threads:
        assert all(threads.map(load, range(12)))
    assert dict(os.environ) == environment and not op_allowlist.is_trusted()


def test_a_text_that_a_function_takes_from_its_caller_is_refused(tmp_path):
    @tf.function(autograph=False)
    def printer(x):
        tf.print(x)
        return tf.identity(x)

    path = saved(tmp_path / "model", lambda x: [printer(x)])
    file = tmp_path / "model" / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    library = message.meta_graphs[0].graph_def.library.function
    (name,) = {f.signature.name for f in library if any(node.op == "PrintV2" for node in f.node_def)}
    nodes = [node for function in library for node in function.node_def]
    for node in nodes:
        if node.op == "PrintV2":
            node.attr["output_stream"].placeholder = "stream"
        if "f" in node.attr and node.attr["f"].func.name == name:
            node.op = name
            node.attr.clear()
            node.attr["stream"].s = f"file://{tmp_path / 'target'}".encode()
    file.write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match="'PrintV2' with the output_stream"):
        SavedFile(path).load().signatures["serving_default"](tf.zeros((1, 3)))
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["NoSuchOperation", "WriteFile2", "function_of_another_file"])
def test_an_unknown_operation_is_refused(name):
    node = node_def_pb2.NodeDef(name="a", op=name)
    op_allowlist.check("model", {"the graph": [node]}, {name})  # a function of this file
    with pytest.raises(BadInput, match=f"'model' uses the operations '{name}' \\(in the graph\\)"):
        op_allowlist.check("model", {"the graph": [node]}, set())


def test_an_unknown_text_is_refused(monkeypatch):
    """An attribute that a later TensorFlow adds may be a path."""
    node = node_def_pb2.NodeDef(name="a", op="Einsum")
    node.attr["equation"].s = b"ij->ji"
    op_allowlist.check("model", {"the graph": [node]}, set())
    monkeypatch.setattr(op_allowlist, "TEXTS", op_allowlist.TEXTS - {"equation"})
    with pytest.raises(BadInput, match="'Einsum'"):
        op_allowlist.check("model", {"the graph": [node]}, set())


def test_what_only_computes_is_loaded(tmp_path):
    path = saved(tmp_path / "model", lambda x: [tf.random.uniform(()), tf.print(x), tf.debugging.assert_positive(2)])
    SavedFile(path).load()
    assert attribution.load_model(saved(tmp_path / "other", lambda x: [])).num_classes == 2


def test_a_pipe_as_descriptors_is_refused(tmp_path):
    """Reading it would wait without end."""
    os.mkfifo(tmp_path / "pipe")
    path = saved(tmp_path / "model", lambda x: _decoded(str(tmp_path / "pipe")))
    with pytest.raises(BadInput, match="'DecodeProtoV2' with the descriptor_source '/"):
        attribution.load_model(path)


@pytest.mark.parametrize("source", ["local://", "bytes://"])
def test_descriptors_in_the_program_or_the_attribute_are_allowed(tmp_path, source):
    SavedFile(saved(tmp_path, lambda x: _decoded(source))).load()


@pytest.mark.parametrize(
    "operation",
    ["stablehlo.sine %x : tensor<f32>", "stablehlo.custom_call @Sharding(%x) : (tensor<f32>) -> tensor<f32>"],
)
def test_modules_of_xla_that_only_compute_are_allowed(tmp_path, operation):
    SavedFile(saved(tmp_path, lambda x: _module(operation))).load()


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("XlaCallModule", lambda module: b"ML" + module[::-1], "'XlaCallModule'"),
        (
            "XlaCallModule",
            lambda module: module[:-9].replace(b"HLO_v1.", b"HLO_v9."),
            r"HLO 9\..*newer than 1\..*TensorFlow",
        ),
        ("TRTEngineOp", lambda module: module, "TF-TRT"),
    ],
)
def test_a_module_that_cannot_be_read_is_refused(tmp_path, kind, change, words):
    path = saved(tmp_path, lambda x: _module("stablehlo.sine %x : tensor<f32>"))
    file = tmp_path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for function in message.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if node.op == "XlaCallModule":
                node.op, node.attr["module"].s = kind, change(node.attr["module"].s)
    file.write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match=words):
        SavedFile(path).load()


def test_custom_gradients_are_followed_without_their_entry_among_the_functions(tmp_path):
    target = str(tmp_path / "target")

    @tf.custom_gradient
    def saving(x):
        def gradient(upstream):
            tf.raw_ops.SaveV2(prefix=target, tensor_names=["x"], shape_and_slices=[""], tensors=[upstream])
            return upstream

        return tf.identity(x), gradient

    path = saved(tmp_path / "model", lambda x: [saving(x)])
    file = tmp_path / "model" / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    graph = message.meta_graphs[0]
    gradients = [each.gradient_func for each in graph.graph_def.library.registered_gradients]
    assert gradients
    for name in gradients:
        graph.object_graph_def.concrete_functions.pop(name, None)
    file.write_bytes(message.SerializeToString())
    with pytest.raises(BadInput, match="'SaveV2'"):
        SavedFile(path).load()


@pytest.mark.parametrize("path", sorted(glob.glob("saved_models/*/*/1")))
def test_the_committed_models_are_allowed(path):
    SavedFile(path).load()


def test_a_file_of_tensorflow_1_is_allowed_and_its_initialiser_looked_at(tmp_path):
    v1 = tf.compat.v1
    for name, attack in (("good", False), ("bad", True)):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, (None, 3), "x")
            scores = tf.matmul(x, v1.get_variable("w", initializer=tf.ones((3, 2))), name="scores")
            initialise = tf.io.write_file(str(tmp_path / "target"), "gotcha") if attack else None
            session.run(v1.global_variables_initializer())
            signature = v1.saved_model.predict_signature_def({"x": x}, {"scores": scores})
            builder = v1.saved_model.Builder(str(tmp_path / name))
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=initialise)
            builder.save()
    assert attribution.load_model(tmp_path / "good").num_classes == 2
    with pytest.raises(BadInput, match="'WriteFile'"):
        attribution.load_model(tmp_path / "bad")
    assert not (tmp_path / "target").exists()


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x0a\xff\xff")
    with pytest.raises(BadInput, match=r"saved_model\.pb is not a readable SavedModel"):
        SavedFile(tmp_path).load()
