"""The zoo, in part; ``tools/docs/document_networks.py`` is the whole, in some 20 CPU minutes for the small families.

A family of every kind is explained by three methods, each with graphs of its own; one family by all; those that differ
most by a method of every other kind. ``-m families`` explains all others by three methods, and some more by the others.
"""

import numpy as np
import pytest

import attribution
from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES, GROUPS

THREE_METHODS = ("gradient", "lrp_attn", "grad_cam")  # gradients, relevance and a layer
OTHER_METHODS = ("deeplift", "lrp_epsilon", "ablation_cam", "gradient_rollout", "kernel_shap")
# One network of each way in which graphs differ most.
MOST_DIFFERENT = ("inverted_residual", "lstm", "two_inputs", "tensorflow_1")
DIFFERENT = ("signal_residual", "vit_gelu", "examples", "live_dropout")
OF_EVERY_KIND = (
    "signal_residual", "inverted_residual", "grouped", "convolutional_head", "volume", "vit_gelu", "lstm", "two_inputs",
    "channels_first", "mixed_float16", "static_batch", "bytes", "examples", "segmentation", "tensorflow_1",
    "live_dropout",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in OF_EVERY_KIND if name not in MOST_DIFFERENT])
def test_a_family_of_every_kind_is_known_or_refused(name, known_or_refused):
    known_or_refused(name, THREE_METHODS)


@pytest.mark.families
@pytest.mark.parametrize("name", [name for name, one in FAMILIES.items() if one.quick and name not in OF_EVERY_KIND])
def test_every_other_small_family_is_known_or_refused(name, known_or_refused):
    known_or_refused(name, THREE_METHODS)


@pytest.mark.parametrize("name", MOST_DIFFERENT)
def test_other_methods_are_known_or_refused(name, known_or_refused):
    known_or_refused(name, (*THREE_METHODS, *OTHER_METHODS))


@pytest.mark.families
@pytest.mark.parametrize("name", DIFFERENT)
def test_other_methods_of_more_families_are_known_or_refused(name, known_or_refused):
    known_or_refused(name, OTHER_METHODS)


def test_every_method_is_known_or_refused(known_or_refused):
    known_or_refused("residual", measure.METHODS)


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


def test_every_family_of_keras_applications_is_there():
    assert len(GROUPS["keras.applications"]) == 13
    assert len(FAMILIES) == sum(map(len, GROUPS.values()))  # no name twice
