"""Tasks give their tables, refuse what does not fit, and end with the same bytes after a kill.

They are of a benchmark of a few milliseconds.
"""

import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import time

import pytest

from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.report import tasks
from attribution_benchmarks.report.tasks import Tasks

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

    def write_figures(self, scores, directory, formats):
        pathlib.Path(directory).mkdir()
        (pathlib.Path(directory) / "picture.png").write_bytes(b"picture")

FAKE = Fake("fake", "Fake", settings=Settings, evaluation=lambda run: FakeEvaluation(run, {}), figures=True)
"""
DRIVER = """
import multiprocessing, pathlib, sys
sys.path.insert(0, {root!r})
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.report.tasks import Tasks, only_run
multiprocessing.set_forkserver_preload([])  # this program needs no TensorFlow
if __name__ == "__main__":
    directory, settings = pathlib.Path(sys.argv[1]), benchmark_named({place!r}).settings(log={log!r})
    with only_run(directory):
        quick, full = (
            [ReportTask(name, "fake", "", settings.replaced(number=n), methods, place={place!r})
             for name, methods in (("a", ("one", "three")), ("b", ("two", "four")))]  # none has to wait for the other
            for n in (4, 13)
        )
        Tasks(directory, quick, full).run(2, print)
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


def run(directory, quick, full=(), custom=(), model=""):
    """Return the tasks after their run, and what was published."""
    published = []
    found = Tasks(directory, quick, [*full] or quick, custom, model)
    found.run(2, lambda *news: published.append((*news, [len(one.scores.rows) for one in found.results])))
    return found, published


def scored(log):
    return {line.split()[0] for line in log.read_text().splitlines()}


def test_a_task_gives_its_table_in_every_format_with_values_and_pictures(fake, tmp_path):
    task, log = fake
    out = tmp_path / "report"
    found, published = run(out, [task])
    assert published == []
    assert sorted(files(out)) == [
        "pictures/fake/picture.png", "tables/fake.csv", "tables/fake.json", "tables/fake.md", "tables/fake.txt",
    ]  # fmt: skip
    printed = (out / "tables" / "fake.txt").read_text()
    assert printed.startswith("one 0.")
    assert (out / "tables" / "fake.md").read_text().startswith(f"{printed}\n```json\n")
    assert json.loads((out / "tables" / "fake.json").read_text())["groups"][0]["values"].keys() == {"one", "three"}
    assert not list(out.rglob("*unfinished*")) and not (out / "work" / "fake.new").exists()
    (result,) = found.results
    assert result.scores.text == printed and result.scores.groups[0].values.keys() == {"one", "three"}
    # Once more, with a method more: the others are there already.
    before = files(out)
    log.write_text("")
    run(out, [task])
    assert files(out) == before and log.read_text() == ""
    run(out, [task], custom=["own"])
    assert scored(log) == {"own"} and "own 0." in (out / "tables" / "fake.txt").read_text()


def test_quick_tables_come_first_the_cheapest_and_full_ones_replace_them(fake, tmp_path):
    task, _ = fake

    def of(name, number, cost):
        settings = task.settings.replaced(number=number)
        return dataclasses.replace(task, name=name, methods=(name,), settings=settings, cost=cost)

    same = of("same", 5, 1.0)
    quick, full = [of("slow", 4, 9.0), of("fast", 4, 2.0), same], [of("slow", 9, 90.0), of("fast", 9, 20.0), same]
    out = tmp_path / "report"
    found = Tasks(out, quick, full)
    said = []
    found.run(1, lambda *news: said.append((news[0], [one.task.settings.number for one in found.results])))
    assert said == [
        ("1 of 5 tables are there.", [5]),
        ("2 of 5 tables are there.", [4, 5]),
        ("3 of 5 tables are there.", [4, 4, 5]),
        ("4 of 5 tables are there.", [9, 4, 5]),
    ]
    assert [(one.task.name, one.task.settings.number) for one in found.results] == [
        ("slow", 9),
        ("fast", 9),
        ("same", 5),
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken.py:maps", "does not fit: method 'broken.py:maps' gives no maps"),
        ("crashing.py:maps", "crashed: RuntimeError: no such thing"),
        ("deadly.py:maps", "crashed: the system ended it, perhaps for lack of memory; fewer --jobs need less"),
    ],
)
def test_a_method_that_does_not_fit_is_refused_once_and_left_out(name, why, fake, tmp_path, capsys):
    task, _ = fake
    full = dataclasses.replace(task, settings=task.settings.replaced(number=15))
    found, _ = run(tmp_path / "report", [task], [full], ["own", name])
    own = {"own"} if "deadly" not in name else set()
    assert {row["method"] for row in found.results[0].scores.rows} == {"one", "three"} | own
    assert found.results[0].task.settings.number == 15
    assert found.reasons[name, "fake"] == why
    assert f"{name} under A table {why}" in found.notes
    assert capsys.readouterr().err.count(f"{name} under A table") == 1


def test_a_model_that_does_not_fit_is_refused_and_the_benchmarks_own_scored(fake, tmp_path):
    task, _ = fake
    found, _ = run(tmp_path / "report", [task], custom=["own"], model="unfit")
    assert {row["method"] for row in found.results[0].scores.rows} == {"one", "three", "own"} and not found.fits
    assert found.reasons == {}
    assert found.notes == ["unfit does not fit A table, whose own network is scored instead: the model takes images"]


def test_methods_that_do_not_fit_the_model_are_left_out(fake, tmp_path):
    task, _ = fake
    found, _ = run(tmp_path / "report", [task], custom=["own"], model="picky")
    (result,) = found.results
    assert {row["method"] for row in result.scores.rows} == {"three", "own"} and found.fits
    assert found.reasons == {("one", "fake"): "does not fit: it needs another slope"}
    assert result.task.note == " The network is your own, picky."


def test_a_task_that_fails_has_no_table_and_says_why(fake, tmp_path):
    task, _ = fake
    found, _ = run(tmp_path / "report", [task.with_methods(("broken",))], [task.with_methods(("broken", "one"))])
    (result,) = found.results
    assert result.failed == "method 'broken.py:maps' gives no maps" and not result.scores.rows
    assert files(tmp_path / "report") == {}


def test_as_many_run_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.setattr(tasks, "available_cores", lambda: 8)
    for free, units, jobs in ((None, 6, 6), (64 << 30, 6, 6), (64 << 30, 20, 8), (7 << 30, 6, 3), (1 << 20, 6, 1)):
        monkeypatch.setattr(tasks, "available_memory", lambda free=free: free)
        assert tasks.default_jobs(units) == jobs


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
