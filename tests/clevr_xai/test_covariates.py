"""What accuracies go with, from numbers made up: the mask's size, the answer's softmax, the fullness of the scene."""

import dataclasses

import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from clevr_xai import commentary
from clevr_xai.dataset import Dataset
from clevr_xai.measured import Measured
from clevr_xai.metrics import HEADING, METRICS, POOLINGS

ROWS = np.arange(40)
MASS = list(METRICS).index("mass"), list(POOLINGS).index(HEADING["mass"])


@pytest.fixture(scope="module")
def data():
    return Dataset("simple")


@pytest.fixture(scope="module")
def measured(data):
    """A run in which the gradient's mass grows with the mask, Grad-CAM's falls and edges' is always the same."""
    (batch,) = data.batches(len(ROWS), ROWS)
    pixels = {name: mask.sum(axis=(1, 2)) for name, mask in batch.masks.items()}
    generator = np.random.default_rng(0)

    def scores(label):
        shape = len(ROWS), len(data.ground_truths), len(METRICS), len(POOLINGS)
        found = generator.random(shape)  # elsewhere, where nobody looks
        column = {"gradient": pixels["single_object"] / 1e5, "grad_cam": -pixels["single_object"] / 1e5 + 1}
        found[(slice(None), data.ground_truths.index("single_object"), *MASS)] = column.get(label.name, 0.5)
        return found

    return Measured(
        "simple", data.ground_truths, ROWS, ROWS, [data.questions[row]["image_filename"] for row in ROWS],
        ROWS > 1, np.linspace(0.5, 1, len(ROWS)), pixels, "f",
        (
            MapSource("gradient"), MapSource("grad_cam"), MapSource("gradient", "wrong_class"),
            MapSource(control="edge_detector"),
        ),
        scores,
    )  # fmt: skip


def test_correlations_are_those_of_the_questions_that_count(measured, data):
    (found,) = commentary.correlations(measured, data, "single_object", ["mass"])
    assert found.n == len(ROWS) - 2
    assert list(found.columns) == ["answer's softmax", "mask's pixels", "objects in scene"]
    assert list(found.rows) == ["gradient", "grad_cam", "edge_detector"]
    place = found.columns.index("mask's pixels")
    np.testing.assert_allclose([found.rows[name][place].value for name in ("gradient", "grad_cam")], [1, -1])
    gradient = found.rows["gradient"]
    assert all(one.n == found.n and one.low <= one.value <= one.high for one in gradient)
    assert np.isnan([one.value for one in found.rows["edge_detector"]]).all()


def test_the_table_shows_dashes_for_what_does_not_vary(measured, data):
    found = commentary.correlations(measured, data, "single_object", ["mass"])
    text, markdown = commentary.correlations_text(found), commentary.correlations_text(found, markdown=True)
    title = "What the relevance mass accuracy goes with, ground truth Single Object: Spearman's correlation over 38"
    assert title in text and title in markdown
    (line,) = [line for line in markdown.splitlines() if line.startswith("| Edge detector")]
    assert [cell.strip() for cell in line.split("|")[2:-1]] == ["–"] * 6


def test_without_a_network_no_softmax_is_there(measured, data):
    (found,) = commentary.correlations(
        dataclasses.replace(measured, confidence=None), data, "single_object", ["mass"]
    )  # fmt: skip
    assert list(found.columns) == ["mask's pixels", "objects in scene"]


def test_few_questions_have_no_table(measured, data):
    few = dataclasses.replace(measured, right=ROWS < commentary.FEWEST - 1)
    assert commentary.correlations(few, data, "single_object", ["mass", "rank"]) == []
    assert commentary.correlations_text([]) == ""
