"""The benchmark as a whole: its networks, its truth by an independent enumeration, and its scores."""

import itertools

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution_benchmarks.core.evaluation import load, prepare
from attribution_benchmarks.parts import definition, objects, truth
from attribution_benchmarks.parts.classes import PARTS
from attribution_benchmarks.stats.coalitions import coalitions

COUNT = 10


@pytest.fixture(scope="module")
def evaluation():
    return load(prepare(definition.BENCHMARK, ["gradient"], definition.Settings(num_imgs=COUNT)))


def test_networks_are_small_and_of_two_architectures():
    names = [path.name for path in definition.networks()]
    assert len({name.partition("_")[0] for name in names}) == 2
    for path in definition.networks():
        assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 500_000


@pytest.mark.parametrize("path", definition.networks(), ids=lambda path: path.name)
def test_networks_recognize_whole_objects(path):
    data = definition.examples(100, 0)
    assert (attribution.load_model(path).predict(data.inputs) == data.targets).mean() >= 0.97


def test_exact_values_are_the_mean_gains_over_all_orders_of_the_parts(evaluation):
    """Every image is composed and scored again, part after part in all 120 orders."""
    (model,) = evaluation.models.values()
    whole = evaluation.data
    batch = next(iter(whole.batches(COUNT))).load()
    exact = truth.exact_values(batch)
    layers = [objects.LAYERS.index(part) for part in PARTS]
    for number in range(COUNT):
        drawing = objects.draw("test", number)
        sets = list(itertools.chain(*(itertools.combinations(range(5), size) for size in range(6))))
        kept = np.ones((32, len(objects.LAYERS)), bool)
        for row, members in enumerate(sets):
            kept[row, [layers[part] for part in range(5) if part not in members]] = False
        logits = model.scores(objects.images_of(drawing, kept))[:, drawing.label]
        worth = dict(zip(map(frozenset, sets), logits.tolist(), strict=True))
        gains = np.zeros(5)
        for order in itertools.permutations(range(5)):
            for place, part in enumerate(order):
                gains[part] += worth[frozenset(order[: place + 1])] - worth[frozenset(order[:place])]
        np.testing.assert_allclose(exact[number], gains / 120, atol=1e-5)
    game = truth.game(batch)
    np.testing.assert_allclose(exact.sum(axis=1), game[:, -1] - game[:, 0], atol=1e-6)


def test_the_oracle_sums_to_the_exact_values(evaluation):
    batch = next(iter(evaluation.data.batches(COUNT))).load()
    maps = definition.EXACT_VALUES.maps(batch, 0)
    found = np.einsum("nhw,nrhw->nr", maps, batch.truth["regions"])[:, :5]
    disjoint = batch.truth["regions"][:, :5].sum(axis=1).max(axis=(1, 2)) == 1
    assert disjoint.any()
    np.testing.assert_allclose(found[disjoint], truth.exact_values(batch)[disjoint], atol=1e-6)


def test_masks_of_parts_body_and_background(evaluation):
    masks = evaluation.data.masks
    assert list(masks) == ["parts", *PARTS, "body", "background objects"]
    np.testing.assert_array_equal(masks["parts"], np.any([masks[part] for part in PARTS], axis=0))
    assert all(mask.any(axis=(1, 2)).all() for mask in masks.values())


def test_scores_and_mean_scores_of_a_method():
    settings = definition.Settings(num_imgs=COUNT)
    outcome = attribution_benchmarks.evaluate(definition.BENCHMARK, ["gradient_x_input"], settings)
    rows = {(row["method"], row["metric"]): row for row in outcome.rows}
    assert rows["exact_values", "shapley_correlation"]["value"] > 0.99
    assert rows["exact_values", "top_part"]["value"] == 1
    assert rows["ground_truth", "share_outside"]["value"] == 0
    found = rows["gradient_x_input", "target_sensitivity"]
    assert found["undefined"] >= COUNT - 4 and 0 <= found["value"] <= 1
    summary = [rows["gradient_x_input", name]["value"] for name in ("completeness", "correctness", "contrastivity")]
    assert rows["gradient_x_input", "mean_score"]["value"] == pytest.approx(np.mean(summary))


def test_sets_are_those_of_coalitions():
    np.testing.assert_array_equal(truth.set_number(coalitions(5)), np.arange(32))
