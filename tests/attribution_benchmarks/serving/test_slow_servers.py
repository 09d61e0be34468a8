"""A deadline holds against servers that keep a connection busy: bytes one by one, headers without end."""

import socket
import threading
import time

import pytest

from attribution_benchmarks.serving import Client, ServerError
from attribution_benchmarks.serving._protocols import ModelName

KINDS = {
    "a byte at a time": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "headers without end": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
}


@pytest.fixture
def slow():
    """Start a server that answers every request with a beginning and then, again and again, with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def answer(connection, begin, again):
        with connection:
            try:
                connection.recv(1 << 16)
                connection.sendall(begin)
                while not over.wait(0.05):
                    connection.sendall(again)
            except OSError:
                return

    def serve(kind):
        def accept():
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection, *KINDS[kind]), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    over.set()
    listener.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_deadline_holds(slow, kind):
    with Client(slow(kind), deadline=0.6, retry_timeout=0) as client:
        begun = time.monotonic()
        with pytest.raises(ServerError) as caught:
            client.signatures(ModelName("linear"))
        # Without the deadline this would never end; how soon after it depends on the machine.
        assert time.monotonic() - begun < 30
    assert caught.value.code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    if kind != "headers without end":  # the library gives up after a hundred headers, which may come first
        assert "no reply within 0.6 s" in str(caught.value)
