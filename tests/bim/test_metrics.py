"""The command, end to end: against the authors' steps one by one, and what it keeps on disk."""

import contextlib
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import attribution
from attribution import cli
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.evaluation import evaluated
from attribution_benchmarks.core.scores import Scores, summarised
from attribution_benchmarks.core.store import ScoreStore
from bim import classifiers, data, layout, metrics, scores
from bim.evaluation import _Measured, _pair
from bim.methods import MAPS

pytestmark = pytest.mark.usefixtures("load_once")
FAST = "grad_cam,gradient,gradient_x_input"


@pytest.fixture(scope="module")
def labelled(copy_sets, upstream_models, tmp_path_factory):
    """Sets whose labels are what the untrained models predict, but for every fifth image."""
    data_dir = copy_sets(str(tmp_path_factory.mktemp("labelled")))
    for set_name, model_name in (("obj", "obj"), ("scene", "scene"), ("scene_only", "scene")):
        images = data.load_set(data_dir, set_name)
        model = classifiers.load_classifier(upstream_models, model_name, tensors=True)
        labels = model.predict(classifiers.network_inputs(images.images(range(len(images))), 32))
        labels[::5] = (labels[::5] + 1) % 10
        with open(os.path.join(data_dir, set_name, "val.txt"), "w") as file:
            file.writelines(f"{name} {label}\n" for name, label in zip(images.names, labels, strict=True))
    return data_dir


def run(tmp_path, labelled, upstream_models, *flags):
    arguments = [
        "metrics", f"--data_dir={labelled}", f"--models_dir={upstream_models}", "--compat=upstream",
        f"--scores_dir={tmp_path / 'scores'}", f"--output={tmp_path / 'out.json'}", *flags,
    ]  # fmt: skip
    assert cli.execute(metrics.main, metrics.FLAGS, metrics.__doc__, arguments) == 0
    return json.loads((tmp_path / "out.json").read_text())


def upstream_score(labelled, loaded, metric, name, rows):
    """Follow the authors' code image by image: maps, 99th percentile, box, mask, mean, comparison."""
    differences = []
    for row in rows:
        attributions, right = [], True
        for model_name, set_name in {
            "MCS": [("obj", "obj"), ("scene", "scene")],
            "IDR": [("scene", "scene_only"), ("scene", "scene")],
        }[metric]:
            folder = os.path.join(labelled, set_name)
            with open(os.path.join(folder, "val.txt")) as file:
                file_name, label = file.readlines()[row].split()
            with open(os.path.join(folder, "val_loc.txt")) as file:
                corners = file.readlines()[row].split(" ")[-1].split(",")
            box = [int(int(corner) * 32.0 / 128) for corner in corners]
            picture = Image.open(os.path.join(folder, "val", file_name)).convert("RGB")
            image = np.array(picture.resize((32, 32), Image.BILINEAR), np.float32) - layout.CHANNEL_MEANS
            model = loaded[model_name]
            predicted = model.predict(image[None])[0]
            right = right and predicted == int(label)
            key = f"{model_name}-{set_name}/{file_name}"
            saliency = attribution.explain(MAPS[name], model, image[None], batch_size=1, seed=0, keys=[key])[0]
            saliency = np.repeat(saliency[..., None], 3, 2) if saliency.ndim == 2 else saliency
            flat = saliency.clip(min=0).sum(axis=2)
            with np.errstate(invalid="ignore", divide="ignore"):
                scaled = np.clip((flat - flat.min()) / (np.percentile(flat, 99) - flat.min()), 0, 1)
            parts = file_name.split(".")[0].split("-")
            mask = data.load_masks(os.path.join(labelled, set_name))[f"{parts[0]}-{parts[2]}"]
            size = (box[3] - box[1], box[2] - box[0])
            placed = np.array(Image.fromarray(mask.astype(np.uint8)).resize(size, Image.BILINEAR))
            inside = scaled[box[0] : box[2], box[1] : box[3]] * placed
            attributions.append(inside.sum() / np.count_nonzero(placed))
        if right:
            differences.append(attributions[0] - attributions[1])
    return np.mean(differences) if metric == "MCS" else np.mean([d > 0 for d in differences]), len(differences)


