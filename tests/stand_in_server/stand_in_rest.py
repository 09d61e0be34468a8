"""The REST half of the stand-in server."""

from __future__ import annotations

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

_PATH = re.compile(r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?(?P<what>/metadata|:predict)")


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
    return json_format.MessageToDict(
        stand_in_grpc.metadata_of(stand_in, model),
        preserving_proto_field_name=True, always_print_fields_with_no_presence=True,
    )  # fmt: skip


def _predict(stand_in, model, body):
    """Answer a request by columns (``inputs``)."""
    try:
        request = json.loads(body.decode())
        name = request.get("signature_name") or "serving_default"
        signatures = stand_in.find(model)[1]
        if name not in signatures:
            raise ServerError("INVALID_ARGUMENT", f'Serving signature name: "{name}" not found in signature def')
        specs, columns = signatures[name].specs, request["inputs"]
        if not isinstance(columns, Mapping):
            columns = {next(iter(specs.inputs)): columns}
        arrays = {key: np.array(columns[key]).astype(spec.dtype) for key, spec in specs.inputs.items()}
    except ServerError:
        raise
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ServerError("INVALID_ARGUMENT", f"JSON Parse error: {error}") from error
    plain = {key: _plain(array) for key, array in stand_in.answer(model, name, signatures[name], arrays).items()}
    return {"outputs": next(iter(plain.values())) if len(plain) == 1 else plain}


def _plain(array: np.ndarray):
    """Return an output as nested lists, bytes as text."""
    if array.dtype.kind == "O":
        return np.array([value.decode() for value in array.ravel()], object).reshape(array.shape).tolist()
    return (array.astype(np.float64) if array.dtype.kind == "f" else array).tolist()
