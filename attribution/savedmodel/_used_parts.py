"""The parts of a SavedModel's graph that some of its signatures use.

TensorFlow 2 keeps objects (variables, tables, functions) and a library of functions; TensorFlow 1 keeps one graph of
nodes. Both functions here copy what is used into another ``MetaGraphDef``, and return the nodes in it that read the
SavedModel's own files: its variables or its assets.
"""

from __future__ import annotations

import collections
import itertools
import os
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attribution.graph.view import node_of

IN_GRAPH = "the graph"  # place of a node that is in no function
INITIALIZER = "__saved_model_init_op"  # signature
_PLAIN = "_generic_user_object"
# Objects that TensorFlow itself can create again. Those of other classes, such as optimizers, become plain ones.
_CONTAINERS = ("signature_map", "trackable_list_wrapper", "trackable_dict_wrapper", "trackable_tuple_wrapper")
_METHODS = ("_create_resource", "_initialize", "_destroy_resource")  # of tables and the like; TensorFlow calls them
_VARIABLES = ("variables", "trainable_variables", "model_variables", "local_variables")  # collections
_MAIN = "saved_model_main_op"  # collection
_RESTORES = ("RestoreV2", "Restore", "RestoreSlice")
_WITH_DEFAULT = "PlaceholderWithDefault"
INPUTS = ("Placeholder", "PlaceholderV2", _WITH_DEFAULT)
_READS_TEXT = ("InitializeTableFromTextFileV2", "InitializeTableFromTextFile")

Reads = set[tuple[str, str]]  # place and name of nodes


def in_function(name: str) -> str:
    """Return the place of a node in a function."""
    return f"function '{name}'"


def copy_used_objects(source: Any, signatures: Collection[str], directory: pathlib.Path, target: Any) -> Reads:
    """Copy the objects and functions that signatures of a TensorFlow 2 file use.

    An object that is not used becomes an empty one, so that the numbers of objects do not change. The weights that the
    file lists as ``variables`` and its assets count as used. Objects that lead to used ones are kept, because the
    checkpoint finds variables through them.

    Parameters
    ----------
    source, target : MetaGraphDef
        The file's graph, and an empty one.
    signatures
        Names of signatures.
    directory
        Of the SavedModel.

    Returns
    -------
    set of (str, str)
        Place and name of nodes that read the SavedModel's own variables or assets.
    """
    objects = source.object_graph_def.nodes
    used = _Used(source)
    of_root = _children(objects[0])
    wanted = _children(objects[of_root["signatures"]]) if "signatures" in of_root else {}
    used.add(wanted[name] for name in signatures)
    used.add(number for number, node in enumerate(objects) if _asset(source, node, directory))
    if "variables" in of_root:
        used.add(i for i in _children(objects[of_root["variables"]]).values() if objects[i].HasField("variable"))
    _copy_objects(objects, used.objects, target.object_graph_def.nodes)
    concrete = source.object_graph_def.concrete_functions
    for name in used.functions & set(concrete):
        target.object_graph_def.concrete_functions[name].CopyFrom(concrete[name])
    constants = {objects[i].constant.operation for i in used.objects if objects[i].HasField("constant")}
    target.graph_def.node.extend(node for node in source.graph_def.node if node.name in constants)
    _copy_library(source, used, target)
    target.asset_file_def.extend(source.asset_file_def)
    return _reads_of_assets(source, used, directory)


def _copy_objects(objects: Any, used: Collection[int], target: Any) -> None:
    """Copy the used objects and those that lead to them, and an empty one in place of any other."""
    kept = set(used) | _leading_to(objects, used)
    for number, node in enumerate(objects):
        copy = target.add()
        if number in kept and (node.user_object.identifier in _CONTAINERS or number in used):
            copy.CopyFrom(node)
            del copy.children[:], copy.slot_variables[:]
        is_custom = copy.HasField("user_object") and copy.user_object.identifier not in _CONTAINERS
        if copy.WhichOneof("kind") is None or is_custom:
            copy.user_object.identifier = _PLAIN
            copy.user_object.version.producer = copy.user_object.version.min_consumer = 1
        if number in kept:
            copy.children.extend(child for child in node.children if child.node_id in kept)


