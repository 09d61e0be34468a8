"""What a server refuses, as one line: who refused, what was asked, and the server's own words."""

from __future__ import annotations

from attribution.errors import BadInput

# Status codes of gRPC as TensorFlow Serving's REST interface turns them into HTTP; others become 500.
HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
# 413 and 502 come from proxies on the way.
_CODES = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    413: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
}
_LONGEST = 400  # of a server's words: TensorFlow's can be pages long


class ServerError(BadInput):
    """A request that a server refused, or answered with what cannot be used.

    Attributes
    ----------
    code : str
        Status code of gRPC, such as ``NOT_FOUND``; ``INVALID_REPLY`` for an answer that cannot be used.
    words : str
        What the server said.
    """

    def __init__(self, code: str, words: str, asked: str = "", hint: str = ""):
        self.code = code
        self.words = " ".join(str(words).split()) or "no further words"
        if len(self.words) > _LONGEST:
            self.words = self.words[: _LONGEST - 3] + "..."
        super().__init__(f"{asked + ': ' if asked else ''}{code}: {self.words}{'; ' + hint if hint else ''}")

    def about(self, asked: str, hint: str = "") -> ServerError:
        """Return the same error with what was asked and what the user can do about it."""
        return ServerError(self.code, self.words, asked, hint)


def code_of(http_status: int) -> str:
    """Return the status code of gRPC that an HTTP status stands for."""
    return _CODES.get(http_status, "INTERNAL" if http_status >= 500 else "INVALID_ARGUMENT")
