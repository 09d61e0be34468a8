"""The exception for invalid input, and text for a terminal without control characters."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO


class BadInput(ValueError):
    """Invalid input of the user.

    The message is one line that says what is wrong and what was expected. A command prints it and exits with code 2.
    """

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


def printable(text: str) -> str:
    """Return text with every control character escaped, newlines included.

    A name from a file cannot move the terminal's cursor, reverse the direction of text, or start a line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_line(line: object = "", *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print one line with control characters and newlines escaped, by default to standard output."""
    print(printable(str(line)), file=file or sys.stdout, flush=flush)


def print_text(text: str, *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print text with control characters except newlines escaped, and without a newline at the end.

    Names in the text must have been through ``printable``, as the cells of tables have.
    """
    print("\n".join(map(printable, text.split("\n"))), end="", file=file or sys.stdout, flush=flush)


def listed(names: Iterable[object]) -> str:
    """Return names in quotes, separated by commas, for an error message."""
    return ", ".join(f"'{name}'" for name in names)
