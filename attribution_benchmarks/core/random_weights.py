"""Networks of a trained one's architecture that have learnt nothing: its weights in random places, or drawn anew.

What a map owes to the architecture alone shows there (Adebayo et al., "Sanity Checks for Saliency Maps", NeurIPS 2018).
One such network is a draw, so that a control of them is several, of both kinds: shuffled weights keep what training did
to their sizes, and weights drawn anew keep nothing of it.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile
from collections.abc import Callable, Container, Iterable
from typing import Any, NamedTuple

import numpy as np

from attribution import load_model
from attribution.errors import BadInput
from attribution.file_io.files import temporary_directory
from attribution.model import batching
from attribution_benchmarks.core.batch import MEMBER, Batch
from attribution_benchmarks.core.controls import Control

NETWORKS = 5  # of a control: three shuffled, two drawn anew
MOST = 20  # that are kept in memory


def with_shuffled_weights(
    path: str | pathlib.Path, seed: int, score: str = "logits", which: Container[int] | None = None, number: int = 1
) -> Any:
    """Return a model whose variables hold a SavedModel's values, each variable's in random order.

    This works for every SavedModel of TensorFlow 2, whatever wrote it, where building an untrained network would need
    its code. Shuffling keeps each variable's distribution, so that variances stay positive and activations in
    range; constants of the architecture, such as coordinates, are no variables and stay.

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
    number
        Which of several such networks of one seed, from 1.

    Returns
    -------
    attribution.model.model.Model

    Raises
    ------
    BadInput
        If there is no such directory, as for a network behind a server, or no variables to shuffle.
    """
    purpose = "random weights" if number == 1 else f"random weights {number}"

    def shuffled(place: int, name: str, values: np.ndarray) -> np.ndarray:
        if which is not None and place not in which:
            return values
        return batching.generator(seed, place, purpose).permutation(values.reshape(-1)).reshape(values.shape)

    return _with_weights(path, score, shuffled)


def with_new_weights(path: str | pathlib.Path, seed: int, score: str = "logits", number: int = 1) -> Any:
    """Return a model whose variables are drawn as before training.

    Kernels are normal with variance 2 / fan-in, which keeps activations as large as they are through layers of ReLU (He
    et al., "Delving Deep into Rectifiers", ICCV 2015). Variables of one axis start as their names say: scales and
    variances of a normalisation at one, all others at zero. A kernel named "depthwise" has the fan-in of one channel.

    Parameters
    ----------
    path, score, number
        As of ``with_shuffled_weights``.
    seed
        Of the draws; each variable has its own by its place in the file.

    Returns
    -------
    attribution.model.model.Model

    Raises
    ------
    BadInput
        As ``with_shuffled_weights``.
    """

    def drawn(place: int, name: str, values: np.ndarray) -> np.ndarray:
        if values.ndim < 2:
            scale = any(word in name.lower() for word in ("gamma", "scale", "variance"))
            return np.full(values.shape, float(scale))
        fan_in = float(np.prod(values.shape[:-2] if "depthwise" in name.lower() else values.shape[:-1]))
        generator = batching.generator(seed, place, f"new weights {number}")
        return generator.normal(0.0, np.sqrt(2 / fan_in), values.shape)

    return _with_weights(path, score, drawn)


class _Original(NamedTuple):
    """A file as it was loaded, and what its variables held then."""

    loaded: Any
    variables: list[Any]
    values: list[np.ndarray]


@functools.lru_cache(maxsize=1)  # loading takes as long as many maps, and networks of one file follow each other
def _original(path: str, written: tuple) -> _Original:
    from attribution.model import saved_model

    loaded = saved_model.load(path)
    variables = _variables(loaded)
    return _Original(loaded, variables, [variable.numpy() for variable in variables])


def _changed(path: pathlib.Path, values_of: Callable[[int, str, np.ndarray], np.ndarray]) -> Any:
    """Return what was loaded of a file, its variables with other values, until the next call."""
    files = [file.stat() for file in sorted(path.rglob("*")) if file.is_file()]
    original = _original(str(path), tuple((file.st_mtime_ns, file.st_size) for file in files))
    if not original.variables:
        raise BadInput(f"{path} has no variables that could be shuffled; leave random_weights out of --controls")
    for place, (variable, values) in enumerate(zip(original.variables, original.values, strict=True)):
        variable.assign(values_of(place, variable.name, values).astype(values.dtype))
    return original.loaded


def _with_weights(path, score: str, values_of: Callable[[int, str, np.ndarray], np.ndarray]) -> Any:
    """Return a model of a file whose variables have other values: ``values_of(place, name, values)``."""
    path = pathlib.Path(path)
    if not path.is_dir():
        raise BadInput(f"{path} is no SavedModel on disk; leave random_weights out of --controls")
    model = load_model(path, score=score, loaded=_changed(path, values_of))
    if model.keeps_loaded:
        _original.cache_clear()

    def write() -> tempfile.TemporaryDirectory:
        import tensorflow as tf

        directory, loaded = temporary_directory("random_weights"), _changed(path, values_of)
        tf.saved_model.save(loaded, directory.name, signatures=loaded.signatures)
        return directory

    model.write = write  # a live network is read from a file, when a method asks for one
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
    for variable in _variables(model.load_file()):
        uses = [first_use(name) for name in constants.get(variable.numpy().tobytes(), [])]
        last = min([each for each in uses if each < float("inf")], default=last)
        places.append(last)
    return sorted(range(len(places)), key=places.__getitem__)


def _variables(loaded: Any) -> list[Any]:
    """Return the variables of a loaded file's signatures, each once, in the order of the file."""
    functions = loaded.signatures.values()
    found = {id(one.handle): one for function in functions for one in function.variables if one.dtype.is_floating}
    return list(found.values())


def has_variables(path: str | pathlib.Path) -> bool:
    """Tell whether a SavedModel on disk has variables, without loading it."""
    return (pathlib.Path(path) / "variables" / "variables.index").is_file()


def network(number: int, place: int = 0) -> Control:
    """Return the control that asks one random network, from 1: odd ones have shuffled weights, even ones new ones.

    Parameters
    ----------
    number
        Which of several of one trained network.
    place
        Of the trained network among several whose maps are compared: no two have the same draws.
    """
    drawn = number + 2 * MOST * place  # odd where the number is

    def other_weights(model: Any, batch: Batch, seed: int) -> tuple[object, Batch]:
        return _random(model, seed, drawn), batch

    how = "shuffled" if number % 2 else "drawn anew"
    return Control(
        f"random_weights{MEMBER}{number}",
        f"random net {number}",
        f"the method's map on a network whose weights are {how}",
        disturb=other_weights,
        depends_on=str(drawn),
    )


def networks(controls: Iterable[Control], count: int = NETWORKS, place: int = 0) -> list[Control]:
    """Return controls with ``RANDOM_WEIGHTS`` replaced by so many random networks, each a control of its own."""
    members = [network(number, place) for number in range(1, count + 1)]
    return [one for control in controls for one in (members if control == RANDOM_WEIGHTS else [control])]


@functools.lru_cache(maxsize=MOST)  # batches are explained one after the other, each on all of them
def _random(model, seed: int, number: int):
    made = with_shuffled_weights if number % 2 else with_new_weights
    found = made(model.path, seed, model.score, number=number)
    found.live_source = model.live_source
    return found


RANDOM_WEIGHTS = Control(
    "random_weights",
    "random nets",
    "the method's maps on networks whose weights are random, in turn shuffled and drawn anew; a method is above them "
    "where it is above each",
    disturb=network(1).disturb,
)
