"""The zoo, in part; ``tools/docs/document_networks.py`` is the whole, in some 20 CPU minutes for the small families.

A family of every kind is explained by three methods, each with graphs of its own; one family by all; those that differ
most by a method of every other kind. ``-m families`` explains all others by three methods, and some more by the others.
Then: the status of a map is what its oracle says.
"""

import dataclasses
import functools
import pathlib
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.lrp.composite import Composite, Rule
from zoo import measure
from zoo.families import FAMILIES, GROUPS
from zoo.family import Exported, keras_family, pictures
from zoo.relevance_oracle import DEFINITIONS

# Families of which nothing can be explained, and the reason in the message.
REFUSED = {
    "examples": "is of type string and has no gradient; name a tensor",
    "live_dropout": "other scores at every call",
}
# As docs/networks.md says of these cells: TensorFlow cannot differentiate the frozen graph of these files, and some
# maps are the definition's in float64 alone.
NO_ORACLE = {("keras_int8", method) for method in ("grad_cam", "ablation_cam", "gradient_rollout")}
NO_ORACLE |= {("vit_gated", "grad_cam"), ("compiled_inside", "grad_cam")}
ROUNDED = {("softplus", "lrp_attn")}
ROUNDED |= {(name, "lrp_alpha1beta0") for name in ("vit_gelu", "mlp_mixer", "token_transformer_causal")}


def check(name, methods):
    """Check that every map of a family, by some methods, is the oracle's, or refused by name."""
    found = measure.measure(FAMILIES[name], methods)["methods"]
    for method, cell in found.items():
        assert cell["status"] != "crashes", (method, cell["note"])
        if name in REFUSED:
            assert cell["status"] == "refused" and re.search(REFUSED[name], cell["note"]), (method, cell)
        else:
            assert cell["status"] != "differs", (method, cell)
            assert cell["status"] != "rounding" or (name, method) in ROUNDED, (method, cell)
            known = cell["status"] in ("exact", "limit", "refused", "rounding")
            has_oracle = method in (*measure.BY_ORACLE, *DEFINITIONS) and (name, method) not in NO_ORACLE
            assert known or not has_oracle, (method, cell)


@pytest.fixture(scope="module", autouse=True)
def written_once(tmp_path_factory):
    """Copy the file of a family that was written before: to build, settle and export it is most of a small check."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("__call__", "in_double"):
            patch.setattr(Exported, name, once(getattr(Exported, name), tmp_path_factory))
        yield


def once(write, folders):
    """Return a writer of families' files that writes each once."""

    @functools.cache
    def first(family):
        write(family, folder := folders.mktemp("family") / "file")
        return folder

    def copied(family, path):
        for file in first(family).parent.iterdir():  # some have a second one beside them
            shutil.copytree(file, pathlib.Path(str(path) + file.name.removeprefix("file")))

    return copied


THREE_METHODS = ("gradient", "lrp_attn", "grad_cam")  # gradients, relevance and a layer
OTHER_METHODS = ("deeplift", "lrp_epsilon", "ablation_cam", "gradient_rollout", "kernel_shap")
# One network of each way in which graphs differ most.
MOST_DIFFERENT = ("inverted_residual", "lstm", "two_inputs", "tensorflow_1")
DIFFERENT = ("signal_residual", "vit_gelu", "examples", "live_dropout")
BY_RULES = ("lrp_epsilon", "lrp_alpha1beta0", "lrp_cp", "lrp_attn", "excitation_backprop")
WITH_RULES = (
    "dense_block", "squeeze_excitation", "transposed", "u_net_bilinear", "group_norm", "vit_gelu", "mlp_mixer",
    "token_transformer_causal", "lstm", "lstm_unrolled", "gru", "bidirectional",
)  # fmt: skip
OF_EVERY_KIND = (
    "signal_residual", "inverted_residual", "grouped", "convolutional_head", "volume", "vit_gelu", "lstm", "two_inputs",
    "channels_first", "static_batch", "bytes", "examples", "segmentation", "tensorflow_1",
    "live_dropout",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in OF_EVERY_KIND if name not in MOST_DIFFERENT])
def test_a_family_of_every_kind_is_known_or_refused(name):
    check(name, THREE_METHODS)


@pytest.mark.families
@pytest.mark.parametrize("name", [name for name, one in FAMILIES.items() if one.quick and name not in OF_EVERY_KIND])
def test_every_other_small_family_is_known_or_refused(name):
    check(name, THREE_METHODS)


@pytest.mark.parametrize("name", MOST_DIFFERENT)
def test_other_methods_are_known_or_refused(name):
    check(name, (*THREE_METHODS, *OTHER_METHODS))


@pytest.mark.families
@pytest.mark.parametrize("name", DIFFERENT)
def test_other_methods_of_more_families_are_known_or_refused(name):
    check(name, OTHER_METHODS)


@pytest.mark.parametrize("name", WITH_RULES)
def test_relevance_is_its_definition(name):
    check(name, BY_RULES)


def test_every_method_is_known_or_refused():
    check("residual", measure.METHODS)


@pytest.mark.parametrize("name", ["residual", "inverted_residual", "bias_free", "signal_residual"])
def test_networks_live(name, tmp_path):
    """Scores are of order 1 and depend on the input, and of every activation some positions are on and some off."""
    family = FAMILIES[name]
    family.write(tmp_path / "model")
    model, inputs = attribution.load_model(tmp_path / "model"), family.inputs(8)
    scores = model.scores(inputs)
    assert 0.1 < np.sqrt(np.mean(np.square(scores))) < 10
    assert scores.std(axis=0).max() > 0.01
    rectified = [node for node in model.layers() if model.graph.nodes[node].op == "Relu"]
    for node in rectified:
        values = []

        def look(passes, node=node, values=values):
            values.append(passes.layer_gradient(node)[0])
            return passes.inputs

        attribution.explain(look, model, inputs)
        on = (values[0] > 0).mean()
        assert 0.05 < on < 0.95, node


@pytest.mark.parametrize(
    "name", ["inverted_residual", "dense_block", "u_net_nearest", "channels_first", "tensorflow_1"]
)
def test_folding_keeps_a_familys_own_scores(name, tmp_path):
    FAMILIES[name].write(tmp_path / "model")
    x, model = FAMILIES[name].inputs(4), attribution.load_model(tmp_path / "model")
    own = next(iter(tf.saved_model.load(tmp_path / "model").signatures.values()))
    (expected,) = own(**{next(iter(own.structured_input_signature[1])): tf.constant(x)}).values()
    np.testing.assert_allclose(model.scores(x), expected, rtol=1e-5, atol=5e-6)


def test_every_family_of_keras_applications_is_there():
    assert len(GROUPS["keras.applications"]) == 13
    assert len(FAMILIES) == sum(map(len, GROUPS.values()))  # no name twice


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


def test_a_map_that_changes_with_other_inputs_differs(with_method):
    with_method("guided_backprop", over_the_batch)
    cell = measure.measure(FAMILIES["bias_free"], ["guided_backprop"])["methods"]["guided_backprop"]
    assert (cell["status"], cell["against"]) == ("differs", "other inputs") and cell["difference"] > 1e-2, cell


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
