"""Networks with random weights: a trained network with each variable's values in random order.

They show which part of a map depends on the architecture only (Adebayo et al., "Sanity Checks for Saliency Maps",
NeurIPS 2018). One such network is one sample, so a control has several, all made the same way.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from attribution import batching, load_model
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MEMBER, Batch
from attribution_benchmarks.core.controls import Control

NETWORKS = 4  # of a control
MOST = 20  # cached in memory


def with_shuffled_weights(
    path: str | pathlib.Path, seed: int, score: str = "logits", which: Container[int] | None = None, number: int = 1
) -> Any:
    """Return a SavedModel of a directory with the values of each variable in random order.

    Works with any SavedModel of TensorFlow 2; a newly built network would need its code. Shuffling keeps each
    variable's distribution, so variances stay positive and activations in range. Constants stay as they are.

    Parameters
    ----------
    path, score
        Directory with ``saved_model.pb``, and the score to explain, "logits" or "probabilities".
    seed, number
        Of the order, which differs between variables; index of the network among several of one seed, from 1.
    which
        Numbers of the variables to shuffle, as in ``graph_order``; all where None.

    Raises
    ------
    BadInput
        If there is no such directory, as for a network behind a server, or no variable.
    """
    purpose = "random weights" if number == 1 else f"random weights {number}"

    def shuffled(place: int, name: str, values: np.ndarray) -> np.ndarray:
        if which is not None and place not in which:
            return values
        return batching.generator(seed, place, purpose).permutation(values.reshape(-1)).reshape(values.shape)

    return _with_weights(path, score, shuffled)


@functools.lru_cache(maxsize=1)  # loading takes as long as many maps, and networks of one file follow each other
def _original(path: str, written: tuple[tuple[int, int], ...]) -> tuple[Any, list[tuple[Any, np.ndarray]]]:
    """Return a loaded file, and its variables with their original values."""
    from attribution.savedmodel.file import SavedFile
    from attribution.savedmodel.paths import find_saved_model

    loaded = SavedFile(find_saved_model(path)).load()
    return loaded, [(variable, variable.numpy()) for variable in _variables(loaded)]


def _changed(path: pathlib.Path, values_of: Callable[[int, str, np.ndarray], np.ndarray]) -> Any:
    """Return a loaded file with other values of its variables, valid until the next call."""
    files = [file.stat() for file in sorted(path.rglob("*")) if file.is_file()]
    loaded, originals = _original(str(path), tuple((file.st_mtime_ns, file.st_size) for file in files))
    if not originals:
        raise BadInput(f"{path} has no variables that could be shuffled; leave random_weights out of --controls")
    for place, (variable, values) in enumerate(originals):
        variable.assign(values_of(place, variable.name, values).astype(values.dtype))
    return loaded


def _with_weights(path: str | pathlib.Path, score: str, values_of: Callable[[int, str, np.ndarray], np.ndarray]) -> Any:
    """Return a model of a file with the values ``values_of(number, name, values)`` of its variables."""
    path = pathlib.Path(path)
    if not path.is_dir():
        raise BadInput(f"{path} is no SavedModel on disk; leave random_weights out of --controls")
    model = load_model(path, score=score, loaded=_changed(path, values_of))
    if model.keeps_loaded:
        _original.cache_clear()

    def write() -> tempfile.TemporaryDirectory[str]:
        import tensorflow as tf

        directory, loaded = tempfile.TemporaryDirectory(prefix="random_weights_"), _changed(path, values_of)
        tf.saved_model.save(loaded, directory.name, signatures=loaded.signatures)
        return directory

    model.source.write = write  # a live network is read from a file when a method needs one
    return model


def graph_order(model: Any) -> list[int]:
    """Return the numbers of a model's variables in the order of their first use in its graph, from the input on.

    The model is of a file. A variable is identified in the frozen graph by its values. One that is not found, because
    it was folded into others, follows the variable before it in the file.
    """
    from attribution.graph.view import node_of  # it imports TensorFlow

    graph, depths = model.graph, {}
    for name, node in graph.nodes.items():  # inputs first
        depths[name] = 1 + max((depths[node_of(tensor)] for tensor in node.input), default=0)

    def first_use(name: str) -> float:
        users = graph.consumers.get(name, ())
        through = [first_use(user) if graph.nodes[user].op == "Identity" else depths[user] for user in users]
        return min(through, default=float("inf"))

    constants = _constants(graph)
    order, last = [], 0.0
    for variable in _variables(model.load_file()):
        uses = [first_use(name) for name in constants.get(variable.numpy().tobytes(), [])]
        last = min([each for each in uses if each < float("inf")], default=last)
        order.append(last)
    return sorted(range(len(order)), key=order.__getitem__)


def _constants(graph: Any) -> dict[bytes, list[str]]:
    """Return the names of a graph's constants and weights by the bytes of their values."""
    found: dict[bytes, list[str]] = {}
    for name in graph.nodes:
        value = graph.constant(name)
        if value is not None and graph.nodes[name].op != "Identity":
            found.setdefault(value.tobytes(), []).append(name)
    return found


def _variables(loaded: Any) -> list[Any]:
    """Return the distinct floating-point variables of a file's signatures, in the order of the file."""
    functions = loaded.signatures.values()
    found = {id(one.handle): one for function in functions for one in function.variables if one.dtype.is_floating}
    return list(found.values())


def has_variables(path: str | pathlib.Path) -> bool:
    """Return whether a SavedModel on disk has variables, without loading it."""
    return (pathlib.Path(path) / "variables" / "variables.index").is_file()


def network(number: int, place: int = 0) -> Control:
    """Return the control of one random network, the ``number``-th, from 1, of one trained network.

    ``place`` is the index of the trained network among several whose maps are compared, so that no two share their
    draws.
    """
    draw = number + MOST * place
    return Control(
        f"random_weights{MEMBER}{number}",
        f"random net {number}",
        "the method's map on a network whose weights are shuffled",
        disturb=_with_random_network(draw),
        depends_on=str(draw),
    )


def _with_random_network(draw: int) -> Callable[[Any, Batch, int], tuple[object, Batch]]:
    def other_weights(model: Any, batch: Batch, seed: int) -> tuple[object, Batch]:
        return _random(model, seed, draw), batch

    return other_weights


def networks(controls: Iterable[Control], count: int = NETWORKS, place: int = 0) -> list[Control]:
    """Return controls with ``RANDOM_WEIGHTS`` replaced by ``count`` random networks."""
    members = [network(number, place) for number in range(1, count + 1)]
    return [one for control in controls for one in (members if control == RANDOM_WEIGHTS else [control])]


@functools.lru_cache(maxsize=MOST)  # every batch is explained on all of them
def _random(model: Any, seed: int, number: int) -> Any:
    found = model.on(with_shuffled_weights(model.path, seed, model.score, number=number))
    found.source.live_network = model.source.live_network
    return found


RANDOM_WEIGHTS = Control(
    "random_weights",
    "random nets",
    "the method's maps on networks with shuffled weights",
    disturb=_with_random_network(1),
)
