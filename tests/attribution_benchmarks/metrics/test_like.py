"""Metrics as Quantus defines them equal its values, called as its users call it.

It is not in the test extra, because it requires another OpenCV; .ci/run installs it.
"""

import warnings

import keras
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


class Network(keras.Model):
    """A network of logits whose ``predict`` costs little for few inputs: Quantus calls it once per feature."""

    def predict(self, inputs, **options):
        return self(inputs).numpy()


def network_of(shape):
    """Return a network that is not linear, and takes a vector as positions of one channel, as Quantus does."""
    keras.utils.set_random_seed(4)
    inputs = keras.Input(shape if len(shape) > 1 else (*shape, 1))
    flat = keras.layers.Flatten()(inputs)
    joined = keras.layers.Concatenate()([flat, keras.layers.Multiply()([flat, flat])])
    return Network(inputs, keras.layers.Dense(3)(joined))


def scores_of(network):
    def scores(inputs):
        inputs = np.asarray(inputs, np.float32)
        return network.predict(inputs.reshape(len(inputs), *network.input_shape[1:]))

    return scores


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


def value(name, maps, batch, network):
    (metric,) = select_metrics([name], {}).values()
    return metric.measure.compute(maps, batch, scores_of(network))[:, 0]


def of_quantus(call, maps, batch, network):
    """Return Quantus's values of the inputs one by one, with its defaults; NaN for a map that it refuses."""
    metric = getattr(pytest.importorskip("quantus"), call)(disable_warnings=True, return_aggregate=False)
    pictures = batch.pictures.reshape(len(batch), *network.input_shape[1:])
    found = []
    for row, one in enumerate(maps):
        if np.ptp(one) == 0 or (one < 0).all():
            found.append(np.nan)
            continue
        mask = batch.masks["object"][row][np.newaxis, np.newaxis]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a removed position had the baseline's value, and the like
            theirs = metric(
                model=network, x_batch=pictures[[row]], y_batch=batch.targets[[row]],
                a_batch=one[np.newaxis, np.newaxis], s_batch=mask, channel_first=False,
            )  # fmt: skip
        found.append(np.mean(np.asarray(theirs, np.float64)))
    return np.array(found)


def of_library(name, maps, batch, network):
    return of_quantus(PRESETS[name].call.partition("(")[0], maps, batch, network)


EXACT = [name for name, preset in PRESETS.items() if preset.status == "exact"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EXACT)
def test_the_value_is_the_librarys(name, shape):
    pytest.importorskip("quantus")
    shape = (40, 30, 1) if "top_k" in name else SHAPES[shape]
    batch, network = batch_of(shape), network_of(shape)
    maps = maps_of(batch)
    expected = of_library(name, maps, batch, network)
    np.testing.assert_allclose(value(name, maps, batch, network), expected, rtol=1e-5, atol=1e-5)


def test_inputs_that_a_library_refuses_are_refused():
    batch = batch_of((7, 9, 3))
    with pytest.raises(BadInput, match="the library refuses inputs of this size"):
        value("top_k_intersection@quantus", maps_of(batch), batch, network_of((7, 9, 3)))


def test_random_values_are_the_librarys_in_distribution():
    pytest.importorskip("quantus")
    name, shape = "faithfulness_correlation@quantus", (16, 15, 2)
    once, network = batch_of(shape), network_of(shape)
    batch = Batch(
        np.repeat(once.pictures[:1], 12, 0), list("abcdefghijkl"), np.zeros(12, int),
        masks={"object": np.repeat(once.masks["object"][:1], 12, 0)},
    )  # fmt: skip
    maps = np.repeat(GENERATOR.normal(size=(1, *shape[:-1])), 12, 0)
    ours, theirs = value(name, maps, batch, network), of_library(name, maps, batch, network)
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
        ("sparseness@captum", "no library 'captum'; 'sparseness' exists as 'sparseness@quantus'"),
        ("focus@quantus", "Quantus 0.6.0 has no 'focus'"),
    ],
)
def test_an_unknown_library_or_metric_is_named(name, message):
    with pytest.raises(BadInput, match=message):
        select_metrics([name], {})
