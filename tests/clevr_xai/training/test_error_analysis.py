"""What a network misses is counted by the object's pixels and on scenes it learnt from."""

import numpy as np
import pytest

from clevr_xai.training import error_analysis, loading, training_set


@pytest.fixture(scope="module")
def data(training_dir):
    return loading.load(training_dir, {"simple": 1, "complex": 1})


def test_the_object_asked_for_is_the_one_the_program_ends_at(data):
    rows = data.rows_of_kind()["simple"]
    pixels = error_analysis.shown_pixels(data, rows)
    for row, count in zip(rows, pixels, strict=True):
        asked, unique = data.programs[row][:2]
        assert training_set.NODES[asked].startswith("query_") and training_set.NODES[unique] == "unique"
        found = [place for place in range(10) if data.sets[row][1] >> place & 1]
        assert len(found) == 1
        assert count == np.count_nonzero(data.owners[data.image_of[row]] == found[0] + 1) > 0


def test_every_simple_question_is_in_one_row(data):
    rows = data.rows_of_kind()["simple"]
    right = np.arange(len(rows)) % 3 > 0
    shown = error_analysis.by_shown_pixels(data, rows, right)
    assert sum(share.number for share in shown.values()) == len(rows)
    assert sum(share.right for share in shown.values()) == right.sum()
    pixels = error_analysis.shown_pixels(data, rows)
    middle = (pixels >= 40) & (pixels < 100)
    assert shown["40 to 99"] == error_analysis.Share(int(right[middle].sum()), int(middle.sum()))
    assert shown["200 or more"].number == (pixels >= 200).sum()


def test_rows_are_spread_over_all_images(data):
    kinds = data.rows_of_kind()
    rows = error_analysis.spread_rows(data, 5)
    assert len(rows) == len(set(rows)) == 10
    for kind in ("simple", "complex"):
        chosen = rows[np.isin(rows, kinds[kind])]
        assert len(chosen) == 5 and chosen[0] == kinds[kind][0] and chosen[-1] == kinds[kind][-1]
    assert sorted(error_analysis.spread_rows(data, 10**6)) == list(range(len(data.answers)))


def test_the_card_tells_both():
    shown = {
        "0 to 39": error_analysis.Share(1, 4),
        "40 to 99": error_analysis.Share(0, 0),
        "100 or more": error_analysis.Share(2, 2),
    }
    card = "\n".join(
        error_analysis.card_lines(shown, {"simple": error_analysis.Share(9, 10), "complex": error_analysis.Share(1, 2)})
    )
    assert "| 0 to 39 | 25.0 | 4 |" in card and "| 40 to 99 | – | 0 |" in card
    assert "90.0 % of 10 simple ones and 50.0 % of 2 complex ones rightly." in card
