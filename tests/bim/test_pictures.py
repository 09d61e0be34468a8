"""Pictures: which are written, and that they show what was scored."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from attribution_benchmarks.core.figures import OWN_METHOD
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from bim import pictures, scores


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
    written = pictures.write_pictures(str(tmp_path / "plots"), run, ["mcs", "rmcs"], rows, titles)
    assert [path.split("/")[-1] for path in written] == ["mcs_scores.png", "mcs_examples.png", "rmcs_scores.png"]
    for path in written:
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5
    first = {path: open(path, "rb").read() for path in written}
    pictures.write_pictures(str(tmp_path / "plots"), run, ["mcs", "rmcs"], rows, titles)
    assert first == {path: open(path, "rb").read() for path in written}


def test_the_examples_are_images_that_were_drawn(run):
    images, maps, masks, predicted = pictures.example_maps("idr", run)
    assert [len(names) for names in predicted] == [3, 3] and "dog" not in predicted[0]  # the network of scenes
    assert images.shape == (2, 3, 128, 128, 3) and masks.shape == (3, 32, 32) and masks.any(axis=(1, 2)).all()
    rows = scores.sample_rows(200, 4)
    np.testing.assert_array_equal(images[0, 0], run.images("scene").images([rows[0]])[0])
    np.testing.assert_array_equal(images[1, 0], run.images("scene_only").images([rows[0]])[0])
    for values in maps.values():
        assert values.shape == (2, 3, 32, 32) and values.min() >= 0 and values.max() <= 1


@pytest.mark.parametrize(
    "metric, below",
    [(scores.METRICS["idr"], "a.py:mine"), (METRIC_REGISTRY["deletion"], "gradient")],
    ids=["more is better", "less is better"],
)
def test_the_best_bar_is_on_top_and_a_users_method_has_its_color(metric, below):
    rows = [
        {"method": name, "metric": metric.name, "value": value, "low": value, "high": value, "n": 9, "kind": kind}
        for name, value, kind in (("a.py:mine", 0.2, "method"), ("gradient", 0.9, "method"), ("random", 0.5, "control"))
    ]
    axis = pictures._bars(metric, rows, {row["method"]: row["method"] for row in rows}).axes[0]
    names = [text.get_text() for text in axis.get_yticklabels()]
    assert names[0] == below and names[1] == "random"  # from below
    colors = dict(zip(names, (to_hex(bar.get_facecolor()) for bar in axis.patches), strict=True))
    assert colors["a.py:mine"] == OWN_METHOD and len(set(colors.values())) == 3


def test_wide_intervals_leave_the_curves_readable():
    rows = [
        {"method": name, "metric": "rmcs", "value": value / i, "low": -9.0, "high": 9.0, "n": 4, "kind": kind,
         "scene_model": i}
        for name, value, kind in (("a.py:mine", 0.1, "method"), ("gradient", 0.2, "method"), ("x", 0.0, "control"),
                                  ("y", 0.0, "control"), ("z", 0.0, "control"))
        for i in range(1, 10)
    ]  # fmt: skip
    figure = pictures._curves(rows, {row["method"]: row["method"] for row in rows})
    panels = figure.axes
    assert [panel.get_title() for panel in panels] == ["a.py:mine", "gradient"]
    low, high = panels[0].get_ylim()
    assert high - low <= 2 * 0.2 + 1e-9  # the curves fill half of the height, whatever the intervals
    styles = [(line.get_linestyle(), line.get_color()) for line in panels[0].lines[:4]]
    assert len(set(styles)) == 4 and panels[0].lines[3].get_color() == OWN_METHOD