class _Used:
    """Objects, by number, and functions, by name, that are used directly or through others."""

    def __init__(self, graph: Any):
        self.objects: set[int] = set()
        self.functions: set[str] = set()
        self.called: set[str] = set()  # functions that others call
        self._objects = graph.object_graph_def.nodes
        self._concrete = graph.object_graph_def.concrete_functions
        library = graph.graph_def.library
        self._bodies = {function.signature.name: function.node_def for function in library.function}
        # Gradients belong to a name in an attribute, or to a function.
        self._gradients = {
            gradient.registered_op_type: gradient.gradient_func for gradient in library.registered_gradients
        }
        self._derivatives = {gradient.function_name: gradient.gradient_func for gradient in library.gradient}

    def add(self, parts: Iterable[int | str]) -> None:
        """Add objects and functions, and all that they use."""
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            if isinstance(part, int) and part not in self.objects:
                self.objects.add(part)
                waiting += _uses_of_object(self._objects, part)
            elif isinstance(part, str) and part in self._bodies and part not in self.functions:
                self.functions.add(part)
                waiting += self._concrete[part].bound_inputs if part in self._concrete else ()
                waiting += self.add_called_by(self._bodies[part])
                waiting += [self._derivatives[part]] if part in self._derivatives else ()

    def add_called_by(self, nodes: Iterable[Any]) -> set[str]:
        """Return the functions that nodes call, or that compute their gradients, and remember them as called."""
        names = set()
        for node in nodes:
            names.add(node.op)
            if "_gradient_op_type" in node.attr:
                names.add(self._gradients.get(node.attr["_gradient_op_type"].s.decode("utf-8", "replace"), ""))
            names.update(_functions_in(node.attr.values()))
        names &= set(self._bodies)
        self.called |= names
        return names


def _functions_in(values: Iterable[Any]) -> Iterator[str]:
    """Yield the names of functions in attributes' values."""
    for value in values:
        for function in [value.func] if value.HasField("func") else value.list.func:
            yield function.name
            yield from _functions_in(function.attr.values())


def _uses_of_object(objects: Any, number: int) -> Iterator[int | str]:
    node = objects[number]
    yield from (reference.node_id for reference in node.dependencies)
    yield from node.function.concrete_functions
    yield node.bare_concrete_function.concrete_function_name
    yield node.captured_tensor.concrete_function
    if node.HasField("resource"):
        yield from (child.node_id for child in node.children if child.local_name in _METHODS)
    for saved in node.saveable_objects.values():
        yield saved.save_function
        yield saved.restore_function


def _children(node: Any) -> dict[str, int]:
    return {child.local_name: child.node_id for child in node.children}


def _leading_to(objects: Any, numbers: Iterable[int]) -> set[int]:
    """Return the objects that have some objects among their children, directly or through others."""
    parents = collections.defaultdict(list)
    for number, node in enumerate(objects):
        for child in node.children:
            parents[child.node_id].append(number)
    found: set[int] = {0}
    waiting = [parent for number in numbers for parent in parents[number]]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += parents[number]
    return found


def _copy_library(source: Any, used: _Used, target: Any) -> None:
    library, copy = source.graph_def.library, target.graph_def.library
    target.graph_def.versions.CopyFrom(source.graph_def.versions)
    copy.function.extend(function for function in library.function if function.signature.name in used.functions)
    for function in copy.function:
        _return_lookups(function)
    copy.gradient.extend(gradient for gradient in library.gradient if gradient.function_name in used.functions)
    copy.registered_gradients.extend(
        gradient for gradient in library.registered_gradients if gradient.gradient_func in used.functions
    )


def _return_lookups(function: Any) -> None:
    """Make lookups in a variable control outputs of a function, without which TensorFlow does not inline it.

    It takes them for side effects. TensorFlow 2.3 wrote functions of embeddings without them.
    """
    returned = set(function.control_ret.values())
    for node in function.node_def:
        if node.op == "ResourceGather" and node.name not in returned and node.name not in function.control_ret:
            function.control_ret[node.name] = node.name
            function.signature.control_output.append(node.name)


def _reads_of_assets(source: Any, used: _Used, directory: pathlib.Path) -> Reads:
    """Return the nodes that fill a table from an asset, which a function of the file takes as a bound input."""
    reads = set()
    objects, concrete = source.object_graph_def.nodes, source.object_graph_def.concrete_functions
    for function in source.graph_def.library.function:
        name = function.signature.name
        if name not in used.functions - used.called or name not in concrete:
            continue  # a caller could give it another file
        bound = concrete[name].bound_inputs
        arguments = function.signature.input_arg[len(function.signature.input_arg) - len(bound) :]
        assets = {
            argument.name
            for argument, number in zip(arguments, bound, strict=True)
            if _asset(source, objects[number], directory)
        }
        reads |= {(in_function(name), node.name) for node in function.node_def if _reads_one_of(node, assets)}
    return reads


