"""Scores of served models are those of their files, also when the server goes away in the middle."""

import json
import os
import re
import shutil
import threading

import pytest
from stand_in import StandIn, load_signatures

from attribution import cli, export
from attribution_benchmarks import serving
from attribution_benchmarks.core.store import ScoreStore
from bim import classifiers, data, delta_patch, layout, metrics, served
from bim.methods import PRINTED, method_named

pytestmark = pytest.mark.usefixtures("load_once")
METHODS = "gradient,grad_cam,guided_backprop,smoothgrad"
FEW = "--methods=gradient,grad_cam"  # JSON is slow


@pytest.fixture(scope="module")
def labelled(copy_sets, tiny_models, tmp_path_factory):
    """Sets labelled with what the untrained models predict, but for every fifth image; with patches."""
    data_dir = copy_sets(str(tmp_path_factory.mktemp("served_data")))
    pairs = {"obj": "obj", "scene": "scene", "scene_only": "scene", "bamboo_forest": "scene_only"}
    for set_name, model_name in {**pairs, "dog_bedroom": "scene10"}.items():
        images = data.load_set(data_dir, set_name)
        labels = classifiers.load_classifier(tiny_models, model_name).predict(
            classifiers.network_inputs(images.images(range(len(images))), 32)
        )
        labels[::5] = (labels[::5] + 1) % 10
        with open(os.path.join(data_dir, set_name, "val.txt"), "w") as file:
            file.writelines(f"{name} {label}\n" for name, label in zip(images.names, labels, strict=True))
    delta_patch.construct(data_dir, classifiers.load_classifier(tiny_models, "scene_only"), steps=1)
    return data_dir


@pytest.fixture(scope="module")
def signatures(tiny_models, tmp_path_factory):
    """The two networks of ``tiny_models`` with explanations, as a server loads them."""
    found = {}
    for name in ("obj", "scene"):
        directory = str(tmp_path_factory.mktemp("served") / name)
        export.export(os.path.join(tiny_models, name), directory, ["gradient", "guided_backprop", "grad_cam"])
        found[name] = load_signatures(os.path.join(directory, "1"))
    return found


@pytest.fixture
def server(signatures):
    """All of BIM's models as ``tiny_models`` has them: the two networks in turn."""
    kinds = ("obj", "scene")
    names = enumerate(layout.MODEL_NAMES)
    models = {f"bim_{name}": {1: signatures[kinds[number % 2]]} for number, name in names}
    with StandIn(models) as running:
        yield running


@pytest.fixture(params=["grpc", "rest"])
def address(request, server):
    return server.grpc_address if request.param == "grpc" else server.rest_address


@pytest.fixture
def score(labelled, tiny_models, tmp_path):
    """Run the command; return its exit code and the rows it wrote."""

    def run(*flags, scores="scores", data_dir=labelled):
        output = tmp_path / "out.json"
        arguments = [
            "metrics", f"--data_dir={data_dir}", f"--models_dir={tiny_models}", f"--scores_dir={tmp_path / scores}",
            f"--output={output}", f"--methods={METHODS}", "--num_imgs=6", "--batch_size=3", *flags,
        ]  # fmt: skip
        output.unlink(missing_ok=True)
        code = cli.execute(metrics.main, metrics.FLAGS, metrics.__doc__, arguments)
        return code, json.loads(output.read_text())["rows"] if output.exists() else None

    return run


COMPUTED = ("value", "low", "high", "std", "median", "p20", "p80")


def test_all_metrics_as_from_the_files(score, address):
    flags = ["--metrics=MCS,IDR,IIR", *([FEW] if address.startswith("http") else [])]
    code, local = score(*flags, scores="local")
    assert code == 0
    code, asked = score(*flags, f"--server={address}")
    assert code == 0 and len(asked) == len(local) in (3 * 7, 3 * 5)
    for row, expected in zip(asked, local, strict=True):
        assert {k: v for k, v in row.items() if k not in COMPUTED} == {
            k: v for k, v in expected.items() if k not in COMPUTED
        }
        for key in COMPUTED:
            assert row.get(key) == pytest.approx(expected.get(key), abs=1e-5), (row, expected)
    assert any(row["value"] and row["n"] for row in local)


