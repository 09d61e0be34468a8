"""What is said of a map is what the oracle says."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.lrp.composite import Composite, Rule
from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES
from tools.model_zoo.family import Family, keras_family, pictures


@pytest.fixture
def with_method(monkeypatch):
    """Put another function in place of a method's."""

    def replace(name, function):
        real = attribution.METHODS[name]
        changed = attribution.Method(name, real.title, function, real.card, query=real.query)
        monkeypatch.setattr("attribution.methods.registry.METHODS", {**attribution.METHODS, name: changed})

    return replace


@pytest.mark.parametrize(
    ("function", "status"),
    [
        (lambda passes: passes.input_gradient(), "exact"),
        (lambda passes: passes.input_gradient() * 1.001, "differs"),
        (lambda passes: np.flip(passes.input_gradient(), 1), "differs"),
        (lambda passes: passes.input_gradient() * np.nan, "crashes"),
        (lambda passes: passes.no_such_thing(), "crashes"),
        (lambda passes: passes.layer_gradient("no_such_layer"), "refused"),
    ],
)
def test_a_map_is_called_what_it_is(function, status, with_method):
    with_method("gradient", function)
    cell = measure.measure(FAMILIES["bias_free"], ["gradient"])["methods"]["gradient"]
    assert cell["status"] == status, cell
    if status == "differs":
        assert cell["difference"] > 5e-4


def test_every_kind_of_oracle_finds_maps_that_are_off_by_a_thousandth(monkeypatch):
    def off(method):
        @functools.wraps(method.function)
        def scaled(queries, **options):
            return 1.001 * method.function(queries, **options)

        return dataclasses.replace(method, function=scaled)

    names = (
        "grad_cam", "eigen_cam", "ablation_cam", "score_cam", "guided_backprop", "idgi", "blur_ig", "kernel_shap",
        "shapley_sampling", "lime", "guided_integrated_gradients", "lrp_gamma", "excitation_backprop",
    )  # fmt: skip
    changed = {name: off(method) if name in names else method for name, method in attribution.METHODS.items()}
    monkeypatch.setattr("attribution.methods.registry.METHODS", changed)
    for name, cell in measure.measure(FAMILIES["bias_free"], names)["methods"].items():
        assert cell["status"] == "differs", (name, cell)
        assert cell["difference"] == pytest.approx(1e-3, rel=1e-2), (name, cell)
    changed |= {name: off(attribution.METHODS[name]) for name in ("attention_rollout", "gradient_rollout")}
    rollouts = measure.measure(FAMILIES["vit_relu_mean"], ["attention_rollout", "gradient_rollout"])["methods"]
    for name, cell in rollouts.items():
        assert cell["status"] == "differs" and cell["difference"] == pytest.approx(1e-3, rel=1e-2), (name, cell)


def over_the_batch(passes):
    return passes.input_gradient() / np.abs(passes.input_gradient()).max()


def windows_as_inputs(passes):
    """What rollout did with windows: the first windows of the batch were taken for the inputs."""
    steps = passes.input_gradient().reshape(-1, 8, 16, 3)
    return np.repeat(steps[: len(passes)], 2, axis=1)


@pytest.mark.parametrize("function", [over_the_batch, windows_as_inputs])
def test_a_map_that_changes_with_other_inputs_differs(function, with_method):
    with_method("guided_backprop", function)
    cell = measure.measure(FAMILIES["bias_free"], ["guided_backprop"])["methods"]["guided_backprop"]
    assert (cell["status"], cell["against"]) == ("differs", "other inputs") and cell["difference"] > 1e-2, cell


def test_a_network_that_mixes_its_inputs_is_refused(tmp_path):
    """Batch normalization as in training: the scores of an input change with the others, and maps may, too."""

    def write(path):
        module = tf.Module()
        kernel = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
        module.call = tf.function(
            lambda x: {"scores": tf.matmul((x - tf.reduce_mean(x, 0)) / tf.math.reduce_std(x, 0), kernel)},
            input_signature=[tf.TensorSpec((None, 6), tf.float32, name="x")],
            autograph=False,
        )
        tf.saved_model.save(module, str(path), signatures=module.call)

    def inputs(rows):
        return np.random.default_rng(1).normal(size=(rows, 6)).astype(np.float32)

    family = Family("training_statistics", "normalized by its batch", write, inputs)
    cell = measure.measure(family, ["gradient_x_input"])["methods"]["gradient_x_input"]
    assert cell["status"] == "refused" and "depend on the other inputs of its batch" in cell["note"], cell


