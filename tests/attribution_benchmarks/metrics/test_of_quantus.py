"""Quantus's metrics on our maps and scores equal what Quantus computes of the same Keras model by itself."""

import sys

import keras
import numpy as np
import pytest

from attribution import cli
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics import of_libraries
from attribution_benchmarks.metrics.registry import select_metrics

quantus = pytest.importorskip("quantus")
GENERATOR = np.random.default_rng(5)


class Network(keras.Model):
    """A model whose predict costs little for few inputs: Quantus calls it once per feature."""

    def predict(self, inputs, **options):
        return self(inputs).numpy()


@pytest.fixture(scope="module")
def network():
    pictures = keras.Input((8, 8, 3))
    hidden = keras.layers.Dense(9, "relu")(keras.layers.Flatten()(pictures))
    model = Network(pictures, keras.layers.Dense(3)(hidden))
    model.set_weights([GENERATOR.normal(size=weights.shape) for weights in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def batch():
    masks = {"object": GENERATOR.random((5, 8, 8)) < 0.4}
    pictures = GENERATOR.random((5, 8, 8, 3)).astype(np.float32)
    return Batch(pictures, list("abcde"), np.array([0, 1, 2, 0, 1]), masks=masks)


def found(name, maps, batch, queries):
    (metric,) = select_metrics([name], {}).values()
    return metric.measure.compute(maps, batch, queries)[:, 0]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("PixelFlipping", {}), ("FaithfulnessEstimate", {}), ("Selectivity", {"patch_size": 2}),
        ("RegionPerturbation", {"patch_size": 4, "order": "lerf"}), ("NonSensitivity", {}),
        ("Sparseness", {}), ("PointingGame", {}), ("RelevanceRankAccuracy", {}),
    ],
)  # fmt: skip
def test_the_value_is_that_of_quantus_alone(name, parameters, network, batch):
    maps = GENERATOR.normal(size=(5, 1, 8, 8))
    theirs = getattr(quantus, name)(**parameters, disable_warnings=True, return_aggregate=False)(
        model=network, x_batch=batch.pictures, y_batch=batch.targets, a_batch=maps,
        s_batch=batch.masks["object"][:, np.newaxis], channel_first=False,
        softmax=False,
    )  # fmt: skip
    query = "&".join(f"{key}={value}" for key, value in parameters.items())
    ours = found(f"quantus:{name}?{query}", maps[:, 0], batch, network.predict)
    np.testing.assert_allclose(ours, [np.mean(one) for one in theirs], rtol=1e-5)


class Explained:
    """A method whose map is the input's first channel, counted."""

    calls = 0

    def scores(self, inputs):
        return np.stack([part * inputs.sum(axis=(1, 2, 3)) ** 2 for part in (1, 2, 3)], axis=1)

    def __call__(self, batch, model=None):
        self.calls += 1
        return batch.pictures[..., 0].astype(np.float64)


def test_robustness_explains_noisy_inputs_and_no_value_depends_on_the_batch(batch):
    maps, explain = batch.pictures[..., 0].astype(np.float64), Explained()
    name = "quantus:MaxSensitivity?nr_samples=7"
    whole = found(name, maps, batch, explain)
    assert explain.calls == 5 * 7 and (0 < whole).all() and len(set(whole)) == 5
    np.testing.assert_array_equal(found(name, maps[3:], batch.take([3, 4]), explain), whole[3:])
    name = "quantus:FaithfulnessCorrelation?subset_size=16&nr_runs=20"
    whole = found(name, maps, batch, explain.scores)
    np.testing.assert_array_equal(found(name, maps[3:], batch.take([3, 4]), explain.scores), whole[3:])


def test_every_class_that_is_offered_exists_and_has_a_direction():
    for name in of_libraries.QUANTUS_NAMES:
        metric = of_libraries.quantus_metric(f"quantus:{name}")
        assert metric.better in ("more", "less") and f"{metric.better} is better" in metric.about.lower()
    assert of_libraries.quantus_metric("quantus:PixelFlipping").better == "less"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quantus:Nothing", "choose of 'AUC', 'AttributionLocalisation', "),
        ("quantus:Sufficiency", "no such metric of Quantus is offered"),
        ("quantus:Sparseness?size=3", "Sparseness does not take these parameters"),
        (f"quantus:Sparseness?size={'-' * 100_000}1", "Sparseness does not take these parameters"),
    ],
)
def test_an_unknown_name_or_parameter_is_one_line(name, message, capsys):
    from svea import benchmark

    assert cli.execute(benchmark.main, benchmark.FLAGS, benchmark.__doc__, ["benchmark", f"--metrics={name}"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_without_quantus_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "quantus", None)
    with pytest.raises(BadInput, match=r"needs Quantus: pip install 'quantus[^']*'"):
        select_metrics(["quantus:Sparseness"], {})


def test_maps_that_quantus_refuses_are_undefined(batch):
    maps = np.stack([np.zeros((8, 8)), np.ones((8, 8)), *-batch.pictures[:2, ..., 0], batch.pictures[2, ..., 0]])
    undefined = np.isnan(found("quantus:Sparseness", maps, batch, None))
    assert undefined.tolist() == [True, True, True, True, False]


def test_what_quantus_refuses_is_an_error_of_the_input(batch):
    with pytest.raises(
        BadInput, match=r"Quantus's TopKIntersection failed on inputs of shape \(8, 8, 3\): .*'k' must be"
    ):
        found("quantus:TopKIntersection", batch.pictures[..., 0], batch, None)
