"""The questions of a run: samples of them, and maps and answers on disk."""

import json

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import questions
from clevr_xai.questions import draw_rows


def test_the_side_of_maps_is_read_from_them(tmp_path):
    for number, shape in enumerate(((9, 9, 3), (1, 3, 9, 9), (9, 9))):
        folder = tmp_path / str(number)
        folder.mkdir()
        np.save(folder / "0.npy", np.ones(shape))
        assert questions.side({"rise": folder}) == 9
    np.save(tmp_path / "0" / "0.npy", np.ones((9, 8)))
    with pytest.raises(BadInput, match="is no map of a square image"):
        questions.side({"rise": tmp_path / "0"})


def test_predictions_are_written_and_read(tmp_path):
    assert questions.read_predictions(tmp_path) is None
    questions.save_predictions(tmp_path / "maps", [(7, "red"), (np.int64(12), "yes")])
    written = json.loads((tmp_path / "maps" / "predictions.json").read_text())
    assert written == [{"answer": "red", "question_index": 7}, {"answer": "yes", "question_index": 12}]
    assert questions.read_predictions(tmp_path / "maps") == {"7": "red", "12": "yes"}
    for content in ('{"answer": 1}', '[{"answer": "red"}]', '[{"answer": "mauve", "question_index": 1}]', "{"):
        (tmp_path / "predictions.json").write_text(content)
        with pytest.raises(BadInput, match="is no list of answers"):
            questions.read_predictions(tmp_path)


def test_rows_are_drawn_so_that_fewer_are_a_part_of_more():
    some, more = draw_rows(1000, 50, 3), draw_rows(1000, 200, 3)
    assert len(set(some)) == 50 and set(some) < set(more) and (np.diff(some) > 0).all()
    assert not np.array_equal(some, draw_rows(1000, 50, 4))
    np.testing.assert_array_equal(draw_rows(5, "all", 0), range(5))
    np.testing.assert_array_equal(draw_rows(5, 9, 0), range(5))
