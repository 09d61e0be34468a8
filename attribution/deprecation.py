"""Old names that are accepted for one release."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def renamed_arguments(**names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that accepts the old names of keyword arguments, with a ``DeprecationWarning``.

    Parameters
    ----------
    **names
        Old name to new name.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def accepting_old_names(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given: dict[str, Any] = kwargs
            for old in given.keys() & names.keys():
                warnings.warn(f"{old}= is now called {names[old]}=", DeprecationWarning, stacklevel=2)
                if names[old] in given:
                    raise TypeError(f"{old}= and {names[old]}= are the same argument; give one")
                given[names[old]] = given.pop(old)
            return function(*args, **kwargs)

        return accepting_old_names

    return decorate
