"""The page of pictures shows what was drawn, and says what was not."""

import numpy as np
import pytest
from PIL import Image

import attribution
from attribution.errors import BadInput
from tools.docs import picture_networks
from tools.model_zoo.families import FAMILIES


def test_a_network_is_explained_from_the_command_line_and_shown(tmp_path, monkeypatch):
    """A small network stands in for a large one; a second run draws nothing."""
    monkeypatch.setattr(picture_networks, "APPLICATIONS", (FAMILIES["residual"],))
    monkeypatch.setattr(picture_networks, "NETWORKS", (*picture_networks.TRAINED, "residual"))
    drawn = []
    for _ in range(2):
        picture_networks.make(["residual"], tmp_path, drawn.append)
    assert drawn == ["residual"]
    text, names = picture_networks.page(tmp_path)
    assert names == ["residual"] and "![residual](pictures/networks/residual.png)" in text
    assert "python -m attribution.explain --model=network --preprocessing=-1..1 --image=zebra.png" in text
    assert "Not drawn in this run: efficient, transformer." in text and "At ResNet block, random weights." in text
    with Image.open(tmp_path / "residual.png") as picture:
        values = np.asarray(picture.convert("RGB"))
    assert values.shape[1] == 760 and len(np.unique(values.reshape(-1, 3), axis=0)) > 50


def test_a_trained_network_is_exported_with_its_accuracy(tmp_path):
    """What two steps leave is as good as chance; that longer training learns, the page itself says in figures."""
    right = picture_networks.train(picture_networks.transformer, tmp_path / "network", images=64, steps=2)
    model = attribution.load_model(tmp_path / "network", score="logits")
    pixels, labels = picture_networks.drawings(200, seed=2)
    scores = model.scores(pixels.astype(np.float32))
    assert scores.shape == (200, 4)
    assert (scores.argmax(axis=1) == labels).mean() == pytest.approx(right, abs=0.01)


def test_drawings_are_the_same_whatever_the_run():
    pixels, labels = picture_networks.drawings(8, seed=3)
    again, _ = picture_networks.drawings(8, seed=3)
    assert (pixels == again).all() and labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (pixels != picture_networks.drawings(8, seed=4)[0]).any()


def test_an_unknown_network_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no network 'vgg'; the networks are 'efficient', 'transformer', 'VGG16'"):
        picture_networks.make(["vgg"], tmp_path, print)
