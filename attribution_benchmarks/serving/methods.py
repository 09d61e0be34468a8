"""Methods on served models: by the signature that was exported for them, or computed here from the model's answers."""

from __future__ import annotations

import dataclasses

from attribution import METHODS, resolve_method
from attribution.methods.method import Method


def as_served(method: str | Method) -> Method:
    """Return a method that asks a served model for whole maps where it was exported with the same parameters.

    Anywhere else, on a local model too, it is the method itself, which asks for scores and gradients and combines
    them here. Both give the same maps; one request takes the place of many.

    Parameters
    ----------
    method : str or attribution.Method
        A method, or the name of one.
    """
    if isinstance(method, str):
        method = resolve_method(method)
    # A method of the same name may be another one: BIM's Grad-CAM is not the registry's.
    known = METHODS.get(method.name)
    if known is None or known.function is not method.function:
        return method

    def function(passes, **parameters):
        exported = getattr(passes.model, "exported", None)
        label = exported(method.name, parameters) if exported else None
        if label is None or len(passes.model.inputs) > 1:
            return method.function(passes, **parameters)
        return passes.model.maps(label, passes.inputs, passes.targets)

    return dataclasses.replace(method, function=_with_defaults_of(function, method))


def _with_defaults_of(function, method):
    """Return a function whose signature is the method's, from which its defaults are read."""
    import inspect

    function.__signature__ = inspect.signature(method.function)
    function.__doc__ = method.function.__doc__
    return function
