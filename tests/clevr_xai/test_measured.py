"""A run: its numbers are those of single maps, right answers alone cost passes, and stored scores cost none."""

import dataclasses
import types

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import runner_up
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.metric import mask_of, of_maps
from attribution_benchmarks.core.random_weights import with_shuffled_weights
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import methods
from clevr_xai.answering import Questions, collect, draw_rows, sharded_run
from clevr_xai.data import Dataset
from clevr_xai.evaluation import ClevrXaiEvaluation
from clevr_xai.metrics import HEADING, METRICS, POOLINGS, pool
from clevr_xai.settings import Settings

NAMES = ("lrp_clevr_xai", "gradient", "grad_cam", "integrated_gradients", "smoothgrad")
RIGHT = 11  # of the twelve questions


def measurement(
    network, data, directory, names=NAMES, rows=None, batch_size=5, seed=0, asked=tuple(methods.CONTROLS), truth="",
    chosen=None, shared=None, degenerate_maps="uniform", **more,
):  # fmt: skip
    """Explain and score, by default all twelve questions with five methods and all controls."""
    chosen = chosen or methods.settings(names, steps=3, samples=2)
    explainer = Explainer(
        network.model, chosen, methods.asked_of(data, network, asked, 2), names[:2], seed, batch_size
    )  # fmt: skip
    questions = Questions(data, np.arange(12) if rows is None else rows, network, truth)
    store, treated = ScoreStore(str(directory)), {"shared": shared, "degenerate_maps": degenerate_maps}
    run = sharded_run(questions, explainer, store=store, batch_size=batch_size, **treated, **more)
    return collect(questions, run.evaluate(), **treated)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("scores")


@pytest.fixture(scope="module")
def measured(network, data, store):
    return measurement(network, data, store)


