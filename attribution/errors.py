"""The exception for invalid input, the warning for a wrong sum, and text without control characters."""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
from collections.abc import Iterable
from typing import TextIO


class BadInput(ValueError):
    """Invalid input of the user.

    The message is one line that says what is wrong and what was expected. A command prints it and exits with code 2.
    """

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


class MissedSum(UserWarning):
    """The sum of a map is not what it must be, such as f(x) - f(baseline)."""


def printable(text: str) -> str:
    """Return text with every control character escaped: a name from a file cannot start a line or move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_line(line: object = "", *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print one line with control characters and newlines escaped, by default to standard output."""
    print(printable(str(line)), file=file or sys.stdout, flush=flush)


def print_text(text: str, *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print text with control characters except newlines escaped, and without a newline at the end.

    Names in the text must have been through ``printable``, as the cells of tables have.
    """
    print("\n".join(map(printable, text.split("\n"))), end="", file=file or sys.stdout, flush=flush)


def listed(names: Iterable[object], most: int | None = None) -> str:
    """Return names in quotes, separated by commas, for an error message; with ``most``, the first ones and a count."""
    quoted = [f"'{name}'" for name in names]
    more = f" and {len(quoted) - most} more" if most is not None and len(quoted) > most else ""
    return ", ".join(quoted[:most]) + more


def shortened(text: object, limit: int = 160) -> str:
    """Return text on one line, cut off at a number of characters."""
    words = " ".join(str(text).split())
    return words if len(words) <= limit else words[: limit - 3] + "..."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the names that begin with or are spelled like one, as the end of a sentence; empty if there are none."""
    longer = [each for each in names if name and each.startswith(name)]
    near = longer[:3] or difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; did you mean {listed(near)}?" if near else ""


def installation(extra: str) -> str:
    """Return the command that installs the packages of an extra of ``setup.py``; the project itself is not on PyPI."""
    try:
        lines = importlib.metadata.requires("attribution-benchmarks") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        lines = []
    split = [line.replace("'", '"').partition(";") for line in lines]
    needed = [f"'{name.strip()}'" for name, _, marker in split if f'extra == "{extra}"' in marker]
    return f"pip install {' '.join(needed) or f'-e .[{extra}]'}"


def described(error: BaseException, limit: int = 300) -> str:
    """Return the type and message of an exception of user code on one line; its message may raise another."""
    try:
        words = shortened(error, limit)
    except Exception:
        words = "its message cannot be printed"
    return ": ".join(filter(None, (type(error).__name__, words)))
