"""The tables about exact truth are those of the stored scores, and the pictures show the exact values."""

import json

import numpy as np
import pytest

from attribution_benchmarks.exact import sequences
from attribution_benchmarks.parts.classes import PARTS
from tools.docs import exact_truth, exact_truth_pictures

COLUMNS = ("ROE %", "Drop %", "MCS")
PAGE = f"""<!-- method: written by a test -->

| method | {" | ".join(COLUMNS)} |
| --- | --- | --- | --- |
| Grad-CAM | 62.3 | 11.9† | 0.3 |
| Score-CAM | 67.2 | 12.2 n/a | 0.2 |
| RISE | 64.0 | 7.9† | – |
| Vanilla Gradient | 36.1 | 25.7 | 0.1 |

<!-- /method -->
"""


def network(**scores):
    return {metric: scores for metric in (*exact_truth.OF_PARTS, "distance")}


def test_the_page_has_the_tables_of_the_stored_scores():
    page = exact_truth.RESULTS.read_text("utf-8")
    found = json.loads(exact_truth.SCORES.read_text("utf-8"))
    assert len(found["parts"]) == 10 and len(found["sequences"]) == 15
    for part in exact_truth.written(found, page).values():
        assert part.strip() in page


def test_orders_are_compared_over_the_methods_that_all_columns_have():
    networks = {
        "a": network(grad_cam=0.9, score_cam=0.5, gradient=0.1, rise=1.0),
        "b": network(grad_cam=0.5, score_cam=0.9, gradient=0.1, rise=0.0),
        "transformer": network(grad_cam=0.2, score_cam=0.1, gradient=0.3),
    }
    some = {name: networks[name] for name in "ab"}
    by_column = {
        one.column: one
        for one in exact_truth.orders({"parts": some, "sequences": {"transformer": networks["transformer"]}}, PAGE)
    }
    assert list(by_column) == list(COLUMNS)
    mcs = by_column["MCS"]
    assert mcs.single == pytest.approx([1, 1 / 3]) and mcs.parts[0].methods == 3
    assert mcs.texts.value == pytest.approx(1 / 3)  # a small distance is good
    assert by_column["Drop %"].single == pytest.approx([1, 1 / 3])  # a small drop is good
    assert by_column["ROE %"].single == pytest.approx([1 / 3, 1])


def test_a_mean_is_over_all_networks_or_missing():
    found = exact_truth.over_networks([network(rise=0.2, occlusion=0.1), network(rise=0.4, occlusion=None)], "distance")
    assert list(found) == ["rise"]
    assert exact_truth.cell(found["rise"], True) == "0.30 (0.20 to 0.40)"
    assert exact_truth.cell(found.get("occlusion"), True) == "–"


def test_rows_of_controlled_methods_are_left_out():
    rows = [
        {"method": "rise", "metric": "distance", "value": 0.1234567},
        {"method": "occlusion", "metric": "distance", "value": float("nan")},
        {"method": "rise", "metric": "distance", "of": "rise", "value": 1.0},
        {"method": "rise", "metric": "other", "value": 1.0},
    ]
    assert exact_truth.chosen(rows, ["distance"]) == {"distance": {"rise": 0.123457, "occlusion": None}}


def test_bars_of_parts_are_signed_and_named():
    figure = exact_truth_pictures.parts(rows=(0,), methods=("gradient",))
    image, exact, gradient = figure.axes
    assert image.get_title() == "one crest" and exact.get_title() == "Exact Shapley values"
    heights = np.array([bar.get_height() for bar in exact.patches])
    assert PARTS[heights.argmax()] == "crest" and len(gradient.patches) == len(PARTS)
    assert [label.get_text() for label in exact.get_xticklabels()] == list(PARTS)


def test_bars_of_texts_are_the_stored_values():
    (row,) = rows = exact_truth_pictures.TEXTS[:1]
    figure = exact_truth_pictures.texts(rows, ("attention_rollout",))
    with np.load(sequences.folders()[0] / sequences.VALUES) as stored:
        expected = stored["values"][row]
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(np.sort(widths), np.sort(expected), atol=1e-6)
    assert figure.axes[1].get_title() == "Attention rollout"