def _asset(source: Any, node: Any, directory: pathlib.Path) -> bool:
    """Return whether an object is an asset that is in the SavedModel's folder of assets."""
    return node.HasField("asset") and _is_own(
        source.asset_file_def[node.asset.asset_file_def_index].filename, directory
    )


def _reads_one_of(node: Any, names: Collection[str]) -> bool:
    return node.op in _READS_TEXT and len(node.input) > 1 and node_of(node.input[1]) in names


def _is_own(filename: str, directory: pathlib.Path) -> bool:
    """Return whether an asset's name is that of an ordinary file in the SavedModel, symbolic links resolved."""
    name = pathlib.PurePath(filename)
    path = directory / "assets" / name
    return (
        not name.is_absolute()
        and ".." not in name.parts
        and path.is_file()
        and path.resolve().is_relative_to(directory.resolve())
    )


def copy_used_nodes(
    source: Any,
    signatures: Collection[str],
    tensors: Iterable[str],
    inputs: Iterable[str],
    directory: pathlib.Path,
    target: Any,
) -> Reads:
    """Copy the nodes and functions that signatures or tensors of a TensorFlow 1 file use.

    The nodes that restore the variables and initialize tables are copied too, and so are identities of copied nodes,
    because they can be the names of layers.

    ``tensors``, such as ``"dense:0"``, are ignored where the graph has them not; ``inputs`` are tensors that are given,
    so that their defaults are not used. The rest is as for ``copy_used_objects``.
    """
    assets = _assets(source)
    for name in signatures:
        target.signature_def[name].CopyFrom(source.signature_def[name])
    nodes = {node.name: node for node in source.graph_def.node}
    given = {node_of(tensor) for tensor in inputs}
    if len(target.signature_def) == 1:  # else another signature may leave them to their defaults
        given |= {node_of(info.name) for one in target.signature_def.values() for info in one.inputs.values()}
    for name in given & nodes.keys():
        if nodes[name].op == _WITH_DEFAULT:  # which TensorFlow would compute as a constant
            nodes[name] = type(nodes[name])(name=name, op="Placeholder", attr=nodes[name].attr)
    roots = itertools.chain.from_iterable(map(_tensors, target.signature_def.values()))
    run = ancestors(nodes, [*roots, *tensors, *_copy_initializers(source, target)])
    restoring = ancestors(nodes, [source.saver_def.restore_op_name, source.saver_def.filename_tensor_name])
    kept = run | restoring | ancestors(nodes, [asset.tensor_info.name for asset in assets])
    kept |= _copy_variables(source, nodes, kept, target)
    kept |= _identities_of(nodes.values(), kept)
    own = _paths_of_own_assets(assets, nodes, directory)
    _copy_nodes(nodes, kept, own, target.graph_def.node)
    used = _Used(source)
    used.add(used.add_called_by(target.graph_def.node))
    _copy_library(source, used, target)
    target.asset_file_def.extend(assets)
    if source.HasField("saver_def"):
        target.saver_def.CopyFrom(source.saver_def)
    checkpoint = node_of(source.saver_def.filename_tensor_name)
    restores = [nodes[name] for name in kept - run if nodes[name].op in _RESTORES]
    reading = {node.name for node in restores if node_of(node.input[0]) == checkpoint}
    return {(IN_GRAPH, name) for name in kept if name in reading or _reads_one_of(nodes[name], own)}


def _copy_nodes(nodes: Mapping[str, Any], kept: Collection[str], own: Mapping[str, bytes], target: Any) -> None:
    """Copy the kept nodes; constants get the paths of ``own`` assets, which TensorFlow feeds to initializers only."""
    target.extend(node for name, node in nodes.items() if name in kept)
    for copy in target:
        copy.attr.pop("_class", None)  # colocation with nodes that may be gone
        if copy.name in own:
            copy.attr["value"].tensor.string_val[:] = [own[copy.name]]


