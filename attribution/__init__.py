"""Explanations of SavedModels and Keras models: load a model, explain inputs, get maps.

Importing this package imports no TensorFlow; ``load_model`` does.

Examples
--------
>>> model = attribution.load_model("saved_models/svea/baseline", score="probabilities")
>>> maps = attribution.explain("integrated_gradients", model, inputs)
>>> attribution.plot(maps, inputs).savefig("maps.png")
"""

from __future__ import annotations

from attribution.check_method import check_method
from attribution.explain import explain, explain_many
from attribution.loading import load_model
from attribution.methods.registry import METHODS, Method, resolve_method
from attribution.plotting import plot
from attribution.tensorflow_log import quiet_tensorflow

__version__ = "0.5.0"  # setup.py reads it here

__all__ = [
    "METHODS",
    "Method",
    "__version__",
    "check_method",
    "explain",
    "explain_many",
    "load_model",
    "plot",
    "quiet_tensorflow",
    "resolve_method",
]
