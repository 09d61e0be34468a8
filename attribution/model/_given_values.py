"""Inputs whose values are fixed while a file is loaded, and what follows: branches not taken, dropout that is off.

A file may have an input ``training`` that chooses a branch with dropout, or an input ``keep_prob`` that scales it. Its
scores are random only for some values of that input. Once the value is a constant of the graph, the branch that it does
not choose is removed. Noise that then makes no difference (dropout at a rate of 0, a factor of 0) becomes a constant.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph._tf_internals import is_known_and_stateless
from attribution.graph.view import constant, functions_of, inline_calls, node_of, pure_subgraph
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


def with_values(graph_def: tf.compat.v1.GraphDef, values: Mapping[str, np.ndarray]) -> tf.compat.v1.GraphDef:
    """Return a graph in which placeholders, by node name, are constants."""
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.name in values:
            name = node.name
            node.Clear()
            node.name, node.op = name, "Const"
            node.attr["dtype"].type = tf.as_dtype(values[name].dtype).as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values[name]))
    return changed


def take_branches(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a graph without the branches that its constants rule out; what is left keeps its names.

    Control edges must still be there: they say which constants belong to a branch of TensorFlow 1.
    """
    while True:
        choosing = {node.name: node.input[_CHOICE[node.op]] for node in graph_def.node if node.op in _CHOICE}
        known = _known_values(graph_def, choosing.values())
        values = {name: known[tensor] for name, tensor in choosing.items() if tensor in known}
        chosen = {name: int(value) for name, value in values.items() if value.shape == () and value.dtype.kind in "biu"}
        if not chosen:
            return graph_def
        graph_def, _ = inline_calls(_without_switches(_with_calls(graph_def, chosen), chosen))


