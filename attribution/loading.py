"""Load the model to explain: a SavedModel, or a model of Keras, live or in a file, which is exported to one first."""

from __future__ import annotations

import copy
import functools
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attribution import keras_models
from attribution.errors import BadInput, described
from attribution.methods import third_party
from attribution.model_paths import find_saved_model

if TYPE_CHECKING:  # they import TensorFlow
    import keras

    from attribution.model.model import Model


def load_model(model: str | os.PathLike[str] | keras.Model, *, trust: bool = False, **options: Any) -> Model:
    """Load a SavedModel or a Keras model to be explained.

    Parameters
    ----------
    model
        Directory of the SavedModel, or its parent with numbered versions; a ``.keras`` or ``.h5`` file, which is
        converted in the cache without running code of the file; or a built ``keras.Model``, which is exported to a
        temporary directory. Its maps are those of the exported file. Later changes of its weights have no effect.
        Methods that need the live network (``queries.keras_model``) have it of a live model, of a file of Keras 3 and
        of the SavedModels of this project.
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
    if keras_models.is_keras_file(model):
        read = functools.partial(keras_models.read_file, model)
        third_party.offer(loaded, functools.partial(_network_of_file, read=read, directory=loaded.path))
    else:
        third_party.offer_bundled(loaded)
    return loaded


def _network_of_file(model: Model, read: Callable[[], keras.Model], directory: pathlib.Path) -> keras.Model:
    """Return the network of a Keras file, with the weights of another SavedModel than the file's if it is one."""
    return read() if model.path == directory else third_party.with_weights(read(), model)


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
    third_party.offer(model, functools.partial(_live_network, network=network, directory=model.path))
    return model


def _live_network(model: Model, network: keras.Model, directory: pathlib.Path) -> keras.Model:
    """Return the network that a model was exported from, or a copy with the weights of another SavedModel."""
    if model.path == directory:
        return _with_inputs(network, model)
    import keras

    classes = {type(layer).__name__: type(layer) for layer in network._flatten_layers(include_self=True)}
    try:
        with keras.saving.custom_object_scope(classes):
            copied = copy.deepcopy(network)  # the caller's network keeps its weights
    except Exception as error:  # whatever a layer of the caller raises
        raise BadInput(f"'{network.name}' cannot be copied to have other weights: {described(error)}") from error
    return third_party.with_weights(_with_inputs(copied, model), model)


def _with_inputs(network: keras.Model, model: Model) -> keras.Model:
    """Return a network whose inputs are known, which those of a subclassed model are not."""
    import keras

    if hasattr(network, "inputs") or len(model.inputs) > 1:
        return network
    (spec,) = model.inputs.values()
    inputs = keras.Input(batch_shape=spec.shape, dtype=spec.dtype.name)
    return keras.Model(inputs, network(inputs, training=False))
