"""Published scores are what a recomputation gives, and a custom method is ranked among them."""

import json
import random
import sys

import numpy as np
import pytest

import attribution_benchmarks
from attribution import cli
from attribution.errors import BadInput
from attribution_benchmarks.__main__ import command
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.evaluation import evaluated, load, prepare
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import InputScores, Scores, mean_members
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report import published, reproduce
from attribution_benchmarks.stats.statistics import MIN_NETWORKS

SETS = published.sets()
OWN = (
    "def mine(queries):\n    return abs(queries.inputs) + 1\n\ndef unfit(queries):\n    return queries.inputs[:, :1]\n"
)


def computed(task, methods=None):
    benchmark = benchmark_named(task.place)
    names = task.methods if methods is None else methods
    run = prepare(benchmark, names, task.settings, metrics=task.metrics, store=ScoreStore(None), place=task.place)
    return evaluated(load(run))


def compare(one, number, methods):
    """Return how many values of a network were compared, after checking them."""
    found, differ = computed(one.tasks[number], methods), []
    for group in found.groups:
        (expected,) = [each for each in one.scores.groups if each.where == group.where]
        group = mean_members(group) if len(one.tasks) >= MIN_NETWORKS else group
        of_sources = published.differences(expected, group, number)
        assert set(methods) <= of_sources.keys()
        differ += of_sources.values()
    assert np.concatenate(differ).mean() <= published.JUMPS
    return sum(map(len, differ))


def test_a_sample_is_what_is_computed():
    assert compare(SETS[0], random.Random(0).randrange(len(SETS[0].tasks)), ["gradient"]) >= 200


@pytest.mark.parametrize("one", SETS, ids=[one.task for one in SETS])
def test_a_sample_of_every_set_is_what_is_computed(one):
    generator = random.Random(one.task)
    number = generator.randrange(len(one.tasks))
    methods = [name for name in one.tasks[number].methods if name not in ("rise", "smoothgrad", "vargrad")]
    assert compare(one, number, generator.sample(methods, 3)) >= 200


def test_published_files_are_small_and_have_every_network():
    assert sum(one.path.stat().st_size for one in SETS) < 6e6
    for one in SETS:
        assert {*one.tasks[-1].methods} <= {source.method for source in one.scores.sources}
        assert {"versions", "models", "processor"} <= one.scores.manifest.keys()
        for group in one.scores.groups:
            known = np.stack([group.by_network(source.name) for source in group.sources])
            assert known.shape[2] in (1, len(one.tasks)) and np.isfinite(known).any(axis=(0, 1)).all()


@pytest.fixture
def toy_set(toy, tmp_path, monkeypatch):
    """Publish the scores of a benchmark of one file."""
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sets.toml").write_text(
        f'[[set]]\ntask = "toy"\nbenchmark = "{toy}:TOY"\nstart = 1\nnetwork = 1\nrandom = 1\n'
    )
    assert published.sets() == []
    (one,) = published.sets(complete=False)
    scores = computed(one.tasks[0])
    published.publish(one, [scores])
    (tmp_path / "mine.py").write_text(OWN)
    return one, scores


def test_a_file_has_the_values_and_the_rows_of_its_groups(toy_set):
    one, scores = toy_set
    (group,), (expected,) = one.scores.groups, scores.groups
    for name in expected.values:
        np.testing.assert_array_equal(group.by_network(name), np.float32(expected.by_network(name)))
    found = published.with_rows(one.scores, one.tasks[0])
    assert [row["method"] for row in found.rows] == [row["method"] for row in scores.rows]
    assert "Vanilla Gradient" in str(found) and set(found.frame["network"]) == {0}
    one.path.write_bytes(one.path.read_bytes()[:-40])
    with pytest.raises(BadInput, match="holds no scores"):
        Scores.load(one.path)


def test_only_the_custom_method_is_computed_and_ranked(toy_set, toy, tmp_path, capsys, monkeypatch):
    name = f"{tmp_path / 'mine.py'}:mine"
    found = attribution_benchmarks.score(name, f"{toy}:TOY")
    (place,) = found.places
    assert (place.rank, place.of, place.tests.networks) == (3, 3, 1) and place.row["value"] == pytest.approx(
        0.5, abs=0.1
    )
    assert "mine among the published methods" in str(found) and "Mass on the left" in found._repr_html_()
    with monkeypatch.context() as nothing_is_computed:
        nothing_is_computed.setattr("attribution_benchmarks.api.scores_of", None)
        assert attribution_benchmarks.score("gradient", f"{toy}:TOY").places[0].of == 2
    monkeypatch.setattr(sys, "argv", ["attribution-benchmarks"])
    with pytest.raises(SystemExit) as exit_code:
        command(["score", name, f"--benchmarks={toy}:TOY", f"--output={tmp_path / 'place.html'}"])
    assert exit_code.value.code in (0, None) and "<html" in (tmp_path / "place.html").read_text()
    assert str(found).splitlines()[-4:] == capsys.readouterr().out.splitlines()[-4:]
    for methods, message in (
        ({"gradient": np.abs}, "'gradient' is a published method"),
        (f"{tmp_path / 'mine.py'}:unfit", "is not scored"),
    ):
        with pytest.raises(BadInput, match=message):
            attribution_benchmarks.score(methods, f"{toy}:TOY")
    with pytest.raises(BadInput, match="time=0: expected a positive number"):
        attribution_benchmarks.score(name, f"{toy}:TOY", time=0)


def test_the_report_reads_published_scores_and_computes_custom_methods(toy_set, toy, tmp_path, monkeypatch):
    computed_tasks, run = [], reproduce.run
    monkeypatch.setattr(reproduce, "run", lambda tasks, *more: computed_tasks.extend(tasks) or run(tasks, *more))

    def report(*flags):
        flags = [f"--benchmarks={toy}:TOY", f"--output_dir={tmp_path / 'report'}", *flags]
        assert cli.execute(reproduce.main, reproduce.FLAGS, reproduce.__doc__, ["reproduce", *flags]) == 0
        rows = json.loads((tmp_path / "report" / "tables" / "matrix.json").read_text())["rows"]
        return {row["method"]: row["value"] for row in rows}

    before = report()
    assert not computed_tasks and {"gradient", "uniform"} <= before.keys()
    name = f"{tmp_path / 'mine.py'}:mine"
    found = report(f"--methods={name},{tmp_path / 'mine.py'}:unfit")
    assert [task.methods for task in computed_tasks] == [()] and found.keys() == {*before, name}
    again = report("--recompute")
    assert again == pytest.approx(before, rel=1e-6) and len(computed_tasks) == 2


def test_methods_are_added_by_input_and_network():
    group = InputScores({"metric": "m"}, ["a", "b"], {"known": np.ones((2, 3))}, sources=[MapSource("known")])
    part = InputScores({"metric": "m"}, ["c", "b"], {"own": [5.0, 7.0]}, sources=[MapSource("own")])
    found = published.with_methods(group, {1: part}).by_network("own")
    np.testing.assert_array_equal(found, [[np.nan] * 3, [np.nan, 7.0, np.nan]])
