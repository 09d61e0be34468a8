"""Evaluation: scores of known value, saved and precomputed maps, workers, hooks of a benchmark."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib
import json
import multiprocessing
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution import cli
from attribution.errors import BadInput
from attribution.plugins import loaded_object
from attribution_benchmarks.cli.benchmark_command import Command
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import ExampleEvaluation, evaluated, load, prepare
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import of_maps
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.settings import ExampleSettings, Settings, setting
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.core.worker import EvaluationFactory


def execute(place, *flags):
    command = Command(benchmark_named(place), place)
    return cli.execute(command.main, command.flags, "", ["evaluate", *flags])


def run(toy, tmp_path, *flags, code=0):
    output = tmp_path / "out.json"
    assert execute(f"{toy}:TOY", f"--output={output}", *flags) == code
    return {row["method"]: row for row in json.loads(output.read_text())["rows"]} if code == 0 else None


def test_scores_of_known_value(toy, tmp_path, capsys):
    rows = run(toy, tmp_path)
    assert rows["gradient"]["value"] == 1.0 and rows["gradient_x_input"]["value"] == 1.0
    assert rows["uniform"]["value"] == 0.5 and rows["uniform"]["kind"] == "control"
    assert rows["gradient"]["n"] == 12 and rows["gradient"]["metric"] == "mass"
    (group,) = Scores.load(tmp_path / "out.json").groups
    assert set(group.values) == {"gradient", "gradient_x_input", "uniform"} and len(group.inputs) == 12
    printed = capsys.readouterr().out
    assert "Mass on the left" in printed and "Vanilla Gradient" in printed and "1.000" in printed


def test_methods_that_do_not_apply_are_skipped_with_a_line_each(toy, tmp_path, capsys):
    stored = f"--scores_dir={tmp_path / 'scores'}"
    for methods, *runner in (
        ("gradient,grad_cam,gradient_x_input", "--runner=beam"),
        ("gradient,gradient_x_input,grad_cam",),
        ("gradient,grad_cam,gradient_x_input",),
    ):  # the first time and stored
        assert {"gradient", "gradient_x_input"} <= {*run(toy, tmp_path, f"--methods={methods}", stored, *runner)}
        notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
        assert len(notes) == 2 and notes[0].startswith("note: 'grad_cam' is skipped: the model has no convolution")
        assert "attribution.inspect --model=" in notes[1]
        skipped = json.loads((tmp_path / "out.json").read_text())["manifest"]["skipped"]
        assert list(skipped) == ["grad_cam"] and f"'grad_cam' is skipped: {skipped['grad_cam']}" in notes[0]
    run(toy, tmp_path, "--methods=grad_cam,attention_rollout", code=2)
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: the model has no convolution")


class _TwoTables(ExampleEvaluation):
    """Prints a table before it explains."""

    def tables(self):
        yield Scores(text="first table\n")
        print("the second is computed")
        yield from super().tables()


def test_tables_are_printed_once_and_early_where_a_later_one_skips_a_method(toy, capsys):
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    command = Command(dataclasses.replace(benchmark, evaluation=_TwoTables.load))
    assert cli.execute(command.main, command.flags, "", ["evaluate", "--methods=grad_cam,gradient"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "first table" and first not in others
    assert others[:2] == ["the second is computed"] * 2  # with the method, and without
    assert sum("Toy" in line for line in others) == 1


class _Identity:
    """A network whose scores are its inputs."""

    num_classes = 2

    def scores(self, inputs, batch_size):
        return np.asarray(inputs)


def test_given_classes_that_the_network_predicts_are_counted(toy):
    run = prepare(loaded_object(f"{toy}:TOY", Benchmark, "--benchmark"), ["gradient"], ExampleSettings())
    inputs = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    known = Examples(inputs, targets=np.array([1, 1, 0]))
    assert ExampleEvaluation(run, {"net": _Identity()}, known).facts() == [
        "net predicts the given class of 2 of 3 inputs."
    ]
    assert not ExampleEvaluation(run, {"net": _Identity()}, Examples(inputs)).facts()


def test_saved_maps_give_the_same_scores(toy, tmp_path):
    maps = tmp_path / "maps"
    first = run(toy, tmp_path, f"--save_maps={maps}")
    assert np.load(maps / "gradient" / "3.npy").shape == (4, 4, 1)
    again = run(toy, tmp_path, f"--precomputed_maps={maps}")
    assert {name: row["value"] for name, row in again.items()} == {name: row["value"] for name, row in first.items()}


def test_saved_maps_are_compared_with_the_named_row_of_the_paper(toy, tmp_path):
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    published = dataclasses.replace(benchmark, paper=({"method": "gradient", "metric": "mass", "value": 0.7},))
    maps = tmp_path / "maps"
    run(toy, tmp_path, f"--save_maps={maps}")
    (maps / "gradient").rename(maps / "theirs")
    settings = ExampleSettings(precomputed_maps=str(maps))
    asked = prepare(published, ["theirs=gradient", "gradient_x_input"], settings)
    rows = {row["method"]: row for row in evaluated(load(asked)).rows}
    assert rows["theirs"]["paper"] == 0.7 and rows["theirs"]["value"] == 1.0
    assert rows["gradient_x_input"]["paper"] is None
    assert "--methods=theirs=gradient,gradient_x_input" in asked.command()
    with pytest.raises(BadInput, match="no method 'rise'; choose of 'gradient'"):
        prepare(published, ["theirs=rise"], settings)
    with pytest.raises(BadInput, match="name the maps alone, as --methods=theirs"):
        prepare(benchmark, ["theirs=gradient"], settings)


@pytest.mark.parametrize(
    "name", ["=HYPERLINK(1)", "<img src=x onerror=a()>", "a|b](javascript:a)", "\x1b[31mred\u202e", "a\nb"]
)
def test_the_name_of_a_model_is_text_wherever_it_is_written(toy, tmp_path, capsys, monkeypatch, name):
    shutil.copytree(toy.with_name("network"), tmp_path / name)
    (tmp_path / name / "MODEL_CARD.md").write_text(name)
    monkeypatch.chdir(tmp_path)
    for suffix in ("md", "csv", "json", "txt"):
        assert execute(f"{toy}:TOY", f"--model={name}", f"--output=out.{suffix}") == 0, capsys.readouterr().err
    said = capsys.readouterr()
    for text in (said.out, said.err, *(pathlib.Path(f"out.{suffix}").read_text() for suffix in ("md", "txt", "csv"))):
        assert not {"\x1b", "\u202e"} & set(text) and "\nb" not in text
    shown = pathlib.Path("out.md").read_text().partition("```json")[0]  # below is a block of code
    assert "<img" not in shown and "](" not in shown
    cells = pathlib.Path("out.csv").read_text().replace("\n", ",").split(",")
    assert not [cell for cell in cells if cell.strip('"').startswith(("=", "@", "+"))]


def test_a_custom_metric_is_scored_beside_the_benchmarks(toy, tmp_path):
    (tmp_path / "metric.py").write_text(
        "from attribution_benchmarks.core.metric import of_maps\n"
        "def peak(maps, batch, scores):\n    return maps.reshape(len(maps), -1).max(axis=1)\n"
        "PEAK = of_maps('peak', peak)\n"
    )
    flags = [f"--metrics=mass,{tmp_path / 'metric.py'}:PEAK", f"--output={tmp_path / 'two.json'}"]
    assert execute(f"{toy}:TOY", *flags) == 0
    document = json.loads((tmp_path / "two.json").read_text())
    rows, command = document["rows"], document["manifest"]["command"]
    assert f"--metrics=mass,{tmp_path / 'metric.py'}:PEAK" in command
    assert {row["metric"] for row in rows} == {"mass", "peak"}
    assert next(row for row in rows if (row["method"], row["metric"]) == ("gradient", "peak"))["value"] == 1.0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--metrics=mas"], "--metrics has no 'mas'; did you mean 'mass'"),
        (["--methods=gradiant"], "did you mean 'gradient'"),
        (["--precomputed_maps=nowhere"], "no directory nowhere"),
        (["--precomputed_maps=maps", "--save_maps=more"], "makes no maps that could be saved"),
        (["--precomputed_maps=maps", "--model=nowhere"], "needs no network; leave out --model"),
        (["--model=nowhere"], "nowhere"),
        (["--layer=none"], "none"),
    ],
)
def test_bad_input_is_one_line_and_code_2(toy, tmp_path, capsys, flags, message):
    run(toy, tmp_path, *flags, code=2)
    said = capsys.readouterr()
    assert message in said.err and said.err.startswith("error: ") and said.err.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_workers_find_a_custom_metric_by_its_place(toy, tmp_path):
    (tmp_path / "metric.py").write_text(
        "from attribution_benchmarks.core.metric import of_maps\n"
        "PEAK = of_maps('peak', lambda maps, batch, scores: maps.reshape(len(maps), -1).max(axis=1))\n"
    )
    command, metric = Command(benchmark_named(f"{toy}:TOY"), f"{toy}:TOY"), f"{tmp_path / 'metric.py'}:PEAK"
    command.flags(["evaluate", f"--metrics=mass,{metric}"])
    factory = EvaluationFactory.of(command.run(command.flags))
    assert factory.metrics == ("mass", metric)
    assert factory()("toy").items


def test_workers_find_a_method_as_a_library_defines_it(toy):
    command = Command(benchmark_named(f"{toy}:TOY"), f"{toy}:TOY")
    command.flags(["evaluate", "--methods=gradient@saliency,integrated_gradients@xplique"])
    run = command.run(command.flags)
    factory = pickle.loads(pickle.dumps(EvaluationFactory.of(run)))
    assert factory.methods == ("gradient@saliency", "integrated_gradients@xplique") == tuple(run.methods)
    assert factory()("toy").items


def test_a_map_error_changes_integrated_gradients_but_not_what_a_library_defines(toy, tmp_path):
    """A library's rule may have no estimate of its error, as Gauss-Legendre; its number of points is its definition."""
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    names = ("integrated_gradients", "integrated_gradients@captum", "integrated_gradients@xplique", "gradient")
    methods = prepare(benchmark, names, ExampleSettings(map_error=0.2)).methods
    assert [given.get("map_error") for _, given in methods.values()] == [0.2, None, None, None]
    found = attribution_benchmarks.evaluate(f"{toy}:TOY", names, ExampleSettings(map_error=0.2, num_imgs="2"))
    assert {row["method"] for row in found.rows} >= set(names)