def test_upstream_numbers_on_tensorflow_1_models(tmp_path, labelled, upstream_models, capsys):
    methods = "gradient,gradient_x_input,smoothgrad,grad_cam"
    found = run(
        tmp_path, labelled, upstream_models, "--metrics=MCS,IDR", "--num_imgs=6", f"--methods={methods}", "--nocontrols"
    )
    rows = scores.sample_rows(200, 6, 0)
    loaded = {name: classifiers.load_classifier(upstream_models, name, tensors=True) for name in ("obj", "scene")}
    assert len(found["rows"]) == 8
    for row in found["rows"]:
        expected, count = upstream_score(labelled, loaded, row["metric"].upper(), row["method"], rows)
        assert row["n"] == count and 0 < count < 6
        if np.isnan(expected):
            assert row["value"] is None and "flat" in row["reason"]
        else:
            assert row["value"] == pytest.approx(expected, abs=1e-4), row
    assert found["benchmark"] == "bim" and set(found["manifest"]["models"]) == {"obj", "scene"}
    assert "MCS, model contrast score" in capsys.readouterr().out


def test_a_second_run_explains_nothing_and_says_the_same(tmp_path, labelled, upstream_models, monkeypatch):
    first = run(tmp_path, labelled, upstream_models, "--metrics=MCS", "--num_imgs=6", f"--methods={FAST}")
    (group,) = Scores.load(tmp_path / "out.json").groups
    for row in first["rows"]:
        assert row["value"] == pytest.approx(np.mean(group.values[row["method"]])) and row["n"] == len(group.inputs)
    monkeypatch.setattr(attribution, "explain_many", lambda *_, **__: pytest.fail("explained again"))
    assert run(tmp_path, labelled, upstream_models, "--metrics=MCS", "--num_imgs=6", f"--methods={FAST}") == first


def test_a_metric_of_ones_own_reads_the_object_models_maps_and_maps_saved_give_the_same(
    tmp_path, labelled, upstream_models
):
    (tmp_path / "own.py").write_text(
        "import numpy as np\nfrom attribution_benchmarks.core.metric import mask_of, of_maps\n"
        "def inside(maps, block, scores):\n"
        "    maps = np.abs(maps).sum(axis=3) if maps.ndim == 4 else np.abs(maps)\n"
        "    return (maps * mask_of(block)).sum(axis=(1, 2)) / maps.sum(axis=(1, 2))\n"
        "INSIDE = of_maps('inside', inside, title='Inside', masks=True)\n"
    )
    flags = ["--metrics=MCS,inside", "--num_imgs=8", "--methods=gradient", f"--save_maps={tmp_path / 'maps'}"]
    flags[0] = f"--metrics=MCS,{tmp_path / 'own.py'}:INSIDE"
    first = run(tmp_path, labelled, upstream_models, *flags)
    found = {(row["method"], row["metric"]): row for row in first["rows"]}
    images = data.load_set(labelled, "obj")
    rows = scores.sample_rows(200, 8, 0)
    model = classifiers.load_classifier(upstream_models, "obj", tensors=True)
    right = model.predict(classifiers.network_inputs(images.images(rows), 32)) == images.labels[rows]
    assert found["gradient", "inside"]["n"] == right.sum() and 0 < found["gradient", "inside"]["value"] < 1
    assert found["random", "inside"]["kind"] == "control"
    folder = tmp_path / "maps" / "gradient" / "obj-obj"
    assert len(list(folder.glob("*.npy"))) == 8 and np.load(next(folder.iterdir())).shape == (32, 32, 3)
    again = run(tmp_path, labelled, upstream_models, *flags[:2], f"--precomputed_maps={tmp_path / 'maps'}")
    assert [(row["method"], row["value"]) for row in again["rows"]] == [
        (row["method"], row["value"]) for row in first["rows"]
    ]


@pytest.fixture
def compare(bim_run, labelled):
    """Compare the networks of objects and of scenes; scores are stored in a directory."""

    def run(models_dir, scores_dir, *flags):
        evaluation = bim_run(
            f"--data_dir={labelled}", f"--models_dir={models_dir}", f"--scores_dir={scores_dir}", "--compat=upstream",
            "--metrics=MCS", "--methods=gradient", "--num_imgs=12", "--batch_size=4", *flags,
        )  # fmt: skip
        return evaluated(evaluation).groups[0].values

    return run


