"""Xplique's metrics on our maps and scores, where it is installed; it is no requirement of the tests."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics import faithfulness, imputation, of_libraries
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics

GENERATOR = np.random.default_rng(6)
WEIGHTS = GENERATOR.normal(size=(64, 3))
PICTURES = GENERATOR.random((4, 8, 8, 1)).astype(np.float32)
BATCH = Batch(PICTURES - PICTURES.mean(axis=(1, 2, 3), keepdims=True), list("abcd"), np.array([0, 1, 2, 0]))
MAPS = GENERATOR.normal(size=(4, 8, 8))


def scores(pictures):
    logits = np.exp(np.reshape(pictures, (len(pictures), -1)) @ WEIGHTS)
    return logits / logits.sum(axis=1, keepdims=True)


def found(name, batch=BATCH, maps=MAPS):
    (metric,) = select_metrics([name], {}).values()
    return metric.measure.compute(maps, batch, scores)[:, 0]


def test_deletion_and_insertion_are_ours_with_zero_in_place_of_the_mean_colour():
    """These pictures' mean colour is zero, up to rounding."""
    pytest.importorskip("xplique")
    shares = tuple(step / 8 for step in range(1, 9))
    curves = faithfulness.curve(MAPS, BATCH, scores, imputation.mean_colour, shares)
    np.testing.assert_allclose(found("xplique:Deletion?steps=8"), faithfulness.area(curves, shares), rtol=1e-5)
    curves = faithfulness.curve(-MAPS, BATCH, scores, imputation.mean_colour, shares)  # read backwards
    np.testing.assert_allclose(found("xplique:Insertion?steps=8"), faithfulness.area(curves, shares), rtol=1e-5)


def test_mu_fidelity_is_ours_on_the_same_subsets(monkeypatch):
    fidelity = pytest.importorskip("xplique.metrics.fidelity")
    sets = faithfulness.random_sets(BATCH, "mu_fidelity", 64, [13] * 100).reshape(4, 100, 8, 8, 1)
    rows = iter(sets)

    def same_subsets(self, inputs, count):
        kept = 1 - tf.constant(next(rows), tf.float32)
        return inputs[0] * kept, kept[tf.newaxis]

    monkeypatch.setattr(fidelity.MuFidelity, "_perturb_samples", same_subsets)
    theirs = found("xplique:MuFidelity?nb_samples=100&batch_size=100")
    np.testing.assert_allclose(found("mu_fidelity"), theirs, atol=1e-3)  # ranks of float32


def test_sparseness_and_complexity_are_ours():
    pytest.importorskip("xplique")
    for name in ("sparseness", "complexity"):
        ours = METRIC_REGISTRY[name].measure.compute(MAPS, BATCH, None)[:, 0]
        np.testing.assert_allclose(found(f"xplique:{name.capitalize()}"), ours, rtol=1e-5)


@pytest.mark.parametrize("name", ["AverageDropMetric", "AverageGainMetric", "AverageIncreaseMetric", "MuFidelity"])
def test_no_value_depends_on_the_batch(name):
    pytest.importorskip("xplique")
    whole = found(f"xplique:{name}")
    np.testing.assert_array_equal(found(f"xplique:{name}", BATCH.take([2, 3]), MAPS[2:]), whole[2:])
    assert np.isfinite(whole).all()


def test_errors_are_one_line(monkeypatch):
    with pytest.raises(BadInput, match="no such metric of Xplique is offered; choose of 'AverageDropMetric', "):
        select_metrics(["xplique:Nothing"], {})
    monkeypatch.setitem(sys.modules, "xplique.metrics", None)
    with pytest.raises(BadInput, match=r"needs Xplique: pip install tf_keras .* && pip install --no-deps xplique"):
        select_metrics(["xplique:Deletion"], {})


ALONE = """
import importlib.metadata, re, sys
from packaging.requirements import Requirement

def plain(name):
    return re.sub("[-_.]+", "-", name).lower()

installed, waiting = {("xplique", "")}, [(name, "") for name in ("attribution-benchmarks", *sys.argv[1:])]
while waiting:
    name, extra = waiting.pop()
    if (plain(name), extra) not in installed:
        installed.add((plain(name), extra))
        for needed in map(Requirement, importlib.metadata.requires(name) or []):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(needed.name, each) for each in ("", *needed.extras)]
installed = {name for name, _ in installed}
known = importlib.metadata.packages_distributions()

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in known and installed.isdisjoint(map(plain, known[name])):
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Hidden())
import xplique.metrics
"""


def test_the_printed_command_installs_what_xplique_imports():
    """Beside what this package requires, though more is installed here."""
    pytest.importorskip("xplique")
    install = of_libraries.XPLIQUE_INSTALL
    assert install in (pathlib.Path(__file__).resolve().parents[3] / "docs/metrics.md").read_text("utf-8")
    first, itself = install.split(" && ")
    assert itself == "pip install --no-deps xplique"
    done = subprocess.run([sys.executable, "-c", ALONE, *first.split()[2:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
