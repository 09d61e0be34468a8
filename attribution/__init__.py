"""Explanations of SavedModels: load a model, explain inputs, get maps.

>>> model = attribution.load_model("saved_models/svea/baseline", score="probabilities")
>>> maps = attribution.explain("integrated_gradients", model, inputs)

Importing this package imports no TensorFlow; ``load_model`` does.
"""

from attribution.explain import explain, explain_many
from attribution.method import Method
from attribution.methods import METHODS
from attribution.resolve import resolve_method

__all__ = ["METHODS", "Method", "explain", "explain_many", "load_model", "resolve_method"]


def load_model(path, *, trust: bool = False, **options):
    """Load a SavedModel to be explained; see ``attribution.model.load_model`` for the options.

    A file whose operations can do more than compute is refused (``attribution.trust``), unless you say with ``trust``
    that you trust who made it.
    """
    from attribution import model  # TensorFlow takes seconds to import, --help must not
    from attribution.trust import trusted

    with trusted(trust):
        return model.load_model(path, **options)
