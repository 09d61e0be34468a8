"""The REST half of the stand-in server."""

from __future__ import annotations

import base64
import http.server
import json
import re
import socket
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
import stand_in_grpc
from google.protobuf import json_format

from attribution_benchmarks.serving._protocols import HTTP_STATUS, ModelName, ServerError

_PATH = re.compile(r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?(?P<what>/metadata|:predict)?")


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._open = set()

    def process_request(self, request, client_address):
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        """Stay silent about connections that broke."""

    def drop_connections(self):
        """Close what clients keep open, as the end of the process would."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def listen(stand_in: Any, host: str, port: int) -> _Server:
    """Return a server of HTTP that listens and waits to be run."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            self._answer("GET")

        def do_POST(self):
            self._answer("POST")

        def log_message(self, *_):
            """Log nothing."""

        def _answer(self, verb):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, reply = 200, _reply(stand_in, verb, self.path, body)
            except ServerError as error:
                status, reply = HTTP_STATUS.get(error.code, 500), {"error": error.words}
            except Exception as error:  # a server lives on
                status, reply = 500, {"error": f"{type(error).__name__}: {error}"}
            content = (json.dumps(reply) + "\n").encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return _Server((host, port), Handler)


def _reply(stand_in, verb, path, body):
    """Return the JSON object that answers a request."""
    found = _PATH.fullmatch(path)
    what = found["what"] if found else None
    if not found or (verb == "POST") != (what == ":predict"):
        raise ServerError("INVALID_ARGUMENT", f"Malformed request: {verb} {path}")
    model = ModelName(urllib.parse.unquote(found["name"]), int(found["version"]) if found["version"] else None)
    if what == ":predict":
        return _predict(stand_in, model, body)
    if what == "/metadata":
        message = stand_in_grpc.metadata_of(stand_in, model)
    else:
        message = stand_in_grpc.status_of(stand_in, model)
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _predict(stand_in, model, body):
    try:
        name, signature, by_row, arrays = _asked(stand_in, model, body)
    except ServerError:
        raise
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError) as error:  # of what a client sent
        raise ServerError("INVALID_ARGUMENT", f"JSON Parse error: {error}") from error
    specs = signature.specs
    outputs = stand_in.answer(model, name, signature, arrays)
    plain = {key: _plain(array, key) for key, array in outputs.items()}
    only = next(iter(plain.values())) if len(specs.outputs) == 1 and len(plain) == 1 else None
    if not by_row:
        return {"outputs": plain if only is None else only}
    if len({len(array) for array in outputs.values()}) > 1:
        raise ServerError("INVALID_ARGUMENT", "Tensors of one reply have inconsistent batch sizes")
    rows = [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    return {"predictions": rows if only is None else only}


def _asked(stand_in, model, body):
    """Return the signature that a request names, whether its arrays come by row, and the arrays."""
    request = json.loads(body.decode())
    if not isinstance(request, Mapping):
        raise ServerError("INVALID_ARGUMENT", "JSON Value: is not object")
    _, signatures = stand_in.find(model)
    name = request.get("signature_name") or "serving_default"
    if name not in signatures:
        raise ServerError("INVALID_ARGUMENT", f'Serving signature name: "{name}" not found in signature def')
    if ("instances" in request) == ("inputs" in request):
        raise ServerError("INVALID_ARGUMENT", "Request has to have exactly one of 'instances' and 'inputs' keys")
    specs = signatures[name].specs
    by_row = "instances" in request
    arrays = _rows(request["instances"], specs) if by_row else _columns(request["inputs"], specs)
    return name, signatures[name], by_row, arrays


def _columns(inputs, specs):
    if not isinstance(inputs, Mapping) or set(inputs) == {"b64"}:
        if len(specs.inputs) > 1:
            raise ServerError(
                "INVALID_ARGUMENT",
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map",
            )
        inputs = {next(iter(specs.inputs)): inputs}
    missing = sorted(set(specs.inputs) - set(inputs))
    if missing:
        raise ServerError("INVALID_ARGUMENT", f"Missing named input: {missing[0]} in 'inputs' object.")
    return {key: _array(inputs[key], spec.dtype) for key, spec in specs.inputs.items()}


def _rows(instances, specs):
    if not isinstance(instances, list) or not instances:
        raise ServerError("INVALID_ARGUMENT", "'instances' must be a list with at least one element")
    named = isinstance(instances[0], Mapping) and set(instances[0]) != {"b64"}
    if not named and len(specs.inputs) > 1:
        raise ServerError(
            "INVALID_ARGUMENT",
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        )
    rows = instances if named else [{next(iter(specs.inputs)): value} for value in instances]
    for number, row in enumerate(rows):
        if set(row) != set(specs.inputs):
            raise ServerError(
                "INVALID_ARGUMENT",
                f"Failed to process element: {number} of 'instances' list. JSON object keys must be equal to: "
                f"{','.join(sorted(specs.inputs))}",
            )
    return {key: _array([row[key] for row in rows], spec.dtype) for key, spec in specs.inputs.items()}


def _array(values, dtype):
    try:
        if dtype.kind == "O":
            return np.vectorize(_bytes, otypes=[object])(np.array(values, object))
        array = np.array(values)
        if array.dtype.kind not in "bif" or (array.dtype.kind == "f" and dtype.kind in "iu"):
            raise ValueError(f"JSON Value is not of expected type: {dtype}")
        return array.astype(dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError("INVALID_ARGUMENT", str(error)) from error


def _bytes(value) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, Mapping) else value.encode()


def _plain(array: np.ndarray, key: str):
    """Return an output as lists; bytes in base 64 where the name ends in ``_bytes``, as text elsewhere."""
    if array.dtype.kind == "f":
        return array.astype(np.float64).tolist()
    if array.dtype.kind != "O":
        return array.tolist()
    if key.endswith("_bytes"):
        text = [{"b64": base64.b64encode(value).decode()} for value in array.ravel()]
    else:
        text = [value.decode() for value in array.ravel()]
    return np.array(text, object).reshape(array.shape).tolist()
