"""Addresses, errors and signatures of TensorFlow Serving."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping

import numpy as np

from attribution.errors import BadInput

DEFAULT_PORTS = {"grpc": 8500, "http": 8501, "https": 443}
# HTTP status that TensorFlow Serving's REST interface returns for each status code of gRPC; 500 for others.
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
_LONGEST_MESSAGE = 400  # characters; TensorFlow's messages can be pages long
# Types of TensorFlow that can be sent and received. Strings are Python objects.
DTYPES: dict[str, np.dtype] = {
    "DT_FLOAT": np.dtype(np.float32),
    "DT_DOUBLE": np.dtype(np.float64),
    "DT_HALF": np.dtype(np.float16),
    "DT_INT8": np.dtype(np.int8),
    "DT_INT16": np.dtype(np.int16),
    "DT_INT32": np.dtype(np.int32),
    "DT_INT64": np.dtype(np.int64),
    "DT_UINT8": np.dtype(np.uint8),
    "DT_UINT16": np.dtype(np.uint16),
    "DT_UINT32": np.dtype(np.uint32),
    "DT_UINT64": np.dtype(np.uint64),
    "DT_BOOL": np.dtype(bool),
    "DT_STRING": np.dtype(object),
}


class ServerError(BadInput):
    """A request that a server refused, or an invalid reply.

    ``code`` is gRPC's status code, such as ``NOT_FOUND``, or ``INVALID_REPLY``; ``words`` are the server's message.
    """

    def __init__(self, code: str, words: str, request: str = "", hint: str = ""):
        self.code = code
        self.words = " ".join(str(words).split()) or "no message"
        if len(self.words) > _LONGEST_MESSAGE:
            self.words = self.words[: _LONGEST_MESSAGE - 3] + "..."
        super().__init__(f"{request + ': ' if request else ''}{code}: {self.words}{'; ' + hint if hint else ''}")

    def about(self, request: str, hint: str = "") -> ServerError:
        """Return the same error with the request and a hint for the user."""
        return ServerError(self.code, self.words, request, hint)


@dataclasses.dataclass(frozen=True)
class Address:
    """A server's address."""

    protocol: str  # ``grpc``, ``http`` or ``https``
    host: str  # name or IP address
    port: int
    path: str = ""  # prefix of ``/v1/models`` behind a proxy; empty by default

    @property
    def host_and_port(self) -> str:
        """``host:port``, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self):
        return f"{self.protocol}://{self.host_and_port}{self.path}"


def parse_address(text: str) -> Address:
    """Return the address ``grpc://host:8500`` or ``http://host:8501``; raise ``BadInput`` if it is another text."""
    expected = "expected grpc://host:8500 or http://host:8501"
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as name resolution will
    except (ValueError, UnicodeError) as error:
        raise BadInput(f"{text!r} is not an address of a server; {expected}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment:
        raise BadInput(f"'{text}' is not an address of a server; {expected}")
    path = parts.path.rstrip("/")
    if path and parts.scheme == "grpc":
        raise BadInput(f"'{text}' has a path, which gRPC does not support; {expected}")
    return Address(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], path)


@dataclasses.dataclass(frozen=True)
class ModelName:
    """Name of a served model and, if it is not the latest, its version."""

    name: str
    version: int | None = None

    def __str__(self):
        return f"model '{self.name}'" + ("" if self.version is None else f" version {self.version}")


def parse_model_name(text: str) -> ModelName:
    """Return the model of ``name`` or ``name@version``."""
    name, at, version = text.partition("@")
    if not name or "/" in name or (at and not version.isdecimal()):
        raise BadInput(f"'{text}' is not the name of a served model; expected name, or name@version with a number")
    return ModelName(name, int(version) if at else None)


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Type and shape of an input or output."""

    dtype: np.dtype | None  # numPy type; ``object`` for strings, ``None`` for an unsupported type
    # Sizes, batch axis first, ``None`` for any size; ``None`` if the rank is unknown.
    shape: tuple[int | None, ...] | None

    @property
    def is_float(self) -> bool:
        """Whether the type is floating point, so that there can be a gradient."""
        return self.dtype is not None and self.dtype.kind == "f"

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape fits."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            wanted in (None, size) for wanted, size in zip(self.shape, shape, strict=True)
        )

    def allows_rows(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape fits, whatever its number of rows."""
        return self.shape is None or self.allows((self.shape[0], *shape[1:]))

    def shown(self) -> str:
        """Return the shape as text, such as ``(any, 128, 128, 3)``."""
        if self.shape is None:
            return "any shape"
        return "(" + ", ".join("any" if size is None else str(size) for size in self.shape) + ")"


@dataclasses.dataclass(frozen=True)
class Signature:
    """Names of the inputs and outputs of a signature, with their ``TensorSpec``."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