def ancestors(nodes: Mapping[str, Any], tensors: Iterable[str], ends: Collection[str] = ()) -> set[str]:
    """Return the nodes, by name, that tensors depend on, up to the ``ends``; names not in ``nodes`` are ignored."""
    waiting, found = [*tensors], set()
    while waiting:
        name = node_of(waiting.pop())
        if name in nodes and name not in found:
            found.add(name)
            waiting += nodes[name].input if name not in ends else ()
    return found


def _tensors(definition: Any) -> Iterator[str]:
    """Yield the names of a signature's tensors."""
    for info in [*definition.inputs.values(), *definition.outputs.values()]:
        yield info.name
        yield from (value for _, value in info.coo_sparse.ListFields())
        yield from (component.name for component in info.composite_tensor.components)


def _assets(source: Any) -> list[Any]:
    """Return the assets, each with the tensor that TensorFlow feeds with its path."""
    from tensorflow.core.protobuf import meta_graph_pb2

    assets = list(source.asset_file_def)
    if not assets and "saved_model_assets" in source.collection_def:
        for packed in source.collection_def["saved_model_assets"].any_list.value:
            assets.append(meta_graph_pb2.AssetFileDef())
            packed.Unpack(assets[-1])
    return assets


def _paths_of_own_assets(assets: Sequence[Any], nodes: Mapping[str, Any], directory: pathlib.Path) -> dict[str, bytes]:
    """Return the constants that can only be paths of the SavedModel's own assets, by name, each with its path.

    Where several assets name one constant, TensorFlow feeds one of them, so that all must be the SavedModel's own.
    """
    filenames = collections.defaultdict(list)
    for asset in assets:
        filenames[node_of(asset.tensor_info.name)].append(asset.filename)
    return {
        name: os.fsencode(directory / "assets" / files[-1])
        for name, files in filenames.items()
        if name in nodes and nodes[name].op == "Const" and all(_is_own(file, directory) for file in files)
    }


def _copy_initializers(source: Any, target: Any) -> list[str]:
    """Copy the names of the operations that TensorFlow runs to initialize a file, and return them."""
    if INITIALIZER in source.signature_def:
        names = [info.name for info in source.signature_def[INITIALIZER].outputs.values()]
        target.collection_def[_MAIN].node_list.value.extend(names)
        return names
    for key in (_MAIN, "legacy_init_op"):
        if key in source.collection_def:
            target.collection_def[key].CopyFrom(source.collection_def[key])
            return list(source.collection_def[key].node_list.value)
    names = []
    if "table_initializer" in source.collection_def:
        names = list(source.collection_def["table_initializer"].node_list.value)
        target.collection_def["table_initializer"].node_list.value.extend(names)
    return names + [variable.initializer_name for _, variable in _variables(source, ["local_variables"])]


def _variables(source: Any, collections_: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the variables of collections, each with its collection."""
    from tensorflow.core.framework import variable_pb2

    for key in collections_:
        if key in source.collection_def:
            for value in source.collection_def[key].bytes_list.value:
                yield key, variable_pb2.VariableDef.FromString(value)


def _copy_variables(source: Any, nodes: Mapping[str, Any], kept: Collection[str], target: Any) -> set[str]:
    """Copy the variables whose nodes are kept; return the nodes that their values are read from.

    The operation that gave a variable its first value is skipped: its value comes from the checkpoint.
    """
    reading = set()
    for key, variable in _variables(source, _VARIABLES):
        if node_of(variable.variable_name) in kept:
            if node_of(variable.initializer_name) not in kept:
                variable.initializer_name = variable.variable_name
            variable.initial_value_name = ""
            snapshot = variable.snapshot_name or f"{node_of(variable.variable_name)}/Read/ReadVariableOp:0"
            reading |= ancestors(nodes, [snapshot])
            target.collection_def[key].bytes_list.value.append(variable.SerializeToString())
    return reading


def _identities_of(nodes: Any, kept: Collection[str]) -> set[str]:
    """Return the identities of kept nodes, and of these."""
    found: set[str] = set()
    waiting = [node for node in nodes if node.op == "Identity" and node.name not in kept]
    while True:
        new = [
            node
            for node in waiting
            if all(node_of(tensor) in kept or node_of(tensor) in found for tensor in node.input)
        ]
        if not new:
            return found
        found |= {node.name for node in new}
        waiting = [node for node in waiting if node.name not in found]
