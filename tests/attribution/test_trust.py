"""A SavedModel that could do more than compute is refused before it is loaded, and the operation is named."""

import glob
import os

import pytest
import tensorflow as tf

import attribution
from attribution import trust
from attribution_benchmarks.command_line import BadInput

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
    }


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
    path = str(tmp_path / "model")
    tf.saved_model.save(module, path, signatures=module.__call__)
    with pytest.raises(BadInput, match="'WriteFile'"):
        attribution.load_model(path)
    assert not os.path.exists(target)
    attribution.load_model(path, trust=True)
    assert os.path.exists(target) and trust.TRUST_VARIABLE not in os.environ


def test_what_only_computes_is_loaded(tmp_path):
    path = saved(tmp_path / "model", lambda x: [tf.random.uniform(()), tf.print(x), tf.debugging.assert_positive(2)])
    trust.check(path)
    assert attribution.load_model(saved(tmp_path / "other", lambda x: [])).num_classes == 2


@pytest.mark.parametrize("path", sorted(glob.glob("saved_models/*/*/1")))
def test_the_committed_models_are_allowed(path):
    trust.check(path)


def test_a_file_of_tensorflow_1_is_allowed_and_its_initialiser_looked_at(tmp_path):
    v1 = tf.compat.v1
    for name, attack in (("good", False), ("bad", True)):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, (None, 3), "x")
            scores = tf.matmul(x, v1.get_variable("w", (3, 2)), name="scores")
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
        trust.check(tmp_path)
