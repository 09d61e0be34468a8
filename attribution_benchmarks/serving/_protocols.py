"""Addresses, errors and signatures of TensorFlow Serving, and its two interfaces.

gRPC is by the stubs of ``tensorflow-serving-api``, REST is JSON over HTTP. Both classes have the same methods, so that
``Client`` does not know which one it uses. The stubs import TensorFlow, which takes seconds, so they are imported with
the first connection.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import requests

from attribution.errors import BadInput, installation

DEFAULT_PORTS = {"grpc": 8500, "http": 8501, "https": 443}
# HTTP status that TensorFlow Serving's REST interface returns for each status code of gRPC; 500 for others.
HTTP_STATUS = {
    "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499,
    "UNIMPLEMENTED": 501, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}  # fmt: skip
# 413 and 502 come from proxies.
_CODES = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    413: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
}
_LONGEST_MESSAGE = 400  # characters; TensorFlow's messages can be pages long
# Types of TensorFlow that can be sent and received. Strings are Python objects.
DTYPES: dict[str, np.dtype] = {
    "DT_FLOAT": np.dtype(np.float32), "DT_DOUBLE": np.dtype(np.float64), "DT_HALF": np.dtype(np.float16),
    "DT_BOOL": np.dtype(bool), "DT_STRING": np.dtype(object),
    **{f"DT_{kind}{bits}".upper(): np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_JSON_KINDS = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}  # kind of an array -> kinds that its JSON may have


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
    host_and_port: str
    path: str = ""  # prefix of ``/v1/models`` behind a proxy; empty by default

    def __str__(self):
        return f"{self.protocol}://{self.host_and_port}{self.path}"


def parse_address(text: str) -> Address:
    """Return the address ``grpc://host:8500`` or ``http://host:8501``; raise ``BadInput`` if it is another text."""
    expected = "expected grpc://host:8500 or http://host:8501"
    try:
        parts = urllib.parse.urlsplit(text)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc or parts.port == 0:
            raise ValueError
        if parts.query or parts.fragment:
            raise ValueError
    except ValueError as error:
        raise BadInput(f"{text!r} is not an address of a server; {expected}") from error
    path = parts.path.rstrip("/")
    if path and parts.scheme == "grpc":
        raise BadInput(f"'{text}' has a path, which gRPC does not support; {expected}")
    port = "" if parts.port else f":{DEFAULT_PORTS[parts.scheme]}"
    return Address(parts.scheme, parts.netloc + port, path)


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


