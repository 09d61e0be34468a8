"""Requests to a server, with deadlines, retries, batches within its limits, and validated replies."""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution_benchmarks.serving._protocols import (
    Call,
    GrpcProtocol,
    ModelName,
    RestProtocol,
    ServerError,
    Signature,
    TensorSpec,
    parse_address,
)

_LONGEST_DEADLINE = 1_000_000  # seconds; the limit of timers
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds between attempts; each wait is twice the previous one
# A server that shuts down cancels running requests; this client never does.
_RETRIED = ("UNAVAILABLE", "CANCELLED")
_HINTS = {
    "RESOURCE_EXHAUSTED": "a smaller batch may help",
    "UNAVAILABLE": "is the server running, and is this its port?",
    "DEADLINE_EXCEEDED": "a longer deadline or a smaller batch may help",
    "UNIMPLEMENTED": "is this a TensorFlow Serving, and the port of this protocol?",
}


class Client:
    """A client of one server.

    Parameters
    ----------
    address
        ``grpc://host:8500`` or ``http://host:8501``.
    deadline
        Seconds that one request may take.
    retry_timeout, connect_timeout
        Seconds to retry, with growing waits, while a server is unavailable that has answered before, or never.
    max_message_bytes
        Largest request or reply. Larger requests are split into batches.
    sleep
        Waits for a number of seconds between attempts.
    """

    def __init__(
        self,
        address: str,
        *,
        deadline: float = 60.0,
        retry_timeout: float = 120.0,
        connect_timeout: float = 2.0,
        max_message_bytes: int = 256 << 20,
        sleep: Callable[[float], None] = time.sleep,
    ):
        for name, seconds in (("deadline", deadline), ("retry_timeout", retry_timeout)):
            if not (0 < seconds or (name == "retry_timeout" and seconds == 0)) or seconds > _LONGEST_DEADLINE:
                raise BadInput(f"a {name} must be above 0 and at most {_LONGEST_DEADLINE:,} seconds, not {seconds}")
        self.address = parse_address(address)
        self.deadline = deadline
        self.retry_timeout = retry_timeout
        self.connect_timeout = min(connect_timeout, retry_timeout)
        self.counts = types.SimpleNamespace(requests=0, rows=0, retries=0)  # answered, rows in them, repeated
        self._limit = max_message_bytes
        self._sleep = sleep
        self._answered = False
        self._signatures: dict[ModelName, dict[str, Signature]] = {}
        protocol = GrpcProtocol if self.address.protocol == "grpc" else RestProtocol
        self._protocol: Any = protocol(self.address, max_message_bytes)

    def signatures(self, model: ModelName) -> tuple[int | None, dict[str, Signature]]:
        """Return the version of a model that is served, and its signatures by name."""
        version, found = self._persist(f"{model}", lambda: self._described(model))
        self._signatures[model] = dict(sorted(found.items()))
        return version, self._signatures[model]

    def predict(
        self,
        model: ModelName,
        signature: str,
        arrays: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """Call a signature of a model; return output name -> array of N rows.

        Parameters
        ----------
        model, signature
            The model, and the name of its signature.
        arrays
            Input name -> array; all have N rows, at least one.
        outputs
            Names of the outputs wanted; all by default.

        Raises
        ------
        ServerError
            If the server refuses, is unavailable for longer than ``retry_timeout``, or its reply does not fit the
            signature: a missing output or row, another type or shape, NaN.
        """
        if model not in self._signatures:
            self.signatures(model)
        specs = self._signatures[model].get(signature)
        wanted = list(outputs if outputs is not None else specs.outputs if specs else ())
        call = Call(model, signature, wanted, specs)
        total = len(next(iter(arrays.values())))
        row = max(1, self._protocol.size_of({name: array[:1] for name, array in arrays.items()}))
        at_once = max(1, int(0.9 * self._limit) // row)
        parts = []
        for start in range(0, total, at_once):
            piece = {name: array[start : start + at_once] for name, array in arrays.items()}
            parts.append(self._answer(call, piece, min(at_once, total - start)))
        return {
            name: parts[0][name] if len(parts) == 1 else np.concatenate([p[name] for p in parts]) for name in wanted
        }

    def close(self) -> None:
        """Close the connection."""
        self._protocol.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _answer(self, call: Call, arrays: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
        """Return the validated reply to one request."""
        reply = self._persist(f"{call}", lambda: self._protocol.predict(call, arrays, self.deadline))
        try:
            checked = _checked(reply, call, rows)
        except ServerError as error:
            raise error.about(f"{self.address}, {call}") from error
        self.counts.requests += 1
        self.counts.rows += rows
        return checked

    def _described(self, model: ModelName) -> tuple[int | None, dict[str, Signature]]:
        """Return version and signatures; raise ServerError for a reply that is not of TensorFlow Serving's form."""
        try:
            return self._protocol.signatures(model, self.deadline)
        except ServerError:  # a ValueError, too
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ServerError(
                "INVALID_REPLY",
                "the description of the model is not TensorFlow Serving's "
                f"({type(error).__name__}: {' '.join(str(error).split())[:120]}); is another program at this address?",
            ) from error

    def _persist(self, request: str, attempt: Callable):
        """Return the result of an attempt, repeated while the server is unavailable."""
        timeout = self.retry_timeout if self._answered else self.connect_timeout
        end, wait = time.monotonic() + timeout, _FIRST_WAIT
        while True:
            try:
                result = attempt()
                self._answered = True
                return result
            except ServerError as error:
                if error.code not in _RETRIED:
                    self._answered = self._answered or error.code != "DEADLINE_EXCEEDED"
                    raise error.about(f"{self.address}, {request}", _HINTS.get(error.code, "")) from error
                if time.monotonic() + wait > end:
                    hint = f"given up after {timeout:g} s; {_HINTS['UNAVAILABLE']}"
                    raise error.about(f"{self.address}, {request}", hint) from error
            self.counts.retries += 1
            self._sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def _checked(reply: Mapping[str, np.ndarray], call: Call, rows: int) -> dict[str, np.ndarray]:
    """Return the wanted outputs of a reply; raise ServerError if one is missing or invalid."""
    for name in call.wanted:
        if name not in reply:
            known = listed(sorted(reply)) or "none"
            raise ServerError("INVALID_REPLY", f"the reply has no output '{name}', only {known}")
        if fault := _fault(reply[name], call.specs.outputs.get(name) if call.specs else None, rows):
            raise ServerError("INVALID_REPLY", f"output '{name}' {fault}")
    return {name: reply[name] for name in call.wanted}


def _fault(array: np.ndarray, spec: TensorSpec | None, rows: int) -> str:
    """Return how an output differs from its signature, or where it is not finite; empty if it is valid."""
    if array.shape[:1] != (rows,) or (spec and not spec.allows(array.shape)):
        return f"has shape {array.shape} instead of {f'{spec.shown()} with ' if spec else ''}{rows} rows"
    if spec and spec.dtype is not None and array.dtype != spec.dtype:
        return f"is of type {array.dtype} instead of {spec.dtype}"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array.reshape(rows, -1)).all(axis=1)))
        return f"has NaN or infinite values, first in row {row}"
    return ""