def test_saved_maps_of_another_map_error_are_not_mixed(toy, tmp_path):
    def save(error):
        settings = ExampleSettings(save_maps=tmp_path / "maps", num_imgs="1", map_error=error)
        return attribution_benchmarks.evaluate(f"{toy}:TOY", ["integrated_gradients"], settings)

    save(0.0)
    with pytest.raises(BadInput, match="holds maps of another network, seed or setting"):
        save(0.2)
    save(0.0)


def test_maps_in_folders_are_compared_and_the_command_names_those_that_were_chosen(toy, tmp_path):
    methods = {"mine": "gradient", "other": "gradient_x_input"}
    first = attribution_benchmarks.evaluate(f"{toy}:TOY", methods, ExampleSettings(save_maps=tmp_path / "maps"))
    assert first.compare("mine")["method"].tolist() == ["other"]
    settings = ExampleSettings(precomputed_maps=tmp_path / "maps")
    found = attribution_benchmarks.evaluate(f"{toy}:TOY", settings=settings)
    assert found.compare("mine")["method"].tolist() == ["other"]
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    assert f"--methods={','.join(benchmark.methods)}" in prepare(benchmark, benchmark.methods, settings).command()
    shutil.move(tmp_path / "maps" / "other", tmp_path / "maps" / "uniform")
    with pytest.raises(BadInput, match="'uniform' is a control"):
        attribution_benchmarks.evaluate(f"{toy}:TOY", settings=settings)


