"""Explain, load and serve again and again, and look whether memory grows.

    python tests/faults/soak.py                             1,000 calls over ten models, then a minute of eight clients
    python tests/faults/soak.py --calls=100 --seconds=5

Resident memory after a first fifth, in which caches fill, and at the end go to standard output. Exit code 1 if it grew
by more than ``--allowed`` MB, if a call gave another map than before, or if a client got no answer.
"""

from __future__ import annotations

import argparse
import gc
import os
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

METHODS = ("gradient", "grad_cam", "integrated_gradients", "guided_backprop", "lrp_epsilon")
NONSENSE = (
    b"\x00\xff" * 50,
    b"GET / HTTP/1.1\r\n\r\n",
    b'POST /v1/models/m0:predict HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"inputs"',
    b"POST /v1/models/m0:predict HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /v1/models/none/metadata HTTP/1.1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 40,
)


def resident() -> float:
    """Return this process's resident memory in MB, of Linux."""
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def write_models(directory: pathlib.Path, number: int) -> list[pathlib.Path]:
    """Write small convolutional networks of different widths."""
    import tensorflow as tf

    paths = []
    for place in range(number):
        generator, module = np.random.default_rng(place), tf.Module()
        module.kernel = tf.Variable(generator.normal(0, 0.3, (3, 3, 3, 4 + place)).astype(np.float32))
        module.weights = tf.Variable(generator.normal(0, 0.1, (10 * 10 * (4 + place), 5)).astype(np.float32))

        def scores(x, module=module):
            seen = tf.nn.relu(tf.nn.conv2d(x, module.kernel, 1, "VALID"))
            return {"scores": tf.reshape(seen, (-1, module.weights.shape[0])) @ module.weights}

        paths.append(directory / f"m{place}")
        served = tf.function(scores, [tf.TensorSpec((None, 12, 12, 3), name="x")]).get_concrete_function()
        tf.saved_model.save(module, str(paths[-1] / "1"), signatures=served)
    return paths


def explain_again(paths: list[pathlib.Path], calls: int) -> tuple[float, float]:
    """Explain in turns, models loaded anew now and then; return memory after a fifth and at the end."""
    import attribution

    inputs = np.random.default_rng(0).random((4, 12, 12, 3), dtype=np.float32)
    models, known, early = {}, {}, None
    for call in range(calls):
        path, method = paths[call % len(paths)], METHODS[call // len(paths) % len(METHODS)]
        if path not in models or call // len(paths) % 10 == 9:
            models[path] = attribution.load_model(path)
        maps = attribution.explain(method, models[path], inputs, seed=0)
        if not np.array_equal(known.setdefault((path, method), maps), maps):
            sys.exit(f"error: call {call}: other maps of {method} than before")
        if call == calls // 5:
            early = resident()
    return early, resident()


def serve_under_clients(path: pathlib.Path, seconds: float, clients: int = 8) -> tuple[float, float, int]:
    """Ask a server from several threads, two of which send nonsense, too; return memory early and late, and answers."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "stand_in_server"))
    from stand_in import StandIn, load_versions

    from attribution_benchmarks import serving
    from attribution_benchmarks.serving._protocols import ModelName

    model = ModelName("m0")
    inputs = np.random.default_rng(0).random((2, 12, 12, 3), dtype=np.float32)
    with StandIn({"m0": load_versions(str(path))}) as server:
        end, answers, lost = time.monotonic() + seconds, [0] * clients, []

        def ask(number: int) -> None:
            chosen = random.Random(number)
            address = server.grpc_address if number % 2 else server.rest_address
            with serving.Client(address) as client:
                (name,) = client.signatures(model)[1]["serving_default"].inputs
                while time.monotonic() < end or not answers[number]:
                    if number % 4 == 3:
                        port = chosen.choice((server.grpc_port, server.rest_port))
                        with socket.create_connection(("127.0.0.1", port), 5) as connection:
                            connection.sendall(chosen.choice(NONSENSE))
                    reply = client.predict(model, "serving_default", {name: inputs})
                    answers[number] += len(next(iter(reply.values()))) == len(inputs)

        def guarded(number: int) -> None:
            try:
                ask(number)
            except Exception as error:  # whatever it is, it is what this looks for
                lost.append(f"client {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 5)
        early = resident()
        for thread in threads:
            thread.join()
        late = resident()
    if lost or not all(answers):
        sys.exit(f"error: {lost or 'a client without an answer'}")
    return early, late, sum(answers)


def main() -> int:
    """Soak, report, and return 1 where memory grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000, help="of explain")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60, help="that the server is asked")
    parser.add_argument("--allowed", type=float, default=50, help="MB that memory may grow after the first fifth")
    given = parser.parse_args()
    grown = 0.0
    with tempfile.TemporaryDirectory() as directory:
        paths = write_models(pathlib.Path(directory), given.models)
        early, late = explain_again(paths, given.calls)
        grown = max(grown, late - early)
        print(f"{given.calls} calls over {given.models} models: {early:.0f} MB after a fifth, {late:.0f} MB at the end")
        early, late, answers = serve_under_clients(paths[0], given.seconds)
        grown = max(grown, late - early)
        print(f"{answers} answers to eight clients in {given.seconds:g} s: {early:.0f} MB, then {late:.0f} MB")
    return int(grown > given.allowed)


if __name__ == "__main__":
    from attribution.cli import quiet_tensorflow

    quiet_tensorflow()
    sys.exit(main())
