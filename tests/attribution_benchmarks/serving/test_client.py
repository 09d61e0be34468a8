"""What a client does with a server's answers, refusals, limits and absence, by gRPC and REST."""

import socket
import threading
import time

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks import serving
from attribution_benchmarks.serving import _protocols
from attribution_benchmarks.serving._protocols import ModelName, ServerError

LINEAR = ModelName("linear")


def expected(inputs, weights, version=2):
    return version * (inputs.reshape(-1, 6) @ weights)


def refused(client, inputs, model=LINEAR, signature="serving_default", arrays=None, outputs=("scores",)):
    with pytest.raises(ServerError) as error:
        client.predict(model, signature, arrays or {"x": inputs}, outputs)
    assert "\n" not in str(error.value) and str(client.address) in str(error.value)
    return error.value


def test_scores_and_versions(client, inputs, weights):
    for model, version in ((LINEAR, 2), (ModelName("linear", 1), 1)):
        reply = client.predict(model, "serving_default", {"x": inputs})
        np.testing.assert_allclose(reply["scores"], expected(inputs, weights, version), rtol=1e-6)
        assert reply["scores"].dtype == np.float32
    version, signatures = client.signatures(LINEAR)
    assert version == 2 and signatures["serving_default"].inputs["x"].shape == (None, 2, 3)


def test_missing_model_version_and_signature_repeat_the_servers_words(client, inputs):
    error = refused(client, inputs, ModelName("nothing"))
    assert error.code == "NOT_FOUND" and "Servable not found for request: Latest(nothing)" in str(error)
    error = refused(client, inputs, ModelName("linear", 7))
    assert error.code == "NOT_FOUND" and "Servable not found for request: Specific(linear, 7)" in str(error)
    error = refused(client, inputs, signature="classify")
    assert error.code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT")
    assert '"classify" not found' in str(error) and "model 'linear', signature 'classify'" in str(error)
    error = refused(client, inputs, arrays={"y": inputs})
    assert error.code == "INVALID_ARGUMENT" and client.counts.retries == 0


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_requests_are_split_into_batches_below_the_limit(server, protocol, inputs, weights):
    rows = np.tile(inputs, (100, 1, 1))
    address = server.grpc_address if protocol == "grpc" else server.rest_address
    with serving.Client(address, max_message_bytes=9_000) as client:
        reply = client.predict(LINEAR, "serving_default", {"x": rows})
        np.testing.assert_allclose(reply["scores"], expected(rows, weights), rtol=1e-6)
        assert client.counts.requests > 1 and client.counts.rows == 500


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_a_reply_too_large_for_one_row_is_an_error(server, protocol, inputs, linear):
    server.models["linear"][2]["serving_default"] = linear(change=lambda s: np.repeat(s, 5000, axis=1))
    address = server.grpc_address if protocol == "grpc" else server.rest_address
    with serving.Client(address, max_message_bytes=20_000) as client:
        error = refused(client, inputs)
        assert error.code == "RESOURCE_EXHAUSTED" and "20000" in str(error)
        # What was left of the reply is not taken for the next one.
        server.models["linear"][2]["serving_default"] = linear()
        assert client.predict(LINEAR, "serving_default", {"x": inputs})["scores"].shape == (5, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s * np.nan, "has NaN or infinite values, first in row 0"),
        (lambda s: np.where(np.arange(len(s))[:, None] == 3, np.inf, s).astype(np.float32), "first in row 3"),
        (lambda s: s[:, :2], r"has shape (5, 2) instead of (any, 3) with 5 rows"),
        (lambda s: s[:-1], r"has shape (4, 3) instead of (any, 3) with 5 rows"),
    ],
)
def test_replies_that_cannot_be_used(server, client, inputs, linear, change, message):
    server.models["linear"][2]["serving_default"] = linear(change=change)
    error = refused(client, inputs)
    assert error.code == "INVALID_REPLY" and message in str(error)
    assert client.counts.requests == 0


def test_an_output_that_is_missing(server, client, inputs, linear):
    server.models["linear"][2]["serving_default"] = linear(name="logits")
    message = str(refused(client, inputs))
    assert "no output 'scores'" in message or "output tensor alias not found in signature: scores" in message


def test_deadline(server, address, inputs):
    server.disturb = lambda *_: time.sleep(0.6)
    with serving.Client(address, deadline=0.2) as client:
        error = refused(client, inputs)
        assert error.code == "DEADLINE_EXCEEDED" and "a longer deadline" in str(error) and client.counts.retries == 0
        server.disturb = None
        time.sleep(0.6)
        client.deadline = 10
        assert len(client.predict(LINEAR, "serving_default", {"x": inputs})["scores"]) == 5


def test_unavailable_is_tried_again_with_growing_waits(server, client, waits, inputs, weights):
    left = [3]

    def disturb(*_):
        if left[0]:
            left[0] -= 1
            raise ServerError("UNAVAILABLE", "not yet")

    client.signatures(LINEAR)
    server.disturb = disturb
    reply = client.predict(LINEAR, "serving_default", {"x": inputs})
    np.testing.assert_allclose(reply["scores"], expected(inputs, weights), rtol=1e-6)
    assert waits == [0.1, 0.2, 0.4] and client.counts.retries == 3
    # Each row was answered once.
    assert server.asked["linear", "serving_default"] == 5 and client.counts.rows == 5


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_no_server(protocol, inputs):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"{protocol}://127.0.0.1:{unused.getsockname()[1]}"
        with serving.Client(address, connect_timeout=0.3) as client:
            error = refused(client, inputs)
    assert (
        error.code == "UNAVAILABLE" and "is the server running" in str(error) and "given up after 0.3 s" in str(error)
    )


def test_a_server_that_went_away_and_comes_back(server, client, inputs, weights):
    client.predict(LINEAR, "serving_default", {"x": inputs})
    server.stop()
    back = threading.Timer(0.7, server.start)
    back.start()
    reply = client.predict(LINEAR, "serving_default", {"x": inputs})
    back.join()
    np.testing.assert_allclose(reply["scores"], expected(inputs, weights), rtol=1e-6)
    assert client.counts.retries > 0 and client.counts.requests == 2


@pytest.mark.parametrize(
    ("values", "dtype"),
    [(["3.0"], "float32"), ([None], "float32"), ([[1.0], [2.0, 3.0]], "float32"), ([3.7], "int32"), ([2**40], "int32"),
     ([5], "object"), ([10**400], "float32")],
)  # fmt: skip
def test_json_of_another_type_is_refused(values, dtype):
    """NumPy would make numbers of most of it."""
    with pytest.raises(serving.ServerError) as refused:
        _protocols._from_json(values, np.dtype(dtype))
    assert refused.value.code == "INVALID_REPLY" and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["localhost:8500", "ftp://host", "grpc://host:port", "grpc://host:99999", "http://[::1"]
)
def test_addresses_that_are_none(address):
    with pytest.raises(BadInput, match="is not an address of a server"):
        serving.Client(address)


def test_addresses():
    from attribution_benchmarks.serving._protocols import parse_address

    assert str(parse_address("grpc://host")) == "grpc://host:8500"
    assert str(parse_address("http://host/proxy/")) == "http://host:8501/proxy"
    assert parse_address("http://[::1]:9").host_and_port == "[::1]:9"
