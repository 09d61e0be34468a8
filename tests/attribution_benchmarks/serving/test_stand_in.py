"""The stand-in speaks REST as TensorFlow Serving documents it."""

import json
import urllib.request

import numpy as np


def ask(server, path, body=None):
    """Return the JSON object of a reply to a request, sent by nothing of this project."""
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(server.rest_address + path, content) as reply:
        return json.load(reply)


PREDICT = "/v1/models/linear:predict"


def test_rows_and_columns_say_the_same(server, inputs, weights):
    expected = (2 * inputs.reshape(-1, 6) @ weights).tolist()
    for body, key in [
        ({"instances": inputs.tolist()}, "predictions"),
        ({"instances": [{"x": one} for one in inputs.tolist()]}, "predictions"),
        ({"inputs": inputs.tolist()}, "outputs"),
        ({"inputs": {"x": inputs.tolist()}, "signature_name": "serving_default"}, "outputs"),
    ]:
        reply = ask(server, PREDICT, body)
        assert list(reply) == [key]
        np.testing.assert_allclose(reply[key], expected, rtol=1e-5)


def test_status_and_metadata(server):
    reply = ask(server, "/v1/models/linear")
    assert [one["version"] for one in reply["model_version_status"]] == ["2", "1"]
    assert reply["model_version_status"][0] | {"status": 0} == {"version": "2", "state": "AVAILABLE", "status": 0}
    reply = ask(server, "/v1/models/linear/versions/1/metadata")
    assert reply["model_spec"]["version"] == "1"
    info = reply["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]["x"]
    assert info["dtype"] == "DT_FLOAT" and [dim["size"] for dim in info["tensor_shape"]["dim"]] == ["-1", "2", "3"]