def test_numbers_of_precomputed_maps_are_never_stored(toy, tmp_path):
    folder = tmp_path / "theirs" / "mine"
    folder.mkdir(parents=True)
    flags = [f"--precomputed_maps={tmp_path / 'theirs'}", f"--scores_dir={tmp_path / 'scores'}"]
    for share, columns in ((1.0, slice(0, 2)), (0.0, slice(2, 4))):
        for number in range(12):
            found = np.zeros((4, 4))
            found[:, columns] = 1
            np.save(folder / f"{number}.npy", found)
        assert run(toy, tmp_path, *flags)["mine"]["value"] == share


def test_blocks_on_beam_give_the_same_bytes_and_maps(toy, tmp_path, capsys, monkeypatch):
    """Works are created from the flags, as in a worker."""
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.beam import pipeline

    monkeypatch.setattr(pipeline, "provide_works", lambda *_: contextlib.nullcontext())
    found = []
    for way in ([], ["--runner=beam", "--block_size=4"]):
        folder = tmp_path / f"{len(way)}"
        flags = ["--num_imgs=all", "--batch_size=2", f"--output={tmp_path / 'out.json'}",
                 f"--scores_dir={folder / 'scores'}", f"--save_maps={folder / 'maps'}", *way]  # fmt: skip
        assert execute(f"{toy}:TOY", *flags) == 0
        maps = {path.relative_to(folder): path.read_bytes() for path in folder.glob("maps/**/*.npy")}
        kept = ScoreStore(folder / "scores").contents()
        document = json.loads((tmp_path / "out.json").read_text())
        found.append((capsys.readouterr().out, document, maps, kept))
    assert found[0] == found[1] and len(kept) == 3 and len(maps) == 2 * 12


