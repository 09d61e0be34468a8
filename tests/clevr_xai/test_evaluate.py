"""The command: its tables and files, maps out and in again, and every refusal in one line."""

import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from attribution_benchmarks.command_line.run import execute
from clevr_xai import evaluate

FEW = ("--methods=lrp_clevr_xai,gradient,grad_cam,vargrad", "--samples=2", "--batch_size=6")


@pytest.fixture
def command(small_network, answered, tmp_path, capsys):
    """Return a runner of the command: exit code, standard output, standard error."""

    def run(*arguments, model=True):
        given = [f"--data_dir={answered}", f"--scores_dir={tmp_path / 'scores'}"]
        given += [f"--model={small_network}"] if model else []
        code = execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, ["evaluate", *given, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_path_from_the_median_is_said(command, tmp_path):
    scores = {}
    for baseline in ("black", "median"):
        few = ("--methods=integrated_gradients", "--controls=", "--steps=3", "--num_questions=4")
        file = tmp_path / f"{baseline}.json"
        code, out, err = command(*few, f"--baseline={baseline}", f"--output={file}")
        assert code == 0, err
        assert ("begins at each image's median colour" in out) == (baseline == "median")
        scores[baseline] = [row["value"] for row in json.loads(file.read_text())["rows"]]
    assert len(scores["black"]) == len(scores["median"]) and scores["black"] != scores["median"]
    code, out, _ = command("--methods=gradient", "--controls=", "--num_questions=4", "--baseline=median")
    assert code == 0 and "median colour" not in out


def test_one_run_writes_tables_scores_maps_and_pictures(command, tmp_path, small_network):
    files = {name: tmp_path / name for name in ("out.json", "out.md", "inputs.json", "maps", "plots")}
    arguments = (*FEW, f"--input_scores={files['inputs.json']}", f"--maps_dir={files['maps']}",
                 f"--plot_dir={files['plots']}", "--num_pictures=2", "--pooling=all")  # fmt: skip
    code, out, err = command(*arguments, f"--output={files['out.json']}")
    assert code == 0, err
    assert "CLEVR-XAI, simple questions: 12 of 12 drawn" in out
    assert "11 answered rightly (91.7 %) and counted, 1 wrongly and skipped" in out
    assert "means by pooling" in out and "wrong class" in out and "Edge detector" in out
    document = json.loads(files["out.json"].read_text())
    assert document["benchmark"] == "clevr_xai"
    names = {row["method"] for row in document["rows"]}
    assert {"lrp_clevr_xai", "gradient/wrong_class", "grad_cam/random_weights", "uniform"} <= names
    assert "vargrad/wrong_class" not in names  # costs too much by default
    rows = [row for row in document["rows"] if row["subset"] == "all" and row["method"] == "gradient"]
    assert len(rows) == 2 * 10 and all(0 <= row["p20"] <= row["median"] <= row["p80"] <= 1 for row in rows)
    manifest = document["manifest"]
    assert manifest["seed"] == 0 and list(manifest["models"]) == [str(small_network)]
    assert "--samples=2" in manifest["command"] and "plots" not in manifest["command"]
    groups = json.loads(files["inputs.json"].read_text())["groups"]
    assert [group["where"]["metric"] for group in groups] == ["mass", "rank"] and len(groups[0]["inputs"]) == 11
    first = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    pictures = [path for path in first if path.suffix == ".png"]
    assert [path.name for path in pictures][:2] == ["mass_single_object.png", "question_0.png"] and len(pictures) == 4
    for path in pictures:
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5
    assert len(list(files["maps"].rglob("*.npy"))) == 4 * 11

    code, again, _ = command(*arguments, f"--output={files['out.md']}")  # everything from the store
    assert code == 0 and again == out
    assert "| Gradient | " in files["out.md"].read_text()
    assert all(path.read_bytes() == content for path, content in first.items())


def test_saved_maps_give_the_same_rows(command, tmp_path):
    maps = tmp_path / "maps"
    code, _, err = command(*FEW, "--controls=uniform", f"--maps_dir={maps}", f"--output={tmp_path / 'a.json'}")
    assert code == 0, err
    # The small network's maps have 64 pixels, and so must the masks.
    code, _, err = command(
        "--controls=uniform",
        f"--from_maps={maps}",
        f"--output={tmp_path / 'b.json'}",
        "--num_questions=all",
        model=False,
    )
    assert code == 0, err
    saved, explained = (
        {
            (row["method"], row["metric"], row["pooling"]): row["mean"]
            for row in json.loads((tmp_path / name).read_text())["rows"]
            if row["subset"] == "all"
        }
        for name in ("b.json", "a.json")
    )
    assert saved.keys() == explained.keys()
    for key, mean in explained.items():
        assert saved[key] == pytest.approx(mean, abs=1e-4), key


def test_complex_questions_are_scored_against_their_own_masks(command, tmp_path):
    code, out, err = command("--questions=complex", "--methods=gradient", "--controls=uniform", "--metrics=rank",
                             "--subset=all", f"--output={tmp_path / 'out.json'}")  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [row["ground_truth"] for row in rows if row["method"] == "gradient" and row["pooling"] == "max-norm"] == [
        "unique", "unique_firstnonempty", "union",
    ]  # fmt: skip
    missing = {row["ground_truth"]: row["without_mask"] for row in rows}
    if missing["unique"]:
        assert f"{missing['unique']} of them have no mask 'unique' and do not count there" in out
    assert all(row["n"] + row["undefined"] + row["without_mask"] == 11 for row in rows)


def test_a_method_of_ones_own(command, tmp_path):
    (tmp_path / "own.py").write_text("def squared(passes):\n    return passes.input_gradient() ** 2\n")
    code, out, err = command(
        f"--methods={tmp_path / 'own.py'}:squared", "--controls=", "--metrics=mass", "--num_questions=2"
    )
    assert code == 0, err
    assert "squared" in out and "poster:" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics=mass,area"], "--metrics has no 'area'; choose of 'mass', 'rank'"),
        (["--metrics="], "--metrics is empty"),
        (["--ground_truth=union"], "--ground_truth has no 'union'; choose of 'single_object', 'all_objects'"),
        (["--pooling=l3"], "--pooling has no 'l3'; choose of 'sum,abs'"),
        (["--controls=noise"], "--controls has no 'noise'; choose of 'wrong_class'"),
        (["--subset=small"], "--subset has no 'small'"),
        (["--methods=random"], "'random' is a control; ask for it with --controls=random"),
        (["--methods=gradiant"], "no method 'gradiant'; did you mean"),
        (["--methods=", "--controls="], "--methods is empty and there are no controls"),
        (["--methods=gradient", "--control_methods=vargrad"], "--control_methods has 'vargrad', which is not scored"),
        (["--cam_layer=conv9"], "the model has no layer 'conv9'"),
        (["--output=scores.xls"], "--output='scores.xls' ends in none of"),
        (["--from_maps=maps"], "--from_maps asks no network; leave out --model and --maps_dir"),
        (["--maps_pooling=l1-norm"], "--maps_pooling says how to save maps; name the folder with --maps_dir"),
        (["--num_questions=0"], "must be a positive number or 'all'"),
        (["--steps=0"], "flag --steps=0: 0 is not a positive integer"),
        (["--model=nowhere"], "'nowhere' does not exist"),
        (["--data_dir=nowhere"], "no directory nowhere"),
        (["--plot_dir=/proc/a/b"], "cannot be written to"),
        (["--questions=hard"], "value should be one of <simple|complex>"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*arguments)
    assert code == 2 and out == ""
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_is_never_right_has_nothing_to_score(command, answered, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    for path in pathlib.Path(answered).iterdir():
        if path.suffix != ".json":
            (wrong / path.name).symlink_to(path.resolve())
    document = json.loads((answered / "CLEVR-XAI_simple_questions.json").read_text())
    for question in document["questions"]:
        question["answer"] = "no" if question["answer"] != "no" else "yes"
    document["questions"].pop()
    (wrong / "CLEVR-XAI_simple_questions.json").write_text(json.dumps(document))
    code, out, err = command("--methods=gradient", f"--data_dir={wrong}")
    assert code == 2 and out == ""
    assert "none of the 11 questions is answered rightly; there is nothing to score" in err
