"""A run: its numbers are those of single maps, right answers alone cost passes, and stored scores cost none."""

import json

import numpy as np
import pytest

import attribution
from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.leaderboard.store import ScoreStore
from clevr_xai import controls, methods
from clevr_xai.answering import Answering
from clevr_xai.dataset import Dataset
from clevr_xai.measure import Measurement
from clevr_xai.measured import Label, draw_rows
from clevr_xai.metrics import METRICS
from clevr_xai.pooling import POOLINGS
from clevr_xai.random_weights import with_shuffled_weights
from clevr_xai.scoring import HEADING

NAMES = ("lrp_clevr_xai", "gradient", "grad_cam", "integrated_gradients", "smoothgrad")
RIGHT = 11  # of the twelve questions


@pytest.fixture(scope="module")
def network(small_network):
    return Answering(small_network)


@pytest.fixture(scope="module")
def data(answered):
    return Dataset("simple", answered, size=64)


def measurement(
    network, data, directory, names=NAMES, rows=None, batch_size=5, seed=0, asked=controls.CONTROLS, **more
):
    chosen = methods.settings(names, steps=3, samples=2)
    rows = np.arange(12) if rows is None else rows
    return Measurement(
        data, rows, network, chosen, asked, names[:2], ScoreStore(str(directory)), seed, batch_size, **more
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("scores")


@pytest.fixture(scope="module")
def measured(network, data, store):
    return measurement(network, data, store).run()


def by_hand(maps, masks):
    """Score maps by the two metrics under all poolings, one call each."""
    return np.stack(
        [
            np.stack([np.stack([metric(pooling(maps), mask) for pooling in POOLINGS.values()], -1)
                      for metric in METRICS.values()], 1)
            for mask in masks.values()
        ],
        1,
    )  # fmt: skip


def test_what_was_counted(measured, data):
    assert measured.right.tolist() == [True] * RIGHT + [False]
    assert (measured.confidence > 1 / 28).all() and (measured.confidence <= 1).all()
    np.testing.assert_array_equal(measured.indices, [question["question_index"] for question in data.questions])
    np.testing.assert_array_equal(
        measured.pixels["single_object"], data.masks("single_object", range(12))[0].sum((1, 2))
    )
    names = [label.name for label in measured.labels]
    assert names[:5] == list(NAMES) and names[5:] == [
        "lrp_clevr_xai/wrong_class", "gradient/wrong_class", "lrp_clevr_xai/permuted_question",
        "gradient/permuted_question", "lrp_clevr_xai/random_weights", "gradient/random_weights",
        "uniform", "random", "edge_detector",
    ]  # fmt: skip


def test_the_numbers_are_those_of_maps_explained_and_scored_by_hand(measured, network, data):
    (batch,) = data.batches(RIGHT, range(RIGHT))
    inputs, targets = network.inputs(batch.images, batch.questions), network.targets(batch.answers)
    wrong = controls.wrong_targets(network.model.scores(inputs), targets)
    sentences = [question["question"] for question in data.questions]
    others = [sentences[row] for row in controls.other_questions(sentences, range(RIGHT), 0)]
    asked = {
        Label("lrp_clevr_xai"): (network.model, inputs, targets),
        Label("gradient"): (network.model, inputs, targets),
        Label("grad_cam"): (network.model, inputs, targets),
        Label("gradient", "wrong_class"): (network.model, inputs, wrong),
        Label("gradient", "permuted_question"): (network.model, network.inputs(batch.images, others), targets),
        Label("gradient", "random_weights"): (with_shuffled_weights(network.model.path, 0), inputs, targets),
    }
    masses = {}
    for label, arguments in asked.items():
        maps = attribution.explain(label.method, *arguments, wrt="image")
        expected, found = by_hand(maps, batch.masks), measured.scores(label)
        assert found.shape == (12, 2, 2, 10) and np.isnan(found[RIGHT:]).all()
        # Batches of other sizes round differently, which a rank can feel.
        np.testing.assert_allclose(found[:RIGHT, :, 0], expected[:, :, 0], rtol=1e-3, err_msg=label.name)
        np.testing.assert_allclose(found[:RIGHT, :, 1], expected[:, :, 1], atol=0.02, err_msg=label.name)
        masses[label.name] = expected[:, 0, 0, 5]
    as_asked = masses.pop("gradient")
    assert all(not np.allclose(as_asked, mass, rtol=1e-2) for mass in masses.values())
    area = batch.masks["single_object"].mean((1, 2))
    for number in range(2):
        np.testing.assert_allclose(measured.scores(Label(control="uniform"))[:RIGHT, 0, number, 3], area, rtol=1e-8)


def test_the_completeness_error_is_that_of_the_maps(measured, network, data, tmp_path):
    (batch,) = data.batches(RIGHT, range(RIGHT))
    inputs, targets = network.inputs(batch.images, batch.questions), network.targets(batch.answers)
    maps = attribution.explain("integrated_gradients", network.model, inputs, targets, wrt="image", points=4)
    black = dict(inputs, image=0 * inputs["image"])
    rows = np.arange(RIGHT)
    difference = network.model.scores(inputs)[rows, targets] - network.model.scores(black)[rows, targets]
    expected = np.abs(maps.sum((1, 2, 3)) / difference - 1)
    np.testing.assert_allclose(measured.gaps[:RIGHT], expected, rtol=1e-2, atol=1e-4)
    assert np.isnan(measured.gaps[RIGHT])
    fine = methods.settings(["integrated_gradients"], steps=200)
    finer = Measurement(data, rows[:3], network, fine, (), (), ScoreStore(str(tmp_path))).run()
    assert np.median(finer.gaps) < 0.2 * np.median(measured.gaps[:3])


def test_the_completeness_error_is_that_of_the_path_taken(network, data, tmp_path):
    rows = np.arange(3)
    gaps = [
        Measurement(data, rows, network, chosen, (), (), ScoreStore(str(tmp_path))).run().gaps
        for chosen in (
            methods.settings(["integrated_gradients"], steps=200, baseline=baseline) for baseline in methods.BASELINES
        )
    ]
    assert (np.stack(gaps) < 0.05).all() and not np.allclose(*gaps)


def test_passes_are_spent_on_right_answers_alone_and_never_twice(network, data, tmp_path):
    counts = network.model.counts
    before = counts.copy()
    first = measurement(network, data, tmp_path, ("gradient",), asked=()).run()
    assert counts["backward"] - before["backward"] == RIGHT
    before = counts.copy()
    again = measurement(network, data, tmp_path, ("gradient",), asked=()).run()
    assert counts == before
    np.testing.assert_array_equal(first.scores(Label("gradient")), again.scores(Label("gradient")))


def test_of_more_questions_only_the_new_ones_are_explained(network, data, tmp_path):
    """Also where old and new ones meet in one batch."""
    few = {"names": ("gradient",), "asked": ()}
    measurement(network, data, tmp_path, rows=np.array([2, 7, 8]), **few).run()
    counts = network.model.counts
    before = counts.copy()
    whole = measurement(network, data, tmp_path, **few).run()
    assert counts["backward"] - before["backward"] == RIGHT - 3
    assert not np.isnan(whole.scores(Label("gradient"))[:RIGHT]).any()


def test_fewer_questions_are_a_part_of_more_and_batches_do_not_matter(network, data, measured, tmp_path):
    few = {"names": ("gradient", "smoothgrad"), "asked": ("wrong_class", "random")}
    measurement(network, data, tmp_path, rows=np.array([2, 7, 11]), **few).run()
    whole = measurement(network, data, tmp_path, batch_size=3, **few).run()
    for label in set(whole.labels) & set(measured.labels):
        place = list(POOLINGS).index(HEADING["mass"])
        np.testing.assert_allclose(
            whole.scores(label)[:, :, 0, place], measured.scores(label)[:, :, 0, place], rtol=1e-3, err_msg=label.name
        )
    assert whole.fingerprint == measured.fingerprint


def test_a_stopped_run_goes_on_to_the_same_numbers(network, data, store, measured, tmp_path):
    few = ("gradient", "grad_cam", "smoothgrad")

    class Stopped(Exception):
        pass

    def stop(label, index, found):
        if label == Label("grad_cam") and index > data.questions[4]["question_index"]:
            raise Stopped

    with pytest.raises(Stopped):
        measurement(network, data, tmp_path, few, save_map=stop, has_map=lambda *_: False, asked=("random",)).run()
    resumed = measurement(network, data, tmp_path, few, asked=("random",)).run()
    for label in resumed.labels:
        np.testing.assert_array_equal(resumed.scores(label), measured.scores(label))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == len(few) + 2  # and the random map, and the answers
    assert all((store / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)


def test_another_setting_seed_or_image_finds_no_old_scores(network, data, tmp_path, answered):
    few = {"names": ("gradient", "smoothgrad"), "rows": np.arange(2), "asked": ("random",)}
    first = measurement(network, data, tmp_path, **few).run()
    other = measurement(network, data, tmp_path, seed=1, **few).run()
    same, drawn = Label("gradient"), Label("smoothgrad")
    np.testing.assert_array_equal(first.scores(same), other.scores(same))
    assert not np.array_equal(first.scores(drawn), other.scores(drawn))
    changed = Dataset("simple", answered, size=64)
    changed.questions[0] = dict(changed.questions[0], question="What color is the ball?")
    asked_anew = measurement(network, changed, tmp_path, **few).run()
    assert asked_anew.fingerprint != first.fingerprint
    found, before = asked_anew.scores(same), first.scores(same)
    assert not np.array_equal(found[0], before[0])
    np.testing.assert_array_equal(found[1], before[1])


def test_damaged_scores_are_named(network, data, tmp_path):
    measurement(network, data, tmp_path, ("gradient",), np.arange(2), asked=()).run()
    for path in tmp_path.iterdir():
        header, *lines = path.read_text().splitlines()
        if json.loads(header)["method"] == "gradient":
            path.write_text("\n".join([header, *(json.dumps([json.loads(line)[0], "0.5 x"]) for line in lines), ""]))
    with pytest.raises(BadInput, match=r"the scores in .* are damaged; remove that folder"):
        measurement(network, data, tmp_path, ("gradient",), np.arange(2), asked=()).run().scores(Label("gradient"))


def test_rows_are_drawn_so_that_fewer_are_a_part_of_more():
    some, more = draw_rows(1000, 50, 3), draw_rows(1000, 200, 3)
    assert len(set(some)) == 50 and set(some) < set(more) and (np.diff(some) > 0).all()
    assert not np.array_equal(some, draw_rows(1000, 50, 4))
    np.testing.assert_array_equal(draw_rows(5, "all", 0), range(5))
    np.testing.assert_array_equal(draw_rows(5, 9, 0), range(5))
