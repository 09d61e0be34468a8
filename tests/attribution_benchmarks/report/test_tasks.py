"""Tasks give their scores, refuse what does not fit, and end with the same scores after a kill.

They are of a benchmark of a few milliseconds.
"""

import dataclasses
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.report import tasks
from attribution_benchmarks.report.tasks import KILLED, THREADS, Answer, only_run

ROOT = pathlib.Path(__file__).resolve().parents[3]
BENCHMARK = """
import dataclasses, os, pathlib, sys, time
from attribution.errors import BadInput
from attribution.methods.registry import Method
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import Evaluation
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.scores import InputScores, Scores
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
        if "crashing" in name:
            raise RuntimeError("no such thing")
        if "deadly" in name:
            os.kill(os.getpid(), 9)
        if "waiting" in name:
            pathlib.Path(name.partition(":")[0]).write_text(str(os.getpid()))
            time.sleep(60)
        return Method(name=name, title=name, function=abs)

    def select_metrics(self, names):
        return {}

    def with_model(self, settings, path):
        return dataclasses.replace(settings, layer=path)

    def check(self, settings, metrics, names):
        if settings.layer == "unfit":
            raise BadInput("the model takes images")
        if settings.layer == "picky" and "one" in names:
            error = BadInput("it needs another slope")
            error.refused = {"one": "it needs another slope"}
            raise error

class FakeEvaluation(Evaluation):
    def groups(self):
        return iter(())

    def tables(self):
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
        sources = [MapSource(name) for name in values]
        yield Scores(rows, [InputScores({"metric": "drop"}, names, values, sources=sources)], text=text, markdown=text)

    def describe_models(self):
        return []

    def data_fingerprints(self):
        return {}

FAKE = Fake("fake", "Fake", settings=Settings, evaluation=lambda run: FakeEvaluation(run, {}))
"""
DRIVER = """
import multiprocessing, pathlib, sys
sys.path.insert(0, {root!r})
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.report import tasks
multiprocessing.set_forkserver_preload([])  # this program needs no TensorFlow
if __name__ == "__main__":
    directory, settings = pathlib.Path(sys.argv[1]), benchmark_named({place!r}).settings(log={log!r}, number=13)
    with tasks.only_run(directory):
        of = [ReportTask(name, "fake", "", settings, methods, place={place!r})
              for name, methods in (("a", ("one", "three")), ("b", ("two", "four")))]
        texts = {{task.name: answer.scores.text for task, answer in tasks.run(of, sys.argv[2:], "", directory, 2)}}
        (directory / "texts").write_text(str(sorted(texts.items())))
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


def run(directory, task, custom=(), model=""):
    """Return the answer of a task."""
    with only_run(directory):
        ((_, answer),) = tasks.run([task], custom, model, directory, 2)
    return answer


def scored(log):
    return {line.split()[0] for line in log.read_text().splitlines()}


def test_a_task_gives_its_scores_and_stores_them(fake, tmp_path):
    task, log = fake
    answer = run(tmp_path, task)
    assert answer.scores.groups[0].values.keys() == {"one", "three"} and answer == Answer(answer.scores)
    log.write_text("")
    assert run(tmp_path, task).scores.text == answer.scores.text and log.read_text() == ""
    assert "own 0." in run(tmp_path, task, ["own"]).scores.text and scored(log) == {"own"}
    assert not set(THREADS) & os.environ.keys()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken.py:maps", "does not fit: method 'broken.py:maps' gives no maps"),
        ("crashing.py:maps", "crashed: RuntimeError: no such thing"),
    ],
)
def test_a_method_that_does_not_fit_is_left_out(name, why, fake, tmp_path):
    task, _ = fake
    answer = run(tmp_path, task, ["own", name])
    assert {row["method"] for row in answer.scores.rows} == {"one", "three", "own"} and answer.methods == {name: why}
    alone = run(tmp_path, dataclasses.replace(task, methods=()), [name])
    assert not alone.failed and list(alone.methods) == [name] and not alone.scores.rows


def test_a_killed_process_is_a_failure_in_one_line(fake, tmp_path):
    assert run(tmp_path, fake[0], ["deadly.py:maps"]) == Answer(failed=KILLED)


def test_a_model_that_does_not_fit_is_refused_and_the_benchmarks_own_scored(fake, tmp_path):
    answer = run(tmp_path, fake[0], ["own"], "unfit")
    assert {row["method"] for row in answer.scores.rows} == {"one", "three", "own"}
    assert answer.model == "the model takes images" and not answer.methods


def test_methods_that_do_not_fit_the_model_are_left_out(fake, tmp_path):
    answer = run(tmp_path, fake[0], ["own"], "picky")
    assert {row["method"] for row in answer.scores.rows} == {"three", "own"} and not answer.model
    assert answer.methods == {"one": "does not fit: it needs another slope"}


def test_a_task_that_fails_says_why(fake, tmp_path):
    answer = run(tmp_path, dataclasses.replace(fake[0], methods=("broken",)))
    assert answer == Answer(failed="method 'broken.py:maps' gives no maps")


def test_as_many_run_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.setattr(tasks, "available_cores", lambda: 8)
    for free, units, jobs in ((None, 6, 6), (64 << 30, 6, 6), (64 << 30, 20, 8), (7 << 30, 6, 3), (1 << 20, 6, 1)):
        monkeypatch.setattr(tasks, "available_memory", lambda free=free: free)
        assert tasks.default_jobs(units) == jobs


@pytest.fixture
def driver(fake, tmp_path):
    """Return a program that runs two tasks in a directory."""
    task, log = fake
    path = tmp_path / "driver.py"
    path.write_text(DRIVER.format(root=str(ROOT), place=task.place, log=str(log)))
    return path


def test_children_of_a_killed_run_end_and_free_its_directory(driver, tmp_path):
    written = tmp_path / "waiting.py"
    process = subprocess.Popen([sys.executable, driver, tmp_path / "report", f"{written}:maps"])
    deadline = time.monotonic() + 60
    while not written.exists() or not written.read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    with pytest.raises(BadInput, match="another run uses"), only_run(tmp_path / "report"):
        pass
    process.kill()
    process.wait()
    while time.monotonic() < deadline:
        try:
            os.kill(int(written.read_text()), 0)
        except ProcessLookupError:
            break
        time.sleep(0.02)
    else:
        pytest.fail("a child is left")
    with only_run(tmp_path / "report"):
        pass


def test_killed_at_random_moments_it_ends_with_the_same_scores_and_nothing_computed_twice(fake, driver, tmp_path):
    _, log = fake
    begun = time.monotonic()
    subprocess.run([sys.executable, driver, tmp_path / "whole"], check=True, capture_output=True)
    took = time.monotonic() - begun
    whole, computed = (tmp_path / "whole" / "texts").read_text(), log.read_text().splitlines()
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
    assert (tmp_path / "killed" / "texts").read_text() == whole
    # What a kill interrupts is one score of each running task: begun, maybe logged, not kept.
    again = log.read_text().splitlines()
    assert sorted(set(again)) == sorted(set(computed)) == sorted(computed)
    for methods in (("one", "three"), ("two", "four")):
        first, last = (sum(line.split()[0] in methods for line in lines) for lines in (computed, again))
        assert last - first <= kills
