"""The zoo, in part: every method on families of every kind; ``tools/docs/document_networks.py`` is the whole."""

import re

import numpy as np
import pytest

import attribution
from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES, GROUPS
from tools.model_zoo.relevance_oracle import DEFINITIONS

ALL_METHODS = ("residual",)
# A method of every way in which a model is asked, for the networks that differ most, and three for the others.
FEW_METHODS = (
    "gradient", "deeplift", "lrp_epsilon", "lrp_attn", "grad_cam", "ablation_cam", "gradient_rollout", "kernel_shap",
)  # fmt: skip
THREE_METHODS = ("gradient", "lrp_attn", "grad_cam")
IN_PART = (
    "signal_residual", "inverted_residual", "grouped", "convolutional_head", "volume", "vit_gelu", "swin",
    "token_transformer", "lstm", "two_inputs", "channels_first", "mixed_float16", "static_batch", "bytes", "examples",
    "segmentation", "tensorflow_1", "keras_int8", "live_dropout",
)  # fmt: skip
# Families of which nothing can be explained, and what they are told.
REFUSED = {
    "examples": "is of type string and has no gradient; name a tensor",
    "live_dropout": "other scores at every call",
}
# One network of each way in which graphs differ most.
MOST_DIFFERENT = ("signal_residual", "inverted_residual", "vit_gelu", "lstm", "two_inputs", "tensorflow_1", *REFUSED)
# TensorFlow cannot differentiate its frozen graph.
NO_ORACLE = {("keras_int8", method) for method in ("grad_cam", "ablation_cam", "gradient_rollout")}


@pytest.mark.parametrize("name", [*ALL_METHODS, *IN_PART])
def test_every_cell_is_known_or_refused(name):
    methods = measure.METHODS if name in ALL_METHODS else FEW_METHODS if name in MOST_DIFFERENT else THREE_METHODS
    found = measure.measure(FAMILIES[name], methods)["methods"]
    for method, cell in found.items():
        assert cell["status"] != "crashes", (method, cell["note"])
        if name in REFUSED:
            assert cell["status"] == "refused" and re.search(REFUSED[name], cell["note"]), (method, cell)
        else:
            assert cell["status"] not in ("differs", "rounding"), (method, cell)
            known = cell["status"] in ("exact", "limit", "refused")
            has_oracle = method in (*measure.BY_ORACLE, *DEFINITIONS) and (name, method) not in NO_ORACLE
            assert known or not has_oracle, (method, cell)


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
