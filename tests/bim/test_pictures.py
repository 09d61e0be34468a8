"""Pictures: which are written, and that they show what was scored."""

import numpy as np
import pytest
from PIL import Image

from bim import _pictures, scores
from bim.definition import BENCHMARK


@pytest.fixture(scope="module")
def run(sets, tiny_models, bim_run, tmp_path_factory):
    return bim_run(
        f"--data_dir={sets}", f"--models_dir={tiny_models}", f"--scores_dir={tmp_path_factory.mktemp('scores')}",
        "--metrics=MCS,IDR", "--methods=grad_cam,gradient", "--num_imgs=4", "--nocontrols",
    )  # fmt: skip


def test_a_figure_of_scores_and_one_of_examples_a_metric(run, tmp_path):
    titles = {"grad_cam": "Grad-CAM", "gradient": "Vanilla Gradient"}
    rows = [
        {"method": name, "metric": metric, "value": 0.1, "low": 0.0, "high": 0.2, "n": 4, "kind": "method", **extra}
        for name in titles
        for metric, extra in (("mcs", {}), *(("rmcs", {"scene_model": i}) for i in range(1, 10)))
    ]
    written = _pictures.write_pictures(str(tmp_path / "plots"), run, ["mcs", "rmcs"], rows, titles)
    assert [path.split("/")[-1] for path in written] == ["mcs_scores.png", "mcs_examples.png", "rmcs_scores.png"]
    # The page draws the bars of the other metrics.
    assert set(BENCHMARK.report.pictures) == {*(f"{metric}_examples" for metric in _pictures.PAIRS), "rmcs_scores"}
    for path in written:
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5
    first = {path: open(path, "rb").read() for path in written}
    _pictures.write_pictures(str(tmp_path / "plots"), run, ["mcs", "rmcs"], rows, titles)
    assert first == {path: open(path, "rb").read() for path in written}


def test_the_examples_are_images_that_were_drawn(run):
    images, maps, masks, predicted = _pictures.example_maps("idr", run)
    assert [len(names) for names in predicted] == [3, 3] and "dog" not in predicted[0]  # the network of scenes
    assert images.shape == (2, 3, 128, 128, 3) and masks.shape == (3, 32, 32) and masks.any(axis=(1, 2)).all()
    rows = scores.sample_rows(200, 4)
    np.testing.assert_array_equal(images[0, 0], run.images("scene").images([rows[0]])[0])
    np.testing.assert_array_equal(images[1, 0], run.images("scene_only").images([rows[0]])[0])
    for values in maps.values():
        assert values.shape == (2, 3, 32, 32) and values.min() >= 0 and values.max() <= 1
