"""Two served models side by side: every figure against a closed form, and the script end to end."""

import importlib.util
import json
import os
import pathlib

import numpy as np
import pytest
from stand_in import ServedSignature, StandIn

from attribution import cli
from attribution.errors import BadInput
from attribution_benchmarks import serving
from attribution_benchmarks.serving._protocols import Signature, TensorSpec
from attribution_benchmarks.stats import statistics
from bim import classifiers, dataset, served
from bim.attributions import method_named

SIDE = 8
FLOAT = np.dtype(np.float32)
SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "compare_served_models.py"


def linear(seed, size=SIDE):
    """A served model whose ten scores are linear in its pixels."""
    weights = np.random.default_rng(seed).normal(size=(size * size * 3, 10))
    specs = Signature({"image": TensorSpec(FLOAT, (None, size, size, 3))}, {"scores": TensorSpec(FLOAT, (None, 10))})

    def answer(arrays):
        return {"scores": (arrays["image"].reshape(-1, len(weights)) @ weights).astype(np.float32)}

    return {"serving_default": ServedSignature(specs, answer)}


@pytest.fixture
def server():
    models = {"first": {1: linear(0)}, "twin": {1: linear(0)}, "second": {1: linear(1)}, "large": {1: linear(0, 16)}}
    with StandIn(models) as running:
        yield running


@pytest.fixture
def images(copy_sets, server, tmp_path):
    """Sets labelled with what the first model sees in them, but for every fourth image."""
    data_dir = copy_sets(str(tmp_path / "data"))
    with serving.Client(server.grpc_address) as client:
        model = serving.ServedModel(client, "first")
        found = dataset.load_set(data_dir, "obj")
        labels = model.predict(classifiers.network_inputs(found.images(range(len(found))), SIDE))
    labels[::4] = (labels[::4] + 1) % 10
    for name in ("obj", "scene"):
        with open(os.path.join(data_dir, name, "val.txt"), "w") as file:
            file.writelines(f"{image} {label}\n" for image, label in zip(found.names, labels, strict=True))
    return data_dir


def run(server, data_dir, names, rows, methods=("occlusion",)):
    sets = {name: dataset.load_set(data_dir, name) for name in ("obj", "scene")}
    chosen = {name: method_named(name) for name in methods}
    with serving.Client(server.grpc_address) as client:
        models = [serving.ServedModel(client, name) for name in names]
        return served.compare(models, names, ("obj", "obj"), sets, rows, chosen, batch_size=4)


def figures(rows):
    return {(row["model"], row["method"], row["metric"]): row for row in rows}


def test_a_model_and_its_twin_agree_in_everything(server, images):
    rows = run(server, images, ("first", "twin"), range(8))
    found, both = figures(rows), "first, twin"
    assert found[both, "prediction", "agreement"]["value"] == 1
    assert found[both, "occlusion", "correlation"]["value"] == pytest.approx(1)
    assert found[both, "occlusion", "mcs"]["value"] == 0 and found[both, "occlusion", "mcs"]["n"] == 6
    assert found["first", "prediction", "accuracy"]["value"] == found["twin", "prediction", "accuracy"]["value"] == 0.75
    assert {"method", "metric", "value", "low", "high", "n", "paper", "kind"} <= set(rows[0])


def test_other_models_are_compared_map_by_map(server, images):
    rows, both = [0, 3, 5, 9, 11], "first, second"
    found = figures(run(server, images, ("first", "second"), rows))
    singles = [figures(run(server, images, ("first", "second"), [row])) for row in rows]
    for metric in ("correlation", "mcs"):
        one_by_one = [one[both, "occlusion", metric]["value"] for one in singles if one[both, "occlusion", metric]["n"]]
        row = found[both, "occlusion", metric]
        assert row["n"] == len(one_by_one)
        expected = statistics.mean_interval(np.array(one_by_one)) if one_by_one else (None, None, None)
        assert [row[name] for name in ("value", "low", "high")] == pytest.approx(list(expected)[:3], rel=1e-5)
        assert ("reason" in row) == (not one_by_one)
    assert abs(found[both, "occlusion", "correlation"]["value"]) < 0.9


def test_latencies_and_throughput_by_a_clock_of_ours():
    ticks = iter(np.cumsum([0, 9, 0, 9, 0, 1, 0, 2, 0, 3, 0, 4]))  # begin and end of each request, in turn

    class Quick:
        def scores(self, inputs, batch_size):
            assert batch_size == len(inputs) == 4

    rows = served.time_requests([Quick(), Quick()], ("a", "b"), np.zeros((4, 2)), 2, clock=lambda: next(ticks))
    found = figures(rows)  # of 1 and 3 seconds, and of 2 and 4: the first of each does not count
    assert found["a", "prediction", "latency_p50_ms"]["value"] == 2000
    assert found["b", "prediction", "latency_p90_ms"]["value"] == pytest.approx(3800)
    assert found["b", "prediction", "images_per_second"]["value"] == pytest.approx(8 / 6)
    assert "latency_p50_ms" in served.report(rows)


def test_what_each_model_tells():
    assert served.kinds_of(("bim_obj", "bim_scene@2"), []) == ("obj", "scene")
    assert served.kinds_of(("bim_scene3", "bim_scene_only"), []) == ("scene", "scene")
    assert served.kinds_of(("mine", "yours"), ["scene", "obj"]) == ("scene", "obj")
    with pytest.raises(BadInput, match="unknown labels of 'mine'"):
        served.kinds_of(("bim_obj", "mine"), [])
    with pytest.raises(BadInput, match="expected one of 'obj', 'scene' for each"):
        served.kinds_of(("a", "b"), ["obj"])


@pytest.fixture
def script():
    specification = importlib.util.spec_from_file_location("compare_served_models", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_script(script, server, images, tmp_path, capsys):
    def call(*flags):
        arguments = ["compare", f"--data_dir={images}", "--methods=occlusion,random", "--num_imgs=5", *flags]
        return cli.execute(script.main, script.FLAGS, script.__doc__, arguments)

    output = tmp_path / "compared.json"
    flags = [f"--server={server.rest_address}", "--labels=obj,scene", "--batch_size=2", "--requests=3"]
    assert call(*flags, "--models=first,second", f"--output={output}") == 0
    printed = capsys.readouterr().out
    assert "first" in printed and "correlation" in printed
    document = json.loads(output.read_text())
    assert document["benchmark"] == "bim" and set(document["manifest"]["models"]) == {"first", "second"}
    metrics = {row["metric"] for row in document["rows"]}
    assert metrics == {
        "accuracy", "correlation", "mcs", "latency_p50_ms", "latency_p90_ms", "latency_p99_ms",
        "images_per_second",
    }  # fmt: skip
    for wrong, message in [
        (["--models=first,second"], "--server is empty"),
        ([*flags, "--models=first"], "expected two different served models"),
        ([*flags, "--models=first,first"], "expected two different served models"),
        ([*flags, "--models=first,large"], "takes images of 8 pixels and large of 16"),
        ([*flags, "--models=first,absent"], "Servable not found for request: Latest(absent)"),
        ([*flags, "--models=first,second", "--methods=gradient"], "method 'gradient': "),
    ]:
        assert call(*wrong) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: ") and message in error
