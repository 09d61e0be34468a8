"""The live Keras network behind a SavedModel, for custom methods that run classes of tf-keras-vis or tf-explain.

No library explains a SavedModel. ``attach(model, network)`` gives a network of the same architecture the file's weights
and checks that both agree. ``METHOD@LIBRARY`` (``attribution.methods.libraries``) needs neither library nor network.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.keras_models import read_file
from attribution.model.protocols import ScoredModel
from attribution.plugins import imported

if TYPE_CHECKING:
    from attribution.model.model import Model


def attach(model: Model, network: Any, tolerance: float = 1e-4) -> None:
    """Give a SavedModel the live Keras network that some methods need.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    network : keras.Model
        The architecture it was exported from; its weights are replaced by the file's. Its output must be the score
        the model was loaded for, logits or probabilities.
    tolerance
        Largest difference of scores on random inputs, relative to the largest score.

    Raises
    ------
    BadInput
        If the network has other variables or other scores.
    """
    loaded = model.load_file()
    if not hasattr(loaded, "variables"):
        raise BadInput(
            f"'{model.path}' does not list its variables as keras.Model.export does; give a network that already "
            "has its weights to attribution.methods.third_party.take"
        )
    variables = loaded.variables
    shapes = _shapes(variables)
    # The state of random generators is among the variables and not among the weights.
    own = next((one for one in (network.weights, network.variables) if _shapes(one) == shapes), None)
    if own is None:
        raise BadInput(f"'{model.path}' was not exported from this network: its variables have shapes {shapes}")
    for variable, value in zip(own, variables, strict=True):
        variable.assign(value.numpy())
    take(model, network, tolerance=tolerance)


def _shapes(variables: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(variable.shape) for variable in variables]


def take(
    model: ScoredModel, network: Any, sample: Mapping[str, np.ndarray] | None = None, tolerance: float = 1e-4
) -> None:
    """Make a network that has a SavedModel's weights its live network, if both compute the same scores.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    network : keras.Model
        Its inputs are named as the file's where there are several.
    sample
        Inputs to compare the scores on, by name; by default random numbers in [0, 1], and zeros for inputs of integers.
    tolerance
        Largest difference of scores, relative to the largest.

    Raises
    ------
    BadInput
        If the network has other inputs or other scores.
    """
    import keras

    from attribution.model._loading_checks import random_feed

    # Libraries wrap inputs in a list, which Keras accepts with a warning at each call.
    warnings.filterwarnings("ignore", "The structure of `inputs`", UserWarning)

    names = [tensor.name for tensor in network.inputs]
    several = len(names) > 1
    has_names = set(names) == set(model.inputs) if several else len(model.inputs) == 1
    if not has_names:
        raise BadInput(f"'{model.path}' takes {listed(model.inputs)}, and the network {listed(names)}")
    feed = random_feed(model, 4) if sample is None else sample
    scores = model.scores(feed)
    live = np.asarray(network([feed[name] for name in names] if several else next(iter(feed.values()))))
    if scores.shape != live.shape or np.abs(scores - live).max() > tolerance * np.abs(scores).max():
        hint = "; load the model with score='probabilities' if the network ends in them" * (model.score == "logits")
        raise BadInput(f"the network does not compute the {model.score} of '{model.path}'{hint}")
    inputs = network.inputs if several else network.inputs[0]
    model.live = keras.Model(inputs, network.outputs[0])  # tf-explain needs attributes that a Sequential lacks


def offer(model: ScoredModel, source: Any) -> None:
    """Set the source of a SavedModel's live Keras network, which is built when a method needs it.

    Parameters
    ----------
    model : attribution.model.model.Model
        The loaded SavedModel.
    source
        A ``keras.Model``; a function that builds one; ``"module:function"`` or ``"file.py:function"``, which names such
        a function; or the path of a ``.keras`` file.

    Raises
    ------
    BadInput
        If the source is neither.
    """
    build = _builder(source)
    model.live_source = lambda model: attach(model, _built(build))


def _builder(source: Any) -> Callable[[], Any]:
    """Return the function that builds the network of a source as ``offer`` takes it."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if ":" in text and not text.endswith(".keras"):
            return imported(text, "network")
        if not os.path.isfile(text):
            raise BadInput(
                f"'{text}' is not a Keras network; expected module:function, file.py:function or a .keras file"
            )
        return functools.partial(read_file, text)
    if not hasattr(source, "get_weights") and not callable(source):
        raise BadInput(
            f"keras_model is of type {type(source).__name__}; give a keras.Model or a function that builds it"
        )
    build: Callable[[], Any] = (lambda: source) if hasattr(source, "get_weights") else source
    return build


def _built(build: Callable[[], Any]) -> Any:
    """Return the network that a user's function builds."""
    try:
        network = build()
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"the Keras network could not be built: {type(error).__name__}: {error}") from error
    if not hasattr(network, "get_weights"):
        raise BadInput(f"the Keras network is of type {type(network).__name__}; a keras.Model is needed")
    return network
