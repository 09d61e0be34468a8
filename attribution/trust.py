"""What a SavedModel may do before it is loaded: compute, and nothing else.

A SavedModel is a program. TensorFlow runs parts of it while it loads, and operations that write files, open connections
or call Python are among what it may hold. So every operation is looked at in the file itself, before TensorFlow loads
it. Allowed is what TensorFlow declares to be without state, apart from what does read or write in spite of that, and
the stateful operations listed here: variables, tables, control flow, random numbers. The operations of checkpoints,
which every SavedModel has, are allowed where nothing that is run depends on them. Anything else is named and refused,
unless the user trusts who made the file.

No more is promised: a trusted or harmless file can still compute for ever or ask for all memory.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator

from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.command_line.reading import opened
from attribution_benchmarks.command_line.run import TRUST_VARIABLE

MOST_BYTES = 2 << 30  # a file of this kind cannot be larger

STATEFUL = re.compile(
    "|".join(
        [
            # variables
            r"VarHandleOp|_VarHandlesOp|VarIsInitializedOp|VariableShape|VariableV2|Variable|ReadVariableOp",
            r"_ReadVariablesOp|AssignVariableOp|AssignAddVariableOp|AssignSubVariableOp|DisableCopyOnRead",
            r"DestroyResourceOp|ResourceGather(Nd)?|ResourceScatter\w+|ResourceStridedSliceAssign|ResourceCountUpTo",
            r"Resource(Sparse)?Apply\w+|TemporaryVariable|IsResourceHandleRefCounting",
            # calls and control flow
            r"StatefulPartitionedCall|While|If|Case|_While|_If|Assert|CheckNumerics(V2)?|GuaranteeConst|Empty|_Arg",
            r"_Retval|XlaCallModule|DeepCopy",
            # values kept while a graph runs
            r"TensorArray\w*|Stack(V2|PushV2|PopV2|CloseV2)?",
            # tables whose content is in the file itself
            r"(Anonymous)?(Mutable(Dense)?)?HashTable(V2|OfTensors|OfTensorsV2)?|InitializeTableV2",
            r"LookupTable(Find|Size|Insert|Remove|Export|Import)V2",
            # random numbers
            r"Random(Uniform|UniformInt|StandardNormal|Gamma|Poisson|PoissonV2|Shuffle|Crop)|TruncatedNormal|Multinomial",
            r"ParameterizedTruncatedNormal|Stateful(Uniform|UniformInt|UniformFullInt|StandardNormal|StandardNormalV2)",
            r"Stateful(TruncatedNormal|RandomBinomial)|RngSkip|RngReadAndSkip|NonDeterministicInts",
            r"StatelessRandomGetAlg|SampleDistortedBoundingBox(V2)?",
        ]
    )
)
# Without state by TensorFlow's own word, and yet made to read, write, send or receive.
NOT_PURE = re.compile(
    r".*(Dataset|Iterator|File|Debug|Session|Summary|Rpc|Collective|TPU|Tpu|Nccl|Send|Recv|Remote|Sql|Snapshot|Dump"
    r"|PyFunc|VocabRemapping|Checkpoint|Save|Restore|RemapMatrix|Symbolic).*|ImmutableConst|Print|PrintV2"
)
PURE_IN_SPITE_OF_ITS_NAME = {"ShardedFilename", "SymbolicGradient"}
OF_CHECKPOINTS = {"SaveV2", "RestoreV2", "MergeV2Checkpoints", "Save", "SaveSlices", "Restore", "RestoreSlice"}


@contextlib.contextmanager
def trusted(trust: bool = True) -> Iterator[None]:
    """Load SavedModels unseen meanwhile, in this process and in those it starts; without effect if not ``trust``."""
    before = os.environ.get(TRUST_VARIABLE)
    if trust:
        os.environ[TRUST_VARIABLE] = "1"
    try:
        yield
    finally:
        if trust and before is None:
            del os.environ[TRUST_VARIABLE]


def check(directory: str | os.PathLike) -> None:
    """Refuse a SavedModel that could do more than compute, unless SavedModels are ``trusted``.

    Parameters
    ----------
    directory
        Holds ``saved_model.pb``.

    Raises
    ------
    BadInput
        With the first such operations and where they are.
    """
    if os.environ.get(TRUST_VARIABLE) == "1":
        return
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(directory, "saved_model.pb")
    with opened(path, "SavedModel") as file:
        content = file.read(MOST_BYTES + 1)
        message = saved_model_pb2.SavedModel()
        try:
            message.ParseFromString(content)
        except DecodeError as error:
            raise ValueError("it is damaged") from error
    found = {}
    for meta_graph in message.meta_graphs:
        found |= dict(_strangers(meta_graph))
    if found:
        named = ", ".join(f"'{operation}' (in {place})" for operation, place in list(found.items())[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise BadInput(
            f"'{directory}' has the operations {named}{more}, which can do more than compute: read or write files, "
            "open connections, run Python; if you trust who made it, say so with --trust_model, or with trust=True"
        )


def _strangers(meta_graph) -> Iterator[tuple[str, str]]:
    """Yield operations of a graph that are not allowed, each with the place where it stands."""
    graph = meta_graph.graph_def
    functions = {function.signature.name: function for function in graph.library.function}
    bodies = {"the graph": graph.node, **{f"function '{name}'": f.node_def for name, f in functions.items()}}
    for place, nodes in bodies.items():
        for node in nodes:
            if node.op not in functions and node.op not in OF_CHECKPOINTS and not _allowed(node):
                yield node.op, place
    # Functions that save or restore, themselves or through others.
    saving = {name for name, f in functions.items() if any(node.op in OF_CHECKPOINTS for node in f.node_def)}
    while True:
        calling = {name for name, f in functions.items() if saving & {c for node in f.node_def for c in _called(node)}}
        if calling <= saving:
            break
        saving |= calling
    for name in sorted(saving & set(meta_graph.object_graph_def.concrete_functions)):
        yield _first_of_checkpoints(functions, name), f"function '{name}', which can be called"
    nodes = {node.name: node for node in graph.node}
    restoring = [meta_graph.saver_def.restore_op_name]
    for root, allowed in ((_run(meta_graph), ()), (restoring, ("RestoreV2", "Restore", "RestoreSlice"))):
        for node in _ancestors(nodes, root):
            of_saving = [name for name in _called(node) if name in saving]
            if node.op in OF_CHECKPOINTS and node.op not in allowed:
                yield node.op, f"node '{node.name}', which is run"
            elif of_saving and not allowed:
                yield _first_of_checkpoints(functions, of_saving[0]), f"node '{node.name}', which is run"


def _allowed(node) -> bool:
    import tensorflow as tf

    if node.op in PURE_IN_SPITE_OF_ITS_NAME or STATEFUL.fullmatch(node.op):
        return True
    if node.op in ("Print", "PrintV2"):  # to standard error; to a file where it says so
        return node.op == "Print" or not node.attr["output_stream"].s.startswith(b"file:")
    if NOT_PURE.fullmatch(node.op):
        return False
    try:
        return not tf.Graph().op_def_for_type(node.op).is_stateful
    except (KeyError, LookupError, RuntimeError, TypeError, AttributeError):
        return False  # not an operation of this TensorFlow


def _called(node) -> Iterator[str]:
    """Yield the names of the functions that a node calls."""
    yield node.op
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _run(meta_graph) -> Iterator[str]:
    """Yield the names of nodes that are run, at loading or to answer: outputs of signatures, initialisers."""
    for signature in meta_graph.signature_def.values():
        for tensor in [*signature.outputs.values(), *signature.inputs.values()]:
            yield tensor.name
    for name in ("saved_model_main_op", "legacy_init_op", "init_op", "table_initializer"):
        yield from meta_graph.collection_def[name].node_list.value


def _ancestors(nodes, names: Iterable[str]) -> Iterator:
    """Yield each node that some nodes depend on, these included."""
    waiting, seen = [*names], set()
    while waiting:
        name = waiting.pop().lstrip("^").split(":")[0]
        if name in nodes and name not in seen:
            seen.add(name)
            yield nodes[name]
            waiting += nodes[name].input


def _first_of_checkpoints(functions, name: str) -> str:
    """Return the first operation of checkpoints that a function holds, itself or through others."""
    waiting, seen = [name], set()
    while waiting:
        function = functions.get(waiting.pop())
        if function is None or function.signature.name in seen:
            continue
        seen.add(function.signature.name)
        for node in function.node_def:
            if node.op in OF_CHECKPOINTS:
                return node.op
            waiting += [called for called in _called(node) if called in functions]
    return "SaveV2"
