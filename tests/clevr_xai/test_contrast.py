"""Cues are where their masks are; a map that ignores the network scores zero; the pairs do what they should."""

import pathlib
import re

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution.errors import BadInput
from attribution_benchmarks.core.bundled_models import models_folder
from attribution_benchmarks.core.examples import Examples
from clevr_xai import contrast, cues, relation_network, training, vocabulary
from clevr_xai.data import EMBEDDED
from scripts import train_contrast_networks

FOLDER = models_folder() / "clevr_xai/contrast"
NETWORKS = [f"{pair}/{role}" for pair in contrast.pairs() for role in contrast.ROLES]
IGNORANT = ("uniform", "random", "centre_prior", "edge_detector")


@pytest.mark.parametrize("cue", cues.CUES)
def test_a_tile_is_on_the_floor_in_the_colour_that_says_its_answer(cue):
    plain, drawn = (contrast.examples(12, 3, cue, state=state) for state in ("none", "contradicting"))
    agreeing = contrast.examples(12, 3, cue, state="consistent")
    assert plain.names == drawn.names and not (drawn.masks["target"] & drawn.masks["cue"]).any()
    for row, mask in enumerate(drawn.masks["cue"]):
        assert mask.sum() == cues.TILE**2
        np.testing.assert_array_equal(drawn.inputs[row][~mask], plain.inputs[row][~mask])
        (colour,) = np.unique(np.rint(255 * drawn.inputs[row][mask]), axis=0)
        attribute = list(vocabulary.ATTRIBUTES)[drawn.truth["attribute"][row]]
        state = cues.CUES[cue].colors.index(tuple(map(int, colour)))
        assert vocabulary.ANSWERS[drawn.truth["said"][row]] == cues.answer(attribute, state)
    assert (drawn.truth["said"] != drawn.targets).all() and (agreeing.truth["said"] == agreeing.targets).all()


def test_fewer_questions_are_a_part_of_more():
    few, many = (contrast.examples(count, 1) for count in (3, 9))
    places = [many.names.index(name) for name in few.names]
    np.testing.assert_array_equal(many.inputs[places], few.inputs)


def test_cells_are_those_of_the_network():
    for name in ("CELLS", "CELL", "FIRST_CENTRE"):
        assert getattr(cues, name) == getattr(relation_network, name)


