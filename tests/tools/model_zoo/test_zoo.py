"""The zoo, in part; ``tools/docs/document_networks.py`` is the whole, in some 20 CPU minutes for the small families.

Every small family is explained by three methods, each with graphs of its own; one family by all; those that differ most
by a method of every other way in which a model is asked.
"""

import re

import numpy as np
import pytest

import attribution
from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES, GROUPS
from tools.model_zoo.relevance_oracle import DEFINITIONS

# Ways in which a model is asked: gradients, relevance and a layer, for each family; and the others.
THREE_METHODS = ("gradient", "lrp_attn", "grad_cam")
OTHER_METHODS = ("deeplift", "lrp_epsilon", "ablation_cam", "gradient_rollout", "kernel_shap")
SMALL = [name for name, family in FAMILIES.items() if family.quick]
# Families of which nothing can be explained, and what they are told.
REFUSED = {
    "examples": "is of type string and has no gradient; name a tensor",
    "live_dropout": "other scores at every call",
}
# One network of each way in which graphs differ most.
MOST_DIFFERENT = ("signal_residual", "inverted_residual", "vit_gelu", "lstm", "two_inputs", "tensorflow_1", *REFUSED)
# What docs/networks.md says of these cells, too: TensorFlow cannot differentiate the frozen graph of these files, and one
# map is the definition's in float64 alone.
NO_ORACLE = {("keras_int8", method) for method in ("grad_cam", "ablation_cam", "gradient_rollout")}
NO_ORACLE |= {("vit_gated", "grad_cam"), ("compiled_inside", "grad_cam")}
ROUNDED = {("softplus", "lrp_attn")}


def check(name, methods):
    """Every map is what an oracle says, or the method is refused by name."""
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


@pytest.mark.parametrize("name", SMALL)
def test_every_small_family_is_known_or_refused(name):
    check(name, THREE_METHODS)


@pytest.mark.parametrize("name", MOST_DIFFERENT)
def test_other_methods_are_known_or_refused(name):
    check(name, OTHER_METHODS)


def test_every_method_is_known_or_refused():
    check("residual", [name for name in measure.METHODS if name not in THREE_METHODS])


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
