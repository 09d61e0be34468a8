"""Random numbers in a graph: those that make no difference become constants, others are refused.

Maps of a score that is another at every call are of no single score. But a file may have an input ``training`` or
``keep_prob`` that turns its dropout off: for a rate of 0, or times a factor of 0, the noise is idle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput
from attribution.graph._tf_internals import operation_definition
from attribution.graph.view import constant, node_of, pure_subgraph
from attribution.savedmodel._gradient_support import CHANGED, first_random
from attribution.savedmodel.branches import behind, known_values, take_branches, users_of, with_values
from attribution.savedmodel.inputs import random_arrays
from attribution.savedmodel.signature import Target

_BITS = {tf.float16: 10, tf.bfloat16: 7, tf.float32: 23, tf.float64: 52}  # of a uniform number in [0, 1)
_MOST_TRIES = 40  # of values that an error message could recommend
_NOISE = ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
# Operations that rise or fall with one operand while the other, if any, is one number.
_MONOTONE: dict[str, Callable[..., Any]] = {
    "Identity": np.positive, "Neg": np.negative, "Floor": np.floor, "Mul": np.multiply, "Add": np.add, "AddV2": np.add,
    "Sub": np.subtract, "RealDiv": np.divide, "GreaterEqual": np.greater_equal, "Greater": np.greater,
    "LessEqual": np.less_equal, "Less": np.less,
}  # fmt: skip
_SELECTS = ("Select", "SelectV2")


def check_not_random(
    target: Target,
    graph_def: tf.compat.v1.GraphDef,
    pure: tf.compat.v1.GraphDef,
    output: str,
    state: Collection[str],
    gives_file_scores: Callable[[], bool],
) -> None:
    """Refuse a file that gives other scores at every call, or that cannot be differentiated.

    Parameters
    ----------
    target
        The function.
    graph_def, pure
        Its graph with control edges, and what the output needs of it without them.
    output
        The output's tensor in both.
    state
        Nodes that read what the graph itself writes.
    gives_file_scores
        Returns whether the pure graph computes the scores of the file; called where all that seems random is state.

    Raises
    ------
    BadInput
        If it is refused; with the values of its inputs for which it would not be random, if there are any.
    """
    if frame := next((node.name for node in pure.node if node.op in ("Enter", "RefEnter")), None):
        raise BadInput(
            f"'{target.path}' has a loop of TensorFlow 1's control flow ('{frame}'), which cannot be differentiated "
            "once loaded; export it after tf.compat.v1.enable_control_flow_v2()"
        )
    if writer := next((node.name for node in pure.node if _writes_to_reference(node)), None):
        raise BadInput(
            f"'{target.path}' changes a reference variable of TensorFlow 1 where it computes ('{writer}'); export it "
            "for inference, without that change"
        )
    random = first_random(pure, state)
    if random is None or (first_random(pure, ()) is None and _leaves_state(target) and gives_file_scores()):
        return
    condition, remedy = "", "export it for inference, with dropout and augmentation off"
    if random.endswith(CHANGED):
        remedy += ", and recurrent layers without stateful=True"
    if values := _settling(graph_def, target, output):
        others = [
            f"'{name}' is {str(not value).lower() if isinstance(value, bool) else f'not {value}'}"
            for name, value in values.items()
        ]
        condition = f" if {' or '.join(others)}"
        written = ",".join(f"{name}={value}" for name, value in values.items())
        remedy = f"load it with given={values!r} (--given={written})"
    raise BadInput(f"'{target.path}' gives other scores at every call{condition}, because of {random}; {remedy}")


def _writes_to_reference(node: Any) -> bool:
    definition = operation_definition(node.op)
    return definition is not None and any(argument.is_ref for argument in definition.input_arg)


def _leaves_state(target: Target) -> bool:
    """Tell whether a call on random inputs leaves every variable as it was, to the bit."""
    specs = target.inputs.values()
    if not all(spec.dtype.is_floating or spec.dtype.is_integer for spec in specs):
        return False
    variables = list(target.function.variables)
    before = [variable.read_value() for variable in variables]
    try:
        target.call(*map(tf.constant, random_arrays(specs, 2, 2)))
    except (TypeError, ValueError, tf.errors.OpError):
        return False
    pairs = zip(before, variables, strict=True)
    return all(bool(tf.reduce_all(one == variable.read_value())) for one, variable in pairs)


def without_idle_noise(graph_def: tf.compat.v1.GraphDef, output: str) -> tf.compat.v1.GraphDef:
    """Return a pure graph in which random numbers that make no difference to its output are constants."""
    noise = [node for node in graph_def.node if node.op in _NOISE and tf.as_dtype(node.attr["dtype"].type) in _BITS]
    if not noise:
        return graph_def
    users = users_of(graph_def)
    known = known_values(graph_def, _inputs_of_rules(graph_def, behind(users, [node.name for node in noise])))
    idle = {node.name for node in noise if _is_idle(node, users, known, node_of(output))}
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in [node for node in changed.node if node.name in idle]:
        name, shape, dtype, index = node.name, node.input[0], node.attr["dtype"].type, node.attr["T"].type
        half = constant(changed.node, {}, f"{name}/half", np.array(0.5, tf.as_dtype(dtype).as_numpy_dtype))
        node.Clear()
        node.name, node.op = name, "Fill"
        node.input.extend([shape, half])
        node.attr["T"].type, node.attr["index_type"].type = dtype, index
    return changed


def _inputs_of_rules(graph_def: tf.compat.v1.GraphDef, names: Collection[str]) -> list[str]:
    """Return the inputs of those of some nodes whose operations can make random numbers indifferent."""
    nodes = [node for node in graph_def.node if node.name in names and node.op in (*_MONOTONE, *_SELECTS)]
    return [tensor for node in nodes for tensor in node.input]


def _is_idle(noise: Any, users: Mapping[str, list[Any]], known: Mapping[str, np.ndarray], output: str) -> bool:
    """Return whether everything that is computed from random numbers is the same for all of them, or is not used."""
    dtype, ends = tf.as_dtype(noise.attr["dtype"].type), None
    if noise.op == "RandomUniform":
        ends = np.array([0, 1 - 2.0 ** -_BITS[dtype]], dtype.as_numpy_dtype)
    waiting, seen = [(noise.name, ends)], set()
    while waiting:
        name, ends = waiting.pop()
        if name == output:
            return False
        for user in users[name]:
            new = _ends_behind(user, name, ends, known)
            is_same = _ignores(user, name, known) or (new is not None and new[0] == new[1])
            if not is_same and user.name not in seen:
                seen.add(user.name)
                waiting.append((user.name, new))
    return True


def _ignores(user: Any, name: str, known: Mapping[str, np.ndarray]) -> bool:
    """Return whether a node gives the same for all values of another: multiplied by 0, or not selected."""
    values = [known.get(tensor) for tensor in user.input]
    if user.op == "Mul":
        return any(value is not None and not value.any() for value in values)
    if user.op in _SELECTS and values[0] is not None:
        return all(node_of(user.input[1 if is_true else 2]) != name for is_true in np.unique(values[0]))
    return False


def _ends_behind(user: Any, name: str, ends: np.ndarray | None, known: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return what a node gives for the least and the largest value of another; ``None`` where that is not known."""
    values = [ends if node_of(tensor) == name else known.get(tensor) for tensor in user.input]
    arrays = [value.ravel() for value in values if value is not None and (value is ends or value.size == 1)]
    if user.op not in _MONOTONE or len(arrays) < len(values):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(_MONOTONE[user.op](*arrays))


def _settling(graph_def: tf.compat.v1.GraphDef, target: Target, output: str) -> dict[str, Any]:
    """Return values of single inputs that leave nothing random in a graph; empty if there are none."""
    nodes = target.nodes
    single = {name: spec.dtype for name, spec in target.inputs.items() if spec.shape.rank in (None, 0)}
    options = [(name, value) for name, dtype in single.items() for value in _likely_values(dtype)]
    tries = itertools.chain.from_iterable(itertools.combinations(options, size) for size in (1, 2, 3))
    for values in map(dict, itertools.islice(tries, _MOST_TRIES)):
        given = {nodes[name]: np.array(value, single[name].as_numpy_dtype) for name, value in values.items()}
        pure = pure_subgraph(take_branches(with_values(graph_def, given)), [output])
        if first_random(without_idle_noise(pure, output), ()) is None:
            return values
    return {}


def _likely_values(dtype: tf.DType) -> tuple[Any, ...]:
    """Return the values of a single input that files for training and inference know, the likeliest first."""
    if dtype.is_bool:
        return False, True
    if dtype.is_floating:
        return 1.0, 0.0
    return (0, 1) if dtype.is_integer else ()
