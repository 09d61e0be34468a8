"""The script that serves the committed models, as a user starts it: exports, serves, answers, ends."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

import attribution
from attribution_benchmarks import serving

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "scripts" / "serve.sh")
CONFIG = """model_config_list {
  config { name: "bim_tiny" base_path: "/models/served/bim_tiny" model_platform: "tensorflow" }
  config { name: "svea_small" base_path: "/models/served/svea_small" model_platform: "tensorflow" }
}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A directory of models as the committed one: benchmark/model/version, and models.config."""
    import keras

    root = tmp_path_factory.mktemp("models")
    layers = keras.layers
    generator = np.random.default_rng(0)
    networks = {
        "bim/tiny/1": keras.Sequential(
            [keras.Input((8, 8, 3)), layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3)]
        ),
        "svea/small/1": keras.Sequential(
            [keras.Input((20, 1)), layers.Conv1D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(3, "softmax")]
        ),
    }
    for path, network in networks.items():
        network.set_weights([np.abs(generator.normal(0, 0.3, weight.shape)) for weight in network.weights])
        network.export(root / path, verbose=False)
    (root / "models.config").write_text(CONFIG)
    return root


def free_ports():
    with socket.socket() as first, socket.socket() as second:
        first.bind(("localhost", 0))
        second.bind(("localhost", 0))
        return first.getsockname()[1], second.getsockname()[1]


def environment(models, **more):
    return {**os.environ, "PYTHON": sys.executable, "MODELS": str(models), **more}


def test_the_models_are_exported_once_served_and_answer(models, quick_python):
    grpc, rest = free_ports()
    python = {"PYTHON": str(quick_python)}
    ports = {"GRPC_PORT": str(grpc), "REST_PORT": str(rest)}
    with subprocess.Popen(
        ["bash", SCRIPT, "--stand_in"], env=environment(models, **python, **ports), stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            inputs = np.random.default_rng(1).random((2, 8, 8, 3), dtype=np.float32)
            local = attribution.load_model(models / "bim" / "tiny")
            expected = attribution.explain("integrated_gradients", local, inputs)
            for address in (f"grpc://localhost:{grpc}", f"http://localhost:{rest}"):
                with serving.Client(address, connect_timeout=200, retry_timeout=200) as client:
                    served = serving.ServedModel(client, "bim_tiny")
                    np.testing.assert_allclose(served.scores(inputs), local.scores(inputs), rtol=1e-5, atol=1e-6)
                    maps = attribution.explain(serving.as_served("integrated_gradients"), served, inputs)
                    np.testing.assert_allclose(maps, expected, atol=1e-5 * np.abs(expected).max())
                    serving.ServedModel(client, "svea_small", score="probabilities")  # what SVEA explains, or an error
        finally:
            server.send_signal(signal.SIGTERM)
            said = server.communicate(timeout=60)[1]
    assert said.count("exporting ") == 2
    assert "Traceback" not in said and "WARNING" not in said
    before = {path: path.stat().st_mtime_ns for path in models.rglob("*") if path.is_file()}
    again = subprocess.run(
        ["bash", SCRIPT, "--export_only"],
        env=environment(models, **python),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in models.rglob("*") if path.is_file()} == before


def test_a_missing_package_is_reported_before_anything_is_exported(models, tmp_path):
    (tmp_path / "tensorflow_serving.py").write_text("raise ImportError")
    before = sorted(models.rglob("*"))
    done = subprocess.run(
        ["bash", SCRIPT, "--stand_in"],
        env=environment(models, PYTHONPATH=str(tmp_path)), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: --stand_in needs tensorflow-serving-api") and done.stderr.count("\n") == 1
    assert sorted(models.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--standin"], "'standin'. Did you mean: stand_in"), ([], "no docker")]
)
def test_what_cannot_be_done_is_said_at_once(arguments, words, tmp_path):
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run(
        ["/bin/bash", SCRIPT, *arguments],
        env={**environment(tmp_path), "PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and words in done.stderr