def test_a_changed_model_or_image_reuses_no_score(tmp_path, labelled, compare, upstream_models):
    models_dir = str(tmp_path / "models")
    shutil.copytree(upstream_models, models_dir)
    before = compare(models_dir, tmp_path / "scores")["gradient"]
    shutil.rmtree(os.path.join(models_dir, "obj"))
    shutil.copytree(os.path.join(upstream_models, "scene_only"), os.path.join(models_dir, "obj"))
    after = compare(models_dir, tmp_path / "scores")["gradient"]
    assert before.tolist() != after.tolist()
    data_dir = str(tmp_path / "data")
    shutil.copytree(labelled, data_dir)
    images = data.load_set(data_dir, "obj")
    row = scores.sample_rows(200, 12, 0)[0]
    digest = images.digest([row])
    Image.fromarray(255 - images.images([row])[0]).save(images.path(row))
    assert images.digest([row]) != digest


def test_controls_that_see_no_model_have_no_contrast(tmp_path, compare, upstream_models):
    values = compare(upstream_models, tmp_path, "--methods=", "--num_imgs=40")
    assert not values["centre_prior"].any() and not values["edge_detector"].any()
    assert 0 < np.abs(values["random"]).max() and abs(values["random"].mean()) < 0.02


def row_of(values, flat=(), right=True):
    """The row of a method with attributions ``values`` minus none, on images that are right, or not."""
    source, count = MapSource("gradient"), len(values)
    labels = np.zeros(count, np.int64)
    first, second = (
        _Measured(
            labels if right else labels + 1,
            labels,
            {source: np.array(numbers)},
            {source: np.isin(range(count), flat)},
            {},
        )
        for numbers in (values, np.zeros(count))
    )
    (row,) = summarised(_pair("mcs", first, second, count, ["a"] * count), scores.METRICS["mcs"])
    return row


def test_no_correct_image_is_said_and_not_a_number_in_silence():
    row = row_of([0.1, 0.3], right=False)
    assert row["n"] == 0 and row["value"] is None and "no image is classified correctly by both" in row["reason"]


def test_flat_maps_are_counted_and_upstreams_nan_gets_its_reason():
    house = row_of([0.1, 0.3], flat=[1])
    assert house["flat"] == 1 and house["value"] == pytest.approx(0.2) and "reason" not in house
    upstream = row_of([0.1, np.nan], flat=[1])
    assert upstream["value"] is None and "0 / 0" in upstream["reason"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--metrics=MCS,MSC", "--metrics has no 'MSC'"),
        ("--methods=gradinet", "no method 'gradinet'"),
        ("--data_dir=nowhere", "no folder nowhere"),
        ("--models_dir=nowhere", "no model 'obj' in nowhere"),
        ("--output=scores.xls", "scores.xls"),
    ],
)
def test_bad_input_is_one_line_and_code_2(sets, tmp_path, capsys, flag, message):
    arguments = ["metrics", f"--data_dir={sets}", f"--scores_dir={tmp_path}", flag]
    assert cli.execute(metrics.main, metrics.FLAGS, metrics.__doc__, arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("error: ") and not captured.out
    assert captured.err.count("\n") == 1


def test_blocks_on_beam_give_the_same_bytes(tmp_path, labelled, upstream_models, capsys, monkeypatch):
    """The works are made by the door, as in a worker, and not handed over; a run of fewer methods went before."""
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.beam import pipeline

    monkeypatch.setattr(pipeline, "provide_works", lambda *_: contextlib.nullcontext())
    few = ("--num_imgs=7", "--batch_size=2", "--metrics=MCS,IDR,pointing_game")

    def scored(folder, methods, *way):
        arguments = (*few, f"--methods={methods}", f"--scores_dir={tmp_path / folder}", *way)
        run(tmp_path, labelled, upstream_models, *arguments)
        return capsys.readouterr().out, (tmp_path / "out.json").read_bytes(), ScoreStore(tmp_path / folder).contents()

    scored("blocks", "gradient")
    alone = scored("alone", "gradient,smoothgrad")
    assert scored("blocks", "gradient,smoothgrad", "--runner=beam", "--block_size=4") == alone
    assert list((tmp_path / "blocks" / "blocks").rglob("*.jsonl"))
