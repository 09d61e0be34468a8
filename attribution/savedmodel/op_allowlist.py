"""The operations that a SavedModel may run.

A SavedModel is a program, and TensorFlow runs parts of it while it loads it. Operations that write files, open
connections or call Python can be among them. This module lists the allowed operations; every other one is refused by
name, unless the user trusts the file.

Allowed are:

- operations that TensorFlow declares to be without state, except the families in ``NOT_PURE``;
- the stateful operations in ``STATEFUL``: variables, tables, control flow, random numbers;
- of either, only those whose text attributes are all in ``TEXTS``, or that TensorFlow limits to an enumeration. A text
  that names a file or an address, or that holds a program, is looked at (``CONSTRAINED``) or not allowed. A text that
  a function takes from its caller is not allowed.

``attribution.savedmodel.file`` calls ``check`` with the part of a file that is loaded, and with nothing else. The check
does not limit time or memory: an allowed model can compute without end.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from attribution.errors import BadInput

_IS_TRUSTED = contextvars.ContextVar("is_trusted", default=False)  # of a call: other threads have their own value

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
            r"_Retval|XlaCallModule|DeepCopy|DeviceIndex",
            # recurrent networks on a GPU
            r"CudnnRNN(V2|V3|Backprop|BackpropV2|BackpropV3)?",
            # values stored while a graph runs
            r"TensorArray\w*|Stack(V2|PushV2|PopV2|CloseV2)?",
            # tables whose content is in the file itself
            r"(Anonymous)?(Mutable(Dense)?)?HashTable(V2|OfTensors|OfTensorsV2)?|InitializeTableV2",
            r"LookupTable(Find|Size|Insert|Remove|Export|Import)V2",
            # random numbers
            r"Random(Uniform|UniformInt|StandardNormal|Gamma|Poisson|PoissonV2|Shuffle|Crop)|TruncatedNormal|Multinomial",
            r"ParameterizedTruncatedNormal|Stateful(Uniform|UniformInt|UniformFullInt|StandardNormal|StandardNormalV2)",
            r"Stateful(TruncatedNormal|RandomBinomial)|RngSkip|RngReadAndSkip|NonDeterministicInts",
            r"StatelessRandomGetAlg|SampleDistortedBoundingBox(V2)?",
            r"Print|PrintV2",  # to standard output or standard error, see CONSTRAINED
        ]
    )
)
# TensorFlow declares these stateless, but they read, write, send, receive, run a program or end the process.
NOT_PURE = re.compile(
    r".*(Dataset|Iterator|File|Debug|Session|Summary|Rpc|Collective|TPU|Tpu|Nccl|Send|Recv|Remote|Sql|Snapshot|Dump"
    r"|PyFunc|VocabRemapping|Checkpoint|Save|Restore|RemapMatrix|Infeed|Outfeed|DTensor|SparseCore|CustomCall|Mlir).*"
    r"|ImmutableConst|Abort|Copy|CopyHost|CustomAggregator"
)
# Attributes with free text that only change what is computed, or that name something inside the process.
TEXTS = frozenset(
    "activation_mode allowed_devices batching_queue combiner compression_type config config_proto container containers "
    "context_dense_keys context_sparse_keys data_format dct_method debug_name dense_keys dim_args_spec "
    "dimension_numbers disabled_checks dst_format encoding end equation executor_type feature_list_dense_keys "
    "feature_list_dense_missing_assumed_empty feature_list_sparse_keys field_delim field_names fill fill_mode "
    "frame_name fused_ops input_encoding input_order interpolation kernel_type left_pad manual_sharding message "
    "message_format message_type metadata na_value noise op_names padding pattern placeholder platforms "
    "precision_config rewrite right_pad row_partition_types separator sharding shared_name shared_names source "
    "sparse_keys src_format stack_name template tensor_array_name tuple_mask var_name xmp_metadata "
    "bad_indices_policy".split()
)
_TEXT_FIELDS = {"string": "s", "list(string)": "list"}  # type of an attribute: field of its value
_OWN_DESCRIPTORS = ("local://", "bytes://")  # compiled in, or in the attribute itself; anything else is a path
_MODULE_CALLS = re.compile(
    r'stablehlo\.custom_call @(?:"(?:mhlo|chlo|stablehlo|tf)\.\w+"|(?:mhlo|chlo|stablehlo|tf)\.\w+|shape_assertion'
    r"|Sharding|SPMDFullToShardShape|SPMDShardToFullShape)\("
)
_MODULE_EFFECTS = re.compile(r"custom_call|stablehlo\.(?:infeed|outfeed|send|recv)\b")


def _describes_itself(value: bytes) -> bool:
    return not value or value.startswith(tuple(prefix.encode() for prefix in _OWN_DESCRIPTORS))


def _prints_to_a_stream(value: bytes) -> bool:
    return not value.startswith(b"file:")


def _only_computes(module: bytes) -> bool:
    """Return whether a StableHLO module calls nothing outside of XLA; False where it cannot be read."""
    from attribution.graph._tf_internals import stablehlo_text

    text = stablehlo_text(module)
    return text is not None and not _MODULE_EFFECTS.search(_MODULE_CALLS.sub("", text))


# Attributes with text that is harmless for some values: name to a test of the value.
CONSTRAINED: Mapping[str, Callable[[bytes], bool]] = {
    "descriptor_source": _describes_itself,
    "output_stream": _prints_to_a_stream,
    "module": _only_computes,
}


@contextlib.contextmanager
def trusted(trust: bool = True) -> Iterator[None]:
    """Load SavedModels without the check in this block; other threads and processes keep the check.

    Parameters
    ----------
    trust
        If False, nothing changes.

    Raises
    ------
    BadInput
        If it is neither True nor False.
    """
    if not isinstance(trust, bool):
        raise BadInput(f"trust must be True or False, not {trust!r}")
    token = _IS_TRUSTED.set(trust or _IS_TRUSTED.get())
    try:
        yield
    finally:
        _IS_TRUSTED.reset(token)


def is_trusted() -> bool:
    """Return whether SavedModels are loaded without the check now."""
    return _IS_TRUSTED.get()


def check(
    directory: str | os.PathLike[str],
    bodies: Mapping[str, Iterable[Any]],
    functions: Collection[str],
    reading_own_files: Collection[tuple[str, str]] = (),
) -> None:
    """Refuse a SavedModel that uses an operation which is not allowed, unless SavedModels are ``trusted``.

    Parameters
    ----------
    directory
        Named in the message.
    bodies
        Place, as the message names it, to its ``NodeDef`` messages: all that is loaded, and nothing else.
    functions
        Names of the file's functions that are loaded, which nodes can call as operations.
    reading_own_files
        Place and name of nodes that are allowed to read, because they read the SavedModel's own variables or assets.

    Raises
    ------
    BadInput
        With the first three operations that are not allowed, and where they are.
    """
    if is_trusted():
        return
    found = {}
    for place, nodes in bodies.items():
        for node in nodes:
            if (place, node.name) not in reading_own_files and (problem := _problem(node, functions)):
                found.setdefault(problem, place)
    if found:
        named = ", ".join(f"{operation} (in {place})" for operation, place in list(found.items())[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise BadInput(
            f"'{directory}' uses the operations {named}{more}, which can do more than compute, such as read or write "
            "files, open connections or run Python; if you trust who made the file, pass --trust_model, or trust=True"
        )


def _problem(node: Any, functions: Collection[str]) -> str | None:
    """Return an operation that is not allowed, as a message names it; ``None`` if it is."""
    from attribution.graph._tf_internals import operation_definition

    definition = operation_definition(node.op)
    if definition is None:  # a call, or an operation that this TensorFlow does not have
        return None if node.op in functions else f"'{node.op}'"
    if not STATEFUL.fullmatch(node.op) and (definition.is_stateful or NOT_PURE.fullmatch(node.op)):
        return f"'{node.op}'"
    texts = [attribute for attribute in definition.attr if attribute.type in _TEXT_FIELDS]
    return next(filter(None, (_problem_of_text(node, attribute) for attribute in texts)), None)


def _problem_of_text(node: Any, attribute: Any) -> str | None:
    """Return an operation if one of its text attributes is not allowed, else ``None``."""
    given = node.attr[attribute.name] if attribute.name in node.attr else attribute.default_value
    if attribute.name in node.attr and given.WhichOneof("value") != _TEXT_FIELDS[attribute.type]:
        # In a function, a placeholder takes its value from each call, which is not checked.
        return f"'{node.op}' with the {attribute.name} missing or taken from the caller"
    if attribute.HasField("allowed_values"):
        return None
    if attribute.name in CONSTRAINED:
        allowed = CONSTRAINED[attribute.name](given.s)
        return None if allowed else f"'{node.op}' with the {attribute.name} {_shown(given.s)}"
    return None if attribute.name in TEXTS else f"'{node.op}'"


def _shown(value: bytes) -> str:
    text = value.decode("utf-8", "backslashreplace")
    return ascii(text if len(text) <= 60 else text[:57] + "...")
