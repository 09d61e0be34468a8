"""What accuracies go with, how much of a scene the masks hold, and what edges get of it, from numbers made up."""

import dataclasses

import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from clevr_xai import _commentary
from clevr_xai.answering import Measured
from clevr_xai.data import Dataset
from clevr_xai.metrics import HEADING, METRICS, POOLINGS, relevance_mass_accuracy

ROWS, THIRD = np.arange(40), np.arange(0, 60, 3)
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
    (found,) = _commentary.correlations(measured, data, "single_object", ["mass"])
    assert found.n == len(ROWS) - 2
    assert list(found.columns) == ["answer's softmax", "mask's pixels", "objects in scene"]
    assert list(found.rows) == ["gradient", "grad_cam", "edge_detector"]
    place = found.columns.index("mask's pixels")
    np.testing.assert_allclose([found.rows[name][place].value for name in ("gradient", "grad_cam")], [1, -1])
    gradient = found.rows["gradient"]
    assert all(one.n == found.n and one.low <= one.value <= one.high for one in gradient)
    assert np.isnan([one.value for one in found.rows["edge_detector"]]).all()


def test_the_table_shows_dashes_for_what_does_not_vary(measured, data):
    found = _commentary.correlations(measured, data, "single_object", ["mass"])
    text, markdown = _commentary.correlations_text(found), _commentary.correlations_text(found, markdown=True)
    title = "What the relevance mass accuracy goes with, ground truth Single Object: Spearman's correlation over 38"
    assert title in text and title in markdown
    (line,) = [line for line in markdown.splitlines() if line.startswith("| Edge detector")]
    assert [cell.strip() for cell in line.split("|")[2:-1]] == ["–"] * 6


def test_without_a_network_no_softmax_is_there(measured, data):
    (found,) = _commentary.correlations(
        dataclasses.replace(measured, confidence=None), data, "single_object", ["mass"]
    )  # fmt: skip
    assert list(found.columns) == ["mask's pixels", "objects in scene"]


def test_few_questions_have_no_table(measured, data):
    few = dataclasses.replace(measured, right=ROWS < _commentary.FEWEST - 1)
    assert _commentary.correlations(few, data, "single_object", ["mass", "rank"]) == []
    assert _commentary.correlations_text([]) == ""


@pytest.fixture(scope="module")
def questions():
    return Dataset("complex")


@pytest.fixture(scope="module")
def even_edges(questions):
    """A run whose edge detector lies evenly on all objects and nowhere else; the last answer is wrong."""
    (batch,) = questions.batches(len(THIRD), THIRD)
    scores = np.full((len(THIRD), len(questions.ground_truths), len(METRICS), len(POOLINGS)), np.nan)
    even = batch.masks["all_objects"].astype(float)
    for place, name in enumerate(questions.ground_truths):
        scores[:-1, place] = relevance_mass_accuracy(even, batch.masks[name])[:-1, None, None]
    return Measured(
        "complex", questions.ground_truths, THIRD, THIRD,
        [questions.questions[row]["image_filename"] for row in THIRD],
        np.arange(len(THIRD)) < len(THIRD) - 1, np.ones(len(THIRD)),
        {name: batch.masks[name].sum(axis=(1, 2)) for name in questions.ground_truths}, "f",
        (MapSource("gradient"), MapSource(control="edge_detector")), lambda label: scores,
    )  # fmt: skip


def test_shares_are_those_of_the_masks(even_edges, questions):
    (union, unique) = _commentary.mask_shares(even_edges, questions, ["union", "unique"])
    counted = [row for row in THIRD[:-1] if questions.objects("union", row)]
    assert len(union.objects) == len(counted) and len(unique.objects) <= len(counted)
    row = counted[3]
    assert union.objects[3] == len(questions.objects("union", row)) / len(questions.scene(row)["objects"])
    assert union.families[3] == questions.questions[row]["template_filename"].removesuffix(".json")
    mask, _ = questions.masks("union", [row])
    everything, _ = questions.masks("all_objects", [row])
    assert union.area[3] == mask.mean() and union.of_objects[3] == mask.sum() / everything.sum()
    np.testing.assert_allclose(union.on_objects, 1)
    np.testing.assert_allclose(union.edges, union.of_objects)  # edges that are even on objects, and only there


def test_the_table_has_a_line_a_family_and_one_of_all(even_edges, questions):
    shares = _commentary.mask_shares(even_edges, questions, ["union"])
    text = _commentary.shares_text(shares)
    families = set(shares[0].families)
    assert len(families) > 3 and all(f"\n{name} " in text for name in (*families, "all"))
    assert "Share of the scene in the mask, ground truth Union" in text
    assert "| all | " in _commentary.shares_text(shares, markdown=True)
    (note,) = _commentary.edges_explained(shares)
    mean = shares[0].edges.mean()
    assert f"so {mean:.2f} is expected of it and it has {mean:.2f} (Spearman's correlation over questions 1.00)" in note


def test_without_an_edge_detector_the_masks_alone_are_told(even_edges, questions):
    bare = dataclasses.replace(even_edges, sources=(MapSource("gradient"),))
    shares = _commentary.mask_shares(bare, questions, ["union"])
    assert _commentary.edges_explained(shares) == [] and "edge detector" not in _commentary.shares_text(shares)


def test_one_family_has_no_table():
    data = Dataset("simple")
    (batch,) = data.batches(4, range(4))
    measured = Measured(
        "simple", data.ground_truths, np.arange(4), np.arange(4), ["a"] * 4, np.ones(4, bool), None,
        {name: mask.sum(axis=(1, 2)) for name, mask in batch.masks.items()}, "f", (MapSource("gradient"),),
        lambda label: None,
    )  # fmt: skip
    assert _commentary.shares_text(_commentary.mask_shares(measured, data, ["single_object"])) == ""
