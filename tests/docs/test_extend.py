"""The metric and the benchmark of docs/extend.md work as they are printed."""

import html
import json
import pathlib
import re
import runpy
import shlex
import sys
import warnings

import numpy as np
import pytest

from attribution import cli
from attribution_benchmarks.__main__ import command as attribution_benchmarks_command
from attribution_benchmarks.core.batch import Batch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extend.md").read_text()
COMMANDS = [line for batch in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in batch.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder elsewhere with the page's two files."""
    folder = tmp_path_factory.mktemp("extend")
    metric, benchmark, from_python = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (folder / "sparsity.py").write_text(metric)
    (folder / "bright_half.py").write_text(benchmark)
    (folder / "from_python.py").write_text(from_python)
    (folder / "scripts").symlink_to(ROOT / "scripts")
    runpy.run_path(str(folder / printed("python bright_half.py").split()[1]), run_name="__main__")
    return folder


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Return a runner of the page's commands in this process, which has TensorFlow already: its standard output."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(cli, "run", lambda *command: sys.exit(cli.execute(*command, sys.argv)))

    def call(command, *flags):
        program, *words = [*shlex.split(command), *flags]
        monkeypatch.setattr(sys, "argv", words[words[0] == "-m" :])
        with pytest.raises(SystemExit) as ended:
            if program != "python":
                attribution_benchmarks_command(words)
            elif words[0] == "-m":
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")
        said = capsys.readouterr()
        assert ended.value.code == 0, said.err
        return said.out

    return call


def printed(*parts):
    (command,) = [command for command in COMMANDS if all(part in command for part in parts)]
    return command


def test_the_metric_has_at_most_ten_lines_and_the_benchmark_sixty(folder):
    def lines(name):
        return len([line for line in (folder / name).read_text().splitlines() if line.strip()])

    assert lines("sparsity.py") <= 10 and lines("bright_half.py") <= 60


@pytest.mark.parametrize(("file", "name"), [("sparsity.py", "gini"), ("bright_half.py", "mass")])
def test_a_map_of_zeros_is_undefined_without_a_warning(folder, file, name):
    maps = np.stack([np.zeros((12, 12)), np.ones((12, 12))])
    batch = Batch(maps[..., None], ["zeros", "ones"], masks={"left": np.arange(12) < np.full((2, 12, 1), 6)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = runpy.run_path(str(folder / file))[name](maps, batch, None)
    np.testing.assert_array_equal(np.isnan(found), [True, False])


@pytest.mark.parametrize("place", ["svea.benchmark", "clevr_xai.evaluate"])
def test_the_metric_lands_in_a_benchmarks_table(run, folder, place):
    output = folder / f"{place}.json"
    said = run(printed("sparsity", place), f"--output={output}")
    rows = json.loads(output.read_text())["rows"]
    for metric, title in (("gini", "Gini"), ("roc_auc", "ROC AUC")):
        found = {row["method"]: row["value"] for row in rows if row["metric"] == metric}
        assert all(0 <= value <= 1 for value in found.values()) and "gradient" in found
        assert title in said
    assert found["gradient"] > 0.6  # of localisation: a map of the network beats chance


def test_a_report_of_one_benchmark_with_one_metric_says_each_thing_once_and_nothing_of_agreement(run, folder):
    source = (folder / "bright_half.py").read_text().replace('"Bright half"', '"GridPG"').replace('"Mass"', '"GridPG"')
    (folder / "gridpg.py").write_text(source)
    (folder / "mine.py").write_text(
        "def sharpened(queries):\n    return abs(queries.input_gradient()) * queries.inputs\n"
    )
    command = printed("reproduce_tables", "bright_half").replace("svea,bright_half.py:", "gridpg.py:")
    said = run(command, f"--methods={folder / 'mine.py'}:sharpened", "--output_dir=one")
    assert "Kendall" not in said and "GridPG GridPG" not in said
    page = "".join(path.read_text() for path in sorted((folder / "one").glob("*.html")))
    shown = html.unescape(re.sub(r"<(script|style).*?</\1>|<[^>]+>", "\n", page, flags=re.DOTALL))
    assert "sharpened does not beat every baseline (✓) on the one metric" in shown
    assert "three benchmarks" not in shown
    assert "GridPG GridPG" not in shown and "GridPG: GridPG" not in shown
    assert "Kendall" not in shown and "Do the rankings agree?" not in shown
    commands = [line for line in shown.splitlines() if str(folder) in line]
    assert commands and all("--methods=" in line for line in commands)  # what was typed, to be run again


def test_the_benchmark_alone_and_beside_another_in_the_report(run, folder):
    output = folder / "alone.json"
    run(printed("attribution-benchmarks bright_half"), f"--output={output}")
    scores = {row["method"]: row["value"] for row in json.loads(output.read_text())["rows"]}
    assert scores["gradient"] == scores["integrated_gradients"] == 1.0 and abs(scores["uniform"] - 2 / 3) < 1e-6
    command = printed("reproduce_tables", "bright_half").replace("--benchmarks=svea,", "--benchmarks=")
    run(command, "--metrics=sparsity.py:GINI")
    matrix = json.loads((folder / "report" / "tables" / "matrix.json").read_text())["rows"]
    assert {row["column"] for row in matrix} == {"bright_half mass", "bright_half gini"}
    page = (folder / "report" / "index.html").read_text()
    assert 'id="bright-half"' in page and "Gini" in page and "Share of the map on the outer thirds." in page


def test_definition_metric_and_function_are_evaluated_from_python(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    runpy.run_path("from_python.py")
    printed = capsys.readouterr().out
    assert "50 inputs" in printed and "squared" in printed and "Gini" in printed and "Occlusion" in printed
