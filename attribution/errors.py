"""Errors and other text for a terminal: the exception for bad input, and output without control characters."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO


class BadInput(ValueError):
    """Something the user gave is wrong.

    The message is one line. It says what is wrong and what would be right; a command prints it and exits
    with code 2, a library caller sees an ordinary ``ValueError``.
    """

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


def printable(text: str) -> str:
    """Return text with every control character escaped, line ends included.

    Names from files cannot move a terminal's cursor, reverse the direction of text, or begin a line of their own.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_line(line: object = "", *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print one line; control characters in it are escaped.

    Parameters
    ----------
    line
        What to print, as ``str``. A line end inside is escaped too.
    file
        Standard output by default.
    flush
        Whether to write it at once.
    """
    print(printable(str(line)), file=file or sys.stdout, flush=flush)


def print_text(text: str, *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print lines of text as they are, without a line end behind the last; other control characters are escaped.

    Names inside must have been through ``printable``, as the cells of tables have.
    """
    print("\n".join(map(printable, text.split("\n"))), end="", file=file or sys.stdout, flush=flush)


def listed(names: Iterable) -> str:
    """Return names in quotes, separated by commas, for the end of an error message."""
    return ", ".join(f"'{name}'" for name in names)
