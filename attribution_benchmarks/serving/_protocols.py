"""Addresses, errors and signatures of TensorFlow Serving, and its two interfaces.

gRPC is by the stubs of ``tensorflow-serving-api``, REST is JSON over HTTP. Both classes have the same methods, so that
``Client`` does not know which one it uses. The stubs import TensorFlow, which takes seconds, so they are imported with
the first connection.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import requests

from attribution.errors import BadInput, installation

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


# Types of Python's JSON by the kind of an array, and what they are called there.
_OF_JSON: dict[str, set[type]] = {"f": {float, int}, "i": {int}, "u": {int}, "b": {bool}, "O": {str, dict}}
_JSON_NAMES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    type(None): "null",
    list: "lists of unequal length",
    dict: "an object",
    float: "a fraction",
    int: "a whole number",
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
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or any((parts.query, parts.fragment, port == 0)):
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


@dataclasses.dataclass(frozen=True)
class Call:
    """Some outputs of a model's signature, which ``specs`` describes; it is None for a name that the model lacks."""

    model: ModelName
    signature: str
    wanted: Sequence[str]
    specs: Signature | None

    def __str__(self):
        return f"{self.model}, signature '{self.signature}'"


_PIECE = 1 << 16  # bytes read at a time
_BYTES_PER_NUMBER = 20  # of a float in JSON, with the comma
_LARGEST_ROW = 1 << 28  # values of an input or output that a description may name; 1 GiB of float32
# 413 and 502 come from proxies.
_CODES = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    413: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
}


