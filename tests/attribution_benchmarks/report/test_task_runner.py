"""Units run once, go on after a kill, and end with the same bytes; told by a benchmark of a few milliseconds."""

import dataclasses
import json
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.report.processes import Failed
from attribution_benchmarks.report.task_runner import TaskRunner, only_run

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCHMARK = """
import dataclasses, pathlib, sys, time
from attribution.errors import BadInput
from attribution.methods.method import Method
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import Evaluation, Section
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.core.settings import ExampleSettings, setting
from attribution_benchmarks.stats import statistics

@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(ExampleSettings):
    log: str = setting("", "file that each computed score is noted in")
    number: int = setting(12, "inputs")

class Fake(Benchmark):
    def method_named(self, name):
        if "broken" in name:
            raise BadInput("method 'broken.py:maps' gives no maps")
        return Method(name=name, title=name, function=abs)

    def select_metrics(self, names):
        return {}

    def check(self, settings, metrics, names):
        if settings.model:
            raise BadInput("the model takes images")

class FakeEvaluation(Evaluation):
    def sections(self):
        rows, values, names = [], {}, [str(i) for i in range(self.settings.number)]
        for method in self.run.names:
            series = self.run.store.series(method=method)
            for name in series.missing(names):
                time.sleep(0.01)
                with pathlib.Path(self.settings.log).open("a") as stream:
                    stream.write(f"{method} {name}\\n")
                series.append({name: (len(method) * 7 + int(name) * 13) % 11 / 10})
            values[method] = [series[name] for name in names]
            rows.append({"method": method, "metric": "drop", **statistics.mean_interval(values[method])._asdict(),
                         "paper": None, "kind": "method"})
        text = "".join(f"{row['method']} {row['value']}\\n" for row in rows)
        yield Section(rows, text, "", [InputScores({"metric": "drop"}, names, values)])

    def describe_models(self):
        return []

    def data_fingerprints(self, results):
        return {}

    def write_figures(self, section, directory, formats):
        pathlib.Path(directory).mkdir()
        (pathlib.Path(directory) / "picture.png").write_bytes(b"picture")

FAKE = Fake("fake", "Fake", settings=Settings, evaluation=lambda run: FakeEvaluation(run, {}), figures=True)
"""
DRIVER = """
import multiprocessing, pathlib, sys
sys.path.insert(0, {root!r})
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.report.rounds import Rounds
from attribution_benchmarks.report.task_runner import TaskRunner, only_run
multiprocessing.set_forkserver_preload([])  # this program needs no TensorFlow
if __name__ == "__main__":
    directory, settings = pathlib.Path(sys.argv[1]), benchmark_named({place!r}).settings(log={log!r})
    with only_run(directory) as lock:
        tasks = [
            [ReportTask(name, "fake", "", settings.replaced(number=n), methods, place={place!r})
             for name, methods in (("a", ("one", "three")), ("b", ("two", "four")))]  # none has to wait for the other
            for n in (4, 9, 13)
        ]
        Rounds(TaskRunner(directory, lock), tasks, [], "").run(2, print)
"""
KILLED_BEFORE_ITS_CHILD = """
import os, pathlib, signal, subprocess, sys
from attribution_benchmarks.report.task_runner import only_run
with only_run(pathlib.Path(sys.argv[1])) as lock:
    slow = "import pathlib, sys, time; time.sleep(1); pathlib.Path(sys.argv[1]).touch()"
    subprocess.Popen([sys.executable, "-c", slow, sys.argv[2]], pass_fds=[lock])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def fake(tmp_path):
    """Return a task, and the log of what was computed."""
    log, program = tmp_path / "log", tmp_path / "benchmark.py"
    log.write_text("")
    program.write_text(BENCHMARK)
    place = f"{program}:FAKE"
    settings = benchmark_named(place).settings(log=str(log))
    return ReportTask("fake", "fake", "A table", settings, ("one", "three"), place=place), log


def files(directory):
    """Return every file for the reader: name -> bytes."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for folder in ("tables", "pictures")
        for path in sorted((directory / folder).rglob("*"))
        if path.is_file()
    }


def run(directory, task, own=None):
    with only_run(directory) as lock:
        runner = TaskRunner(directory, lock, own)
        computed = runner.compute(task)
        if computed:
            runner.take(task)
        return computed


def test_a_unit_gives_its_table_in_every_format_with_values_and_pictures(fake, tmp_path):
    task, _ = fake
    out = tmp_path / "report"
    assert run(out, task)
    assert sorted(files(out)) == [
        "pictures/fake/picture.png", "tables/fake.csv", "tables/fake.json", "tables/fake.md", "tables/fake.txt",
    ]  # fmt: skip
    printed = (out / "tables" / "fake.txt").read_text()
    assert printed.startswith("one 0.")
    assert (out / "tables" / "fake.md").read_text().startswith(f"```text\n{printed}```\n\n```json\n")
    assert json.loads((out / "work" / "fake.values.json").read_text())["groups"][0]["values"].keys() == {"one", "three"}
    assert not list(out.rglob("*unfinished*")) and not (out / "work" / "fake.new").exists()


def test_what_is_done_is_not_run_again(fake, tmp_path):
    task, log = fake
    out = tmp_path / "report"
    run(out, task)
    before, computed = files(out), log.read_text()
    assert not run(out, task)
    assert files(out) == before and log.read_text() == computed


