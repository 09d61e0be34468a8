"""models.config, the committed files with explanations and scripts/serve.sh fit each other and the originals."""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from stand_in import StandIn, load_versions, read_models_config

import attribution
from attribution.errors import BadInput
from attribution.export import command
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
                    assert command.relative_difference(served[name], local[name]) <= 1e-5
                with pytest.raises(BadInput, match="explains probabilities, not logits"):
                    serving.ServedModel(client, "svea_baseline", score="logits")


@pytest.fixture
def house(tmp_path):
    """A copy of the script beside two models, with programs that only write down how they were called."""
    for path in ("scripts", "saved_models/bim/obj", "saved_models/svea/baseline", "saved_models/served/svea_old/1"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "saved_models/svea/old").mkdir()
    (tmp_path / "saved_models/served/svea_old/1/saved_model.pb").touch()
    (tmp_path / "scripts/serve.sh").write_text((ROOT / "scripts/serve.sh").read_text())
    for program in ("docker", "python"):
        path = tmp_path / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{program} $*" >> {tmp_path}/calls\n')
        path.chmod(0o755)
    return tmp_path


def serve(house, *arguments, **environment):
    paths = f"{house}/bin:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", str(house / "scripts/serve.sh"), *arguments],
        env={**os.environ, "PATH": paths, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    calls = house / "calls"
    return run, calls.read_text().splitlines() if calls.exists() else []


def test_the_script_exports_what_is_missing_and_serves_everything(house):
    run, calls = serve(house, REST_PORT="9501")
    assert run.returncode == 0, run.stderr
    exported, docker = calls
    assert exported == f"python tools/export_committed_models.py --root={house}/saved_models"
    assert docker == (  # on this machine's own address alone
        "docker run --rm --publish 127.0.0.1:8500:8500 --publish 127.0.0.1:9501:8501 --mount "
        f"type=bind,source={house}/saved_models,target=/models,readonly tensorflow/serving "
        "--model_config_file=/models/models.config"
    )


def test_the_script_without_docker(house):
    run, calls = serve(house, "--stand_in")
    assert run.returncode == 0
    assert calls[-1] == (
        f"python tests/stand_in_server/stand_in.py --config={house}/saved_models/models.config "
        f"--root={house}/saved_models --grpc_port=8500 --rest_port=8501"
    )
    (house / "calls").unlink()
    run, calls = serve(house, "--export_only")
    assert run.returncode == 0 and len(calls) == 1
    for program in ("bash", "basename", "dirname"):
        (house / "no_docker").mkdir(exist_ok=True)
        (house / "no_docker" / program).symlink_to(shutil.which(program))
    run, _ = serve(house, PATH=str(house / "no_docker"))
    assert run.returncode == 2 and run.stderr.startswith("error: no docker; ") and run.stderr.count("\n") == 1
    run, _ = serve(house, "--nonsense")
    assert run.returncode == 2 and run.stderr.startswith("error: ") and run.stderr.count("\n") == 1


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
