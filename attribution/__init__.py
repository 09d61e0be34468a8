"""Explanations of SavedModels and Keras models: load a model, explain inputs, get maps.

Importing this package imports no TensorFlow; ``load_model`` does.

Examples
--------
>>> model = attribution.load_model("saved_models/svea/baseline", score="probabilities")
>>> maps = attribution.explain("integrated_gradients", model, inputs)
>>> attribution.plot(maps, inputs).savefig("maps.png")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from attribution.check_method import check_method
from attribution.explain import explain, explain_many
from attribution.files import find_saved_model
from attribution.methods.method import Method
from attribution.methods.registry import METHODS, resolve_method
from attribution.plotting import plot

if TYPE_CHECKING:  # they import TensorFlow
    import keras

    from attribution.model.model import Model

__version__ = "0.4.0"  # setup.py reads it here

__all__ = [
    "METHODS",
    "Method",
    "__version__",
    "check_method",
    "explain",
    "explain_many",
    "load_model",
    "plot",
    "resolve_method",
]


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
    from attribution.methods import third_party
    from attribution.model import model as models
    from attribution.model.op_allowlist import trusted

    if not isinstance(model, (str, os.PathLike)):
        return models.load_keras_model(model, **options)
    with trusted(trust):
        loaded = models.load_model(model, **options)
    if keras_model is not None:
        third_party.offer(loaded, keras_model)
    return loaded
