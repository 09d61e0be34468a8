"""SVEA's network that knows deletions: what it learns from, what it is worth, and the metric that it is there for."""

import json
import pathlib
import shlex

import deletions  # docs/studies/deletions.py
import numpy as np

import attribution
from attribution import cli
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from svea import benchmark, mnist1d

COMMAND = "--model=saved_models/svea/deletions --methods=gradient,grad_cam --metrics=in_domain_deletion"
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def run(arguments):
    return cli.execute(benchmark.main, benchmark.FLAGS, benchmark.__doc__, ["benchmark", *arguments])


def test_half_of_what_it_learns_from_lacks_one_segment_each_as_often():
    signals, labels = np.arange(1.0, 81).reshape(2, 40, 1), np.array([3, 7])
    found, classes = deletions.with_deletions(signals, labels)
    assert found.shape == (40, 40, 1) and classes.tolist() == [3, 7] * 20
    gone = found[..., 0] == 0
    assert (gone.sum(axis=1) == [0] * 20 + [4] * 20).all()
    assert (gone.sum(axis=0) == 2).all()  # every point in one deletion of each signal
    np.testing.assert_array_equal(found[~gone], np.tile(signals, (20, 1, 1))[~gone])


def test_the_committed_network_is_what_its_card_says():
    model = attribution.load_model(default_model("svea/deletions"), score="probabilities")
    assert METRIC_REGISTRY["in_domain_deletion"].measure.check(model) == deletions.DELETIONS
    data = mnist1d.load()
    signals, labels = data.test.signals[..., None], data.test.labels
    card = (default_model("svea/deletions") / "MODEL_CARD.md").read_text()
    whole = 100 * np.mean(model.predict(signals, 1000) == labels)
    without = [model.predict(deletions.DELETIONS.without(signals, one), 1000) == labels for one in range(10)]
    assert f"1,000 test signals | {whole:.1f} %" in card
    assert f"without each segment | {100 * np.mean(without):.1f} %" in card


def test_the_metric_tells_methods_from_maps_that_know_no_network(tmp_path, capsys):
    assert f"python -m svea.benchmark {COMMAND}" in (DOCS / "benchmarks.md").read_text()
    assert run([*shlex.split(COMMAND), f"--output={tmp_path / 'scores.json'}"]) == 0
    rows = {row["method"]: row for row in json.loads((tmp_path / "scores.json").read_text())["rows"]}
    assert rows["grad_cam"]["low"] > rows["random_window"]["high"]
    assert rows["template_position"]["low"] > rows["random_window"]["high"]
    assert rows["random_window"]["low"] < 0.03 and abs(rows["random_window"]["value"]) < 0.1
    capsys.readouterr()
    assert run(["--methods=gradient", "--metrics=in_domain_deletion"]) == 2
    said = capsys.readouterr().err
    assert "saved_models/svea/baseline" in said and "does not declare any: there is no assets/deletions.js" in said
