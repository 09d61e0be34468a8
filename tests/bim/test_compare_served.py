"""Two served models side by side: every figure against a closed form, and the script end to end."""

import importlib.util
import json
import pathlib

import numpy as np
import pytest
from stand_in import ServedSignature, StandIn

from attribution import cli
from attribution_benchmarks.serving._protocols import Signature, TensorSpec

FLOAT = np.dtype(np.float32)
SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "compare_served_models.py"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("compare_served_models", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def linear(seed, size):
    """A served model whose ten scores are linear in its pixels."""
    weights = np.random.default_rng(seed).normal(size=(size * size * 3, 10))
    specs = Signature({"image": TensorSpec(FLOAT, (None, size, size, 3))}, {"scores": TensorSpec(FLOAT, (None, 10))})

    def answer(arrays):
        return {"scores": (arrays["image"].reshape(-1, len(weights)) @ weights).astype(np.float32)}

    return {"serving_default": ServedSignature(specs, answer)}


def test_shares_latencies_and_throughput_by_a_clock_of_ours(script):
    ticks = iter(np.cumsum([0, 9, 0, 9, 0, 1, 0, 2, 0, 3, 0, 4]))  # begin and end of each request, in turn

    class Quick:
        def scores(self, inputs, batch_size):
            assert batch_size == len(inputs) == 4

    seconds = script.time_requests([Quick(), Quick()], np.zeros((2, 4, 2)), 2, clock=lambda: next(ticks))
    assert seconds.tolist() == [[1, 3], [2, 4]]  # the first of each does not count
    predicted, labels = np.array([[1, 2, 3, 4], [1, 2, 0, 0]]), np.array([[1, 2, 3, 0], [1, 2, 3, 0]])
    rows = script.score_rows(("a", "b"), predicted, labels, seconds, 4)
    found = {(row["model"], row["metric"]): row["value"] for row in rows}
    assert found["a", "accuracy"] == found["b", "accuracy"] == 0.75 and found["a, b", "agreement"] == 0.5
    assert found["a", "latency_p50_ms"] == 2000
    assert found["b", "latency_p90_ms"] == pytest.approx(3800)
    assert found["b", "images_per_second"] == pytest.approx(8 / 6)
    assert {"method", "metric", "value", "low", "high", "n", "paper", "kind"} <= set(rows[0])


def test_the_script(script, sets, tmp_path, capsys):
    def call(*flags):
        arguments = ["compare", f"--data_dir={sets}", "--num_imgs=5", *flags]
        return cli.execute(script.main, script.FLAGS, script.__doc__, arguments)

    output = tmp_path / "compared.json"
    with StandIn({"first": {1: linear(0, 8)}, "second": {1: linear(1, 16)}}) as server:
        flags = [f"--server={server.rest_address}", "--batch_size=2", "--requests=3"]
        assert call(*flags, "--models=first,second", f"--output={output}") == 0
        printed = capsys.readouterr().out
        assert "agreement" not in printed and "latency_p99_ms" in printed
        document = json.loads(output.read_text())
        assert document["benchmark"] == "bim" and set(document["manifest"]["models"]) == {"first", "second"}
        for wrong, message in [
            (["--models=first,second"], "--server is empty"),
            ([*flags, "--models=first"], "expected two different served models"),
            ([*flags, "--models=first,first"], "expected two different served models"),
            ([*flags, "--models=first,second", "--labels=obj"], "expected obj or scene for each"),
            ([*flags, "--models=first,absent"], "Servable not found for request: Latest(absent)"),
        ]:
            assert call(*wrong) == 2
            error = capsys.readouterr().err.splitlines()[-1]
            assert error.startswith("error: ") and message in error