class GrpcProtocol:
    """A channel to one server, which gRPC reopens when it is lost.

    Messages may have up to ``max_message_bytes``; gRPC's default of 4 MiB is less than eight photographs.
    """

    def __init__(self, address: Address, max_message_bytes: int):
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise BadInput(
                f"grpc:// needs tensorflow-serving-api ({installation('serving')}): {error}; http:// does not need it"
            ) from error
        self._limit = max_message_bytes
        self._channel = grpc.insecure_channel(
            address.host_and_port,
            options=[
                ("grpc.max_send_message_length", max_message_bytes),
                ("grpc.max_receive_message_length", max_message_bytes),
                # gRPC's default waits up to two minutes before it reconnects.
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.enable_http_proxy", 0),
                # Another channel's record of an unavailable server must not be used.
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    @staticmethod
    def size_of(arrays: Mapping[str, np.ndarray]) -> int:
        """Return the approximate size of a request with these arrays, in bytes."""
        return sum(array.nbytes if array.dtype != object else 256 * array.size for array in arrays.values())

    def predict(self, call: Call, arrays: Mapping[str, np.ndarray], deadline: float) -> dict[str, np.ndarray]:
        """Call a signature and return the wanted outputs."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest(model_spec=_spec(call.model, call.signature), output_filter=call.wanted)
        for name, array in arrays.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
        reply = _call(self._prediction.Predict, request, deadline)
        try:
            return {name: self._array(tensor) for name, tensor in reply.outputs.items()}
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ServerError):
                raise
            raise ServerError("INVALID_REPLY", f"an output is not an array: {error}") from error

    def signatures(self, model: ModelName, deadline: float) -> tuple[int | None, dict[str, Signature]]:
        """Return the version that is served, and its signatures."""
        from google.protobuf import json_format, message
        from tensorflow_serving.apis import get_model_metadata_pb2

        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=_spec(model), metadata_field=["signature_def"]
        )
        reply = _call(self._prediction.GetModelMetadata, request, deadline)
        found = get_model_metadata_pb2.SignatureDefMap()
        try:
            if not reply.metadata["signature_def"].Unpack(found):
                raise ValueError("no signatures")
        except message.DecodeError as error:
            raise ValueError(str(error)) from error
        plain = json_format.MessageToDict(found, preserving_proto_field_name=True).get("signature_def", {})
        version = reply.model_spec.version.value if reply.model_spec.HasField("version") else None
        return version, {name: _signature_of(one) for name, one in plain.items() if one.get("inputs")}

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _array(self, tensor):
        """Return the array of a tensor, whose last value may fill it: a few bytes can name any size."""
        import tensorflow as tf

        shape = tuple(axis.size for axis in tensor.tensor_shape.dim)
        if min(shape, default=0) < 0 or math.prod(shape) * tf.as_dtype(tensor.dtype).size > self._limit:
            raise ServerError("INVALID_REPLY", f"an output of shape {shape} is larger than {self._limit} bytes")
        return tf.make_ndarray(tensor)


def _spec(model: ModelName, signature: str = ""):
    from tensorflow_serving.apis import model_pb2

    spec = model_pb2.ModelSpec(name=model.name, signature_name=signature)
    if model.version is not None:
        spec.version.value = model.version
    return spec


def _call(call, request, deadline: float):
    """Return the reply of a call; raise ServerError if it fails."""
    import grpc

    try:
        return call(request, timeout=deadline)
    except grpc.RpcError as error:
        raise ServerError(error.code().name, error.details() or "") from error
    except ValueError as error:  # a message of 2 GiB cannot be serialized
        raise ServerError("RESOURCE_EXHAUSTED", str(error)) from error


class RestProtocol:
    """A connection to one server, reopened when it is lost. A reply may have up to ``max_message_bytes``."""

    def __init__(self, address: Address, max_message_bytes: int):
        self._address = address
        self._limit = max_message_bytes
        self._session = _new_session()

    @staticmethod
    def size_of(arrays: Mapping[str, np.ndarray]) -> int:
        """Return the approximate size of a request with these arrays, in bytes."""
        return sum(array.size * _BYTES_PER_NUMBER for array in arrays.values())

    def predict(self, call: Call, arrays: Mapping[str, np.ndarray], deadline: float) -> dict[str, np.ndarray]:
        """Call a signature and return the wanted outputs; REST sends all of them."""
        inputs = {name: _to_json(array) for name, array in arrays.items()}
        body = {"signature_name": call.signature, "inputs": inputs}
        reply = self._request("POST", _path(call.model) + ":predict", deadline, json.dumps(body).encode())
        known = call.specs.outputs if call.specs else {}
        return {
            name: _from_json(value, known[name].dtype if name in known else None)
            for name, value in _named_outputs(reply, list(known if call.specs else call.wanted)).items()
            if name in call.wanted
        }

    def signatures(self, model: ModelName, deadline: float) -> tuple[int | None, dict[str, Signature]]:
        """Return the version that is served, and its signatures."""
        reply = self._request("GET", _path(model) + "/metadata", deadline)
        found = reply.get("metadata", {}).get("signature_def", {}).get("signature_def", {})
        version = reply.get("model_spec", {}).get("version")
        return (
            None if version is None else int(version),
            {name: _signature_of(plain) for name, plain in found.items() if plain.get("inputs")},
        )

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _request(self, verb: str, path: str, deadline: float, body: bytes | None = None) -> dict:
        """Send one request and return the JSON object of the reply; raise ``ServerError`` if there is none."""
        session = self._session
        try:
            status, content = _within(deadline, lambda: self._exchange(session, verb, path, deadline, body))
        except (TimeoutError, requests.Timeout) as error:
            self._session = _new_session()  # the old one may still receive
            raise ServerError("DEADLINE_EXCEEDED", f"no reply within {deadline:g} s") from error
        except ServerError:
            raise
        except (OSError, ValueError) as error:  # what requests raises; an incomplete reply is a lost connection
            cause = _root_cause(error)
            code = "UNAUTHENTICATED" if isinstance(cause, ssl.SSLCertVerificationError) else "UNAVAILABLE"
            text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
            raise ServerError(code, text[0].lower() + text[1:]) from error
        return _decoded(status, content)

    def _exchange(
        self, session: requests.Session, verb: str, path: str, deadline: float, body: bytes | None
    ) -> tuple[int, bytes]:
        headers = {} if body is None else {"Content-Type": "application/json"}
        with session.request(
            verb, f"{self._address}{path}", data=body, headers=headers, timeout=deadline, stream=True,
            allow_redirects=False,
        ) as response:  # fmt: skip
            content = bytearray()
            for piece in response.iter_content(_PIECE):
                content += piece
                if len(content) > self._limit:
                    raise ServerError("RESOURCE_EXHAUSTED", f"the reply is larger than {self._limit} bytes")
            return response.status_code, bytes(content)


def _new_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a proxy of the environment would be used for localhost too
    session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
    return session


def _within(seconds: float, function: Callable[[], Any]) -> Any:
    """Return ``function()``, computed in a thread that is abandoned after some seconds by a ``TimeoutError``.

    The timeout of a socket is for one read: a server that sends a byte a second never exceeds it.
    """
    outcome: list = []

    def call():
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _decoded(status: int, content: bytes) -> dict:
    """Return the JSON object of a reply; raise ServerError for a refusal or anything else."""
    try:
        reply = json.loads(content.decode())  # bytes in UTF-16 would be taken too
    except (ValueError, RecursionError):
        reply = None
    text = content.decode("utf-8", "replace")
    if status != 200:
        message = reply.get("error") if isinstance(reply, Mapping) else text
        code = _CODES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
        raise ServerError(code, str(message or f"HTTP status {status}"))
    if not isinstance(reply, Mapping):
        raise ServerError("INVALID_REPLY", f"expected a JSON object, not {text[:60]!r}")
    return dict(reply)


def _named_outputs(reply: Mapping, names: Sequence[str]) -> Mapping:
    """Return the outputs of a reply by name; a single one has no name in it."""
    outputs = reply.get("outputs")
    if outputs is None:
        raise ServerError("INVALID_REPLY", f"the reply has no 'outputs', only {', '.join(sorted(reply)) or 'nothing'}")
    if isinstance(outputs, Mapping) and set(outputs) != {"b64"}:  # that mapping encodes bytes
        return outputs
    if len(names) != 1:
        raise ServerError("INVALID_REPLY", "the reply has one output without a name")
    return {names[0]: outputs}


def _root_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain: requests and urllib3 wrap the system's."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _path(model: ModelName) -> str:
    version = "" if model.version is None else f"/versions/{model.version}"
    return f"/v1/models/{urllib.parse.quote(model.name, safe='')}{version}"


def _to_json(array: np.ndarray) -> Any:
    """Return nested lists; bytes as ``{"b64": ...}``."""
    if array.dtype == object:
        flat = [{"b64": base64.b64encode(value).decode()} for value in array.ravel()]
        return np.array(flat, object).reshape(array.shape).tolist()
    return array.tolist()


def _from_json(value: Any, dtype: np.dtype | None) -> np.ndarray:
    """Return an array from nested lists, which may have NaN and infinities; raise ``ServerError`` for others."""
    allowed = _OF_JSON["f" if dtype is None else dtype.kind]
    try:
        values = np.array(value, object)
        if wrong := set(map(type, values.ravel())) - allowed:  # NumPy would convert "3.0", true and null to numbers
            raise TypeError(f"it has {' and '.join(sorted(_JSON_NAMES[each] for each in wrong))}")
        if dtype is not None and dtype.kind == "O":
            return np.vectorize(_bytes_of, otypes=[object])(values)
        return np.array(value, dtype)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ServerError("INVALID_REPLY", f"an output is not an array of {dtype or 'numbers'}: {error}") from error


def _bytes_of(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, Mapping) else value.encode()


def _signature_of(plain: Mapping) -> Signature:
    """Return a signature from its JSON form, whose unknown keys are ignored.

    ``{"inputs": {name: {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, ...]}}}, "outputs": ...}``
    """
    return Signature(
        *(
            {name: _spec_of(info) for name, info in sorted(plain.get(kind, {}).items())}
            for kind in ("inputs", "outputs")
        )
    )


def _spec_of(info: Mapping) -> TensorSpec:
    shape = info.get("tensor_shape", {})
    sizes = [int(dim.get("size", 0)) for dim in shape.get("dim", [])]
    unknown = shape.get("unknown_rank", False)
    if math.prod(size for size in sizes if size > 0) > _LARGEST_ROW:
        raise ValueError(f"a tensor of shape {sizes}")
    return TensorSpec(
        DTYPES.get(info.get("dtype", "")),
        None if unknown else tuple(None if size < 0 else size for size in sizes),
    )