def by_hand(maps, masks):
    """Score maps by the two metrics under all poolings, one call each."""
    return np.stack(
        [
            np.stack([np.stack([metric(pool(maps, [name])[name], mask) for name in POOLINGS], -1)
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
    names = [label.name for label in measured.sources]
    assert names[:5] == list(NAMES) and names[5:] == [
        "lrp_clevr_xai/wrong_class", "gradient/wrong_class", "lrp_clevr_xai/permuted_question",
        "gradient/permuted_question", "lrp_clevr_xai/random_weights#1", "gradient/random_weights#1",
        "lrp_clevr_xai/random_weights#2", "gradient/random_weights#2",
        "uniform", "random", "edge_detector", "ground_truth",
    ]  # fmt: skip


def test_the_numbers_are_those_of_maps_explained_and_scored_by_hand(measured, network, data):
    (batch,) = data.batches(RIGHT, range(RIGHT))
    inputs, targets = network.inputs(batch.images, batch.questions), network.targets(batch.answers)
    wrong = runner_up(network.model.scores(inputs), targets)
    sentences = [question["question"] for question in data.questions]
    others = [sentences[row] for row in methods.other_questions(sentences, range(RIGHT), 0)]
    asked = {
        MapSource("lrp_clevr_xai"): (network.model, inputs, targets),
        MapSource("gradient"): (network.model, inputs, targets),
        MapSource("grad_cam"): (network.model, inputs, targets),
        MapSource("gradient", "wrong_class"): (network.model, inputs, wrong),
        MapSource("gradient", "permuted_question"): (network.model, network.inputs(batch.images, others), targets),
        MapSource("gradient", "random_weights#1"): (with_shuffled_weights(network.model.path, 0), inputs, targets),
        MapSource("gradient", "random_weights#2"): (
            with_shuffled_weights(network.model.path, 0, number=2),
            inputs,
            targets,
        ),
    }
    masses = {}
    for label, arguments in asked.items():
        maps = attribution.explain(label.method, *arguments, explain_input="image")
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
        np.testing.assert_allclose(measured.scores(MapSource(control="uniform"))[:RIGHT, 0, number, 3], area, rtol=1e-8)


def test_the_completeness_error_is_that_of_the_maps(measured, network, data, tmp_path):
    (batch,) = data.batches(RIGHT, range(RIGHT))
    inputs, targets = network.inputs(batch.images, batch.questions), network.targets(batch.answers)
    maps = attribution.explain("integrated_gradients", network.model, inputs, targets, explain_input="image", points=4)
    black = dict(inputs, image=0 * inputs["image"])
    rows = np.arange(RIGHT)
    difference = network.model.scores(inputs)[rows, targets] - network.model.scores(black)[rows, targets]
    expected = np.abs(maps.sum((1, 2, 3)) / difference - 1)
    gaps = measured.gaps["integrated_gradients"]
    np.testing.assert_allclose(gaps[:RIGHT], expected, rtol=1e-2, atol=1e-4)
    assert np.isnan(gaps[RIGHT])
    fine = methods.settings(["integrated_gradients"], steps=200)
    finer = measurement(network, data, tmp_path, rows=rows[:3], asked=(), chosen=fine)
    assert np.median(finer.gaps["integrated_gradients"]) < 0.2 * np.median(gaps[:3])


def test_the_completeness_error_is_that_of_the_path_taken(network, data, tmp_path):
    rows = np.arange(3)
    chosen = methods.settings(list(methods.BASELINES), steps=200)
    gaps = measurement(network, data, tmp_path, rows=rows, asked=(), chosen=chosen).gaps
    assert list(gaps) == list(methods.BASELINES) and (np.stack(list(gaps.values())) < 0.05).all()
    assert len({tuple(column) for column in gaps.values()}) == 3


def test_passes_are_spent_on_right_answers_alone_and_never_twice(network, data, tmp_path):
    counts = network.model.counts
    before = counts.copy()
    first = measurement(network, data, tmp_path, ("gradient",), asked=())
    assert counts["backward"] - before["backward"] == RIGHT
    before = counts.copy()
    again = measurement(network, data, tmp_path, ("gradient",), asked=())
    assert counts == before
    np.testing.assert_array_equal(first.scores(MapSource("gradient")), again.scores(MapSource("gradient")))


def test_of_more_questions_only_the_new_ones_are_explained(network, data, tmp_path):
    """Also where old and new ones meet in one batch."""
    few = {"names": ("gradient",), "asked": ()}
    measurement(network, data, tmp_path, rows=np.array([2, 7, 8]), **few)
    counts = network.model.counts
    before = counts.copy()
    whole = measurement(network, data, tmp_path, **few)
    assert counts["backward"] - before["backward"] == RIGHT - 3
    assert not np.isnan(whole.scores(MapSource("gradient"))[:RIGHT]).any()


def test_fewer_questions_are_a_part_of_more_and_batches_do_not_matter(network, data, measured, tmp_path):
    few = {"names": ("gradient", "smoothgrad"), "asked": ("wrong_class", "random")}
    measurement(network, data, tmp_path, rows=np.array([2, 7, 11]), **few)
    whole = measurement(network, data, tmp_path, batch_size=3, **few)
    for label in set(whole.sources) & set(measured.sources):
        place = list(POOLINGS).index(HEADING["mass"])
        np.testing.assert_allclose(
            whole.scores(label)[:, :, 0, place], measured.scores(label)[:, :, 0, place], rtol=1e-3, err_msg=label.name
        )
    assert whole.fingerprint == measured.fingerprint


def test_a_stopped_run_goes_on_to_the_same_numbers(network, data, store, measured, tmp_path):
    few = ("gradient", "grad_cam", "smoothgrad")

    class Stopped(Exception):
        pass

    class Stopping:
        directory = tmp_path / "maps"

        def has(self, method, file, key):
            return False

        def save(self, method, file, found, key):
            if method == "grad_cam" and int(file) > data.questions[4]["question_index"]:
                raise Stopped

    with pytest.raises(Stopped):
        measurement(network, data, tmp_path, few, maps_directory=Stopping(), asked=("random",))
    resumed = measurement(network, data, tmp_path, few, asked=("random",))
    for label in resumed.sources:
        np.testing.assert_array_equal(resumed.scores(label), measured.scores(label))
    contents = ScoreStore(tmp_path).contents()
    assert len(contents) == len(few) + 2  # and the random map, and the answers
    assert contents.items() <= ScoreStore(store).contents().items()


def test_another_setting_seed_or_image_finds_no_old_scores(network, data, tmp_path, answered):
    few = {"names": ("gradient", "smoothgrad"), "rows": np.arange(2), "asked": ("random",)}
    first = measurement(network, data, tmp_path, **few)
    other = measurement(network, data, tmp_path, seed=1, **few)
    same, drawn = MapSource("gradient"), MapSource("smoothgrad")
    np.testing.assert_array_equal(first.scores(same), other.scores(same))
    assert not np.array_equal(first.scores(drawn), other.scores(drawn))
    changed = Dataset("simple", answered, size=64)
    asked, *rest = changed.questions
    changed.questions = [dict(asked, question="What color is the ball?"), *rest]
    asked_anew = measurement(network, changed, tmp_path, **few)
    assert asked_anew.fingerprint != first.fingerprint
    found, before = asked_anew.scores(same), first.scores(same)
    assert not np.array_equal(found[0], before[0])
    np.testing.assert_array_equal(found[1], before[1])


def test_damaged_scores_are_named(network, data, tmp_path, rewrite_scores):
    measurement(network, data, tmp_path, ("gradient",), np.arange(2), asked=())
    rewrite_scores(tmp_path, lambda key, record: "0.5 x" if key.get("method") == "gradient" else record)
    with pytest.raises(BadInput, match=r"the scores in .* are damaged; remove that folder"):
        measurement(network, data, tmp_path, ("gradient",), np.arange(2), asked=()).scores(MapSource("gradient"))


def test_damaged_answers_are_named(network, data, tmp_path, rewrite_scores):
    measurement(network, data, tmp_path, ("gradient",), np.arange(2), asked=())
    rewrite_scores(tmp_path, lambda key, record: ["x", 0.5] if "predictions" in key else record)
    with pytest.raises(BadInput, match=r"the scores in .* are damaged; remove that folder"):
        measurement(network, data, tmp_path, ("gradient",), np.arange(2), asked=())


def test_only_integrated_gradients_costs_the_passes_of_its_completeness_error(network, data, tmp_path):
    counts = network.model.counts
    for names, passes in ((("gradient",), 0), (("gradient", "integrated_gradients"), 2)):
        before = counts.copy()
        measurement(network, data, tmp_path / str(passes), names, asked=("uniform",))
        assert counts["forward"] - before["forward"] == 12 + passes * RIGHT  # asked first, then both ends of the path


def inside(maps, block, scores):
    """Return the share of the channels' absolute values on the first ground truth, (N,)."""
    strength = np.abs(maps.astype(np.float64)).sum(axis=3)
    return (strength * mask_of(block)).sum(axis=(1, 2)) / strength.sum(axis=(1, 2))


def test_a_metric_of_all_benchmarks_looks_at_the_first_ground_truth_asked_for(network, answered, tmp_path):
    """Against the mass accuracy of that truth, and whatever was asked for before in the same store."""
    data = Dataset("complex", answered, size=64)
    label, place = MapSource("gradient"), list(POOLINGS).index("l1-norm")
    for truth in ("union", "all_objects", "union"):
        measured = measurement(
            network, data, tmp_path, ("gradient",), asked=(), truth=truth, shared={"inside": of_maps("inside", inside)}
        )
        there = measured.right & (measured.pixels[truth] > 0)
        mass = measured.scores(label)[there, data.ground_truths.index(truth), list(METRICS).index("mass"), place]
        found = measured.shared["inside"](label)
        assert there.sum() > 5 and np.isnan(found[~measured.right]).all()
        np.testing.assert_allclose(found[there], mass, rtol=1e-8)
    assert measured.ground_truths == data.ground_truths  # whatever is asked for first


def test_a_metric_that_is_not_of_controls_is_not_asked_of_them(network, data, tmp_path):
    metric = of_maps("inside", inside)
    metric = dataclasses.replace(metric, measure=dataclasses.replace(metric.measure, of_controls=False))
    measured = measurement(network, data, tmp_path, ("gradient",), asked=("uniform",), shared={"inside": metric})
    assert np.isfinite(measured.shared["inside"](MapSource("gradient"))[:RIGHT]).all()
    assert measured.shared["inside"](MapSource(control="uniform")) is None


def test_the_maps_of_pictures_are_those_that_are_scored(network, data):
    explainer = Explainer(network.model, methods.settings(["gradient", "smoothgrad"], samples=2), batch_size=5)
    (part,) = Questions(data, [7], network).batches(1)
    found = {source.name: maps for source, maps in explainer.maps(explainer.sources, part.load())}
    (batch,) = data.batches(1, [7])
    asked = network.inputs(batch.images, batch.questions), network.targets(batch.answers)
    number = data.questions[7]["question_index"]
    assert list(found) == ["gradient", "smoothgrad"]
    expected = attribution.explain(
        "smoothgrad", network.model, *asked, explain_input="image", samples=2, noise=0.05, keys=[f"simple/{number}"]
    )
    np.testing.assert_array_equal(found["smoothgrad"], expected)


def test_rows_are_drawn_so_that_fewer_are_a_part_of_more():
    some, more = draw_rows(1000, 50, 3), draw_rows(1000, 200, 3)
    assert len(set(some)) == 50 and set(some) < set(more) and (np.diff(some) > 0).all()
    assert not np.array_equal(some, draw_rows(1000, 50, 4))
    np.testing.assert_array_equal(draw_rows(5, "all", 0), range(5))
    np.testing.assert_array_equal(draw_rows(5, 9, 0), range(5))


def test_the_number_that_is_right_is_that_of_all_batches_and_a_subset_need_not_begin_at_0(network, data):
    run = types.SimpleNamespace(settings=Settings(questions="simple", batch_size=5))
    whole = ClevrXaiEvaluation(run, {"a": network.model}, Questions(data, np.arange(12), network))
    assert f"{RIGHT} of 12 simple questions right" in whole.describe_models()[0]
    some = ClevrXaiEvaluation(run, {}, Questions(data, [7, 3, 5], network)).without({"simple": [5]})
    assert some.questions.rows.tolist() == [3, 7]