def test_check_model_explains_nothing(toy, monkeypatch, capsys):
    monkeypatch.setattr("attribution.explain_many", lambda *_, **__: pytest.fail("explained"))
    assert execute(f"{toy}:TOY", "--check_model") == 0
    assert capsys.readouterr().out == "network fits Toy: inputs of shape (4, 4, 1) to 2 classes\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoSettings(ExampleSettings):
    """Settings of two tables."""

    half: int = setting(6, "inputs of a half", low=1)


class TwoTables(ExampleEvaluation):
    """An evaluation that prints a table for each half of its inputs."""

    def tables(self):
        half, count = self.settings.half, len(self.data.names)
        for rows in (range(half), range(half, count)):
            yield from ExampleEvaluation(self.run, self.models, self.data.without(rows)).tables()


def test_a_subclass_overrides_hooks(toy, tmp_path, capsys):
    described = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    command = Command(
        dataclasses.replace(described, settings=TwoSettings, command="my.command", evaluation=TwoTables.load)
    )
    files = [f"--output={tmp_path / 'out.json'}", "--half=4"]
    assert cli.execute(command.main, command.flags, "", ["command", *files]) == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert [row["n"] for row in document["rows"]] == [8] * 3 + [4] * 3
    assert document["manifest"]["command"] == "python -m my.command --half=4"
    assert capsys.readouterr().out.count("Toy: ") == 2


def test_python_and_flags_give_the_same_rows(toy, tmp_path, capsys):
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    settings = ExampleSettings(num_imgs=5, seed=2, batch_size=2)
    found = attribution_benchmarks.evaluate(benchmark, ["gradient"], settings)
    run(toy, tmp_path, "--num_imgs=5", "--seed=2", "--batch_size=2", "--methods=gradient")
    written = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert list(found.rows) == written
    assert str(found).strip() in capsys.readouterr().out


