"""The stand-in speaks REST as TensorFlow Serving documents it."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest


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


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/none:predict", {"instances": [1]}, 404, "Servable not found for request: Latest(none)"),
        ("/v1/models/linear/versions/9:predict", {"instances": [1]}, 404, "Specific(linear, 9)"),
        ("/v1/models/none", None, 404, "Could not find any versions of model none"),
        (PREDICT, {"signature_name": "a", "instances": [1]}, 400, 'name: "a" not found in signature def'),
        (PREDICT, b"{", 400, "JSON Parse error"),
        (PREDICT, {"instances": [[1.0, 2.0]]}, 400, "does not fit"),
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