_BYTES_PER_NUMBER = 20  # of a float in JSON, with the comma


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
        try:
            return _described(json_format.MessageToDict(reply, preserving_proto_field_name=True))
        except (json_format.Error, message.DecodeError) as error:
            raise ValueError(str(error)) from error

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
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the environment would be used for localhost too
        self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True

    @staticmethod
    def size_of(arrays: Mapping[str, np.ndarray]) -> int:
        """Return the approximate size of a request with these arrays, in bytes."""
        return sum(array.size * _BYTES_PER_NUMBER for array in arrays.values())

    def predict(self, call: Call, arrays: Mapping[str, np.ndarray], deadline: float) -> dict[str, np.ndarray]:
        """Call a signature and return the wanted outputs; REST sends all of them."""
        inputs = {name: _to_json(array) for name, array in arrays.items()}
        body = {"signature_name": call.signature, "inputs": inputs}
        outputs = self._request("POST", call.model, ":predict", deadline, body).get("outputs")
        known = call.specs.outputs if call.specs else {}
        names = list(known if call.specs else call.wanted)
        if not isinstance(outputs, Mapping) or set(outputs) == {"b64"}:  # that mapping encodes bytes
            if outputs is None or len(names) != 1:
                raise ServerError("INVALID_REPLY", f"the reply does not have the outputs {', '.join(names)}")
            outputs = {names[0]: outputs}  # a single one has no name in it
        return {
            name: _from_json(value, known[name].dtype if name in known else None)
            for name, value in outputs.items()
            if name in call.wanted
        }

    def signatures(self, model: ModelName, deadline: float) -> tuple[int | None, dict[str, Signature]]:
        """Return the version that is served, and its signatures."""
        return _described(self._request("GET", model, "/metadata", deadline))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _request(self, verb: str, model: ModelName, what: str, deadline: float, body: Any = None) -> Mapping:
        """Send one request and return the JSON object of the reply; raise ``ServerError`` if there is none."""
        version = "" if model.version is None else f"/versions/{model.version}"
        place = f"{self._address}/v1/models/{urllib.parse.quote(model.name, safe='')}{version}{what}"
        try:
            reply = self._session.request(verb, place, json=body, timeout=deadline, allow_redirects=False)
        except (OSError, ValueError) as error:  # what requests raises; an incomplete reply is a lost connection
            cause: BaseException = error
            while cause.__context__ is not None:  # requests and urllib3 wrap the system's
                cause = cause.__context__
            if isinstance(error, requests.Timeout) or isinstance(cause, TimeoutError):
                raise ServerError("DEADLINE_EXCEEDED", f"no reply within {deadline:g} s") from error
            raise ServerError("UNAVAILABLE", getattr(cause, "strerror", None) or str(cause)) from error
        if len(reply.content) > self._limit:
            raise ServerError("RESOURCE_EXHAUSTED", f"the reply is larger than {self._limit} bytes")
        try:
            content = reply.json()
        except (ValueError, RecursionError):
            content = None
        if reply.status_code != 200:
            message = content.get("error") if isinstance(content, Mapping) else reply.text
            other = "INTERNAL" if reply.status_code >= 500 else "INVALID_ARGUMENT"
            raise ServerError(_CODES.get(reply.status_code, other), message or f"HTTP status {reply.status_code}")
        if not isinstance(content, Mapping):
            raise ServerError("INVALID_REPLY", f"expected a JSON object, not {reply.text[:60]!r}")
        return content


def _to_json(array: np.ndarray) -> Any:
    """Return nested lists; bytes as ``{"b64": ...}``."""
    if array.dtype == object:
        flat = [{"b64": base64.b64encode(value).decode()} for value in array.ravel()]
        return np.array(flat, object).reshape(array.shape).tolist()
    return array.tolist()


def _from_json(value: Any, dtype: np.dtype | None) -> np.ndarray:
    """Return an array from nested lists, which may have NaN and infinities; raise ``ServerError`` for others."""
    try:
        if dtype is not None and dtype.kind == "O":
            return np.vectorize(_bytes_of, otypes=[object])(np.array(value, object))
        found = np.asarray(value)
        if found.dtype.kind not in _JSON_KINDS["f" if dtype is None else dtype.kind]:
            raise TypeError(f"it has {found.dtype.name} values")
        return np.array(value, dtype)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ServerError("INVALID_REPLY", f"an output is not an array of {dtype or 'numbers'}: {error}") from error


def _bytes_of(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, Mapping) else value.encode()


def _described(plain: Mapping) -> tuple[int | None, dict[str, Signature]]:
    """Return the version and the signatures of a description in JSON, whose unknown keys are ignored.

    A signature is ``{"inputs": {name: {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, ...]}}}, ...}``.
    """
    version, found = plain.get("model_spec", {}).get("version"), {}
    for name, each in plain["metadata"]["signature_def"]["signature_def"].items():
        kinds = ({key: _spec_of(info) for key, info in sorted(each.get(kind, {}).items())}
                 for kind in ("inputs", "outputs"))  # fmt: skip
        signature = Signature(*kinds)
        if signature.inputs:
            found[name] = signature
    return None if version is None else int(version), found


def _spec_of(info: Mapping) -> TensorSpec:
    shape = info.get("tensor_shape", {})
    sizes = [int(dim.get("size", 0)) for dim in shape.get("dim", [])]
    known = None if shape.get("unknown_rank", False) else tuple(None if size < 0 else size for size in sizes)
    return TensorSpec(DTYPES.get(info.get("dtype", "")), known)
