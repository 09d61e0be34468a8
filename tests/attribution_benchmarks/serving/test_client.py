"""What a client does with a server's answers, refusals, limits and absence, by gRPC and REST."""

import json
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


def test_batches_are_cut_to_the_servers_limit(server, client, inputs, weights):
    server.max_batch_size = 2
    for _ in range(2):
        reply = client.predict(LINEAR, "serving_default", {"x": inputs})
        np.testing.assert_allclose(reply["scores"], expected(inputs, weights), rtol=1e-6)
    # The limit is learnt at once, from the server's words, and kept.
    assert client.counts.requests == 6 and server.asked["linear", "serving_default"] == 10


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_batches_are_cut_to_the_clients_message_size(server, protocol, inputs, weights):
    rows = np.tile(inputs, (200, 1, 1))
    address = server.grpc_address if protocol == "grpc" else server.rest_address
    with serving.Client(address, max_message_bytes=10_000) as client:
        reply = client.predict(LINEAR, "serving_default", {"x": rows})
        np.testing.assert_allclose(reply["scores"], expected(rows, weights), rtol=1e-6)
        assert client.counts.requests > 2 and client.counts.rows == 1000


def test_batches_are_halved_where_the_server_takes_smaller_messages(inputs, weights, linear):
    from stand_in import StandIn

    rows = np.tile(inputs, (200, 1, 1))
    models = {"linear": {1: {"serving_default": linear()}}}
    with StandIn(models, max_message_bytes=9_000) as server, serving.Client(server.grpc_address) as client:
        reply = client.predict(LINEAR, "serving_default", {"x": rows})
        np.testing.assert_allclose(reply["scores"], expected(rows, weights, 1), rtol=1e-6)
        assert client.counts.requests >= 3


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


def described(what):
    """Return a reply that describes a model in a way of its own."""
    body = json.dumps(what).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_something_else_than_a_server(inputs):
    """A port of HTTP that answers with a page, and a port that answers with noise."""
    signature = {"inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "many"}]}}}}
    for answer, code in (
        (described({"metadata": 5}), "INVALID_REPLY"),
        (described({"metadata": {"signature_def": {"signature_def": {"serving_default": 3}}}}), "INVALID_REPLY"),
        (described({"metadata": {"signature_def": {"signature_def": {"a": signature}}}}), "INVALID_REPLY"),
        (described({"model_spec": {"version": "new"}, "metadata": {}}), "INVALID_REPLY"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "INVALID_REPLY"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nlost", "NOT_FOUND"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n{", "UNAVAILABLE"),
        (b"\x00\x01noise\r\n\r\n", "UNAVAILABLE"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve(answer=answer, listener=listener):
                while True:
                    try:
                        connection, _ = listener.accept()
                    except OSError:
                        return
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
            with serving.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", connect_timeout=0.05) as client:
                assert refused(client, inputs).code == code
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("values", "dtype", "words"),
    [
        (["3.0"], "float32", "it has text"),
        ([[1.0, True]], "float32", "it has true or false"),
        ([1.0, None], "float32", "it has null"),
        ([[1.0], [2.0, 3.0]], "float32", "it has lists of unequal length"),
        ([[1.0], 2.0], "float32", "it has lists of unequal length"),
        ({"a": 1.0}, "float32", "it has an object"),
        ("3.0", "float64", "it has text"),
        ([3.7], "int32", "it has a fraction"),
        ([2**40], "int32", "too large|out of bounds"),
        ([-1], "uint8", "too large|out of bounds"),
        ([True], "int64", "it has true or false"),
        ([1], "bool", "it has a whole number"),
        (["true"], "bool", "it has text"),
        ([5], "object", "it has a whole number"),
        ([{"b65": "YQ=="}], "object", "b64"),
        ([10**400], "float32", "too large"),
    ],
)
def test_json_of_another_type_is_refused(values, dtype, words):
    """NumPy would make numbers of most of it."""
    with pytest.raises(serving.ServerError, match=words) as refused:
        _protocols._from_json(values, np.dtype(dtype))
    assert refused.value.code == "INVALID_REPLY" and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("[[1, 2.5], [NaN, -Infinity]]", "float32"), ("[1, -2]", "int64"), ("[true, false]", "bool"), ("[]", "float32")],
)
def test_json_of_the_type_is_an_array(text, dtype):
    values = json.loads(text)
    np.testing.assert_array_equal(_protocols._from_json(values, np.dtype(dtype)), np.array(values, dtype))
    assert _protocols._from_json(values, np.dtype(dtype)).dtype == dtype


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "latin-1"])
def test_a_reply_in_another_encoding_than_utf_8_is_refused(encoding):
    with pytest.raises(serving.ServerError, match="expected a JSON object"):
        _protocols._decoded(200, '{"outputs": [[1.0]], "ö": 0}'.encode(encoding))


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8500", "ftp://host", "grpc://", "grpc://host:port", "grpc://host/path", "http://host?x=1",
        "grpc://host:99999", "http://host:65536", "grpc://host:0", "http://host:-1",
    ],
)  # fmt: skip
def test_addresses_that_are_none(address):
    with pytest.raises(BadInput, match="expected grpc://host:8500 or http://host:8501"):
        serving.Client(address)


def test_addresses():
    from attribution_benchmarks.serving._protocols import parse_address

    assert str(parse_address("grpc://host")) == "grpc://host:8500"
    assert str(parse_address("http://host/proxy/")) == "http://host:8501/proxy"
    assert parse_address("http://[::1]:9").host_and_port == "[::1]:9"
