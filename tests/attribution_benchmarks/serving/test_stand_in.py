"""The stand-in speaks REST as TensorFlow Serving documents it."""

import json
import urllib.request

import numpy as np


def ask(server, path, body=None):
    """Return the JSON object of a reply to a request, sent by nothing of this project."""
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(server.rest_address + path, content) as reply:
        return json.load(reply)


def test_scores_with_and_without_names(server, inputs, weights):
    expected = (2 * inputs.reshape(-1, 6) @ weights).tolist()
    for body in ({"inputs": inputs.tolist()}, {"inputs": {"x": inputs.tolist()}, "signature_name": "serving_default"}):
        reply = ask(server, "/v1/models/linear:predict", body)
        assert list(reply) == ["outputs"]
        np.testing.assert_allclose(reply["outputs"], expected, rtol=1e-5)


def test_metadata(server):
    reply = ask(server, "/v1/models/linear/versions/1/metadata")
    assert reply["model_spec"]["version"] == "1"
    info = reply["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]["x"]
    assert info["dtype"] == "DT_FLOAT" and [dim["size"] for dim in info["tensor_shape"]["dim"]] == ["-1", "2", "3"]
