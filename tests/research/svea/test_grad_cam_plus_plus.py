"""The search for the paper's Grad-CAM++ tries the published one among the others, and measures distances from it."""

import numpy as np

import attribution
from attribution_benchmarks.cli.bundled_models import default_model
from research.svea import grad_cam_plus_plus as search
from svea import metrics, mnist1d, scoring


def test_one_of_the_combinations_is_the_method_itself():
    model = scoring.load_network(default_model("svea/baseline"))
    signals = mnist1d.load().test.signals[:50, :, None].astype(np.float32)
    layer = model.layer()
    found = model.backward({"signal": signals}, np.full(50, -1, np.int32), "signal", [layer], of_input=False)
    values, gradients = (part[layer].astype(np.float64) for part in (found.values, found.gradients))
    maps = dict(search.variants(values, gradients))
    expected = attribution.explain("grad_cam_plus_plus", model, signals)
    assert maps.keys() > {search.OURS}
    np.testing.assert_allclose(maps[search.OURS], expected, rtol=1e-4, atol=1e-6 * expected.max())
    without = next(name for name in maps if name[:3] == ("1", "sum 1", "g") and name[3] == "relu")
    grad_cam = attribution.explain("grad_cam", model, signals)
    np.testing.assert_allclose(maps[without], grad_cam, rtol=1e-4, atol=1e-6 * grad_cam.max())
    assert len({metrics.region_of_explanation(one).tobytes() for one in maps.values()}) > 10


def test_distances_are_1_for_ours_and_0_for_the_papers():
    ours, paper = np.array([66.0, 12.0, 39.0]), np.array([59.0, 17.8, 33.9])
    found = search.distances(np.array([ours, paper, (ours + paper) / 2]), ours, paper)
    np.testing.assert_allclose(found, [1, 0, 0.5], atol=1e-12)


def test_the_table_has_ours_first_and_the_nearest_after_it(monkeypatch, capsys):
    for name in ("ALPHAS", "NORMALIZED", "WEIGHTS", "SIGNS"):
        monkeypatch.setattr(search, name, {key: getattr(search, name)[key] for key in (*search.OURS, "|g|")
                                           if key in getattr(search, name)})  # fmt: skip
    models = [str(default_model(name)) for name in ("svea/baseline", "svea/baseline_seed1")]
    search.FLAGS(["search", "--nearest=2", f"--models={models[0]}", f"--other_models={models[1]}"])
    search.main(search.FLAGS)
    _, head, paper, ours, *others = capsys.readouterr().out.splitlines()
    assert paper.split()[:3] == ["59.0", "17.81", "33.9"]
    assert ours.endswith("(ours)") and ours.split()[3] == "1.00" and len(others) == 2
    found = [float(line.split()[3]) for line in others]
    assert found == sorted(found) and found[0] < 1
    assert {line.index("|") for line in (head, paper, ours, *others)} == {head.index("|")}
    roe, drop, increase = (float(word) for word in ours.split()[:3])
    assert 55 < roe < 75 and 5 < drop < 20 and 30 < increase < 50
