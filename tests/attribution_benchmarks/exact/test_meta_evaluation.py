"""Laws of the meta-evaluation: errors of corrupted maps, and the figures of metrics whose quality is known."""

import json

import numpy as np
import pytest

from attribution import cli
from attribution_benchmarks.core.metric import of_maps
from attribution_benchmarks.exact import meta_evaluation, metrics
from attribution_benchmarks.exact.known_networks import GRADES, KINDS, ExactExplain, corrupted, known_networks
from attribution_benchmarks.metrics import sanity

COUNTS = {"vectors": (48, 16), "images": (24, 8)}  # inputs and networks


@pytest.fixture(scope="module")
def networks():
    return list(known_networks(3))


def errors_of(network, kind):
    truth, other = network.exact(network.batch)
    maps = [corrupted(truth, other, network.batch, kind, grade).reshape(3, -1) for grade in (0, *GRADES)]
    return np.array([metrics.distance(each, truth.reshape(3, -1)) for each in maps])


@pytest.mark.parametrize("kind", KINDS)
def test_an_exact_map_has_no_error_and_errors_grow_with_the_grade(kind, networks):
    for network in networks:
        errors = errors_of(network, kind)
        np.testing.assert_allclose(errors[0], 0, atol=1e-7)
        assert (np.diff(errors, axis=0) >= -1e-7).all(), network.name
    if kind != "sign_lost":  # a map without negative values has lost nothing
        assert all((errors_of(network, kind)[-1] > 0.05).any() for network in networks)


def test_the_truth_adds_up_to_the_explained_score(networks):
    assert len(networks) == 24 and {network.group for network in networks} == {"vectors", "images"}
    for network in networks:
        batch = network.of_classes
        ends = network.scores(batch.pictures) - network.scores(np.zeros_like(batch.pictures))
        sums = network.exact(network.batch)[0].reshape(3, -1).sum(axis=1)
        np.testing.assert_allclose(sums, ends[np.arange(3), batch.targets], atol=5e-5)


def test_the_true_error_has_correlation_1_and_chance_is_in_the_interval_of_a_random_score(networks):
    """So do a metric of the opposite direction, and one that does not look at the map."""
    opposite = of_maps("opposite", lambda *arguments: -metrics.OVERALL[0].measure.function(*arguments), better="less")
    constant = of_maps("constant", lambda maps, batch, scores: np.arange(len(maps)))
    chosen = {**meta_evaluation.CONTROLS, "opposite": opposite, "constant": constant}
    found = meta_evaluation.run(chosen, networks)
    for group, counts in COUNTS.items():
        assert found[group]["distance"]["correlation"][:3] == [1, 1, 1]
        assert found[group]["opposite"]["correlation"][:3] == [-1, -1, -1]
        assert found[group]["distance"]["methods"][:3] == [1, 1, 1]
        assert "constant" not in found[group]
        value, low, high, inputs, count = found[group]["random_score"]["correlation"]
        assert low < 0 < high and abs(value) < 0.1 and (inputs, count) == counts
        assert found[group]["distance"]["deterministic"] and not found[group]["random_score"]["deterministic"]
        assert abs(found[group]["random_score"]["retest"][0]) < 0.15
        assert found[group]["distance"]["wins"]["noise"][0] == 1 and found[group]["distance"]["passes"] == 0
        assert found[group]["opposite"]["rank"] == [1, 1, 1, 1.0]  # the only one that is no control


def test_agreement_ignores_undefined_scores_and_equal_scores_rank_nothing():
    scores = np.array([[1, 2, np.nan, 3], [5, 5, 5, 5], [1, 2, 3, 4], [np.nan] * 4])
    truth = np.array([[1, 2, 0, 3], [1, 2, 3, 4], [7, 7, 7, 7], [1, 2, 3, 4]])
    np.testing.assert_array_equal(meta_evaluation.agreement(scores, truth), [1, 0, np.nan, np.nan])


def test_passes_are_those_of_one_map_alone(networks):
    tested = meta_evaluation.chosen(["insertion", "deletion", "sensitivity_n", "max_sensitivity", "other_class"])
    maps = meta_evaluation.known_maps(networks[0])
    found = {name: meta_evaluation.measure(metric, networks[0], maps) for name, metric in tested.items()}
    assert found["insertion"].passes == found["deletion"].passes == 21 and found["sensitivity_n"].passes == 193
    assert found["max_sensitivity"].explanations == 10 and found["other_class"].explanations == 1


