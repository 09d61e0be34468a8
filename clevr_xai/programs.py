"""CLEVR's functional language: the output of each node of a question's program on a scene.

A program is a list of nodes ``{"type", "inputs", "value_inputs"}`` in which inputs are positions of earlier
nodes; CLEVR-XAI keeps what a node computed under ``"_output"``. Sets of objects are sorted lists of indices,
a single object is its index. Public CLEVR files say ``function`` where CLEVR-XAI says ``type``; both are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from clevr_xai.vocabulary import ATTRIBUTES


class InvalidProgram(ValueError):
    """A program without an answer on this scene, or that is not in CLEVR's language."""


def node_type(node: dict) -> str:
    """Return a node's type, whichever of the two names the file uses."""
    return node["type"] if "type" in node else node["function"]


def is_set_node(node: dict) -> bool:
    """Return whether a node outputs a set of objects other than the whole scene."""
    kind = node_type(node)
    return kind.startswith(("filter_", "same_")) or kind in ("relate", "union", "intersect")


def execute(program: list[dict], scene: dict) -> list:
    """Return the output of every node of a program on a scene.

    Parameters
    ----------
    program
        Nodes in an order in which inputs come before their use.
    scene
        In CLEVR's JSON form: ``objects`` and ``relationships`` are read.

    Returns
    -------
    list
        One output a node: a sorted list of object indices, an index, a word, an integer or a bool.
        The last one is the answer.

    Raises
    ------
    InvalidProgram
        For a ``unique`` of not exactly one object.
    """
    outputs = []
    for node in program:
        inputs = [outputs[earlier] for earlier in node["inputs"]]
        outputs.append(NODES[node_type(node)](scene, *inputs, *node.get("value_inputs", ())))
    return outputs


def check_outputs(program, num_objects: int) -> None:
    """Check the form of a program from a file, whose nodes have outputs as CLEVR-XAI's do.

    Parameters
    ----------
    program
        Any content of the file.
    num_objects
        Of the scene.

    Raises
    ------
    InvalidProgram
        If there is no node, a node has no type, its inputs do not come before it, or its ``_output`` is missing or not
        a set of the scene's objects where it should be one.
    """
    if not isinstance(program, list) or not program:
        raise InvalidProgram("it has no node")
    for position, node in enumerate(program):
        if not isinstance(node, dict) or not isinstance(node.get("type", node.get("function")), str):
            raise InvalidProgram(f"node {position} has no type")
        kind, inputs = node_type(node), node.get("inputs")
        if not _all_below(inputs, position):
            raise InvalidProgram(f"node {position} ({kind}) has inputs {inputs!r}; nodes before it are needed")
        if "_output" not in node:
            raise InvalidProgram(f"node {position} lacks '_output', which CLEVR-XAI's programs hold")
        found = [node["_output"]] if kind == "unique" else node["_output"] if is_set_node(node) else []
        if not _all_below(found, num_objects):
            raise InvalidProgram(
                f"node {position} ({kind}) found {node['_output']!r}; the scene has objects 0 to {num_objects - 1}"
            )


def _all_below(numbers, limit: int) -> bool:
    """Return whether ``numbers`` is a list of integers of 0 to ``limit`` - 1."""
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number < limit for number in numbers)


def _unique(scene, objects):
    if len(objects) != 1:
        raise InvalidProgram(f"'unique' of {len(objects)} objects, it needs exactly one")
    return objects[0]


def _filtered(scene, objects, value, attribute):
    return [index for index in objects if scene["objects"][index][attribute] == value]


def _others_like(scene, index, attribute):
    alike = _filtered(scene, range(len(scene["objects"])), scene["objects"][index][attribute], attribute)
    return [other for other in alike if other != index]


# Called with the scene, the inputs' outputs and the value inputs.
NODES: dict[str, Callable] = {
    "scene": lambda scene: list(range(len(scene["objects"]))),
    "unique": _unique,
    "relate": lambda scene, index, relation: sorted(scene["relationships"][relation][index]),
    "union": lambda scene, first, second: sorted({*first, *second}),
    "intersect": lambda scene, first, second: sorted({*first} & {*second}),
    "count": lambda scene, objects: len(objects),
    "exist": lambda scene, objects: len(objects) > 0,
    "equal_integer": lambda scene, first, second: first == second,
    "less_than": lambda scene, first, second: first < second,
    "greater_than": lambda scene, first, second: first > second,
    **{f"filter_{name}": functools.partial(_filtered, attribute=name) for name in ATTRIBUTES},
    **{f"same_{name}": functools.partial(_others_like, attribute=name) for name in ATTRIBUTES},
    **{f"query_{name}": lambda scene, index, name=name: scene["objects"][index][name] for name in ATTRIBUTES},
    **{f"equal_{name}": lambda scene, first, second: first == second for name in ATTRIBUTES},
}
