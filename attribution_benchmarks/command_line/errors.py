"""The one exception that means: what the user gave cannot be used, and here is what could be."""


class BadInput(ValueError):
    """Something the user gave is wrong.

    The message is one line. It says what is wrong and what would be right; a command prints it and exits
    with code 2, a library caller sees an ordinary ``ValueError``.
    """

    def __init__(self, message: str):
        super().__init__(printable(" ".join(str(message).split())))


def printable(text: str) -> str:
    """Return text in which control characters are escapes, so that a name cannot move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