def test_exact_maps_of_random_networks_are_theirs(networks):
    network = networks[0]
    explain = ExactExplain(network, "noise", 0.0)
    random = sanity.randomised(network.model, sanity.STAGES)
    ends = random.scores(network.batch.pictures, 8) - random.scores(np.zeros_like(network.batch.pictures), 8)
    sums = explain(network.batch, random).sum(axis=1)
    np.testing.assert_allclose(sums, ends[np.arange(3), network.batch.targets], atol=2e-5)
    images = next(each for each in networks if each.group == "images")
    maps = meta_evaluation.known_maps(images)
    tested = meta_evaluation.chosen(["randomisation", "max_sensitivity"])
    assert meta_evaluation.measure(tested["randomisation"], images, maps) is None
    assert meta_evaluation.measure(tested["max_sensitivity"], images, maps) is not None


def test_the_command_writes_its_files_twice_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(meta_evaluation, "known_networks", lambda *_: [next(known_networks(2))])
    arguments = ["x", "--metrics=deletion", "--inputs=2"]
    written = []
    for folder in ("a", "b"):
        assert cli.execute(
            meta_evaluation.main, meta_evaluation.FLAGS, meta_evaluation.__doc__,
            [*arguments, f"--output_dir={tmp_path / folder}"],
        ) == 0  # fmt: skip
        written.append({file.name: file.read_bytes() for file in (tmp_path / folder).iterdir() if file.is_file()})
    assert written[0] == written[1] and set(written[0]) == {f"which_metric.{end}" for end in ("json", "md", "png")}
    record = json.loads(written[0]["which_metric.json"])
    assert record["groups"]["vectors"]["deletion"]["passes"] == 21 and "`deletion`" in capsys.readouterr().out


def test_a_stopped_run_resumes_and_another_metric_is_measured_again(networks, tmp_path, monkeypatch):
    measured, measure = [], meta_evaluation.measure

    def counted(metric, network, maps):
        measured.append((network.name, metric.name))
        return measure(metric, network, maps)

    monkeypatch.setattr(meta_evaluation, "measure", counted)
    chosen = meta_evaluation.chosen(["deletion"])
    meta_evaluation.run(chosen, networks[:1], folder=tmp_path)
    assert {name for name, _ in measured} == {networks[0].name}
    measured.clear()
    resumed = meta_evaluation.run(chosen, networks[:2], folder=tmp_path)
    assert {name for name, _ in measured} == {networks[1].name}
    assert resumed == meta_evaluation.run(chosen, networks[:2])
    measured.clear()
    meta_evaluation.run(meta_evaluation.chosen(["insertion"]), networks[:1], folder=tmp_path)
    assert (networks[0].name, "insertion") in measured


def test_metrics_of_quantus_are_beside_ours_on_the_first_inputs(networks, monkeypatch):
    pytest.importorskip("quantus")
    ours = {"quantus:Sparseness": "sparseness", "quantus:RelevanceRankAccuracy": "iou_at_area"}
    pairs = {name: one for name, one in meta_evaluation.QUANTUS.items() if name in ours}
    monkeypatch.setattr(meta_evaluation, "QUANTUS", pairs)
    few = [*networks[:2], networks[-1]]
    found = meta_evaluation.run(meta_evaluation.chosen([*ours.values()]), few, quantus_inputs=2)
    for group, count in (("vectors", 2), ("images", 1)):
        for name, nearest in ours.items():
            row = found[group][name]
            assert row["correlation"][3:] == row["of_ours"][3:] == row["difference"][3:] == [2 * count, count]
            assert row["ours"] == nearest and found[group][nearest]["correlation"][3] == 3 * count
            assert row["difference"][0] == pytest.approx(row["of_quantus"][0] - row["of_ours"][0], abs=1e-3)
        # The same metric, but for the map of zeros, which Quantus does not score.
        assert found[group]["quantus:Sparseness"]["difference"][:3] == [0, 0, 0]


def test_subsets_of_quantus_have_our_size():
    pytest.importorskip("quantus")
    name = "quantus:FaithfulnessCorrelation"
    assert meta_evaluation.quantus_metrics(64)[name].name == f"{name}?subset_size=13&nr_runs=100"
    assert meta_evaluation.quantus_metrics(12)[f"{name}?perturb_baseline=mean"].name.endswith(
        "subset_size=2&nr_runs=100"
    )
    assert meta_evaluation.quantus_metrics(12)["quantus:PixelFlipping"].name == "quantus:PixelFlipping"


def test_a_remembered_score_of_one_input_is_that_of_the_network(networks):
    for network in (networks[0], networks[-1]):
        one = network.batch.pictures[:1]
        first, again = network.scores(one), network.scores(one.copy())
        np.testing.assert_array_equal(first, again)
        np.testing.assert_allclose(first, network.scores(network.batch.pictures)[:1], atol=1e-5)
        assert not np.array_equal(network.scores(2 * one), first)
