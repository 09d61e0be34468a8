"""Laws of the meta-evaluation: the figures of metrics whose quality is known, and of orders that do or do not hold."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy import stats

from attribution import cli
from attribution_benchmarks.core.metric import of_maps
from attribution_benchmarks.exact import _metric_scores, meta_evaluation, metrics, sampled_networks
from attribution_benchmarks.exact.known_networks import KINDS, ExactExplain, known_networks
from attribution_benchmarks.metrics import sanity

NAMES = ("closed_forms", "sequences", "units_on_images")


@pytest.fixture(scope="module")
def networks():
    return list(sampled_networks.sampled_networks(2, 1, names=NAMES))


@pytest.fixture(scope="module")
def record(networks):
    """Return the record of controls, a metric of the opposite direction, and metrics that cannot see a constant."""
    opposite = of_maps("opposite", lambda *arguments: -metrics.OVERALL[0].measure.function(*arguments), better="less")
    constant = of_maps("constant", lambda maps, batch, scores: np.arange(len(maps)))
    chosen = meta_evaluation.chosen(["sensitivity_n", "faithfulness_correlation", "insertion", "infidelity"])
    chosen |= {"opposite": opposite, "constant": constant}
    return meta_evaluation.summary([meta_evaluation.score(chosen, network) for network in networks], chosen)


def test_the_error_itself_has_agreement_1_by_every_truth_and_a_random_score_none(record):
    rows = record["metrics"]
    for truth, network in itertools.product(sampled_networks.TRUTHS, range(6)):
        known = rows["distance"]["agreement"][f"{truth}, distance"][network]
        assert known == (None if truth == "closed form" and network in (2, 3) else 1)
        opposite = rows["opposite"]["agreement"][f"{truth}, distance"][network]
        assert opposite == (None if known is None else -1)
    assert rows["distance"]["methods"] == [1] * 6 and rows["distance"]["deterministic"]
    assert rows["rank_correlation"]["agreement"]["mean, 1 - Spearman"] == [1] * 6
    assert "constant" not in rows
    value, low, high = meta_evaluation.estimate(rows["random_score"]["agreement"]["zero, distance"])
    assert abs(value) < 0.2 and low < 0 < high and not rows["random_score"]["deterministic"]
    assert meta_evaluation.ranks(record)["opposite"].tolist() == [5] * 12


def test_one_metric_alone_has_a_table(record):
    alone = {name: record["metrics"][name] for name in ("insertion", "random_score")}
    assert "| 1 (1–1) | `insertion` | 0 |" in meta_evaluation.table(record | {"metrics": alone})


def test_a_metric_that_ignores_a_constant_does_not_see_an_offset(record):
    rows = record["metrics"]
    for name in ("sensitivity_n", "faithfulness_correlation", "insertion"):
        assert rows[name]["by_kind"]["offset"] == 0, name
    assert rows["infidelity"]["by_kind"]["offset"] > 0.5 and rows["distance"]["by_kind"]["offset"] == 1


def test_a_map_of_zeros_counts_for_no_metric(networks):
    maps = _metric_scores.known_maps(networks[0])
    zero = maps.of_corruptions[3]._replace(values=np.zeros_like(maps.of_corruptions[3].values))
    changed = maps._replace(of_corruptions=[*maps.of_corruptions[:3], zero, *maps.of_corruptions[4:]])
    errors = _metric_scores.true_errors(networks[0], changed).of_corruptions
    assert np.isnan(errors[:, :, 3]).all() and np.isfinite(errors[0, :, :3]).all()


def test_agreement_is_spearmans_correlation_of_what_is_known():
    scores = np.array([[1, 2, np.nan, 3], [5, 5, 5, 5], [1, 2, 3, 4], [np.nan] * 4])
    truth = np.array([[1, 2, 0, 3], [1, 2, 3, 4], [7, 7, 7, 7], [1, 2, 3, 4]])
    np.testing.assert_allclose(meta_evaluation.agreement(scores, truth), [1, 0, np.nan, np.nan])
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 6, (2, 3, 5, 9)).astype(float)
    first[:, :, 2] = np.nan
    found = meta_evaluation.agreement(first, second)
    for place in np.ndindex(3, 5):
        expected = stats.spearmanr(np.delete(first[place], 2), np.delete(second[place], 2)).statistic
        assert found[place] == pytest.approx(expected)


def of_noise(levels, generators, seed=0):
    """Return networks of generators, two each, with metrics that are the error plus noise of some levels."""
    draw, found = np.random.default_rng(seed), []
    for generator, number in itertools.product(generators, range(2)):
        error = draw.random((4, 2, len(_metric_scores.MAPS)))
        error[:, :, 0] = 0
        measured = {
            f"noise{level}": _metric_scores.Measured(
                -error[:1] + level * draw.normal(size=error[:1].shape), np.zeros((2, 1)), 0, 0
            )
            for level in levels
        }
        truths = np.array(["zero", "mean"])
        found.append(
            meta_evaluation.Scored(f"{generator}/0/{number}", truths, _metric_scores.TrueErrors(error, error), measured)
        )
    return found


def test_halves_agree_on_an_order_that_is_there_and_on_no_other():
    generators = [f"generator{number}" for number in range(6)]
    ordered = of_noise((0.05, 0.2, 0.4, 0.8, 1.6, 3.2), generators)
    found = meta_evaluation.halves(ordered, ordered[0].measured)
    assert found.keys() == {"generators", "corruptions", "both"}
    assert all(of_errors["distance"][0] > 0.9 and of_errors["distance"][1] > 0.5 for of_errors in found.values())
    equal = [of_noise((3.0 + number / 1e6,), generators, number) for number in range(8)]
    merged = [
        dataclasses.replace(one[0], measured={name: each for part in one for name, each in part.measured.items()},
                            errors=one[0].errors)
        for one in zip(*equal, strict=True)
    ]  # fmt: skip
    low, high = meta_evaluation.halves(merged, merged[0].measured)["both"]["distance"][1:]
    assert low < 0.2 < high or abs(low + high) < 1


def test_verdicts_are_of_intervals_over_networks():
    draw = np.random.default_rng(0)
    differences = np.stack(
        [draw.normal(2, 1, 20), draw.normal(-2, 1, 20), np.tile([1.0, -1.0], 10), np.full(20, np.nan)]
    )
    assert meta_evaluation.verdicts(differences).tolist() == [1, -1, 0, 0]


def test_passes_are_those_of_one_map_alone(networks):
    tested = meta_evaluation.chosen(["insertion", "deletion", "sensitivity_n", "max_sensitivity", "other_class"])
    found = meta_evaluation.score(tested, networks[0]).measured
    assert found["insertion"].passes == found["deletion"].passes == 21 and found["sensitivity_n"].passes == 193
    assert found["max_sensitivity"].explanations == 10 and found["other_class"].explanations == 1


def test_exact_maps_of_random_networks_are_theirs(networks):
    network = networks[0]
    explain, rows = ExactExplain(network, "noise", 0.0), network.batch.truth["truth"] == "zero"
    random = sanity.randomised(network.model, sanity.STAGES)
    ends = random.scores(network.batch.pictures, 8) - random.scores(np.zeros_like(network.batch.pictures), 8)
    sums = explain(network.batch, random).sum(axis=1)
    np.testing.assert_allclose(sums[rows], ends[rows, network.batch.targets[rows]], atol=2e-5)
    found = meta_evaluation.score(meta_evaluation.chosen(["randomisation", "max_sensitivity"]), networks[-1]).measured
    assert "randomisation" not in found and "max_sensitivity" in found


def test_the_command_writes_its_files_twice_the_same(tmp_path, capsys, monkeypatch):
    def two(count, inputs, seed):
        return sampled_networks.sampled_networks(count, inputs, seed, ("random_relu",))

    monkeypatch.setattr(meta_evaluation, "sampled_networks", two)
    arguments = ["x", "--metrics=deletion,infidelity", "--inputs=1", "--networks=2"]
    written = []
    for folder in ("a", "b"):
        assert cli.execute(
            meta_evaluation.main, meta_evaluation.FLAGS, meta_evaluation.__doc__,
            [*arguments, f"--output_dir={tmp_path / folder}"],
        ) == 0  # fmt: skip
        written.append({file.name: file.read_bytes() for file in (tmp_path / folder).iterdir() if file.is_file()})
    assert written[0] == written[1] and set(written[0]) == {f"which_metric.{end}" for end in ("json", "md", "png")}
    record = json.loads(written[0]["which_metric.json"])
    assert record["metrics"]["deletion"]["passes"] == 21 and record["inputs"] == 1
    assert record["networks"] == ["random_relu/0/0", "random_relu/0/1"] and "`deletion`" in capsys.readouterr().out


def test_a_stopped_run_resumes_and_another_metric_is_measured_again(networks, tmp_path, monkeypatch):
    measured, measure = [], meta_evaluation.measure

    def counted(chosen, network, maps):
        measured.extend((network.name, name) for name in chosen)
        return measure(chosen, network, maps)

    monkeypatch.setattr(meta_evaluation, "measure", counted)
    chosen = meta_evaluation.chosen(["deletion"])
    first = meta_evaluation.score(chosen, networks[0], folder=tmp_path)
    assert {name for name, _ in measured} == {networks[0].name}
    measured.clear()
    again = meta_evaluation.score(chosen, networks[0], folder=tmp_path)
    assert not measured and again.measured.keys() == first.measured.keys()
    np.testing.assert_array_equal(again.measured["deletion"].of_corruptions, first.measured["deletion"].of_corruptions)
    meta_evaluation.score(meta_evaluation.chosen(["insertion"]), networks[0], folder=tmp_path)
    assert (networks[0].name, "insertion") in measured


def test_metrics_of_quantus_are_beside_ours_on_one_input(networks, monkeypatch):
    pytest.importorskip("quantus")
    ours = {"quantus:Sparseness": "sparseness", "quantus:RelevanceRankAccuracy": "iou_at_area"}
    monkeypatch.setattr(meta_evaluation, "QUANTUS", {name: meta_evaluation.QUANTUS[name] for name in ours})
    chosen = meta_evaluation.chosen([*ours.values()])
    scored = [meta_evaluation.score(chosen, network, quantus=network is not networks[1]) for network in networks]
    rows = meta_evaluation.summary(scored, chosen)["metrics"]
    for name, nearest in ours.items():
        assert rows[name]["ours"] == nearest and len(rows[name]["of_quantus"]) == len(rows[name]["of_ours"]) == 5
        assert rows[name]["agreement"]["zero, distance"][1] is None
    assert rows["quantus:Sparseness"]["of_quantus"] == rows["quantus:Sparseness"]["of_ours"]  # the same metric


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


def test_the_committed_networks_still_have_exact_maps():
    networks = list(known_networks(3))
    assert len(networks) == 24 and {network.group for network in networks} == {"vectors", "images"}
    for network in networks:
        batch = network.of_classes
        ends = network.scores(batch.pictures) - network.scores(np.zeros_like(batch.pictures))
        sums = network.exact(network.batch)[0].reshape(3, -1).sum(axis=1)
        np.testing.assert_allclose(sums, ends[np.arange(3), batch.targets], atol=5e-5)
    assert set(KINDS)
