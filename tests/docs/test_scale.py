"""docs/scale.md: its commands run as printed, in two processes; the longer one with ``-m exhaustive``."""

import pathlib
import re
import shlex

import pytest

from attribution.cli import execute
from attribution_benchmarks.core.store import ScoreStore

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text("utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
ON_A_CLUSTER = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def test_the_command_gives_the_bytes_of_one_process(tmp_path, monkeypatch, capsys):
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.cli.benchmark_command import Command
    from attribution_benchmarks.exact.definition import BENCHMARK

    command = Command(BENCHMARK, "exact")
    assert COMMANDS[0] == ".venv/bin/pip install -q -e '.[beam]'\n" and len(COMMANDS) == 2
    program, name, *arguments = shlex.split(COMMANDS[1].replace("\\\n", " "))
    assert (program, name) == ("attribution-benchmarks", "exact")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    found = []
    for given in (arguments, [one for one in arguments if not re.match("--($|runner|workers|block_size)", one)]):
        assert execute(command.main, command.flags, "", ["exact", *given]) == 0
        store = tmp_path / "my_scores"
        found.append((capsys.readouterr().out, ScoreStore(store).contents()))
        blocks = list(store.rglob("0*.jsonl"))
        store.rename(tmp_path / f"scores{len(found)}")
        assert len(blocks) == (3 if len(found) == 1 else 0)
    assert found[0] == found[1] and len(found[0][1]) > 10


def test_every_flag_of_the_page_is_known_and_the_clusters_command_is_whole():
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.beam.pipeline import pipeline_of
    from clevr_xai import evaluate

    (cluster,) = ON_A_CLUSTER
    command = shlex.split(cluster.replace("\\\n", " "))
    end = command.index("--")
    evaluate.FLAGS.unparse_flags()
    assert evaluate.FLAGS(command[2:end]) == ["clevr_xai.evaluate"] and evaluate.FLAGS.runner == "beam"
    assert type(pipeline_of(command[end + 1 :]).runner).__name__ == "FlinkRunner"
    for flag in re.findall(r"`--([a-z_]+)=", PAGE.split("## What happens")[0]):
        assert flag in evaluate.FLAGS or flag == "benchmark", flag
