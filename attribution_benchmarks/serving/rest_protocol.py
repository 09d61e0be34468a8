"""TensorFlow Serving's REST interface: JSON over HTTP, by the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.serving.address import Address, ModelName
from attribution_benchmarks.serving.errors import ServerError, code_of
from attribution_benchmarks.serving.signature import Signature, signature_of

_PIECE = 1 << 16  # bytes read at a time, between two looks at the clock
BYTES_PER_NUMBER = 20  # of a float in JSON, the comma included


class RestProtocol:
    """One connection, which is opened again when it is lost.

    Parameters
    ----------
    address
        Of the server.
    max_message_bytes
        Longest reply that is read.
    """

    def __init__(self, address: Address, max_message_bytes: int):
        self._address = address
        self._limit = max_message_bytes
        self._connection: http.client.HTTPConnection | None = None

    @staticmethod
    def size_of(arrays: Mapping[str, np.ndarray]) -> int:
        """Return about how many bytes a request with these arrays has."""
        return sum(array.size * BYTES_PER_NUMBER for array in arrays.values())

    def predict(
        self,
        model: ModelName,
        signature: str,
        arrays: Mapping[str, np.ndarray],
        wanted: Sequence[str],
        specs: Signature | None,
        deadline: float,
    ) -> dict[str, np.ndarray]:
        """Ask a signature and return its outputs; REST sends all of them, whatever is wanted."""
        inputs = {name: _to_json(array) for name, array in arrays.items()}
        body = {"signature_name": signature, "inputs": inputs}
        reply = self._ask("POST", _path(model) + ":predict", deadline, json.dumps(body).encode())
        outputs = reply.get("outputs")
        if outputs is None:
            raise ServerError(
                "INVALID_REPLY", f"the reply has no 'outputs', only {', '.join(sorted(reply)) or 'nothing'}"
            )
        names = list(specs.outputs) if specs else list(wanted)
        # The name of an only output is dropped, and then a mapping can only be bytes.
        if not isinstance(outputs, Mapping) or set(outputs) == {"b64"}:
            if len(names) != 1:
                raise ServerError("INVALID_REPLY", "the reply has one output without a name")
            outputs = {names[0]: outputs}
        return {
            name: _from_json(value, specs.outputs[name].dtype if specs and name in specs.outputs else None)
            for name, value in outputs.items()
            if name in wanted
        }

    def signatures(self, model: ModelName, deadline: float) -> tuple[int | None, dict[str, Signature]]:
        """Return the version that answers, and what it can be asked."""
        reply = self._ask("GET", _path(model) + "/metadata", deadline)
        found = reply.get("metadata", {}).get("signature_def", {}).get("signature_def", {})
        version = reply.get("model_spec", {}).get("version")
        return (
            None if version is None else int(version),
            {name: signature_of(plain) for name, plain in found.items() if plain.get("inputs")},
        )

    def status(self, model: ModelName, deadline: float) -> dict[int, str]:
        """Return the state of each version, such as ``{1: "AVAILABLE"}``."""
        reply = self._ask("GET", _path(model), deadline)
        return {int(one["version"]): one.get("state", "UNKNOWN") for one in reply.get("model_version_status", [])}

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, verb: str, path: str, deadline: float, body: bytes | None = None) -> dict:
        """Send one request and return the JSON object of the reply.

        Raises
        ------
        ServerError
            If the server cannot be reached, refuses, takes longer than ``deadline`` seconds, or answers with
            anything but a JSON object.
        """
        end = time.monotonic() + deadline
        guard = _Guard(end)
        try:
            with guard:
                status, content = self._exchange(verb, self._address.path + path, body, end, guard)
        except TimeoutError as error:
            self.close()
            raise ServerError("DEADLINE_EXCEEDED", f"no reply within {deadline:g} s") from error
        except ServerError:
            self.close()  # what is left of a reply that is too large would be taken for the next one
            raise
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ServerError("UNAUTHENTICATED", str(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            if guard.struck:  # what a connection says that was cut in the middle of a line is of no use
                self.close()
                raise ServerError("DEADLINE_EXCEEDED", f"no reply within {deadline:g} s") from error
            # Half a reply is a lost connection too: the server went away while it wrote.
            self.close()
            raise ServerError("UNAVAILABLE", _reason(error)) from error
        try:
            reply = json.loads(content)
        except (ValueError, RecursionError):
            reply = None
        if status != 200:
            words = reply.get("error") if isinstance(reply, Mapping) else content.decode("utf-8", "replace")
            raise ServerError(code_of(status), str(words or f"HTTP status {status}"))
        if not isinstance(reply, Mapping):
            raise ServerError("INVALID_REPLY", f"no JSON object but {content[:60].decode('utf-8', 'replace')!r}")
        return dict(reply)

    def _exchange(self, verb, path, body, end, guard):
        connection = self._connected(end)
        wire = connection.sock  # http.client forgets it when the server wants to close
        guard.watch(wire)
        wire.settimeout(_left(end))
        connection.request(verb, path, body, {"Content-Type": "application/json"} if body is not None else {})
        wire.settimeout(_left(end))
        response = connection.getresponse()
        pieces, size = [], 0
        while True:
            wire.settimeout(_left(end))
            piece = response.read(_PIECE)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if size > self._limit:
                raise ServerError("RESOURCE_EXHAUSTED", f"the reply is larger than {self._limit} bytes")
        if response.length:
            raise http.client.IncompleteRead(b"".join(pieces), response.length)
        if response.will_close:
            self.close()
        return response.status, b"".join(pieces)

    def _connected(self, end) -> http.client.HTTPConnection:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._address.protocol == "https" else http.client.HTTPConnection
            self._connection = kind(self._address.host, self._address.port, timeout=_left(end))
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection


class _Guard:
    """Cut a connection at the deadline, whatever the server sends until then.

    A socket's own time limit is for one read: a server that sends a byte a second, or one ``100 Continue`` after the
    other, never meets it.
    """

    def __init__(self, end: float):
        self.struck = False
        self._wire = None
        self._timer = threading.Timer(max(0.0, end - time.monotonic()), self._strike)
        self._timer.daemon = True

    def watch(self, wire) -> None:
        """Cut this connection when time is up."""
        self._wire = wire

    def _strike(self):
        self.struck = True
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        self._timer.start()
        return self

    def __exit__(self, *_):
        self._timer.cancel()


def _left(end: float) -> float:
    """Return the seconds until the deadline."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _reason(error: Exception) -> str:
    """Return what happened to a connection, without Python's numbers."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[0].lower() + text[1:]


def _path(model: ModelName) -> str:
    version = "" if model.version is None else f"/versions/{model.version}"
    return f"/v1/models/{urllib.parse.quote(model.name, safe='')}{version}"


def _to_json(array: np.ndarray):
    """Return nested lists; bytes as ``{"b64": ...}``."""
    if array.dtype == object:
        flat = [{"b64": base64.b64encode(value).decode()} for value in array.ravel()]
        return np.array(flat, object).reshape(array.shape).tolist()
    return array.tolist()


def _from_json(value, dtype: np.dtype | None) -> np.ndarray:
    """Return an array from nested lists, NaN and infinities included.

    Raises
    ------
    ServerError
        If the lists are ragged or hold something else than the type says.
    """
    try:
        if dtype is not None and dtype.kind == "O":
            return np.vectorize(_bytes_of, otypes=[object])(np.array(value, object))
        return np.array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ServerError("INVALID_REPLY", f"an output is no array of {dtype or 'numbers'}: {error}") from error


def _bytes_of(value) -> bytes:
    if isinstance(value, Mapping):
        return base64.b64decode(value["b64"])
    return value.encode()
