"""A method by what a user types: a name of the registry, or a function of one's own."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys

from attribution.method import Method
from attribution.methods import METHODS
from attribution_benchmarks.command_line import BadInput, listed


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
    near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.4)
    meant = f"did you mean {listed(near)}?" if near else f"the methods are {listed(METHODS)}"
    raise BadInput(f"no method '{name}'; {meant} A method of your own is written module:function")


def _own_method(name: str) -> Method:
    """Import ``module:function`` or ``file.py:function``."""
    module_name, _, function_name = name.rpartition(":")
    try:
        if module_name.endswith(".py"):
            specification = importlib.util.spec_from_file_location("own_method", module_name)
            module = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(module)
        else:
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            module = importlib.import_module(module_name)
    except (ImportError, OSError, SyntaxError) as error:
        raise BadInput(f"method '{name}': cannot import '{module_name}' ({error})") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadInput(f"method '{name}': '{module_name}' has no function '{function_name}'")
    return Method(name=name, title=function_name.replace("_", " "), function=function)
