"""Where a server listens and by which protocol: ``grpc://host:8500`` or ``http://host:8501``."""

from __future__ import annotations

import dataclasses
import urllib.parse

from attribution.errors import BadInput

DEFAULT_PORTS = {"grpc": 8500, "http": 8501, "https": 443}


@dataclasses.dataclass(frozen=True)
class Address:
    """A server's address.

    Attributes
    ----------
    protocol
        ``grpc``, ``http`` or ``https``.
    host, port
        Name or number of the machine, and the port.
    path
        What a proxy wants before ``/v1/models``; empty by default.
    """

    protocol: str
    host: str
    port: int
    path: str = ""

    @property
    def host_and_port(self) -> str:
        """``host:port``, with brackets around a host of IPv6."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self):
        return f"{self.protocol}://{self.host_and_port}{self.path}"


def parse_address(text: str) -> Address:
    """Return the address that a user typed.

    Raises
    ------
    BadInput
        If it is no address of a server.
    """
    expected = "expected grpc://host:8500 or http://host:8501"
    try:
        parts = urllib.parse.urlsplit(text)
        if parts.hostname:
            parts.hostname.encode("idna")  # as a look-up of the name will
    except (ValueError, UnicodeError) as error:
        raise BadInput(f"{text!r} is no address of a server; {expected}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment:
        raise BadInput(f"'{text}' is no address of a server; {expected}")
    try:
        port = parts.port
    except ValueError as error:
        raise BadInput(f"'{text}' has no usable port; {expected}") from error
    path = parts.path.rstrip("/")
    if path and parts.scheme == "grpc":
        raise BadInput(f"'{text}' has a path, which gRPC does not know; {expected}")
    return Address(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], path)


@dataclasses.dataclass(frozen=True)
class ModelName:
    """A served model: its name and, where it is not the latest, its version."""

    name: str
    version: int | None = None

    def __str__(self):
        return f"model '{self.name}'" + ("" if self.version is None else f" version {self.version}")


def parse_model_name(text: str) -> ModelName:
    """Return the model that a user typed as ``name`` or ``name@version``."""
    name, at, version = text.partition("@")
    if not name or "/" in name or (at and not version.isdecimal()):
        raise BadInput(f"'{text}' names no served model; expected name, or name@version with a number")
    return ModelName(name, int(version) if at else None)