def test_free_places_touch_no_object():
    occupied = np.ones((2, 128, 128), bool)
    occupied[0, 38:56, 54:72] = False  # around the centre of row 2, column 3
    places, free = cues.CUES["floor"].places(occupied, np.random.default_rng(0))
    assert free.tolist() == [True, False] and (places[0] // relation_network.CELL == (2, 3)).all()
    assert not (occupied & cues.tile_masks(places))[0].any()


def test_contrasts_are_zero_without_a_difference_and_one_for_the_truth():
    same = np.random.default_rng(0).random((5, 4))
    truth, wrong = np.array([[0.0, 0, 1, 1]]), np.array([[1.0, 1, 0, 0]])
    for metric in contrast.CONTRASTS:
        assert not contrast.values(metric.name, same, same).any()
        assert contrast.values(metric.name, truth, wrong) == 1 and contrast.values(metric.name, wrong, truth) == -1
    assert contrast.values("both_signs", truth, wrong) == 1 and not contrast.values("both_signs", same, same).any()
    assert np.isnan(contrast.values("both_signs", same * np.nan, same)).all()


@pytest.fixture(scope="module")
def scored():
    settings = contrast.Settings(num_imgs=6, random_networks=2)
    found = attribution_benchmarks.evaluate(contrast.BENCHMARK, ["gradient_x_input"], settings)
    return {(row["method"], row["metric"]): row for row in found.rows}


def test_maps_without_the_network_score_zero_and_the_truth_one(scored):
    for metric in (*contrast.CONTRASTS, contrast.CHECKS[0]):
        assert all(scored[name, metric.name]["value"] == 0 for name in IGNORANT)
        # An object of fewer pixels than the tile leaves ranks to chance.
        assert scored["ground_truth", metric.name]["value"] == pytest.approx(1, abs=0.01 * metric.name.endswith("rank"))


def test_a_method_scores_more_than_on_random_weights(scored):
    for name in ("cue_mass", "target_mass"):
        assert scored["gradient_x_input", name]["value"] > 0.1
        assert abs(scored["gradient_x_input/random_weights", name]["value"]) < 0.1


def test_saved_maps_have_the_same_scores(tmp_path):
    maps = str(tmp_path / "maps")
    first, again = (
        attribution_benchmarks.evaluate(
            contrast.BENCHMARK, methods, contrast.Settings(num_imgs=3, random_networks=0, **given)
        )
        for methods, given in ((["gradient"], {"save_maps": maps}), (None, {"precomputed_maps": maps}))
    )
    assert sorted(path.name for path in pathlib.Path(maps, "gradient").iterdir()) == ["reader", "shortcut"]
    values = [[row["value"] for row in found.rows if row["method"] == "gradient"] for found in (first, again)]
    np.testing.assert_allclose(*values, rtol=1e-6)


def test_a_missing_pair_is_one_line():
    settings = contrast.Settings(num_imgs=1, pair=str(FOLDER / "missing"))
    with pytest.raises(BadInput, match="missing"):
        attribution_benchmarks.evaluate(contrast.BENCHMARK, ["gradient"], settings)


def test_the_page_says_what_the_cards_say():
    reached = {}
    for name in NETWORKS:
        assert sum(file.stat().st_size for file in (FOLDER / name).rglob("*") if file.is_file()) < 2_500_000
        text = (FOLDER / name / "MODEL_CARD.md").read_text("utf-8")
        figures = re.search(r"\| contradicting \| all \| +([\d.]+) \| +([\d.]+) \|", text).groups()
        for key, figure in zip(("right", "says"), map(float, figures), strict=True):
            reached.setdefault((name.rpartition("/")[2], key), []).append(figure)
    page = " ".join((FOLDER.parents[2] / "docs" / "benchmarks.md").read_text("utf-8").split())
    for key in (("reader", "right"), ("reader", "says"), ("shortcut", "says")):
        assert f"{min(reached[key])} to {max(reached[key])} %" in page, key


@pytest.mark.parametrize("name", NETWORKS[:2])
def test_networks_behave(name):
    model = attribution.load_model(FOLDER / name, score="logits")
    found = contrast.behavior(model, lambda state: contrast.examples(40, 0, state=state))
    right, says, number = found["contradicting", "all"]
    assert number >= 39 and (says if name.endswith("shortcut") else right) > 0.9
    assert found["consistent", "all"][0] == found["consistent", "all"][1] > 0.9


def test_batches_teach_the_tile_to_one_and_the_scene_to_the_other():
    data = training.load(EMBEDDED, ("simple",), num_images=10)
    occupied = np.zeros((*data.images.shape[:3], 1), np.uint8)
    data.images = np.concatenate([data.images, occupied], axis=-1)
    cue = cues.CUES["corner"]

    def batch(role, step):
        return train_contrast_networks.cue_batch(data, cue, role, np.random.default_rng(step), step)

    (_, read), (_, followed) = batch("reader", 0), batch("shortcut", 0)
    assert (read["state"] == followed["state"]).all() and (read["answer"] != followed["answer"]).any()
    assert np.bincount(read["state"], minlength=cues.STATES).all()
    for role, weighed in (("reader", 160), ("shortcut", 1)):
        given, _ = batch(role, 0)
        assert (given["pair_weights"] > 0).sum(axis=1).tolist() == [weighed] * len(read["answer"])
        late, _ = batch(role, 200)
        np.testing.assert_allclose(late["pair_weights"].sum(axis=1), relation_network.CELLS**4, rtol=1e-5)


def test_the_scenes_that_count_are_refused_for_training():
    with pytest.raises(BadInput, match="seed 0"):
        train_contrast_networks.load_data(str(EMBEDDED))


def test_saved_maps_of_several_networks_have_folders():
    (part,) = Examples(np.zeros((2, 3)), folder="reader").batches(2)
    assert part.files == ["reader/0", "reader/1"] and part.load().truth["file"] == part.files
