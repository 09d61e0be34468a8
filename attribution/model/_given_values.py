"""Inputs whose values are fixed while a file is loaded, and what follows: branches not taken, dropout that is off.

A file may have an input ``training`` that chooses a branch with dropout, or an input ``keep_prob`` that scales it. Its
scores are random only for some values of that input. Once the value is a constant of the graph, the branch that it does
not choose is removed. Noise that then makes no difference (dropout at a rate of 0, a factor of 0) becomes a constant.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph._tf_internals import is_known_and_stateless
from attribution.graph.view import constant, functions_of, inline_calls, node_of, pure_subgraph, without_nodes
from attribution.model._gradient_support import first_random

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
# Operation to its deciding input. TensorFlow writes a Case as _SwitchN when it inlines calls.
_CHOICE = {"If": 0, "StatelessIf": 0, "Case": 0, "StatelessCase": 0, "Switch": 1, "_SwitchN": 1}
_SWITCHES = ("Switch", "_SwitchN")
_NOTHING = ""  # in place of a tensor that is never computed


def with_values(graph_def: tf.compat.v1.GraphDef, values: Mapping[str, np.ndarray]) -> tf.compat.v1.GraphDef:
    """Return a graph in which placeholders, by node name, are constants."""
    changed = without_nodes(graph_def, values)
    for name, value in values.items():
        node = changed.node.add(name=name, op="Const")
        node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return changed


def take_branches(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a graph without the branches that its constants rule out; what is left keeps its names.

    Control edges must still be there: they say which constants belong to a branch of TensorFlow 1. They can be dropped
    from the graph that is returned.
    """
    while True:
        choosing = {node.name: node.input[_CHOICE[node.op]] for node in graph_def.node if node.op in _CHOICE}
        known = _known_values(graph_def, choosing.values())
        values = {name: known[tensor] for name, tensor in choosing.items() if tensor in known}
        chosen = {name: int(value) for name, value in values.items() if value.shape == () and value.dtype.kind in "biu"}
        if not chosen:
            return _with_branches_tied(graph_def)
        graph_def, _ = inline_calls(_without_switches(_with_calls(graph_def, chosen), chosen))