@pytest.mark.parametrize("name", ["tables/fake.csv", "work/fake.values.json", "work/fake.done.json"])
def test_a_file_that_is_gone_is_made_again_from_the_store(name, fake, tmp_path):
    task, log = fake
    out = tmp_path / "report"
    run(out, task)
    before, computed = files(out), log.read_text()
    (out / name).unlink()
    assert run(out, task)
    assert files(out) == before and log.read_text() == computed


def test_another_method_computes_only_that(fake, tmp_path):
    task, log = fake
    out = tmp_path / "report"
    run(out, task)
    log.write_text("")
    assert run(out, task.with_methods(("one", "three", "own")))
    assert {line.split()[0] for line in log.read_text().splitlines()} == {"own"}
    assert "own 0." in (out / "tables" / "fake.txt").read_text()


def test_a_changed_method_of_the_users_own_runs_the_units_again_that_score_it(fake, tmp_path):
    other, _ = fake
    task = other.with_methods((*other.methods, "own"))
    assert run(tmp_path / "report", task, {"own": "1"}) and not run(tmp_path / "report", task, {"own": "1"})
    assert run(tmp_path / "report", task, {"own": "2"})
    named = dataclasses.replace(other, settings=other.settings.replaced(number=14), name="named")
    assert run(tmp_path / "report", named, {"14": "1"}) and run(tmp_path / "report", named, {"14": "2"})
    assert run(tmp_path / "report", other, {"own": "2"}) and not run(tmp_path / "report", other, {"own": "3"})


def test_a_refused_task_leaves_no_table_and_says_why(fake, tmp_path):
    task, _ = fake
    out = tmp_path / "report"
    with pytest.raises(Failed, match=r"method 'broken\.py:maps' gives no maps"):
        run(out, task.with_methods(("broken.py:maps",)))
    assert files(out) == {}


def test_a_method_of_ones_own_is_tried_once_and_its_scores_are_kept(fake, tmp_path):
    task, log = fake
    out = tmp_path / "report"
    with only_run(out) as lock:
        runner = TaskRunner(out, lock)
        assert runner.attempt(task, ["own"]) is None
        computed = log.read_text()
        assert runner.attempt(task, ["broken"]) == "does not fit: method 'broken.py:maps' gives no maps"
        assert runner.attempt(task, ["own"]) is None
        runner.compute(task.with_methods(("own",)))
    assert log.read_text() == computed != ""


def test_a_method_is_tried_with_the_settings_of_a_trial(fake, tmp_path):
    task, log = fake
    with only_run(tmp_path / "report") as lock:
        tried = dataclasses.replace(task, trial=task.settings.replaced(number=3))
        assert TaskRunner(tmp_path / "report", lock).attempt(tried, ["own"]) is None
    assert log.read_text().splitlines() == ["own 0", "own 1", "own 2"]


def test_a_model_that_does_not_fit_is_refused(fake, tmp_path):
    task = dataclasses.replace(fake[0], settings=fake[0].settings.replaced(model="my/model"))
    with pytest.raises(Failed, match="the model takes images"):
        run(tmp_path / "report", task)


def test_two_runs_in_one_directory_are_refused(tmp_path):
    with only_run(tmp_path), pytest.raises(BadInput, match="another run uses"), only_run(tmp_path):
        pass
    with only_run(tmp_path):
        pass


def test_a_run_waits_for_children_of_a_killed_run(tmp_path, capsys):
    driver, out, ended = tmp_path / "driver.py", tmp_path / "out", tmp_path / "ended"
    driver.write_text(KILLED_BEFORE_ITS_CHILD)
    assert subprocess.run([sys.executable, driver, out, ended]).returncode == -signal.SIGKILL
    with only_run(out):
        assert ended.exists()
    assert capsys.readouterr().err == f"waiting for processes of a stopped run in {out} to end\n"


def test_killed_at_random_moments_it_ends_with_the_same_bytes_and_nothing_computed_twice(fake, tmp_path):
    task, log = fake
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(root=str(ROOT), place=task.place, log=str(log)))
    begun = time.monotonic()
    subprocess.run([sys.executable, driver, tmp_path / "whole"], check=True, capture_output=True)
    took = time.monotonic() - begun
    whole, computed = files(tmp_path / "whole"), log.read_text().splitlines()
    log.write_text("")

    generator, kills = random.Random(0), 0
    while True:
        with open(tmp_path / "said", "w") as said:
            process = subprocess.Popen([sys.executable, driver, tmp_path / "killed"], stderr=said)
        try:
            # The first runs have no time to end, however fast the machine; later ones have, however busy it has become.
            longest = 0.3 if kills < 3 else 0.8 + kills / 30
            code = process.wait(timeout=took * generator.uniform(0.05, longest))
            assert code == 0, (tmp_path / "said").read_text()[-2000:]
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        assert kills < 60
    assert kills >= 1
    assert files(tmp_path / "killed") == whole
    # What a kill interrupts is one score of each running task: begun, maybe logged, not kept.
    again = log.read_text().splitlines()
    assert sorted(set(again)) == sorted(set(computed)) == sorted(computed)
    for methods in (("one", "three"), ("two", "four")):
        first, last = (sum(line.split()[0] in methods for line in lines) for lines in (computed, again))
        assert last - first <= kills
