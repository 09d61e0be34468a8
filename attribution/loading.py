"""Load the model to explain: a SavedModel, or a live Keras model, which is exported to one first."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
from typing import TYPE_CHECKING, Any

from attribution.errors import BadInput, described
from attribution.files import find_saved_model
from attribution.methods import third_party

if TYPE_CHECKING:  # they import TensorFlow
    import keras

    from attribution.model.model import Model


def load_model(
    model: str | os.PathLike[str] | keras.Model, *, keras_model: Any = None, trust: bool = False, **options: Any
) -> Model:
    """Load a SavedModel or a live Keras model to be explained.

    Parameters
    ----------
    model
        Directory of the SavedModel, or its parent with numbered versions; or a built ``keras.Model``, which is exported
        to a temporary directory. Its maps are those of the exported file. Later changes of its weights have no effect.
    keras_model
        The live Keras network of a SavedModel, for methods that need one (``queries.keras_model``): a ``keras.Model``,
        a function that builds it, ``"module:function"``, ``"file.py:function"`` or the path of a ``.keras`` file. It
        is built when a method needs it and given the file's weights. A live ``model`` is its own live network.
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
    return loaded


def _load_keras_model(network: keras.Model, options: dict[str, Any]) -> Model:
    """Export a live Keras model to a temporary directory and load it from there."""
    import keras

    from attribution.model import model as models
    from attribution.model.op_allowlist import trusted

    _check_live(network)
    directory = tempfile.TemporaryDirectory(prefix="attribution_")
    try:
        _export(network, directory.name)
    except Exception as error:  # of Keras, or of the model's own code
        raise BadInput(f"Keras cannot export the model '{network.name}': {described(error)}") from error
    with trusted():
        model = models.load_model(directory.name, **options)
    model._directory = directory  # is deleted with the model
    if not hasattr(network, "inputs") and len(model.inputs) == 1:  # a subclassed model
        (spec,) = model.inputs.values()
        inputs = keras.Input(batch_shape=spec.shape, dtype=spec.dtype.name)
        network = keras.Model(inputs, network(inputs, training=False))
    model.live_source = functools.partial(third_party.take, network=network)
    return model


def _check_live(network: Any) -> None:
    """Refuse objects other than built Keras models, and models whose ``predict`` differs from their call."""
    import keras

    if not isinstance(network, keras.Model):
        raise BadInput(f"expected the directory of a SavedModel or a keras.Model, not {type(network).__name__}")
    # A subclassed model can be built and yet not know the shape of its inputs.
    if not network.built or not (hasattr(network, "inputs") or network._called):
        raise BadInput(f"the Keras model '{network.name}' is not built; call it on inputs before it is explained")
    if name := _always_trained(network):
        raise BadInput(
            f"layer '{name}' of the Keras model '{network.name}' is called with training=True, which its call obeys "
            "and its predict ignores; export the model, and load the file that is to be explained"
        )
    if type(network).predict_step is not keras.Model.predict_step:
        raise BadInput(
            f"the Keras model '{network.name}' has its own predict_step, so that its call is not what it predicts; "
            "export the function that is to be explained"
        )
    given = getattr(network, "input", None) if hasattr(network, "inputs") else None
    if isinstance(given, dict) and (other := next((key for key, one in given.items() if one.name != key), None)):
        raise BadInput(
            f"the Keras model '{network.name}' takes '{other}' for its input named '{given[other].name}'; give both "
            "the same name"
        )


def _always_trained(network: Any) -> str | None:
    """Return the name of a layer that a functional model, or a model in it, calls with training=True."""
    for layer in getattr(network, "layers", ()):
        calls = getattr(layer, "_inbound_nodes", ())
        default = inspect.signature(layer.call).parameters.get("training")
        by_itself = default is not None and default.default is True  # a layer of augmentation
        if not by_itself and any(call.arguments.kwargs.get("training") is True for call in calls):
            return str(layer.name)
        if name := _always_trained(layer):
            return name
    return None


def _export(network: keras.Model, path: str) -> None:
    """Write a Keras model as ``predict`` calls it; its own ``export`` leaves layers of augmentation on."""
    import keras

    if keras.backend.backend() == "torch":  # it exports modules alone, without their arguments
        network.export(path, verbose=False)
        return
    if isinstance(network, keras.Sequential):
        signature = network.inputs
    elif hasattr(network, "inputs"):
        signature = [network.input]
    else:  # a subclassed model
        known = network.get_build_config()
        signature = keras.tree.map_shape_structure(
            lambda shape: keras.InputSpec(shape=(None, *shape[1:]), dtype=network.input_dtype),
            list(known["shapes_dict"].values()) if "shapes_dict" in known else [known["input_shape"]],
        )
    archive = keras.export.ExportArchive()
    archive.track(network)
    archive.add_endpoint("serve", lambda *args: network(*args, training=False), signature)
    archive.write_out(path, verbose=False)
