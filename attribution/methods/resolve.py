"""A method by what a user types: a name of the registry, or a function of one's own."""

from __future__ import annotations

import difflib
import inspect

from attribution.errors import BadInput, listed
from attribution.methods.method import Method
from attribution.methods.registry import METHODS
from attribution.plugins import imported, refuse_file_alone


def resolve_method(name: str) -> Method:
    """Return a method of the registry, or a user's own.

    Parameters
    ----------
    name
        A name of ``METHODS``, ``module:function``, or ``path/to/file.py:function``.

    Raises
    ------
    BadInput
        If there is no such method; the message gives the nearest names. If its library is not installed.
    """
    if name in METHODS:
        METHODS[name].library_version()  # refuses a method of a library that is not installed
        return METHODS[name]
    if ":" in name:
        return _own_method(name)
    refuse_file_alone(name, "method")
    near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.4)
    meant = f"did you mean {listed(near)}?" if near else f"the methods are {listed(METHODS)}"
    raise BadInput(f"no method '{name}'; {meant} A method of your own is written module:function")


def _own_method(name: str) -> Method:
    """Return the method of ``module:function`` or ``file.py:function``, called by its function's name.

    Its family is the function's attribute ``family``, where it has one.
    """
    function = imported(name, "method")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise BadInput(f"method '{name}' is not called with the passes alone: {error}") from error
    except ValueError:  # written in C, without a signature to look at
        pass
    family = getattr(function, "family", None)
    if not (family is None or (isinstance(family, str) and family)):
        raise BadInput(f"method '{name}': its attribute family is {family!r}; set it to a word, such as 'gradient'")
    return Method(name=name, title=name.rpartition(":")[2], function=function, family=family)
