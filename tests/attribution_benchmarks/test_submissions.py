"""A submission is complete, names no path, and has the numbers that its code gives."""

import json

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks import submissions
from attribution_benchmarks.core.evaluation import evaluated, load, prepare
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report import published

ABOUT = {"title": "Mine, sharper", "authors": "A. Name", "paper": "https://example.org/paper"}


@pytest.fixture
def submitted(toy, tmp_path, monkeypatch):
    """Publish the scores of a benchmark of one file, and submit a method."""
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sets.toml").write_text(f'[[set]]\ntask = "toy"\nbenchmark = "{toy}:TOY"\nstart = 1\nnetwork = 1\n')
    (one,) = published.sets(complete=False)
    task, store = one.tasks[0], ScoreStore(None)
    run = prepare(benchmark_named(task.place), task.methods, task.settings, metrics=task.metrics, store=store)
    published.publish(one, [evaluated(load(run))])
    (tmp_path / "mine.py").write_text("def f(queries, *, power=2):\n    return abs(queries.inputs) ** power\n")
    found = submissions.submit(f"{tmp_path / 'mine.py'}:f", tmp_path / "submission", ABOUT)
    return tmp_path / "submission", found


def test_a_submission_is_one_folder_and_valid(submitted):
    folder, found = submitted
    assert {path.name for path in folder.iterdir()} == {"method.json", "method.py", "scores.npz", "environment.json"}
    about = json.loads((folder / "method.json").read_text())
    assert about["parameters"] == {"power": "2"} and about["function"] == "f" and ABOUT.items() <= about.items()
    (source,) = Scores.load(folder / "scores.npz").sources
    assert source.name == "mine_sharper" and "Mine, sharper among the published methods" in found.text
    assert str(submissions.check(folder, recompute=True)) == found.text


def test_what_is_wrong_with_a_submission_is_one_line(submitted):
    folder, _ = submitted
    about, scores = json.loads((folder / "method.json").read_text()), Scores.load(folder / "scores.npz")
    (group,) = scores.groups

    def refused(message, *, recompute=False, **changed):
        (folder / "method.json").write_text(json.dumps({**about, **changed}))
        with pytest.raises(BadInput, match=message):
            submissions.check(folder, recompute)

    refused("holds a path, '/h...'", authors="see /home/me/notes")
    refused("is of release 0.0.1", release="0.0.1")
    refused("no values of 'other'", title="Other")
    (folder / "method.py").write_text("def f(queries):\n    return queries.inputs\n")
    refused("not the code of the submission", recompute=True)
    mine = group.values["mine_sharper"]
    for values, message in ((mine * np.nan, "has no values on some networks"), (mine[:-1], "other inputs or networks")):
        inputs = group.inputs[: len(values)]
        changed = type(group)(group.where, inputs, {"mine_sharper": values}, sources=group.sources)
        Scores(groups=[changed], titles=scores.titles).save(folder / "scores.npz")
        refused(message)
    for name in ("gradient", "uniform"):  # what is published stays
        source = type(group.sources[0])(name)
        changed = type(group)(
            group.where, group.inputs, {"mine_sharper": mine, name: mine}, sources=[*group.sources, source]
        )
        Scores(groups=[changed], titles=scores.titles).save(folder / "scores.npz")
        refused(f"'{name}' is published or of another method")
    (folder / "method.json").write_text("{}")
    with pytest.raises(BadInput, match="lacks 'title', 'authors'"):
        submissions.check(folder)
    with pytest.raises(BadInput, match="--authors is empty"):
        submissions.submit("mine.py:f", folder, {"title": "Mine"})
