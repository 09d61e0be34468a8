"""Pictures show the image, the masks, the maps and the numbers that were measured."""

import numpy as np
import pytest

from clevr_xai import methods, pictures
from clevr_xai.data import Dataset


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_a_question_with_its_masks_and_maps(kind):
    data = Dataset(kind)
    truth = data.ground_truths[0]
    row = next(row for row in range(len(data)) if data.objects(truth, row))
    (batch,) = data.batches(2, [len(data) - 1, row])
    place = list(batch.rows).index(row)
    generator = np.random.default_rng(0)
    maps = {"gradient": generator.normal(size=(2, 128, 128, 3)), "guided_backprop": np.zeros((2, 128, 128, 3))}
    pooled = {name: pictures.map_bytes(one, None, None)[place].reshape(128, 128) for name, one in maps.items()}
    below = {"gradient": "mass 0.75, rank 0.25", "guided_backprop": "mass 0.10"}
    figure = pictures.question_figure(batch, place, pooled, below, truth, methods.TITLES)
    question = data.questions[row]["question"]
    assert figure.get_suptitle().replace("\n", " ") == f"{question}  –  {data.answers[row]}"
    shown = [text.get_text() for text in figure.axes[0].texts if text.get_text()]
    masks = 1 + sum(bool(data.objects(name, row)) for name in data.ground_truths)
    assert shown[0] == "image" and len(shown) == masks + 2
    assert shown[-2:] == ["Vanilla Gradient\nmass 0.75, rank 0.25", "Guided Backprop\nzero everywhere"]
    drawn = [image.get_array() for image in figure.axes[0].images]
    np.testing.assert_array_equal(drawn[0], data.images([row])[0])
    np.testing.assert_array_equal(drawn[1], data.masks(truth, [row])[0][0])
    expected = np.abs(maps["gradient"][place]).max(axis=2)
    expected = np.minimum(expected / np.quantile(expected, 0.998), 1)  # as the color scale says
    np.testing.assert_allclose(drawn[masks], expected, atol=0.5 / 255)
    assert figure.axes[-1].get_ylabel() == "share of the map's own 99.8th percentile"