def with_branches_tied(graph_def: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Return a graph whose control edges can be dropped.

    A constant in a branch of TensorFlow 1 depends on the choice by a control edge alone. Where it is all that a branch
    gives, the branch would be taken always without it.
    """
    nodes = {node.name: node for node in graph_def.node}
    switches = {name for name, node in nodes.items() if node.op in _SWITCHES}
    ends = switches | {name for name, node in nodes.items() if node.op == "Merge"}
    everything = {name: list(node.input) for name, node in nodes.items()}
    data = {name: [one for one in inputs if not one.startswith("^")] for name, inputs in everything.items()}
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for merge in [node for node in changed.node if node.op == "Merge"]:
        for place, tensor in enumerate(data[merge.name]):
            if any(node_of(one) in switches for one in _reached(data, tensor, ends)):
                continue
            for output in sorted(_reached(everything, tensor, ends)):
                if node_of(output) in switches and not output.startswith("^"):
                    tied = changed.node.add()
                    tied.CopyFrom(nodes[node_of(output)])
                    tied.name = f"{merge.name}/{place}/{output.replace(':', '_')}"
                    tied.input[0] = merge.input[place]
                    tied.attr["T"].type = merge.attr["T"].type
                    merge.input[place] = f"{tied.name}:{output.partition(':')[2] or 0}"
    return changed


def _reached(inputs: Mapping[str, list[str]], tensor: str, ends: set[str]) -> set[str]:
    """Return the tensors that a tensor is computed from, up to those of some nodes; ``inputs`` are those of nodes."""
    waiting, found = [tensor], set()
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += inputs[node_of(one)] if node_of(one) not in ends else ()
    return found


# Operation to its deciding input. TensorFlow writes a Case as _SwitchN when it inlines calls.
_CHOICE = {"If": 0, "StatelessIf": 0, "Case": 0, "StatelessCase": 0, "Switch": 1, "_SwitchN": 1}
_SWITCHES = ("Switch", "_SwitchN")


def _with_calls(graph_def: tf.compat.v1.GraphDef, chosen: Mapping[str, int]) -> tf.compat.v1.GraphDef:
    """Return a graph that calls the chosen branch of each of some operations."""
    changed, calls = tf.compat.v1.GraphDef(), tf.compat.v1.GraphDef().node
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.name in chosen and node.op not in _SWITCHES:
            value = chosen[node.name]
            if node.op.endswith("If"):
                branch = node.attr["then_branch" if value else "else_branch"].func
            else:
                branches = node.attr["branches"].list.func
                branch = branches[value if 0 <= value < len(branches) else -1]
            # Not of the node's own name: inside the call are names that TensorFlow also gives to what is around it.
            call = calls.add(name=f"{node.name}/taken", op="PartitionedCall", input=node.input[1:])
            call.attr["f"].func.CopyFrom(branch)
            for types in ("Tin", "Tout"):
                call.attr[types].CopyFrom(node.attr[types])
            name, outputs = node.name, list(call.attr["Tout"].list.type)
            node.Clear()
            node.name, node.op = name, {0: "NoOp", 1: "Identity"}.get(len(outputs), "IdentityN")
            node.input.extend([f"{call.name}:{number}" if number else call.name for number in range(len(outputs))])
            if len(outputs) == 1:
                node.attr["T"].type = outputs[0]
            elif outputs:
                node.attr["T"].list.type.extend(outputs)
    changed.node.extend(calls)
    return changed


def _without_switches(graph_def: tf.compat.v1.GraphDef, chosen: Mapping[str, int]) -> tf.compat.v1.GraphDef:
    """Return a graph without some switches of TensorFlow 1 and what only their other output would run."""
    taken, dead = {}, set()
    for node in graph_def.node:
        if node.op in _SWITCHES and node.name in chosen:
            count = node.attr["num_outs"].i or 2
            number = chosen[node.name] if 0 <= chosen[node.name] < count else count - 1
            outputs = [_tensor(f"{node.name}:{output}") for output in range(count)]
            taken[outputs[number]] = node.input[0]
            dead.update(outputs[:number] + outputs[number + 1 :])
    gone: set[str] = set()
    while taken:
        new = {node.name for node in graph_def.node if node.name not in gone and _is_dead(node, dead, gone)}
        if not new:
            break
        gone |= new
    remaining = tf.compat.v1.GraphDef()
    remaining.CopyFrom(graph_def)
    del remaining.node[:]
    for node in graph_def.node:
        if node.name in gone or (node.op in _SWITCHES and node.name in chosen):
            continue
        copy = remaining.node.add()
        copy.CopyFrom(node)
        if node.op == "Merge":
            alive = [tensor for tensor in node.input if not _is_dead_tensor(tensor, dead, gone)]
            copy.attr["N"].i = sum(not tensor.startswith("^") for tensor in alive)
            copy.input[:] = alive
            if copy.attr["N"].i == 1:
                copy.op = "Identity"
                del copy.attr["N"]
        for position, tensor in enumerate(copy.input):
            while _tensor(tensor) in taken:
                tensor = taken[_tensor(tensor)]
            copy.input[position] = tensor
        copy.input[:] = [tensor for tensor in copy.input if not (tensor.startswith("^") and tensor[1:] in chosen)]
    return remaining


def _is_dead(node: Any, dead: set[str], gone: set[str]) -> bool:
    """Return whether a node does not run because an input does not; a merge needs only one that does."""
    found = [_is_dead_tensor(tensor, dead, gone) for tensor in node.input]
    return bool(found) and (all(found) if node.op == "Merge" else any(found))


def _is_dead_tensor(tensor: str, dead: set[str], gone: set[str]) -> bool:
    return node_of(tensor) in gone or _tensor(tensor) in dead


def _tensor(name: str) -> str:
    """Return the one name of a tensor by which it is compared."""
    return name.removesuffix(":0")


def _known_values(graph_def: tf.compat.v1.GraphDef, tensors: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the values of those tensors that depend on constants alone."""
    users = collections.defaultdict(list)
    for node in graph_def.node:
        for tensor in node.input:
            if not tensor.startswith("^"):
                users[node_of(tensor)].append(node.name)
    waiting = [node.name for node in graph_def.node if node.op == "Placeholder" or not _is_plain(node)]
    unknown: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in unknown:
            unknown.add(name)
            waiting += users[name]
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
    users = collections.defaultdict(list)
    for node in graph_def.node:
        for name in {node_of(tensor) for tensor in node.input}:
            users[name].append(node)
    noise = [node for node in graph_def.node if node.op in _NOISE and tf.as_dtype(node.attr["dtype"].type) in _BITS]
    behind, waiting = {}, [user for node in noise for user in users[node.name]]
    while waiting:
        node = waiting.pop()
        if node.name not in behind:
            behind[node.name] = node
            waiting += users[node.name]
    decisive = [node for node in behind.values() if node.op in (*_MONOTONE, *_SELECTS)]
    known = _known_values(graph_def, [tensor for node in decisive for tensor in node.input])
    idle = {node.name for node in noise if _is_idle(node, users, known, node_of(output))}
    if not idle:
        return graph_def
    changed = tf.compat.v1.GraphDef()
    changed.CopyFrom(graph_def)
    for node in list(changed.node):
        if node.name in idle:
            name, shape, dtype, index = node.name, node.input[0], node.attr["dtype"].type, node.attr["T"].type
            half = constant(changed.node, {}, f"{name}/half", np.array(0.5, tf.as_dtype(dtype).as_numpy_dtype))
            node.Clear()
            node.name, node.op = name, "Fill"
            node.input.extend([shape, half])
            node.attr["T"].type, node.attr["index_type"].type = dtype, index
    return changed


_SELECTS = ("Select", "SelectV2")


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
            used = [node_of(tensor) == name for tensor in user.input]
            values = [known.get(tensor) for tensor in user.input]
            others = [value for value, is_used in zip(values, used, strict=True) if not is_used]
            if user.op == "Mul" and any(value is not None and not value.any() for value in others):
                continue
            if user.op in _SELECTS and (values[0] is not None and (values[0].all() or not values[0].any())):
                if not used[1 if values[0].all() else 2] and not used[0]:
                    continue
            new = None
            if ends is not None and user.op in _MONOTONE and all(one is not None and one.size == 1 for one in others):
                arguments = [ends if used[i] else values[i].ravel() for i in range(len(used))]  # type: ignore[union-attr]
                with np.errstate(all="ignore"):
                    new = _MONOTONE[user.op](*arguments)
                if new[0] == new[1]:
                    continue
            if user.name not in seen:
                seen.add(user.name)
                waiting.append((user.name, new))
    return True


def settling(graph_def: tf.compat.v1.GraphDef, specs: Mapping[str, tf.TensorSpec], output: str) -> dict[str, Any]:
    """Return values of single inputs, by node name, that leave nothing random in a graph; empty if there are none."""
    options: list[tuple[str, Any]] = []
    for name, spec in specs.items():
        if spec.shape.rank in (None, 0) and (spec.dtype.is_bool or spec.dtype.is_floating or spec.dtype.is_integer):
            values = (False, True) if spec.dtype.is_bool else (1.0, 0.0) if spec.dtype.is_floating else (0, 1)
            options += [(name, value) for value in values]
    tries = itertools.chain.from_iterable(itertools.combinations(options, size) for size in (1, 2, 3))
    for values in map(dict, itertools.islice(tries, _MOST_TRIES)):
        given = {name: np.array(value, specs[name].dtype.as_numpy_dtype) for name, value in values.items()}
        pure = pure_subgraph(take_branches(with_values(graph_def, given)), [output])
        if first_random(without_idle_noise(pure, output), ()) is None:
            return values
    return {}
