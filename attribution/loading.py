"""Load the model to explain: a SavedModel, or a model of Keras, live or in a file, which is exported to one first."""

from __future__ import annotations

import copy
import functools
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from attribution import keras_models
from attribution.errors import BadInput, described
from attribution.methods import third_party
from attribution.model_paths import find_saved_model

if TYPE_CHECKING:  # they import TensorFlow
    import keras

    from attribution.model.model import Model


def load_model(
    model: str | os.PathLike[str] | keras.Model, *, keras_model: Any = None, trust: bool = False, **options: Any
) -> Model:
    """Load a SavedModel or a Keras model to be explained.

    Parameters
    ----------
    model
        Directory of the SavedModel, or its parent with numbered versions; a ``.keras`` or ``.h5`` file, which is
        converted in the cache without running code of the file; or a built ``keras.Model``, which is exported to a
        temporary directory. Its maps are those of the exported file. Later changes of its weights have no effect.
    keras_model
        The live Keras network of a SavedModel, for methods that need one (``queries.keras_model``): a ``keras.Model``,
        a function that builds it, ``"module:function"``, ``"file.py:function"`` or the path of a ``.keras`` file. It
        is built when a method needs it and given the file's weights. A live ``model``, or one in a file of Keras 3, is
        its own live network.
    trust
        Load a file even if it uses operations that can do more than compute (``attribution.model.op_allowlist``).
    **options
        ``score``, ``signature``, ``inputs``, ``output``, ``position``, ``given``, ``explain_input``, ``jit_compile``;
        see ``attribution.model.model.load_model``.

    Raises
    ------
    BadInput
        If the model cannot be loaded; the message says why.
    """
    if isinstance(model, (str, os.PathLike)):
        find_saved_model(model)  # an invalid path is reported before TensorFlow is imported, which takes seconds
    from attribution.model import model as models
    from attribution.model.op_allowlist import trusted

    if not isinstance(model, (str, os.PathLike)):
        return _load_keras_model(model, options)
    with trusted(trust):
        loaded = models.load_model(model, **options)
    if keras_model is not None:
        third_party.offer(loaded, keras_model)
    elif keras_models.is_keras_file(model):
        loaded.live_source = functools.partial(_take_network_of_file, path=model, directory=loaded.path)
    return loaded


def _take_network_of_file(model: Model, path: str | os.PathLike[str], directory: pathlib.Path) -> None:
    """Give a model the network of a Keras file, with the weights of another SavedModel than the file's if it is one."""
    network = keras_models.read_file(path)
    if model.path == directory:
        third_party.take(model, network)
    else:  # such as the control with shuffled weights
        third_party.attach(model, network)


def _load_keras_model(network: keras.Model, options: dict[str, Any]) -> Model:
    """Export a live Keras model to a temporary directory and load it from there."""
    from attribution.model import model as models
    from attribution.model.op_allowlist import trusted

    keras_models.check_live(network)
    directory = tempfile.TemporaryDirectory(prefix="attribution_")
    keras_models.export(network, directory.name, f"'{network.name}'")
    with trusted():
        model = models.load_model(directory.name, **options)
    model._directory = directory  # is deleted with the model
    model.live_source = functools.partial(_take_live_network, network=network, directory=model.path)
    return model


def _take_live_network(model: Model, network: keras.Model, directory: pathlib.Path) -> None:
    """Give a model the network that it was exported from, or a copy with the weights of another SavedModel."""
    if model.path == directory:
        third_party.take(model, _with_inputs(network, model))
        return
    import keras

    classes = {type(layer).__name__: type(layer) for layer in network._flatten_layers(include_self=True)}
    try:
        with keras.saving.custom_object_scope(classes):
            copied = copy.deepcopy(network)  # the caller's network keeps its weights
    except Exception as error:  # whatever a layer of the caller raises
        raise BadInput(f"'{network.name}' cannot be copied to have other weights: {described(error)}") from error
    third_party.attach(model, _with_inputs(copied, model))


def _with_inputs(network: keras.Model, model: Model) -> keras.Model:
    """Return a network whose inputs are known, which those of a subclassed model are not."""
    import keras

    if hasattr(network, "inputs") or len(model.inputs) > 1:
        return network
    (spec,) = model.inputs.values()
    inputs = keras.Input(batch_shape=spec.shape, dtype=spec.dtype.name)
    return keras.Model(inputs, network(inputs, training=False))
