"""The zoo, in part: families of every kind; ``tools/docs/document_networks.py`` is the whole.

Networks whose files or inputs differ are in test_other_files.py, the large ones in test_large_networks.py.
"""

import numpy as np
import pytest

import attribution
from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES, GROUPS


@pytest.mark.parametrize("name", ["residual", "signal_residual"])
def test_every_method_with_an_oracle_is_exact(name, check_family):
    check_family(name, *measure.BY_TAPE, *measure.BY_SCORES, *measure.COMPLETE, "lrp_cp")


@pytest.mark.parametrize("name", ["inverted_residual", "grouped", "convolutional_head", "volume", "lstm"])
def test_every_cell_is_exact_runs_or_is_refused(name, check_family):
    check_family(name)


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
    values = model.backward(model.feed(inputs), np.zeros(8, np.int32), model.explained_input(), rectified).values
    for node in rectified:
        assert 0.05 < (values[node] > 0).mean() < 0.95, node


def test_every_family_of_keras_applications_is_there():
    assert len(GROUPS["keras.applications"]) == 13
    assert len(FAMILIES) == sum(map(len, GROUPS.values()))  # no name twice
