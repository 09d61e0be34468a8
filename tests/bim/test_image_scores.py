import numpy as np

from attribution_benchmarks.leaderboard import input_scores
from bim.evaluate import Comparison
from bim.image_scores import image_scores


def compared(metric, number, name):
    return Comparison(metric, number, name, np.array([0.25, -0.5]) * (number or 3), np.array([1, 4]), 5, 0)


def test_scores_of_images_are_those_of_the_comparisons(tmp_path):
    comparisons = [compared("MCS", None, name) for name in ("gradient", "mine")]
    comparisons += [compared("RMCS", number, name) for number in (1, 2) for name in ("gradient", "mine")]
    path = tmp_path / "scores.json"
    input_scores.save(path, "bim", image_scores(comparisons))
    groups = input_scores.load(path)
    assert [group.where for group in groups] == [
        {"metric": "mcs"}, {"metric": "rmcs", "scene_model": 1}, {"metric": "rmcs", "scene_model": 2}
    ]  # fmt: skip
    assert groups[0].values == {"gradient": [0.75, -1.5], "mine": [0.75, -1.5]}
    assert groups[2].values["mine"] == [0.5, -1.0] and groups[0].inputs == ["image 1", "image 4"]
