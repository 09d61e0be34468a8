"""Explanations of SavedModels: load a model, explain inputs, get maps.

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
from attribution.methods.method import Method
from attribution.methods.registry import METHODS
from attribution.methods.resolve import resolve_method
from attribution.plotting import plot

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.model import Model

__all__ = [
    "METHODS",
    "Method",
    "check_method",
    "explain",
    "explain_many",
    "load_model",
    "plot",
    "resolve_method",
]


def load_model(path: str | os.PathLike, *, keras_model: Any = None, trust: bool = False, **options: Any) -> Model:
    """Load a SavedModel to be explained; see ``attribution.model.model.load_model`` for the options.

    Parameters
    ----------
    path
        Directory of the SavedModel, or its parent with numbered versions.
    keras_model
        The live Keras network behind the file, for methods that need one (``passes.keras_model``): a ``keras.Model``,
        a function that builds it, ``"module:function"``, ``"file.py:function"`` or the path of a ``.keras`` file. It
        is built when a method asks for it, given the file's weights, and refused where its scores are not the file's.
    trust
        Whether you trust the file. Otherwise it is refused if it uses operations that can do more than compute
        (``attribution.model.op_allowlist``).
    **options
        ``score``, ``signature``, ``inputs``, ``output``, ``jit_compile``.
    """
    from attribution.model import model  # TensorFlow takes seconds to import, --help must not
    from attribution.model.op_allowlist import trusted

    with trusted(trust):
        loaded = model.load_model(path, **options)
    if keras_model is not None:
        from attribution.methods import third_party

        third_party.offer(loaded, keras_model)
    return loaded
