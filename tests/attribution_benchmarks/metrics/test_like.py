"""Metrics as other libraries define them equal the libraries' values, which ``quantus:`` and ``xplique:`` run."""

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics.like import metric_libraries
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics

GENERATOR = np.random.default_rng(3)
PRESETS = {f"{name}@{library.name}": preset for library in metric_libraries().values()
           for name, preset in library.presets.items()}  # fmt: skip
SHAPES = {"odd": (7, 9, 3), "even": (10, 10, 1), "vector": (12,), "signal": (13, 2), "one channel": (13, 1)}


def quadratic(inputs):
    """Return three scores of inputs, not linear in them."""
    rows = np.asarray(getattr(inputs, "pictures", inputs), np.float64).reshape(len(inputs), -1)
    weights = np.sin(np.arange(3 * rows.shape[1]).reshape(3, -1))
    return rows @ weights.T + (rows**2) @ weights.T**2 / 3


def batch_of(shape):
    spatial = shape[:-1] or shape
    masks = GENERATOR.random((6, *spatial)) < 0.4
    masks[1] = False
    pictures = GENERATOR.uniform(-0.5, 1, (6, *shape)).astype(np.float32)
    return Batch(pictures, list("abcdef"), np.array([0, 1, 2, 0, 1, 2]), masks={"object": masks})


def maps_of(batch):
    """Return random, tied, constant, zero, non-negative and negative maps."""
    maps = GENERATOR.normal(size=batch.masks["object"].shape)
    maps[1] = np.round(maps[1])
    maps[2], maps[3] = 1, 0
    maps[4], maps[5] = abs(maps[4]), -abs(maps[5])
    return maps


def value(name, maps, batch):
    (metric,) = select_metrics([name], {}).values()
    return metric.measure.compute(maps, batch, quadratic)[:, 0]


def called(name):
    """Return how the library itself is named and called for a preset."""
    library = name.partition("@")[2]
    return f"{library}:{PRESETS[name].call.partition('(')[0]}"


EXACT = [name for name, preset in PRESETS.items() if preset.status == "exact"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EXACT)
def test_the_value_is_the_librarys(name, shape):
    pytest.importorskip("quantus" if name.endswith("@quantus") else "xplique")
    batch = batch_of(SHAPES[shape])
    maps = maps_of(batch)
    if "top_k" in name:
        for one in (name, called(name)):
            with pytest.raises(BadInput):
                value(one, maps, batch)
        batch = batch_of((40, 30, 1))
        maps = maps_of(batch)
    if shape == "signal" and name in ("deletion@xplique", "insertion@xplique"):
        with pytest.raises(BadInput, match="each of their numbers for a position"):
            value(name, maps, batch)
        return
    np.testing.assert_allclose(value(name, maps, batch), value(called(name), maps, batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape"), [("mu_fidelity@xplique", (10, 10, 1)), ("mu_fidelity@xplique", (13, 1)),
                        ("faithfulness_correlation@quantus", (16, 15, 2))],
)  # fmt: skip
def test_random_values_are_the_librarys_in_distribution(name, shape):
    pytest.importorskip("quantus" if name.endswith("@quantus") else "xplique")
    once = batch_of(shape)
    batch = Batch(np.repeat(once.pictures[:1], 12, 0), list("abcdefghijkl"), np.zeros(12, int))
    maps = np.repeat(GENERATOR.normal(size=(1, *shape[:-1])), 12, 0)
    ours, theirs = value(name, maps, batch), value(called(name), maps, batch)
    error = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 12)
    assert abs(ours.mean() - theirs.mean()) < 4 * error and 0.2 < ours.std() / theirs.std() < 5


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if not preset.is_usable])
def test_a_metric_that_is_not_computed_is_refused_with_the_reason(name):
    with pytest.raises(BadInput) as raised:
        select_metrics([name], {})
    assert PRESETS[name].evidence in str(raised.value)


def test_every_preset_names_a_metric_of_this_project():
    for name, preset in PRESETS.items():
        assert preset.of in METRIC_REGISTRY
        if preset.is_usable:
            (metric,) = select_metrics([name], {}).values()
            assert metric.name == name and metric.better == METRIC_REGISTRY[preset.of].better


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sparseness@captum", "no library 'captum'; 'sparseness' exists as 'sparseness@quantus', 'sparseness@xplique'"),
        ("focus@xplique", "Xplique 2.0.2 has no 'focus'"),
    ],
)
def test_an_unknown_library_or_metric_is_named(name, message):
    with pytest.raises(BadInput, match=message):
        select_metrics([name], {})
