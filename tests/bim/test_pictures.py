"""Pictures: which are written, and that they show what was scored."""

import numpy as np
import pytest
from PIL import Image

from bim import evaluate, metrics, pictures
from bim.attributions import method_named


@pytest.fixture(scope="module")
def run(sets, tiny_models):
    methods = {name: method_named(name) for name in ("grad_cam", "gradient", "random")}
    return evaluate.Benchmark(sets, tiny_models, methods, num_imgs=4)


def test_a_figure_of_scores_and_one_of_examples_a_metric(run, tmp_path):
    titles = {name: method.title for name, method in run.methods.items()}
    rows = [
        {"method": name, "metric": metric, "value": 0.1, "low": 0.0, "high": 0.2, "n": 4, "kind": "method", **extra}
        for name in run.methods
        for metric, extra in (("mcs", {}), *(("rmcs", {"scene_model": i}) for i in range(1, 10)))
    ]
    written = pictures.write_pictures(str(tmp_path / "plots"), run, ["MCS", "RMCS"], rows, titles)
    assert [path.split("/")[-1] for path in written] == ["mcs_scores.png", "mcs_examples.png", "rmcs_scores.png"]
    for path in written:
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5
    first = {path: open(path, "rb").read() for path in written}
    pictures.write_pictures(str(tmp_path / "plots"), run, ["MCS", "RMCS"], rows, titles)
    assert first == {path: open(path, "rb").read() for path in written}


def test_the_examples_are_images_that_were_drawn(run):
    images, maps, masks = pictures.example_maps("IDR", run)
    assert images.shape == (2, 3, 128, 128, 3) and masks.shape == (3, 32, 32) and masks.any(axis=(1, 2)).all()
    rows = metrics.sample_rows(200, 4)
    np.testing.assert_array_equal(images[0, 0], run.images("scene").images([rows[0]])[0])
    np.testing.assert_array_equal(images[1, 0], run.images("scene_only").images([rows[0]])[0])
    for values in maps.values():
        assert values.shape == (2, 3, 32, 32) and values.min() >= 0 and values.max() <= 1