def test_methods_are_functions_objects_and_names_of_any_letters(toy):
    def squared(queries):
        return queries.input_gradient() ** 2

    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    renamed = dataclasses.replace(attribution.METHODS["gradient"], name="renamed")
    given = [squared, functools.partial(squared), lambda queries: queries.inputs, renamed, "gradient"]
    with pytest.raises(BadInput, match="'squared' twice; give methods of one name as a mapping"):
        attribution_benchmarks.evaluate(benchmark, given)
    del given[0]
    names = [row["method"] for row in attribution_benchmarks.evaluate(benchmark, given).rows if row["kind"] == "method"]
    assert names == ["squared", "<lambda>", "renamed", "gradient"]
    by_name = attribution_benchmarks.evaluate(benchmark, {"mine, of 2026": squared, "IG": "integrated_gradients"})
    assert [row["method"] for row in by_name.rows if row["kind"] == "method"] == ["mine, of 2026", "IG"]
    difference = by_name.compare("mine, of 2026").iloc[0]
    assert (difference["method"], difference["difference"]) == ("IG", 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmark": "nowhere"}, "no benchmark 'nowhere'"),
        ({"benchmark": 3}, "of the type int"),
        ({"settings": Settings()}, "settings of the type attribution_benchmarks.core.settings.ExampleSettings"),
        ({"methods": {"gradient": len}}, "'gradient': a method has this name"),
        ({"methods": {"uniform": abs}}, "'uniform' is a control, which is scored anyway"),
        ({"methods": {3: abs}}, "methods has the name 3; names are text"),
        ({"methods": ["gradient", "gradient"]}, "'gradient' twice; name it once"),
        ({"methods": [3]}, "methods are names or functions, not 3"),
        ({"metrics": ["mass", of_maps("mass", len)]}, "two metrics called 'mass'"),
        ({"store": ""}, "store='': expected a directory"),
        ({"store": b"scores"}, "store=b'scores': expected a directory"),
        ({"methods": []}, "--methods is empty"),
        ({"metrics": ["mas"]}, "no 'mas'"),
    ],
)
def test_what_python_gives_wrong_is_named(toy, arguments, message):
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    given = {"benchmark": benchmark, "methods": ["gradient"], **arguments}
    with pytest.raises(BadInput, match=message):
        attribution_benchmarks.evaluate(**given)


def test_progress_is_reported_and_a_store_computes_nothing_twice(toy, tmp_path, monkeypatch):
    benchmark, steps = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark"), []
    options = {"settings": ExampleSettings(batch_size=5), "store": tmp_path / "scores", "progress": steps.append}
    first = attribution_benchmarks.evaluate(benchmark, ["gradient"], **options)
    assert [(step.done, step.total) for step in steps] == [(0, 12), (5, 12), (10, 12), (12, 12)]
    monkeypatch.setattr("attribution.explain_many", lambda *_, **__: pytest.fail("explained"))
    assert attribution_benchmarks.evaluate(benchmark, ["gradient"], **options).rows == first.rows


def test_threads_evaluate_side_by_side(toy):
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        every = [pool.submit(attribution_benchmarks.evaluate, benchmark, [name]) for name in ("gradient", "rise")]
        names = [[row["method"] for row in one.result().rows if row["kind"] == "method"] for one in every]
    assert names == [["gradient"], ["rise"]]


SCRIPT = """
import sys
import attribution_benchmarks

def squared(queries):
    return queries.input_gradient() ** 2

print([row["method"] for row in attribution_benchmarks.evaluate(sys.argv[1], [squared]).rows])
"""


POOLED = """
import attribution_benchmarks

def rows(place, methods):
    return attribution_benchmarks.evaluate(place, methods).rows
"""


def test_a_script_without_a_guard_and_a_pool_of_processes_evaluate(toy, tmp_path, monkeypatch, quick_python):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [quick_python, "script.py", f"{toy}:TOY"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "['squared', 'uniform']\n"
    (tmp_path / "pooled.py").write_text(POOLED)
    monkeypatch.syspath_prepend(tmp_path)
    rows = importlib.import_module("pooled").rows
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(rows, f"{toy}:TOY", ["gradient"]).result()
    assert found == rows(f"{toy}:TOY", ["gradient"])
