"""Names in pictures as they are: matplotlib would read what stands between two dollars as mathematics, and may fail."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

Drawing = TypeVar("Drawing", bound=Callable)


def plain_text(draws: Drawing) -> Drawing:
    """Return a function that draws, and takes all text for text, whatever a file, a class or a question is called."""

    @functools.wraps(draws)
    def drawn(*arguments, **options):
        import matplotlib

        with matplotlib.rc_context({"text.parse_math": False}):
            return draws(*arguments, **options)

    return drawn  # type: ignore[return-value]
