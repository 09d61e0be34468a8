"""The command: its tables and files, maps out and in again, and every refusal in one line."""

import contextlib
import json
import re
import shutil

import numpy as np
import pytest

from attribution.cli import execute
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import evaluate, evaluation, layout
from clevr_xai.data import Dataset

FEW = ("--methods=lrp_clevr_xai,gradient,grad_cam,vargrad", "--samples=2", "--batch_size=6", "--random_networks=2")


@pytest.fixture
def command(small_network, answered, load_once, tmp_path, capsys):
    """Return a runner of the command: exit code, standard output, standard error."""

    def run(*arguments, model=True):
        given = [f"--data_dir={answered}", f"--scores_dir={tmp_path / 'scores'}"]
        given += [f"--model={small_network}"] if model else []
        code = execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, ["evaluate", *given, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_integrated_gradients_has_a_row_for_each_baseline(command, tmp_path):
    paths = ("integrated_gradients", "integrated_gradients_gray", "integrated_gradients_median")
    few = (f"--methods={','.join(paths)}", "--controls=", "--steps=32", "--num_questions=3", "--metrics=mass")
    files = [tmp_path / name for name in ("whole.json", "refined.json", "by_default.json")]
    code, out, err = command(*few, "--map_error=0", f"--output={files[0]}")
    assert code == 0, err
    assert "by this share of it (median): IG from black" in " ".join(out.split())
    assert "IG from black" in out and "IG from gray" in out and "IG from the median" in out
    assert "Integrated Gradients begins is not known" in " ".join(out.split())
    assert command(*few, "--tolerance=0.02", f"--output={files[1]}")[0] == 0
    assert command(*few, f"--output={files[2]}")[0] == 0
    whole, refined, by_default = (
        {row["method"]: row for row in json.loads(file.read_text())["rows"] if row["subset"] == "all"} for file in files
    )
    assert list(whole) == list(refined) == list(paths) and len({row["value"] for row in whole.values()}) == 3
    assert all(0 <= row["gap"] < 1 for row in (*whole.values(), *refined.values()))
    assert 0 < max(abs(by_default[name]["value"] - whole[name]["value"]) for name in paths) < 0.01
    code, out, _ = command("--methods=gradient", "--controls=", "--num_questions=4")
    assert code == 0 and "by this share of it" not in out and "is not known" not in out


def test_one_run_writes_tables_scores_maps_and_pictures(command, tmp_path, small_network):
    files = {name: tmp_path / name for name in ("out.json", "out.md", "maps", "plots")}
    arguments = (*FEW, f"--save_maps={files['maps']}", f"--plot_dir={files['plots']}", "--pooling=all")  # fmt: skip
    code, out, err = command(*arguments, f"--output={files['out.json']}")
    assert code == 0, err
    assert "CLEVR-XAI, simple questions: 12 of 12 drawn" in out
    assert "11 answered correctly (91.7 %) and counted, 1 wrongly and skipped" in out
    assert "means by pooling" in out and "wrong class" in out and "Edge detector" in out
    document = json.loads(files["out.json"].read_text())
    assert document["benchmark"] == "clevr_xai"
    names = {row["method"] for row in document["rows"]}
    assert {"lrp_clevr_xai", "gradient/wrong_class", "grad_cam/random_weights", "uniform"} <= names
    assert "vargrad/wrong_class" not in names  # costs too much by default
    rows = [row for row in document["rows"] if row["subset"] == "all" and row["method"] == "gradient"]
    assert len(rows) == 2 * 10 and all(0 <= row["p20"] <= row["median"] <= row["p80"] <= 1 for row in rows)
    (under,) = (
        row for row in document["rows"]
        if row["method"] == "grad_cam/random_weights" and row["subset"] == "all" and row["metric"] == "mass"
        and row["pooling"] == "l2-norm,sq"
    )  # fmt: skip
    assert len(under["networks"]) == 2 and under["value"] == pytest.approx(np.mean(under["networks"]))
    least, largest = (f"{end(under['networks']):.3f}" for end in (min, max))
    assert f"{under['value']:.3f} [{least}, {largest}]" in out
    assert "Each has the trained weights in random order." in " ".join(out.split())
    manifest = document["manifest"]
    assert manifest["seed"] == 0 and list(manifest["models"]) == [str(small_network)]
    assert "--samples=2" in manifest["command"] and "plots" not in manifest["command"]
    groups = document["groups"]
    assert [group["where"]["metric"] for group in groups] == ["mass", "rank"] and len(groups[0]["inputs"]) == 11
    assert {"gradient/random_weights#1", "gradient/random_weights#2"} < groups[0]["values"].keys()
    first = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*.*")) if "sqlite" not in path.name}
    assert [path.name for path in first if path.suffix == ".png"] == ["simple.png"]
    assert len(list(files["maps"].rglob("*.npy"))) == 4 * 11

    code, again, _ = command(*arguments, f"--output={files['out.md']}")  # everything from the store
    assert code == 0 and again == out
    assert "| Vanilla Gradient | " in files["out.md"].read_text()
    assert all(path.read_bytes() == content for path, content in first.items())
    # The small network's maps have 64 pixels, and so must the masks.
    output = tmp_path / "saved.json"
    few = ("--controls=uniform", "--num_questions=all", "--subset=all", f"--output={output}")
    code, _, err = command(*few, f"--precomputed_maps={files['maps']}", model=False)
    assert code == 0, err
    explained = {(row["method"], row["metric"], row["pooling"]): row["value"] for row in document["rows"]
                 if row["subset"] == "all"}  # fmt: skip
    saved = json.loads(output.read_text())["rows"]
    assert len(saved) == 5 * 2 * 10
    for row in saved:
        expected = explained[row["method"], row["metric"], row["pooling"]]
        assert row["value"] == pytest.approx(expected, abs=1e-4), row


def test_saved_maps_of_some_questions_and_answers_beside_them(command, tmp_path):
    maps = tmp_path / "maps"
    code, _, err = command("--methods=gradient,grad_cam", "--controls=", f"--save_maps={maps}")
    assert code == 0, err
    answers = json.loads((maps / "predictions.json").read_text())
    assert len(answers) == 11
    answers[3]["answer"] = "purple" if answers[3]["answer"] != "purple" else "red"
    (maps / "predictions.json").write_text(json.dumps(answers))
    for answer in answers[:2]:
        (maps / "grad_cam" / f"{answer['question_index']}.npy").unlink()
    files = f"--output={tmp_path / 'out.json'}", f"--plot_dir={tmp_path / 'plots'}"
    code, out, err = command(f"--precomputed_maps={maps}", *files, model=False)
    assert code == 0, err
    assert "9 of 12 drawn, saved maps" in out and "8 answered correctly (88.9 %) and counted, 1 wrongly" in out
    (mass, _) = json.loads((tmp_path / "out.json").read_text())["groups"]
    counted = [str(answer["question_index"]) for answer in answers[2:3] + answers[4:]]
    assert mass["inputs"] == counted and set(mass["values"]) == {
        "gradient", "grad_cam", "uniform", "random", "edge_detector"
    }  # fmt: skip
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["simple.png"]
    assert "the subset 'confident' is skipped" in err
    (tmp_path / "own.py").write_text(METRIC)
    code, out, err = command(f"--precomputed_maps={maps}", f"--metrics={tmp_path / 'own.py'}:CONFIDENT", model=False)
    assert code == 2 and out == "" and "--precomputed_maps loads no network, and a metric needs one" in err
    for path in (maps / "grad_cam").glob("*.npy"):
        path.rename(path.with_name(f"9{path.name}"))
    code, out, err = command(f"--precomputed_maps={maps}", model=False)
    assert code == 2 and "none of the questions drawn has maps of all methods" in err


METRIC = """
import numpy as np

from attribution_benchmarks.core.metric import of_maps


def confident(maps, block, scores):
    chosen = scores(block.inputs)
    return chosen[np.arange(len(chosen)), block.targets] - chosen.mean(axis=1)


CONFIDENT = of_maps("confident", confident, title="Above the mean logit")
MASS = of_maps("mass", confident)
"""


def test_a_metric_of_ones_own_beside_the_benchmarks_or_alone(command, tmp_path):
    (tmp_path / "own.py").write_text(METRIC)
    asked = ("--questions=complex", "--ground_truth=union,unique", "--methods=gradient,grad_cam", "--subset=all",
             "--controls=wrong_class,uniform")  # fmt: skip
    found = {}
    for name, metrics in (("both", "mass,own.py:CONFIDENT"), ("plain", "mass"), ("alone", "own.py:CONFIDENT")):
        given = metrics.replace("own.py", str(tmp_path / "own.py"))
        code, out, err = command(*asked, f"--metrics={given}", f"--output={tmp_path / name}.json")
        assert code == 0, err
        assert ("Above the mean logit; more is better; ground truth Union: " in out) == (name != "plain")
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
    assert found["both"]["rows"] == found["plain"]["rows"] + found["alone"]["rows"]
    assert [(group["where"]["metric"], group["where"]["ground_truth"]) for group in found["both"]["groups"]] == [
        ("mass", "union"), ("mass", "unique"), ("confident", "union"),
    ]  # fmt: skip
    code, out, err = command(*asked, f"--metrics={tmp_path / 'own.py'}:MASS")
    assert code == 2 and "there is a metric called 'mass' already; give yours another name" in err


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


def test_questions_are_drawn_until_so_many_are_right(command, tmp_path):
    given = ("--methods=gradient", "--controls=edge_detector", "--metrics=mass", "--subset=all")
    code, out, err = command("--questions=complex", *given, "--num_correct=4")
    assert code == 0, err
    drawn = int(re.search(r"complex questions: (\d+) of 12 drawn", out)[1])
    assert f"4 answered correctly ({400 / drawn:.1f} %) and counted" in out and drawn in (4, 5)
    assert "none of them with a softmax above 0.99999, so that the poster's subset is empty" in out
    code, out, _ = command("--questions=complex", *given)  # as many as there are, where 300 are wanted
    assert code == 0 and "12 of 12 drawn" in out and "11 answered correctly" in out
    code, _, err = command(*given, "--num_correct=4", "--num_questions=5")
    assert code == 2 and "--num_correct determines the questions; leave out --num_questions" in err


def test_questions_about_large_masks_alone_are_drawn_among_these(command, answered):
    sizes = Dataset("simple", answered, size=64).masks("single_object", range(12))[0].sum((1, 2))
    bound = int(np.sort(sizes)[-4])
    given = ("--methods=gradient", "--controls=", "--metrics=mass", "--subset=large_mask", "--num_questions=2")
    code, out, err = command(*given, f"--min_mask_pixels={bound}")
    assert code == 0 and "2 of 12 drawn" in out and f"mask > {bound:,} px: 2 questions" in out, err
    code, _, err = command(*given, "--min_mask_pixels=99999")
    assert code == 2 and "no question has a mask of more than 99,999 pixels" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics=mass,area"], "--metrics has no 'area'; choose of 'mass', 'rank'"),
        (["--metrics="], "--metrics is empty"),
        (["--ground_truth=union"], "--ground_truth has no 'union'; choose of 'single_object', 'all_objects'"),
        (["--pooling=l3"], "--pooling has no 'l3'; choose of 'sum,abs'"),
        (["--controls=noise"], "--controls has no 'noise'; choose of 'wrong_class'"),
        (["--subset=small"], "--subset has no 'small'"),
        (["--methods=random"], "'random' is a control; select it with --controls=random"),
        (["--methods=gradiant"], "no method 'gradiant'; did you mean"),
        (["--methods=", "--controls="], "--methods is empty and there are no controls"),
        (["--methods=gradient", "--control_methods=vargrad"], "--control_methods has 'vargrad', which is not scored"),
        (["--layer=conv9"], "the model has no layer 'conv9'"),
        (["--precomputed_maps=maps"], "--precomputed_maps needs no network; leave out --model"),
        (["--data_dir=nowhere"], "no directory nowhere"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*arguments)
    assert code == 2 and out == ""
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_a_network_whose_card_names_another_wording_gets_a_warning(answered, asked, tmp_path, capsys):
    """A folder in the form of the release: without the settings of this project's generator."""
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    for path in answered.iterdir():
        if path.name != "CLEVR-XAI_simple_questions.json":
            (data / path.name).symlink_to(path.resolve())
    layout.write_json(data / "CLEVR-XAI_simple_questions.json", {"questions": asked["simple"][:20]})
    few = ["evaluate", f"--data_dir={data}", "--methods=gradient", "--controls=", "--metrics=mass",
           "--random_networks=0", "--scores_dir="]  # fmt: skip
    assert execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, few) == 0
    out, err = capsys.readouterr()
    assert "saved_models/clevr_xai/relation_network\n" in out and "warning" not in err
    assert int(re.search(r"(\d+) answered correctly", out)[1]) >= 18
    shutil.copytree(evaluation.MODELS / "relation_network", other)
    card = other / "MODEL_CARD.md"
    card.write_text(card.read_text().replace("in official and plain wording. The", "in plain wording. The"))
    few += ["--num_questions=1", f"--model={other}"]
    assert execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, few) == 0
    assert "was not trained on questions in official wording" in capsys.readouterr().err


def test_blocks_on_beam_give_the_same_bytes(command, tmp_path, monkeypatch):
    """The works are made by the door, as in a worker, and not handed over; a run of fewer questions went before."""
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.beam import pipeline

    monkeypatch.setattr(pipeline, "provide_works", lambda *_: contextlib.nullcontext())

    def scored(name, *way):
        few = ("--methods=gradient,grad_cam", "--batch_size=2", f"--scores_dir={tmp_path / name}")
        few += ("--controls=uniform,wrong_class",)
        assert command(*few, "--num_questions=5")[0] == 0
        code, out, err = command(*few, f"--output={tmp_path / name}.json", *way)
        assert code == 0, err
        return out, (tmp_path / f"{name}.json").read_bytes(), ScoreStore(tmp_path / name).contents()

    assert scored("alone") == scored("blocks", "--runner=beam", "--block_size=4")
    assert list((tmp_path / "blocks" / "blocks").rglob("*.jsonl"))
