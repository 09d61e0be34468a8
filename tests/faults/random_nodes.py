"""Draw operations of TensorFlow with random attributes and inputs, among them texts that name a file or an address."""

from __future__ import annotations

import functools
import random

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2, op_def_pb2, types_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import kernels

FUNCTION = "identity_of_a_float"  # in the library of each graph
SHAPES = [(), (1,), (2,), (3,), (2, 3), (3, 3), (1, 4, 4, 3), (2, 2, 2, 1), (1, 3, 3, 3, 1), (0,)]
_COMMON = (types_pb2.DT_FLOAT, types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_INT64, types_pb2.DT_STRING)
_RARE = (types_pb2.DT_DOUBLE, types_pb2.DT_UINT8, types_pb2.DT_BOOL, types_pb2.DT_HALF, types_pb2.DT_COMPLEX64)
_REFERENCE = 100  # added to the number of a type
# Sources of tensors that are no numbers, by type.
_SOURCES = {
    types_pb2.DT_RESOURCE: ("VarHandleOp", "HashTableV2", "MutableHashTableV2", "StackV2", "AnonymousHashTable",
                            "TensorArrayV3", "MutableDenseHashTableV2", "RandomDatasetV2"),
    types_pb2.DT_VARIANT: ("EmptyTensorList", "EmptyTensorMap", "OptionalNone", "RangeDataset", "TensorListReserve"),
}  # fmt: skip


@functools.cache
def operations() -> dict[str, op_def_pb2.OpDef]:
    """Return the operations of this TensorFlow by name; those of its own tests are left out."""
    every = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())).op
    return {operation.name: operation for operation in every}


@functools.cache
def types_of_kernels(operation: str) -> list[dict[str, list[int]]]:
    """Return the types of the attributes that each kernel for a CPU takes; empty where an operation cannot run."""
    return [
        {constraint.name: list(constraint.allowed_values.list.type) for constraint in kernel.constraint}
        for kernel in kernels.get_registered_kernels_for_op(operation).kernel
        if kernel.device_type == "CPU"
    ]


