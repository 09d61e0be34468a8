"""How much of a scene the masks hold, from numbers made up, and what an edge detector gets of it."""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import MapSource
from clevr_xai import commentary
from clevr_xai.dataset import Dataset
from clevr_xai.measured import Measured
from clevr_xai.metrics import METRICS, POOLINGS, relevance_mass_accuracy

ROWS = np.arange(0, 60, 3)


@pytest.fixture(scope="module")
def data():
    return Dataset("complex")


@pytest.fixture(scope="module")
def measured(data):
    """A run whose edge detector lies evenly on all objects and nowhere else; the last answer is wrong."""
    (batch,) = data.batches(len(ROWS), ROWS)
    scores = np.full((len(ROWS), len(data.ground_truths), len(METRICS), len(POOLINGS)), np.nan)
    even = batch.masks["all_objects"].astype(float)
    for place, name in enumerate(data.ground_truths):
        scores[:-1, place] = relevance_mass_accuracy(even, batch.masks[name])[:-1, None, None]
    return Measured(
        "complex", data.ground_truths, ROWS, ROWS, [data.questions[row]["image_filename"] for row in ROWS],
        np.arange(len(ROWS)) < len(ROWS) - 1, np.ones(len(ROWS)),
        {name: batch.masks[name].sum(axis=(1, 2)) for name in data.ground_truths}, "f",
        (MapSource("gradient"), MapSource(control="edge_detector")), lambda label: scores,
    )  # fmt: skip


def test_shares_are_those_of_the_masks(measured, data):
    (union, unique) = commentary.mask_shares(measured, data, ["union", "unique"])
    counted = [row for row in ROWS[:-1] if data.objects("union", row)]
    assert len(union.objects) == len(counted) and len(unique.objects) <= len(counted)
    row = counted[3]
    assert union.objects[3] == len(data.objects("union", row)) / len(data.scene(row)["objects"])
    assert union.families[3] == data.questions[row]["template_filename"].removesuffix(".json")
    mask, _ = data.masks("union", [row])
    everything, _ = data.masks("all_objects", [row])
    assert union.area[3] == mask.mean() and union.of_objects[3] == mask.sum() / everything.sum()
    np.testing.assert_allclose(union.on_objects, 1)
    np.testing.assert_allclose(union.edges, union.of_objects)  # edges that are even on objects, and only there


def test_the_table_has_a_line_a_family_and_one_of_all(measured, data):
    shares = commentary.mask_shares(measured, data, ["union"])
    text = commentary.shares_text(shares)
    families = set(shares[0].families)
    assert len(families) > 3 and all(f"\n{name} " in text for name in (*families, "all"))
    assert "Share of the scene in the mask, ground truth Union" in text
    assert "| all | " in commentary.shares_text(shares, markdown=True)
    (note,) = commentary.edges_explained(shares)
    mean = shares[0].edges.mean()
    assert f"so {mean:.2f} is expected of it and it has {mean:.2f} (Spearman's correlation over questions 1.00)" in note


def test_without_an_edge_detector_the_masks_alone_are_told(measured, data):
    import dataclasses

    bare = dataclasses.replace(measured, sources=(MapSource("gradient"),))
    shares = commentary.mask_shares(bare, data, ["union"])
    assert commentary.edges_explained(shares) == [] and "edge detector" not in commentary.shares_text(shares)


def test_one_family_has_no_table():
    data = Dataset("simple")
    (batch,) = data.batches(4, range(4))
    measured = Measured(
        "simple", data.ground_truths, np.arange(4), np.arange(4), ["a"] * 4, np.ones(4, bool), None,
        {name: mask.sum(axis=(1, 2)) for name, mask in batch.masks.items()}, "f", (MapSource("gradient"),),
        lambda label: None,
    )  # fmt: skip
    assert commentary.shares_text(commentary.mask_shares(measured, data, ["single_object"])) == ""
