"""A stand-in server of models made of NumPy, and clients that do not wait for real."""

import json
import time

import numpy as np
import pytest
from stand_in import ServedSignature, StandIn

from attribution import METHODS
from attribution_benchmarks import serving
from attribution_benchmarks.serving._protocols import Signature, TensorSpec

FLOAT = np.dtype(np.float32)
WEIGHTS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture(scope="session")
def weights():
    return WEIGHTS


@pytest.fixture(scope="session")
def linear():
    return linear_signature


def linear_signature(name="scores", change=lambda scores: scores):
    """A signature: (N, 2, 3) float32 to (N, 3) scores, which may be changed on their way out."""
    specs = Signature({"x": TensorSpec(FLOAT, (None, 2, 3))}, {name: TensorSpec(FLOAT, (None, 3))})
    return ServedSignature(
        specs, lambda arrays: {name: change((arrays["x"].reshape(-1, 6) @ WEIGHTS).astype(np.float32))}
    )


def models():
    """Two versions of one model; in the second, all scores are twice as large."""
    return {
        "linear": {
            1: {"serving_default": linear_signature()},
            2: {"serving_default": linear_signature(change=lambda s: 2 * s)},
        }
    }


@pytest.fixture
def server():
    with StandIn(models()) as running:
        yield running


@pytest.fixture(params=["grpc", "rest"])
def address(request, server):
    return server.grpc_address if request.param == "grpc" else server.rest_address


@pytest.fixture
def waits():
    """Seconds that a client would have waited."""
    return []


@pytest.fixture
def client(address, waits):
    """A client of the server by either protocol that counts its waits instead of waiting long."""

    def sleep(seconds):
        waits.append(seconds)
        time.sleep(min(seconds, 0.2))

    with serving.Client(address, sleep=sleep, deadline=10, retry_timeout=8) as running:
        yield running


@pytest.fixture
def inputs():
    return np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)


@pytest.fixture(scope="session")
def explained():
    return explained_linear


def explained_linear(methods=("gradient", "integrated_gradients"), score="logits", sheet=1, layer=None):
    """The same linear model with the signatures that ``attribution.export`` adds, in closed form."""
    targets = {"targets": TensorSpec(np.dtype(np.int32), (None,))}
    x, scores = {"x": TensorSpec(FLOAT, (None, 2, 3))}, {"scores": TensorSpec(FLOAT, (None, 3))}
    told = {"target": TensorSpec(np.dtype(np.int32), (None,)), "score": TensorSpec(FLOAT, (None,))}
    text = json.dumps(
        {
            "sheet": sheet, "source": "a" * 64, "score": score, "wrt": "x", "layer": layer, "layer_is_default": True,
            "methods": {name: {"method": name, "parameters": dict(METHODS[name].defaults)} for name in methods},
            "a key of later days": 1,
        }
    )  # fmt: skip

    def explain(of_gradient):
        def answer(arrays):
            logits = arrays["x"].reshape(-1, 6) @ WEIGHTS
            target = np.where(arrays["targets"] < 0, logits.argmax(axis=1), arrays["targets"]).astype(np.int32)
            gradient = WEIGHTS.T[target].reshape(-1, 2, 3)
            score = logits[np.arange(len(logits)), target].astype(np.float32)
            return {"map": of_gradient(gradient, arrays["x"]), "target": target, "score": score}

        return ServedSignature(Signature({**x, **targets}, {"map": TensorSpec(FLOAT, (None, 2, 3)), **told}), answer)

    maps = {"gradient": lambda g, x: g, "integrated_gradients": lambda g, x: g * x}
    return {
        "serving_default": linear_signature(),
        "explanation_scores": ServedSignature(Signature(x, scores), linear_signature().answer),
        "explanation_sheet": ServedSignature(
            Signature(
                {"rows": TensorSpec(np.dtype(np.int32), (None,))}, {"sheet": TensorSpec(np.dtype(object), (None,))}
            ),
            lambda arrays: {"sheet": np.array([text.encode()] * len(arrays["rows"]), object)},
        ),
        **{f"explain_{name}": explain(maps[name]) for name in methods},
    }
