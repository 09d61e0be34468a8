"""Scores of served models are those of their files, also when the server goes away in the middle."""

import dataclasses
import json
import os
import re
import shutil
import threading
import time

import numpy as np
import pytest
from stand_in import ServedSignature, StandIn, load_signatures

from attribution import cli, export
from attribution.errors import BadInput
from attribution_benchmarks import serving
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.serving._protocols import Signature, TensorSpec
from bim import classifiers, dataset, delta_patch, layout, metrics, served
from bim.attributions import PRINTED, method_named

pytestmark = pytest.mark.usefixtures("load_once")
METHODS = "gradient,grad_cam,guided_backprop,smoothgrad"
FEW = "--methods=gradient,grad_cam"  # JSON is slow


@pytest.fixture(scope="module")
def labelled(copy_sets, tiny_models, tmp_path_factory):
    """Sets labelled with what the untrained models predict, but for every fifth image; with patches."""
    data_dir = copy_sets(str(tmp_path_factory.mktemp("served_data")))
    pairs = {"obj": "obj", "scene": "scene", "scene_only": "scene", "bamboo_forest": "scene_only"}
    for set_name, model_name in {**pairs, "dog_bedroom": "scene10"}.items():
        images = dataset.load_set(data_dir, set_name)
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


def test_contrast_models_as_from_the_files(score, server, labelled, tiny_models, bim_run, tmp_path):
    """Untrained networks never agree, so that no image counts; what the metric is made of is compared instead."""
    code, rows = score("--metrics=RMCS", "--methods=gradient", "--nocontrols", f"--server={server.grpc_address}")
    assert code == 0 and [row["scene_model"] for row in rows] == list(range(1, 10))
    flags = ["--metrics=RMCS", f"--data_dir={labelled}", "--methods=gradient", f"--scores_dir={tmp_path / 'own'}"]
    local = bim_run(*flags, f"--models_dir={tiny_models}")
    remote = bim_run(*flags, f"--server={server.grpc_address}")
    for name in ("scene1", "scene10"):
        first, second = (run.measured(name, "dog_bedroom", [0, 1]) for run in (local, remote))
        np.testing.assert_array_equal(first.predicted, second.predicted)
        np.testing.assert_allclose(
            first.attributions[MapSource("gradient")], second.attributions[MapSource("gradient")], atol=1e-5
        )
        assert first.attributions[MapSource("gradient")].all()


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


def test_gone_for_good_is_one_line_and_the_next_run_goes_on(score, server, capsys, tmp_path):
    flags = ["--metrics=MCS", "--methods=gradient", "--nocontrols", f"--server={server.grpc_address}", "--num_imgs=9"]
    _, undisturbed = score(*flags, scores="whole")
    asked_by_a_whole_run = server.asked["bim_obj", "explain_gradient"]

    def gone(model, signature):
        if model == "bim_obj" and server.asked["bim_obj", "explain_gradient"] >= asked_by_a_whole_run + 6:
            raise serving.ServerError("UNAVAILABLE", "the server is going away")

    server.disturb = gone
    capsys.readouterr()
    code, rows = score(*flags, "--retry_timeout=0.2")
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert code == 2 and rows is None
    assert len(error) == 1 and "the server is going away" in error[0] and "given up after 0.2 s" in error[0]
    server.disturb = None
    before = server.asked["bim_obj", "explain_gradient"]
    code, rows = score(*flags)
    assert code == 0 and rows == undisturbed
    assert server.asked["bim_obj", "explain_gradient"] - before == 3  # of nine images, six were kept


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


NAN = np.float32(np.nan)
LIES = {  # what becomes of an honest answer
    "NaN": (lambda reply: {**reply, "map": reply["map"] * NAN}, "has NaN or infinite values"),
    "no map": (lambda reply: {"target": reply["target"]}, "has no output 'map'"),
    "fewer rows": (lambda reply: {**reply, "map": reply["map"][1:]}, "rows"),
    "another shape": (lambda reply: {**reply, "map": reply["map"][..., 0]}, "has shape"),
    "another type": (lambda reply: {**reply, "map": reply["map"].astype(np.float64)}, "of type float64"),
    "a status": (lambda _: raised(serving.ServerError("INTERNAL", "two\nlines")), "INTERNAL: two lines"),
    "no end": (lambda reply: time.sleep(0.7) or reply, "DEADLINE_EXCEEDED"),
}


def raised(error):
    raise error


@pytest.mark.parametrize("kind", LIES)
def test_a_server_that_lies_is_one_line_and_leaves_nothing_half_written(score, server, capsys, tmp_path, kind):
    change, word = LIES[kind]
    honest, asked = server.models["bim_scene"][1]["explain_gradient"], []

    def answer(arrays):
        asked.append(1)
        reply = honest.answer(arrays)
        return change(reply) if len(asked) > 1 else reply  # in the middle

    server.models["bim_scene"] = {1: {**server.models["bim_scene"][1]}}
    server.models["bim_scene"][1]["explain_gradient"] = dataclasses.replace(honest, answer=answer)
    flags = ["--metrics=MCS", "--methods=gradient", "--nocontrols", f"--server={server.grpc_address}"]
    code, rows = score(*flags, "--deadline=0.5" if kind == "no end" else "--deadline=60")
    error = capsys.readouterr().err.splitlines()
    assert code == 2 and rows is None and len(asked) > 1
    assert error[-1].startswith("error: grpc://") and word in error[-1]
    assert not [line for line in error if "Traceback" in line]
    assert {path.name.partition("-")[0] for path in tmp_path.rglob("*") if path.is_file()} <= {"scores.sqlite"}
    server.models["bim_scene"][1]["explain_gradient"] = honest
    assert score(*flags)[0] == 0 and score(*flags) == score(*flags, scores="alone")


def test_methods_made_of_a_layer_by_any_of_its_names(server):
    with serving.Client(server.grpc_address) as client:
        model = served.served_classifier(client, "bim_obj")
        assert model.layer("block_layer4") == model.layer() == model.layer("resnet_model/block_layer4")
        with pytest.raises(BadInput, match=r"has gradients of .*block_layer4', not of layer 'block_layer3'"):
            model.layer("block_layer3")


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


def test_a_classifier_of_other_things_is_refused(server, signatures):
    specs = signatures["obj"]["explanation_scores"].specs
    signature = ServedSignature(
        Signature(specs.inputs, {"y": TensorSpec(np.dtype(np.float32), (None, 3))}),
        lambda arrays: {"y": np.zeros((len(next(iter(arrays.values()))), 3), np.float32)},
    )
    server.models["three"] = {1: {"serving_default": signature}}
    with serving.Client(server.grpc_address) as client, pytest.raises(BadInput, match="has 3 classes"):
        served.served_classifier(client, "three")


def test_every_default_method_can_be_made_of_three_exported_ones(server):
    with serving.Client(server.grpc_address) as client:
        model = served.served_classifier(client, "bim_obj")
        methods = {name: method_named(name) for name in PRINTED}
        served.check_methods([model], methods)
    assert set(server.asked) == {("bim_obj", "explanation_sheet")}