class Nodes:
    """Random nodes.

    Parameters
    ----------
    seed
        Of every choice.
    target
        Path that nothing may touch; texts name it.
    """

    def __init__(self, seed: str, target: str):
        self.random = random.Random(seed)
        self.texts = [target, target, target, f"file://{target}", f"file:{target}", "", "local://", "bytes://x", "grpc://127.0.0.1:9",
                      "127.0.0.1:9", "NHWC", "SAME", "x", "\x00\xff"]  # fmt: skip
        self.target, self.shape, self.types = target, (), {}
        self.operations = operations()

    def drawn(self, operation: str, name: str, shape: tuple[int, ...] | None = None) -> list[node_def_pb2.NodeDef]:
        """Return a node of an operation, last, after the nodes of its inputs, many of which have one shape."""
        definition = self.operations[operation]
        if "/" not in name:
            self.shape = self.random.choice(SHAPES) if shape is None else shape
        node = node_def_pb2.NodeDef(name=name, op=operation)
        possible = types_of_kernels(operation)
        self.types = self.random.choice(possible) if possible else {}
        for attribute in definition.attr:
            self.set_attribute(node.attr[attribute.name], attribute)
        nodes = []
        for kind in self._input_types(node, definition):
            inputs = self._input(kind, f"{name}/{len(node.input)}")
            nodes += inputs
            node.input.append(inputs[-1].name)
        if self.random.random() < 0.03:
            node.attr["_XlaMustCompile"].b = True
        return [*nodes, node]

    def set_attribute(self, value: attr_value_pb2.AttrValue, attribute: op_def_pb2.OpDef.AttrDef) -> None:
        """Give a random value to an attribute."""
        choose = self.random
        if attribute.HasField("default_value") and choose.random() < 0.5:
            value.CopyFrom(attribute.default_value)
            return
        many, kind = attribute.type.startswith("list("), attribute.type.removeprefix("list(").rstrip(")")
        drawn = []
        for _ in range(max(attribute.minimum, choose.randint(1, 2)) if many else 1):
            one = attr_value_pb2.AttrValue()
            getattr(self, f"_set_{kind}")(one, attribute)
            drawn.append(one)
        if not many:
            value.CopyFrom(drawn[0])
            return
        value.list.SetInParent()
        for one in drawn:
            field = one.WhichOneof("value")
            values = getattr(value.list, field)
            values.append(getattr(one, field)) if field in "sifb" or field == "type" else values.add().CopyFrom(
                getattr(one, field)
            )

    def _set_type(self, value, attribute):
        allowed = (
            self.types.get(attribute.name)
            or list(attribute.allowed_values.list.type)
            or [*_COMMON * 3, *_RARE, *_SOURCES]
        )
        common = [kind for kind in allowed if kind in _COMMON]
        value.type = self.random.choice(common if common and self.random.random() < 0.8 else allowed)

    def _set_string(self, value, attribute):
        value.s = self.random.choice(list(attribute.allowed_values.list.s) or [text.encode() for text in self.texts])

    def _set_int(self, value, attribute):
        value.i = self.random.choice((0, 1, 1, 2, -1)) if not attribute.has_minimum else (
            attribute.minimum + self.random.choice((0, 0, 1, 2)))  # fmt: skip

    def _set_float(self, value, attribute):
        value.f = self.random.choice((0.0, 0.5, 1.0, -1.0, 1e30))

    def _set_bool(self, value, attribute):
        value.b = self.random.random() < 0.5

    def _set_shape(self, value, attribute):
        value.shape.CopyFrom(tf.TensorShape(self.random.choice((*SHAPES, None))).as_proto())

    def _set_tensor(self, value, attribute):
        value.tensor.CopyFrom(tf.make_tensor_proto(self._array(types_pb2.DT_FLOAT)))

    def _set_func(self, value, attribute):
        value.func.name = FUNCTION

    def _array(self, kind):
        shape = self.random.choice((self.shape, self.shape, self.shape, (), (2,), self.random.choice(SHAPES)))
        size = int(np.prod(shape))
        if kind == types_pb2.DT_STRING:
            texts = [self.random.choice((self.target, self.random.choice(self.texts))) for _ in range(size)]
            return np.array([text.encode() for text in texts], object).reshape(shape)
        values = [self.random.choice((0, 1, 2, 1, 3)) for _ in range(size)]
        return np.array(values, np.float64).astype(tf.as_dtype(kind).as_numpy_dtype).reshape(shape)

    def _input_types(self, node, definition):
        for argument in definition.input_arg:
            if argument.type_list_attr:
                yield from node.attr[argument.type_list_attr].list.type
                continue
            kind = argument.type or node.attr[argument.type_attr].type
            number = node.attr[argument.number_attr].i if argument.number_attr else 1
            yield from [kind + (_REFERENCE if argument.is_ref else 0)] * min(number, 9)

    def _input(self, kind, name):
        if kind in _SOURCES:
            return self.drawn(self.random.choice(_SOURCES[kind]), name)
        if kind > _REFERENCE:
            nodes = self.drawn("VariableV2", name)
            nodes[-1].attr["dtype"].type = kind - _REFERENCE
            return nodes
        node = node_def_pb2.NodeDef(name=name, op="Const")
        node.attr["dtype"].type = kind
        try:
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(self._array(kind), tf.as_dtype(kind)))
        except (TypeError, ValueError):  # no arrays of this type in NumPy
            node.op = "Placeholder"
            del node.attr["value"]
            return [node]
        if self.random.random() < 0.2:
            return [node]
        # A default hides the shape, which TensorFlow would look at before the operation runs.
        hidden = node_def_pb2.NodeDef(name=f"{name}/hidden", op="PlaceholderWithDefault", input=[name])
        hidden.attr["dtype"].type = kind
        hidden.attr["shape"].shape.unknown_rank = True
        return [node, hidden]


def graph_of(nodes: list[node_def_pb2.NodeDef]) -> graph_pb2.GraphDef:
    """Return a graph of nodes, with the function that their attributes name."""
    graph = graph_pb2.GraphDef()
    removed = [operations()[node.op].deprecation.version for node in nodes]
    graph.versions.producer = min([tf.version.GRAPH_DEF_VERSION, *(version - 1 for version in removed if version)])
    graph.node.extend(nodes)
    function = graph.library.function.add()
    function.signature.name = FUNCTION
    function.signature.input_arg.add(name="x", type=types_pb2.DT_FLOAT)
    function.signature.output_arg.add(name="y", type=types_pb2.DT_FLOAT)
    function.ret["y"] = "x"
    return graph
