"""The stand-in speaks REST as TensorFlow Serving documents it, and its command serves a models.config."""

import base64
import json
import urllib.error
import urllib.request

import numpy as np
import pytest
import stand_in

from attribution import cli
from attribution_benchmarks import serving
from attribution_benchmarks.serving._protocols import ModelName, Signature, TensorSpec


def ask(server, path, body=None):
    """Return status and JSON object of a request, sent by nothing of this project."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(server.rest_address + path, content) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


PREDICT = "/v1/models/linear:predict"


def test_rows_and_columns_say_the_same(server, inputs, weights):
    expected = (2 * inputs.reshape(-1, 6) @ weights).tolist()
    for body, key in [
        ({"instances": inputs.tolist()}, "predictions"),
        ({"instances": [{"x": one} for one in inputs.tolist()]}, "predictions"),
        ({"inputs": inputs.tolist()}, "outputs"),
        ({"inputs": {"x": inputs.tolist()}, "signature_name": "serving_default"}, "outputs"),
    ]:
        status, reply = ask(server, PREDICT, body)
        assert status == 200 and list(reply) == [key]
        np.testing.assert_allclose(reply[key], expected, rtol=1e-5)


def test_several_outputs_are_named(server, explained, inputs):
    server.models["explained"] = {1: explained()}
    path = "/v1/models/explained/versions/1:predict"
    rows = [{"x": one, "targets": 2} for one in inputs.tolist()]
    status, reply = ask(server, path, {"signature_name": "explain_gradient", "instances": rows})
    assert status == 200 and len(reply["predictions"]) == 5
    assert set(reply["predictions"][0]) == {"map", "target", "score"} and reply["predictions"][0]["target"] == 2
    columns = {"x": inputs.tolist(), "targets": [2] * 5}
    _, reply = ask(server, path, {"signature_name": "explain_gradient", "inputs": columns})
    assert set(reply["outputs"]) == {"map", "target", "score"}


@pytest.mark.parametrize("name", ["text", "text_bytes"])
def test_strings_go_both_ways(server, name):
    spec = TensorSpec(np.dtype(object), (None,))
    signature = stand_in.ServedSignature(
        Signature({"x": spec}, {name: spec}), lambda arrays: {name: np.array([v + b"!" for v in arrays["x"]], object)}
    )
    server.models["louder"] = {1: {"serving_default": signature}}
    status, reply = ask(server, "/v1/models/louder:predict", {"instances": [{"b64": "YWJj"}, "xyz"]})
    plain = ["abc!", "xyz!"]
    assert status == 200
    assert reply["predictions"] == (
        plain if name == "text" else [{"b64": base64.b64encode(value.encode()).decode()} for value in plain]
    )
    for address in (server.grpc_address, server.rest_address):
        with serving.Client(address) as client:
            words = np.array([b"abc", "größe".encode()], object)
            found = client.predict(ModelName("louder"), "serving_default", {"x": words})[name]
            assert found.tolist() == [b"abc!", "größe!".encode()]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/none:predict", {"instances": [1]}, 404, "Servable not found for request: Latest(none)"),
        ("/v1/models/linear/versions/9:predict", {"instances": [1]}, 404, "Specific(linear, 9)"),
        ("/v1/models/none", None, 404, "Could not find any versions of model none"),
        (PREDICT, {"signature_name": "a", "instances": [1]}, 400, 'name: "a" not found in signature def'),
        (PREDICT, b"{", 400, "JSON Parse error"),
        (PREDICT, {"instances": [1], "inputs": [1]}, 400, "exactly one"),
        (PREDICT, {"inputs": {"y": [1]}}, 400, "Missing named input: x in 'inputs' object."),
        (PREDICT, {"instances": [[["a"] * 3] * 2]}, 400, "not of expected type"),
        (PREDICT, {"instances": [[1.0, 2.0]]}, 400, "does not fit"),
        (PREDICT, b'{"instances": ' + 100_000 * b"[", 400, "JSON Parse error"),  # deeper than Python's parser goes
        (PREDICT, b'{"inputs": ' + 100_000 * b'{"x": ', 400, "JSON Parse error"),
        (PREDICT, b'{"instances": ' + 200 * b"[" + 200 * b"]" + b"}", 400, ""),  # than NumPy goes
        (PREDICT, '{"instances": [1]}'.encode("utf-16"), 400, "JSON Parse error"),
        (PREDICT, {"instances": [{"x": 1}, 2]}, 400, ""),
        (PREDICT, {"instances": [1], "signature_name": ["a"]}, 400, "JSON Parse error"),
        (PREDICT, {"instances": [[[1] * 3, [2]]]}, 400, ""),
        (PREDICT, {"inputs": None}, 400, "not of expected type"),
        (PREDICT, None, 400, "Malformed request: GET"),
        ("/v2/models/linear", None, 400, "Malformed request: GET /v2/models/linear"),
    ],
)
def test_refusals(server, path, body, status, words):
    found, reply = ask(server, path, body)
    assert found == status and list(reply) == ["error"] and words in reply["error"]


def test_status_and_metadata(server):
    _, reply = ask(server, "/v1/models/linear")
    assert [one["version"] for one in reply["model_version_status"]] == ["2", "1"]
    assert reply["model_version_status"][0] | {"status": 0} == {"version": "2", "state": "AVAILABLE", "status": 0}
    _, reply = ask(server, "/v1/models/linear/versions/1/metadata")
    assert reply["model_spec"]["version"] == "1"
    info = reply["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]["x"]
    assert info["dtype"] == "DT_FLOAT" and [dim["size"] for dim in info["tensor_shape"]["dim"]] == ["-1", "2", "3"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--config is empty"),
        (["--config=absent"], "cannot read 'absent'"),
        (["--config=absent", "--grpc_port=65536"], "--grpc_port=65536"),
        (["--config=absent", "--rest_port=-1"], "--rest_port=-1"),
    ],
)
def test_bad_input_is_one_line(capsys, flags, message):
    assert cli.execute(stand_in.main, stand_in.FLAGS, stand_in.__doc__, ["stand_in", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