def test_relevance_that_leaks_differs(with_method):
    with_method("lrp_cp", lambda passes, *, epsilon=0.0: 1.01 * passes.inputs * passes.input_gradient())
    cell = measure.measure(FAMILIES["bias_free"], ["lrp_cp"])["methods"]["lrp_cp"]
    assert (cell["status"], cell["against"]) == ("differs", "Gradient x Input")
    assert cell["difference"] == pytest.approx(0.01, rel=1e-2)


PLUS, EPSILON, GAMMA = Rule("z_plus"), Rule("epsilon"), Rule("gamma", gamma=0.25)
# A method, and its composite with one mistake.
MISTAKES = {
    "lrp_alpha1beta0": Composite(*[dataclasses.replace(PLUS, bias=False)] * 3, batch_norm="fold", sums="separate"),
    "lrp_epsilon_plus": Composite(PLUS, EPSILON, PLUS, batch_norm="fold", norm="epsilon", sums="joint"),
    "lrp_epsilon_plus_flat": Composite(PLUS, EPSILON, PLUS, batch_norm="fold", norm="epsilon", sums="separate"),
    "lrp_gamma": Composite(GAMMA, GAMMA, EPSILON, norm="epsilon", sums="separate"),  # without folding
    "lrp_epsilon_gamma_box": Composite(
        GAMMA, EPSILON, EPSILON, Rule("box", low=-1.1, high=1.0), "fold", "epsilon", sums="separate"
    ),
    "lrp_clevr_xai": Composite(*[Rule("alpha_beta", alpha=1.0, beta=0.01)] * 3),
    "excitation_backprop": Composite(*[Rule("z_plus", epsilon=0.0, bias=False)] * 3, sums="separate", start="one"),
}


def test_the_definition_finds_each_mistake_in_a_composite(monkeypatch):
    changed = dict(attribution.METHODS)
    for name, composite in MISTAKES.items():

        def mistaken(queries, *, epsilon=0.0, low=-1.0, high=1.0, composite=composite):
            return queries.relevance(composite)

        changed[name] = dataclasses.replace(changed[name], function=mistaken)
    monkeypatch.setattr("attribution.methods.registry.METHODS", changed)
    for name, cell in measure.measure(FAMILIES["signal_residual"], MISTAKES)["methods"].items():
        assert (cell["status"], cell["against"]) == ("differs", "its definition"), (name, cell)
        assert cell["difference"] > 1e-3, (name, cell)


def test_normalization_at_the_end_of_a_network_is_defined():
    def build():
        return keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "relu"), keras.layers.BatchNormalization()])

    family = keras_family("normalized", "", build, pictures(6))
    cell = measure.measure(family, ["lrp_epsilon"])["methods"]["lrp_epsilon"]
    assert (cell["status"], cell["against"]) == ("exact", "its definition"), cell


def test_a_layer_without_definition_leaves_rows():
    def build():
        inputs = keras.Input((12, 2))
        return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(keras.layers.LayerNormalization(-1)(
            keras.layers.SeparableConv1D(4, 3, activation="relu")(inputs)
        ))))  # fmt: skip

    cell = measure.measure(keras_family("separable", "", build, pictures(12, 2)), ["lrp_alpha1beta0"])["methods"]
    assert cell["lrp_alpha1beta0"]["status"] == "rows" and "Σ/f" in cell["lrp_alpha1beta0"]["note"], cell


def test_what_float64_mends_is_rounding(with_method):
    """A float32 network's gradient that is off by 1e-4, and right in float64, is rounding; one off in both differs."""
    real = attribution.METHODS["gradient"].function

    def rounded(passes):
        is_double = any(node.attr["T"].type == 2 for node in passes.model.graph.nodes.values() if node.op == "Conv2D")
        return real(passes) * (1.0 if is_double else 1.0001)

    with_method("gradient", rounded)
    cell = measure.measure(FAMILIES["bias_free"], ["gradient"])["methods"]["gradient"]
    assert cell["status"] == "rounding" and cell["in_double"] <= measure.TOLERANCE < cell["difference"], cell
    assert cell["of_oracle"] < 1e-6, cell


def test_half_precision_is_compared_with_double():
    """The coarser half; test_zoo.py has the other."""
    cell = measure.measure(FAMILIES["mixed_bfloat16"], ["lrp_epsilon"])["methods"]["lrp_epsilon"]
    assert (cell["status"], cell["against"]) == ("exact", "Gradient x Input in float64"), cell
