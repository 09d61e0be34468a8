"""Branches that a graph's constants rule out.

A file may have an input ``training`` that chooses a branch with dropout. Once its value is a constant of the graph, the
branch that it does not choose is removed, so that it is neither differentiated nor found random.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph._tf_internals import is_known_and_stateless
from attribution.graph.view import constant, functions_of, inline_calls, node_of, pure_subgraph, without_nodes

# Operation to its deciding input. TensorFlow writes a Case as _SwitchN when it inlines calls.
_CHOICE = {"If": 0, "StatelessIf": 0, "Case": 0, "StatelessCase": 0, "Switch": 1, "_SwitchN": 1}
_SWITCHES = ("Switch", "_SwitchN")
_NOTHING = ""  # in place of a tensor that is never computed


def with_values(graph_def: tf.compat.v1.GraphDef, values: Mapping[str, np.ndarray]) -> tf.compat.v1.GraphDef:
    """Return a graph in which placeholders, by node name, are constants."""
    changed = without_nodes(graph_def, values)
    changed.node.extend(constant(name, value) for name, value in values.items())
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
        outputs = [f"{name}:{number}".removesuffix(":0") for number in range(switch.attr["num_outs"].i or 2)]
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
        if node.op == "Merge":  # of a single input it is an identity
            node.attr["N"].i = sum(not tensor.startswith("^") for tensor in node.input)
            if node.attr["N"].i == 1:
                node.op = "Identity"
                del node.attr["N"]
    return without_nodes(changed, dead | set(switches))


def _followed(tensor: str, instead: Mapping[str, str]) -> str:
    """Return the tensor in place of one, where there is any."""
    while tensor.removesuffix(":0") in instead:
        tensor = instead[tensor.removesuffix(":0")]
    return tensor


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


def _known_values(graph_def: tf.compat.v1.GraphDef, tensors: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the values of those tensors that depend on constants alone."""
    users = collections.defaultdict(list)
    waiting, unknown = [], set()
    for node in graph_def.node:
        for tensor in node.input:
            if not tensor.startswith("^"):
                users[node_of(tensor)].append(node.name)
        is_plain = is_known_and_stateless(node.op) and not functions_of(node)
        if not is_plain or node.op in ("Placeholder", "Enter", "NextIteration"):
            waiting.append(node.name)
    while waiting:
        if (name := waiting.pop()) not in unknown:
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