def test_killed_in_the_middle_and_back(score, server, address, tmp_path):
    flags = ["--metrics=MCS", "--nocontrols", FEW, f"--server={address}", "--num_imgs=9"]
    code, undisturbed = score(*flags, scores="whole")
    assert code == 0
    requests, killed = [], []

    def kill(*_):
        requests.append(1)
        if len(requests) in (4, 11):
            killed.append(1)
            away = threading.Thread(target=server.stop)
            away.start()
            away.join(2)
            threading.Timer(0.3, server.start).start()

    server.disturb = kill
    code, rows = score(*flags, scores="cut")
    server.disturb = None
    assert code == 0 and len(killed) == 2
    assert rows == undisturbed
    whole, cut = (ScoreStore(tmp_path / name).contents() for name in ("whole", "cut"))
    assert whole == cut and len(whole) == 2 * 3 and {len(records) for records in cut.values()} == {9}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--methods=lrp_epsilon"], "method 'lrp_epsilon': .* does not have this method"),
        (["--methods=deconvnet"], "method 'deconvnet': .* does not have 'deconvnet'"),
        (["--methods=tf_explain.gradient"], "tf-explain's own code"),
        (["--models=obj=absent"], "Servable not found for request: Latest\\(absent\\)"),
        (["--models=obj=bim_obj@4"], "Servable not found for request: Specific\\(bim_obj, 4\\)"),
        (["--models=obj=bim_obj@x"], "expected name, or name@version"),
        (["--models=other=bim_obj"], "expected name=directory with a name of"),
        (["--compat=upstream"], "a server has none"),
        (["--server=localhost:8500"], "not an address of a server"),
        (["--deadline=0"], "deadline must be above 0"),
    ],
)
def test_what_a_server_cannot_answer_is_one_line(score, server, capsys, flags, message):
    code, rows = score("--metrics=MCS", f"--server={server.grpc_address}", *flags)
    error = capsys.readouterr().err
    assert code == 2 and rows is None and error.startswith("error: ") and error.count("\n") == 1
    assert re.search(message, error), error
    assert not any(signature.startswith("explain_") for _, signature in server.asked)


def test_a_model_without_explanations_answers_methods_of_scores_alone(score, server, tiny_models, capsys):
    for name in ("obj", "scene"):
        server.models[f"bim_{name}"] = {1: load_signatures(os.path.join(tiny_models, name, "1"))}
    flags = ["--metrics=MCS", "--methods=occlusion", "--num_imgs=3"]
    _, local = score(*flags, scores="local")
    code, asked = score(*flags, f"--server={server.grpc_address}")
    assert code == 0
    assert [row["value"] for row in asked] == pytest.approx([row["value"] for row in local], abs=1e-5)
    capsys.readouterr()
    code, _ = score("--metrics=MCS", "--methods=gradient", f"--server={server.grpc_address}")
    assert code == 2 and "does not have 'gradient', which this method needs; it has none" in (capsys.readouterr().err)


def test_patches_must_be_those_of_the_served_model(score, labelled, server, tmp_path, capsys):
    data_dir = str(tmp_path / "data")
    shutil.copytree(labelled, data_dir)
    flags = ["--metrics=IIR", "--methods=gradient", f"--server={server.grpc_address}"]
    assert score(*flags, data_dir=data_dir)[0] == 0
    server.models["bim_scene_only"] = server.models["bim_scene"]
    assert score(*flags, data_dir=data_dir)[0] == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "were made for another model" in error and "the file behind grpc://" in error


def test_every_default_method_can_be_made_of_three_exported_ones(server):
    with serving.Client(server.grpc_address) as client:
        model = served.served_classifier(client, "bim_obj")
        methods = {name: method_named(name) for name in PRINTED}
        served.check_methods([model], methods)
    assert set(server.asked) == {("bim_obj", "explanation_sheet")}
