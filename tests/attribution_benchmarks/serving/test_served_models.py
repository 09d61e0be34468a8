"""models.config, the committed files with explanations and scripts/serve.sh fit each other and the originals."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from stand_in import StandIn, load_versions, read_models_config

import attribution
from attribution import export
from attribution.errors import BadInput
from attribution_benchmarks import serving

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAVED_MODELS = ROOT / "saved_models"


def originals():
    """Name of each committed model on a server -> its directory."""
    return {
        f"{directory.parent.name}_{directory.name}": directory
        for directory in sorted(SAVED_MODELS.glob("*/*/"))
        # The networks of exact truth are hand-set: their explanations are a test, and nobody asks a server for them.
        if directory.parent.name not in ("served", "exact") and (directory / "MODEL_CARD.md").is_file()
    }


def test_every_committed_model_is_served_under_its_name():
    served = read_models_config(str(SAVED_MODELS / "models.config"))
    # A model that is missing here needs a line in saved_models/models.config.
    assert served == {name: f"/models/served/{name}" for name in originals()}


def committed():
    lines = (SAVED_MODELS / "served" / ".gitignore").read_text().splitlines()
    names = [line.removeprefix("!/") for line in lines if line.startswith("!/")]
    return [name for name in names if name not in (".gitignore", "MODEL_CARD.md")]


def test_committed_explanations_were_made_from_the_originals():
    assert committed()
    for name in committed():
        content = (SAVED_MODELS / "served" / name / "1" / "saved_model.pb").read_bytes()
        model = attribution.load_model(originals()[name], score="probabilities")
        assert model.fingerprint.encode() in content, f"export saved_models/served/{name} anew"


def test_a_committed_file_explains_itself_by_both_protocols():
    inputs = np.random.default_rng(0).normal(size=(3, 40, 1)).astype(np.float32)
    model = attribution.load_model(originals()["svea_baseline"], score="probabilities")
    methods = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam"]
    local = attribution.explain_many(methods, model, inputs)
    versions = load_versions(str(SAVED_MODELS / "served" / "svea_baseline"))
    with StandIn({"svea_baseline": versions}) as server:
        for address in (server.grpc_address, server.rest_address):
            with serving.Client(address) as client:
                asked = serving.ServedModel(client, "svea_baseline", score="probabilities")
                np.testing.assert_allclose(asked.scores(inputs), model.scores(inputs), atol=1e-5)
                served = attribution.explain_many([serving.as_served(name) for name in methods], asked, inputs)
                for name in methods:
                    assert export.relative_difference(served[name], local[name]) <= 1e-5
                with pytest.raises(BadInput, match="explains probabilities, not logits"):
                    serving.ServedModel(client, "svea_baseline", score="logits")


@pytest.fixture
def house(tmp_path):
    """Two models with their served files, and a docker that only writes down how it was called."""
    for name in ("bim/obj", "svea/old", "served/bim_obj/1", "served/svea_old/1"):
        (tmp_path / "models" / name).mkdir(parents=True)
    for name in ("bim_obj", "svea_old"):
        (tmp_path / "models/served" / name / "1/saved_model.pb").touch()
    (tmp_path / "models/models.config").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").write_text(f'#!/bin/sh\necho "docker $*" >> {tmp_path}/calls\n')
    (tmp_path / "bin/docker").chmod(0o755)
    return tmp_path


def serve(house, *arguments, **environment):
    paths = {"PATH": f"{house}/bin:{os.environ['PATH']}", "MODELS": f"{house}/models", "PYTHON": sys.executable}
    run = subprocess.run(
        ["bash", str(ROOT / "scripts/serve.sh"), *arguments],
        env={**os.environ, **paths, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    calls = house / "calls"
    return run, calls.read_text().splitlines() if calls.exists() else []


def test_docker_serves_what_is_exported(house):
    run, calls = serve(house, REST_PORT="9501")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert calls == [  # on this machine's own address alone
        "docker run --rm --publish 127.0.0.1:8500:8500 --publish 127.0.0.1:9501:8501 --mount "
        f"type=bind,source={house}/models,target=/models,readonly tensorflow/serving "
        "--model_config_file=/models/models.config"
    ]


def test_what_cannot_be_served_is_one_line(house, tmp_path):
    run, calls = serve(house, "--export_only")
    assert (run.returncode, run.stderr, calls) == (0, "", [])
    for arguments, environment, words in [
        ([], {"MODELS": str(tmp_path)}, f"no {tmp_path}/models.config; name a directory"),  # as an installed package
        (["--export_only"], {"MODELS": f"{house}/bin"}, "there is no <benchmark>/<model>"),
        (["--nonsense"], {}, "Unknown command line flag 'nonsense'"),
    ]:
        run, calls = serve(house, *arguments, **environment)
        assert run.returncode == 2 and run.stderr.startswith(f"error: {words}") and run.stderr.count("\n") == 1
        assert not calls


def test_models_configs_that_cannot_be_read(tmp_path):
    path = tmp_path / "models.config"
    entry = 'config {{ name: "{}" base_path: "{}" model_platform: "tensorflow" }}'
    for text, message in [
        ("nonsense", "is not a models.config"),
        (entry.format("a", ""), "model 'a' needs a name of its own, a base_path"),
        (entry.format("a", "/a") + entry.format("a", "/b"), "model 'a' needs a name of its own"),
    ]:
        path.write_text(f"model_config_list {{ {text} }}")
        with pytest.raises(BadInput, match=message):
            read_models_config(str(path))
    with pytest.raises(BadInput, match="cannot read"):
        read_models_config(str(tmp_path / "absent"))
    with pytest.raises(BadInput, match="no version of a SavedModel"):
        load_versions(str(tmp_path))
