"""Pictures show the image, the masks, the maps and the numbers that were measured."""

import numpy as np
import pytest

from clevr_xai import _pictures
from clevr_xai.data import Dataset
from clevr_xai.metrics import METRICS, POOLINGS


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_a_question_with_its_masks_and_maps(kind):
    data = Dataset(kind)
    truth = data.ground_truths[0]
    row = next(row for row in range(len(data)) if data.objects(truth, row))
    generator = np.random.default_rng(0)
    maps = {"gradient": generator.normal(size=(128, 128, 3)), "grad_cam": generator.random((128, 128))}
    maps["guided_backprop"] = np.zeros((128, 128, 3))
    scores = {name: np.full((len(data.ground_truths), len(METRICS), len(POOLINGS)), 0.25) for name in maps}
    scores["gradient"][0, 0, list(POOLINGS).index("l2-norm,sq")] = 0.75
    figure = _pictures.question_figure(data, row, maps, scores, truth)
    question = data.questions[row]["question"]
    assert figure.get_suptitle().replace("\n", " ") == f"{question}  –  {data.answers[row]}"
    shown = [title for title in texts(figure) if title]
    masks = 1 + sum(bool(data.objects(name, row)) for name in data.ground_truths)
    assert shown[0] == "image" and len(shown) == masks + 3
    assert shown[-3:-1] == ["Vanilla Gradient\nmass 0.75, rank 0.25", "Grad-CAM\nmass 0.25, rank 0.25"]
    assert shown[-1] == "Guided Backprop\nzero everywhere"
    drawn = [image.get_array() for image in figure.axes[0].images]
    np.testing.assert_array_equal(drawn[0], data.images([row])[0])
    np.testing.assert_array_equal(drawn[1], data.masks(truth, [row])[0][0])
    pooled = np.abs(maps["gradient"]).max(axis=2)
    np.testing.assert_allclose(drawn[masks], pooled / np.quantile(pooled, 0.998))  # as the colour scale says
    assert figure.axes[-1].get_ylabel() == "share of the map's own 99.8th percentile"
