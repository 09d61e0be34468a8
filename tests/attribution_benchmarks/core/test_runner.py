"""A benchmark that is one definition, from its command: scores of known value, maps saved and read back, resumption."""

import json

import numpy as np
import pytest

from attribution import cli
from attribution_benchmarks.core import evaluate, input_scores
from attribution_benchmarks.core.store import ScoreStore


def run(toy, tmp_path, *flags, code=0):
    output = tmp_path / "out.json"
    arguments = ["evaluate", f"--benchmark={toy}:TOY", f"--output={output}", *flags]
    assert cli.execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, arguments) == code
    return {row["method"]: row for row in json.loads(output.read_text())["rows"]} if code == 0 else None


def test_scores_of_known_value(toy, tmp_path, capsys):
    values = tmp_path / "values.json"
    rows = run(toy, tmp_path, f"--input_scores={values}")
    assert rows["gradient"]["value"] == 1.0 and rows["gradient_x_input"]["value"] == 1.0
    assert rows["uniform"]["value"] == 0.5 and rows["uniform"]["kind"] == "control"
    assert rows["gradient"]["n"] == 12 and rows["gradient"]["metric"] == "mass"
    (group,) = input_scores.load(values)
    assert set(group.values) == {"gradient", "gradient_x_input", "uniform"} and len(group.inputs) == 12
    printed = capsys.readouterr().out
    assert "Mass on the left" in printed and "Vanilla Gradient" in printed and "1.000" in printed


def test_maps_saved_and_read_back_give_the_same_scores(toy, tmp_path):
    maps = tmp_path / "maps"
    first = run(toy, tmp_path, f"--maps_dir={maps}")
    assert np.load(maps / "gradient" / "3.npy").shape == (4, 4, 1)
    again = run(toy, tmp_path, f"--from_maps={maps}")
    assert {name: row["value"] for name, row in again.items()} == {name: row["value"] for name, row in first.items()}


def test_maps_made_elsewhere_are_scored(toy, tmp_path):
    (tmp_path / "theirs" / "mine").mkdir(parents=True)
    right = np.zeros((1, 4, 4))  # channels first, as PyTorch has them
    right[:, :, 2:] = 1
    for number in range(12):
        np.save(tmp_path / "theirs" / "mine" / f"{number}.npy", right)
    assert run(toy, tmp_path, f"--from_maps={tmp_path / 'theirs'}")["mine"]["value"] == 0.0


def test_a_metric_of_ones_own_beside_the_benchmarks(toy, tmp_path):
    (tmp_path / "metric.py").write_text(
        "from attribution_benchmarks.core.metric import of_maps\n"
        "def peak(maps, block, scores):\n    return maps.reshape(len(maps), -1).max(axis=1)\n"
        "PEAK = of_maps('peak', peak)\n"
    )
    arguments = ["evaluate", f"--benchmark={toy}:TOY", f"--metrics=mass,{tmp_path / 'metric.py'}:PEAK"]
    arguments.append(f"--output={tmp_path / 'two.json'}")
    assert cli.execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, arguments) == 0
    rows = json.loads((tmp_path / "two.json").read_text())["rows"]
    assert {row["metric"] for row in rows} == {"mass", "peak"}
    assert next(row for row in rows if (row["method"], row["metric"]) == ("gradient", "peak"))["value"] == 1.0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--metrics=mas"], "--metrics has no 'mas'; choose of 'mass'"),
        (["--methods=gradiant"], "did you mean 'gradient'"),
        (["--from_maps=nowhere"], "no directory nowhere"),
        (["--model=nowhere"], "nowhere"),
        (["--benchmark=nowhere.py:TOY"], "there is no file nowhere.py"),
        (["--benchmark=svea"], "has commands of its own"),
    ],
)
def test_bad_input_is_one_line_and_code_2(toy, tmp_path, capsys, flags, message):
    run(toy, tmp_path, *flags, code=2)
    said = capsys.readouterr()
    assert message in said.err and said.err.startswith("error: ") and said.err.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_numbers_of_saved_maps_are_never_kept(toy, tmp_path):
    folder = tmp_path / "theirs" / "mine"
    folder.mkdir(parents=True)
    flags = [f"--from_maps={tmp_path / 'theirs'}", f"--scores_dir={tmp_path / 'scores'}"]
    for share, columns in ((1.0, slice(0, 2)), (0.0, slice(2, 4))):
        for number in range(12):
            found = np.zeros((4, 4))
            found[:, columns] = 1
            np.save(folder / f"{number}.npy", found)
        assert run(toy, tmp_path, *flags)["mine"]["value"] == share


def test_blocks_on_beam_give_the_same_bytes_and_maps(toy, tmp_path, capsys, monkeypatch):
    """The works are made by the door, as in a worker, and not handed over."""
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.beam import pipeline

    monkeypatch.setattr(pipeline, "provide_works", lambda job, works: None)
    found = []
    for way in ([], ["--runner=beam", "--block_size=4"]):
        folder = tmp_path / f"{len(way)}"
        arguments = ["evaluate", f"--benchmark={toy}:TOY", "--num_imgs=all", "--batch_size=2",
                     f"--output={tmp_path / 'out.json'}", f"--scores_dir={folder / 'scores'}",
                     f"--maps_dir={folder / 'maps'}", *way]  # fmt: skip
        assert cli.execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, arguments) == 0
        maps = {path.relative_to(folder): path.read_bytes() for path in folder.glob("maps/**/*.npy")}
        kept = ScoreStore(folder / "scores").contents()
        document = json.loads((tmp_path / "out.json").read_text())
        found.append((capsys.readouterr().out, document, maps, kept))
    assert found[0] == found[1] and len(kept) == 3 and len(maps) == 2 * 12
