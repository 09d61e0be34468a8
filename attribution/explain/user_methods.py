"""What a method of the user's own raises, told by the line of their file on which it happened."""

from __future__ import annotations

import inspect
import pathlib
import traceback
from collections.abc import Mapping
from typing import Any

from attribution.errors import BadInput
from attribution.methods.method import Method
from attribution.methods.queries import ModelQueries
from attribution.plugins import working_directory_kept

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_HOUSE = [_ROOT / room for room in ("attribution", "attribution_benchmarks", "bim", "svea", "clevr_xai")]


class BrokenContract(BadInput):
    """A method returned what is no map of its inputs, or raised what is no ``BadInput``."""


def called(method: Method, passes: ModelQueries, parameters: Mapping[str, Any]) -> Any:
    """Return what a method returns.

    Raises
    ------
    BrokenContract
        If the code is the user's own and raises anything but ``BadInput``, ``SystemExit`` included; what it raised is
        its cause. What a method of the project raises is a mistake of the project, and is raised as it is.
    """
    try:
        with working_directory_kept():
            return method.function(passes, **parameters)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        file = _file(method)
        if file is None or any(pathlib.Path(file).resolve().is_relative_to(room) for room in _HOUSE):
            raise
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f"{file}, line {lines[-1]}" if lines else file
        words = " ".join(str(error).split())[:300]
        hint = "; inputs are lent to all methods: copy what you change" if "read-only" in words else ""
        raise BrokenContract(
            f"method '{method.name}' failed at {where}: {type(error).__name__}{words and ': '}{words}{hint}"
        ) from error


def _file(method: Method) -> str | None:
    """Return the file that a method's code is in; None of what is written in C."""
    code = getattr(inspect.unwrap(method.function), "__code__", None)
    return getattr(code, "co_filename", None)
