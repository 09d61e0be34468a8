"""A network with the weights of a trained one in random places: the same architecture, and nothing learnt.

What a map owes to the architecture alone shows there (Adebayo et al., "Sanity Checks for Saliency Maps", NeurIPS 2018).
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Container
from typing import Any

import numpy as np

from attribution import batching, load_model
from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.command_line.temporary import temporary_directory
from attribution_benchmarks.scoring.block import Block
from attribution_benchmarks.scoring.controls import Control


def with_shuffled_weights(
    path: str | pathlib.Path, seed: int, score: str = "logits", which: Container[int] | None = None
) -> Any:
    """Return a model whose variables hold a SavedModel's values, each variable's in random order.

    This works for every SavedModel of TensorFlow 2, whatever wrote it, where building an untrained network would need
    its code. Shuffling keeps each variable's distribution, so that variances stay positive and activations in
    range, as drawing from a normal distribution of the same width would not; constants of the architecture, such as
    coordinates, are no variables and stay.

    Parameters
    ----------
    path
        Directory with ``saved_model.pb``.
    seed
        Of the order; each variable has its own by its place in the file.
    score
        "logits" or "probabilities", what is explained of it.
    which
        Places of the variables to shuffle, as ``graph_order`` has them; all where None.

    Returns
    -------
    attribution.model.Model

    Raises
    ------
    BadInput
        If there is no such directory, as for a network behind a server, or no variables to shuffle.
    """
    import tensorflow as tf

    if not pathlib.Path(path).is_dir():
        raise BadInput(f"{path} is no SavedModel on disk; leave random_weights out of --controls")
    loaded = tf.saved_model.load(str(path), tags=["serve"])
    variables = _variables(loaded)
    if not variables:
        raise BadInput(f"{path} has no variables that could be shuffled; leave random_weights out of --controls")
    for number, variable in enumerate(variables):
        if which is not None and number not in which:
            continue
        values = variable.numpy()
        generator = batching.generator(seed, number, "random weights")
        variable.assign(generator.permutation(values.reshape(-1)).reshape(values.shape))
    directory = temporary_directory("random_weights")
    tf.saved_model.save(loaded, directory.name, signatures=loaded.signatures)
    model = load_model(directory.name, score=score)
    vars(model)["directory"] = (
        directory  # goes with the model: a live network is read from there when a method asks for it
    )
    return model


def graph_order(model: Any) -> list[int]:
    """Return the places of a model's variables in the order in which its graph uses them, from the input on.

    A variable is known in the frozen graph by its values. One that is not found there, because it was folded into
    others, keeps its place behind the variable before it in the file.

    Parameters
    ----------
    model
        Of a file.
    """
    import tensorflow as tf

    nodes = {node.name: node for node in model.graph.graph_def.node}
    depths: dict[str, int] = {}
    users: dict[str, list[str]] = {}

    def inputs(name: str) -> list[str]:
        return [each.lstrip("^").partition(":")[0] for each in nodes[name].input]

    for start in nodes:  # without recursion, which deep networks exhaust
        stack = [start]
        while stack:
            waiting = [each for each in inputs(stack[-1]) if each in nodes and each not in depths]
            if waiting:
                stack += waiting
                continue
            name = stack.pop()
            depths.setdefault(name, 1 + max((depths[each] for each in inputs(name) if each in nodes), default=0))
    for name in nodes:
        for each in inputs(name):
            users.setdefault(each, []).append(name)

    def first_use(name: str) -> float:
        uses = users.get(name, [])
        through = [first_use(each) if nodes[each].op == "Identity" else depths[each] for each in uses]
        return min(through, default=float("inf"))

    constants: dict[bytes, list[str]] = {}
    for name, node in nodes.items():
        if node.op == "Const" or name in model.graph.weights:
            values = (
                model.graph.weights[name] if name in model.graph.weights else tf.make_ndarray(node.attr["value"].tensor)
            )
            constants.setdefault(np.asarray(values).tobytes(), []).append(name)
    places, last = [], 0.0
    for variable in _variables(tf.saved_model.load(str(model.path), tags=["serve"])):
        uses = [first_use(name) for name in constants.get(variable.numpy().tobytes(), [])]
        last = min([each for each in uses if each < float("inf")], default=last)
        places.append(last)
    return sorted(range(len(places)), key=places.__getitem__)


def _variables(loaded: Any) -> list[Any]:
    """Return the variables of a loaded file's signatures, each once, in the order of the file."""
    functions = loaded.signatures.values()
    found = {id(one.handle): one for function in functions for one in function.variables if one.dtype.is_floating}
    return list(found.values())


def other_weights(model: Any, block: Block, seed: int) -> tuple[object, Block]:
    """Ask the model's architecture with shuffled weights instead; it is made once for a model and a seed."""
    return _shuffled(model, seed), block


@functools.lru_cache(maxsize=2)  # a benchmark asks one network at a time, or a pair
def _shuffled(model, seed: int):
    shuffled = with_shuffled_weights(model.path, seed, model.score)
    shuffled.live_source = model.live_source
    return shuffled


RANDOM_WEIGHTS = Control(
    "random_weights", "random net", "the method's map on a network whose weights are random", disturb=other_weights
)