def _with_branches_tied(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a graph whose control edges can be dropped.

    A constant in a branch of TensorFlow 1 depends on the choice by a control edge alone. Where it is all that a branch
    gives, the branch would be taken always without it.
    """
    nodes = {node.name: node for node in graph_def.node}
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for merge in [node for node in changed.node if node.op == "Merge"]:
        for place in range(merge.attr["N"].i):
            if _choices_above(nodes, merge.input[place]):
                continue
            for output in _choices_above(nodes, merge.input[place], by_control=True):
                tied = changed.node.add()
                tied.CopyFrom(nodes[node_of(output)])
                tied.name = f"{merge.name}/{place}/{output.replace(':', '_')}"
                tied.input[0] = merge.input[place]
                tied.attr["T"].type = merge.attr["T"].type
                merge.input[place] = f"{tied.name}:{output.partition(':')[2] or 0}"
    return changed


def _choices_above(nodes: Mapping[str, Any], tensor: str, by_control: bool = False) -> list[str]:
    """Return the nearest outputs of switches that a tensor depends on, by its data or also by control edges."""
    waiting, found = [tensor], set()
    while waiting:
        one = waiting.pop()
        if one not in found and (by_control or not one.startswith("^")):
            found.add(one)
            waiting += nodes[node_of(one)].input if nodes[node_of(one)].op not in ("Merge", *_SWITCHES) else ()
    return sorted(one for one in found if nodes[node_of(one)].op in _SWITCHES and not one.startswith("^"))


def _with_calls(graph_def: tf.compat.v1.GraphDef, chosen: Mapping[str, int]) -> tf.compat.v1.GraphDef:
    """Return a graph that calls the chosen branch of each of some operations."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in [node for node in changed.node if node.name in chosen and node.op not in _SWITCHES]:
        # Not of the node's own name: inside the call are names that TensorFlow also gives to what is around it.
        call = changed.node.add(name=f"{node.name}/taken", op="PartitionedCall", input=node.input[1:])
        call.attr["f"].func.CopyFrom(_branch(node, chosen[node.name]))
        for types in ("Tin", "Tout"):
            call.attr[types].CopyFrom(node.attr[types])
        _pass_on(node, call)
    return changed


def _branch(node: Any, number: int) -> Any:
    """Return the function that an If or a Case calls for a value of its deciding input."""
    if node.op.endswith("If"):
        return node.attr["then_branch" if number else "else_branch"].func
    branches = node.attr["branches"].list.func
    return branches[_place(number, len(branches))]


def _place(number: int, count: int) -> int:
    """Return which of some branches a number chooses: the last one where it is out of range."""
    return number if 0 <= number < count else count - 1


def _pass_on(node: Any, call: Any) -> None:
    """Turn a node into one that passes on the outputs of a call."""
    name, types = node.name, list(call.attr["Tout"].list.type)
    node.Clear()
    node.name, node.op = name, {0: "NoOp", 1: "Identity"}.get(len(types), "IdentityN")
    node.input.extend([f"{call.name}:{number}" if number else call.name for number in range(len(types))])
    if len(types) == 1:
        node.attr["T"].type = types[0]
    elif types:
        node.attr["T"].list.type.extend(types)


def _without_switches(graph_def: tf.compat.v1.GraphDef, chosen: Mapping[str, int]) -> tf.compat.v1.GraphDef:
    """Return a graph without some switches of TensorFlow 1 and what only their other outputs would run."""
    switches = {node.name: node for node in graph_def.node if node.op in _SWITCHES and node.name in chosen}
    never, taken = {}, {}
    for name, switch in switches.items():
        outputs = _outputs_of(switch)
        taken[outputs.pop(_place(chosen[name], len(outputs)))] = switch.input[0]
        never |= dict.fromkeys(outputs, _NOTHING)
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        node.input[:] = [_followed(tensor, never) for tensor in node.input]
    dead = _dead(changed.node)
    dropped = dead.union(map("^{}".format, chosen))
    for node in changed.node:
        node.input[:] = [_followed(tensor, taken) for tensor in node.input if not {tensor, node_of(tensor)} & dropped]
        if node.op == "Merge":
            _set_number_of_inputs(node)
    return without_nodes(changed, dead | set(switches))


def _outputs_of(switch: Any) -> list[str]:
    """Return the names of a switch's outputs, the first one's without its number."""
    return [f"{switch.name}:{number}".removesuffix(":0") for number in range(switch.attr["num_outs"].i or 2)]


def _followed(tensor: str, instead: Mapping[str, str]) -> str:
    """Return the tensor in place of one, where there is any."""
    while tensor.removesuffix(":0") in instead:
        tensor = instead[tensor.removesuffix(":0")]
    return tensor


def _set_number_of_inputs(merge: Any) -> None:
    """Give a merge the number of inputs that it has left; of a single one it is an identity."""
    merge.attr["N"].i = sum(not tensor.startswith("^") for tensor in merge.input)
    if merge.attr["N"].i == 1:
        merge.op = "Identity"
        del merge.attr["N"]


def _dead(nodes: Iterable[Any]) -> set[str]:
    """Return the nodes that do not run because an input does not; a merge needs only one that does."""
    dead, new = set(), {_NOTHING}
    while new:
        dead |= new
        new = set()
        for node in nodes:
            found = [node_of(tensor) in dead for tensor in node.input]
            if node.name not in dead and found and (all if node.op == "Merge" else any)(found):
                new.add(node.name)
    return dead


def _users(graph_def: tf.compat.v1.GraphDef) -> dict[str, list[Any]]:
    """Return the nodes that use the values of each node."""
    users = collections.defaultdict(list)
    for node in graph_def.node:
        for name in {node_of(tensor) for tensor in node.input if not tensor.startswith("^")}:
            users[name].append(node)
    return users


def _behind(users: Mapping[str, list[Any]], names: Iterable[str]) -> set[str]:
    """Return some nodes and all that are computed from them."""
    waiting, found = list(names), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [user.name for user in users[name]]
    return found


def _known_values(graph_def: tf.compat.v1.GraphDef, tensors: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the values of those tensors that depend on constants alone."""
    open_ = [node.name for node in graph_def.node if node.op == "Placeholder" or not _is_plain(node)]
    unknown = _behind(_users(graph_def), open_)
    wanted = [tensor for tensor in dict.fromkeys(tensors) if node_of(tensor) not in unknown]
    if not wanted:
        return {}
    part = pure_subgraph(graph_def, wanted)
    part.ClearField("library")
    names = [tensor if ":" in tensor else f"{tensor}:0" for tensor in wanted]
    compute = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(part, return_elements=names), [])
    try:
        return {tensor: value.numpy() for tensor, value in zip(wanted, compute(), strict=True)}
    except tf.errors.OpError:  # nor can the network be computed; the first pass says so
        return {}


def _is_plain(node: Any) -> bool:
    return is_known_and_stateless(node.op) and not functions_of(node) and node.op not in ("Enter", "NextIteration")


def without_idle_noise(graph_def: tf.compat.v1.GraphDef, output: str) -> tf.compat.v1.GraphDef:
    """Return a pure graph in which random numbers that make no difference to its output are constants."""
    noise = [node for node in graph_def.node if node.op in _NOISE and tf.as_dtype(node.attr["dtype"].type) in _BITS]
    if not noise:
        return graph_def
    users = _users(graph_def)
    known = _known_values(graph_def, _inputs_of_rules(graph_def, _behind(users, [node.name for node in noise])))
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


def settling(
    graph_def: tf.compat.v1.GraphDef, specs: Mapping[str, tf.TensorSpec], nodes: Mapping[str, str], output: str
) -> dict[str, Any]:
    """Return values of single inputs that leave nothing random in a graph; empty if there are none.

    ``specs`` and ``nodes`` are types and node names of the inputs, by their names.
    """
    single = {name: spec.dtype for name, spec in specs.items() if spec.shape.rank in (None, 0)}
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
