"""A run: its numbers are those of single maps, right answers alone cost passes, and stored scores cost none."""

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import runner_up
from attribution_benchmarks.core.metric import mask_of, of_maps
from attribution_benchmarks.core.random_weights import with_shuffled_weights
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.stats import correlation, statistics
from clevr_xai import methods
from clevr_xai.data import Dataset
from clevr_xai.evaluation import Measured
from clevr_xai.metrics import HEADING, METRICS, POOLINGS, score_maps

RIGHT = 11  # of the twelve questions
GRADIENT = MapSource("gradient")
FEW = {"names": ("gradient",), "controls": ()}
MASS = list(METRICS).index("mass"), POOLINGS.index(HEADING["mass"])


def find(scores, **where):
    return [row for row in scores.rows if all(row.get(key) == value for key, value in where.items())]


def scores_of(evaluation):
    return Scores.joined(evaluation.tables())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("scores")


@pytest.fixture(scope="module")
def measured(evaluation_of, network, data, store):
    return evaluation_of(network, data, store).measured


def test_what_was_counted(measured, data):
    assert measured.right.tolist() == [True] * RIGHT + [False]
    assert (measured.confidence > 1 / 28).all() and (measured.confidence <= 1).all()
    np.testing.assert_array_equal(
        measured.pixels["single_object"], data.masks("single_object", range(12))[0].sum((1, 2))
    )
    assert [source.name for source in measured.scores][5:] == [
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
    shuffled = {number: with_shuffled_weights(network.model.path, 0, number=number) for number in (1, 2)}
    asked = {
        MapSource("lrp_clevr_xai"): (network.model, inputs, targets),
        GRADIENT: (network.model, inputs, targets),
        MapSource("grad_cam"): (network.model, inputs, targets),
        MapSource("gradient", "wrong_class"): (network.model, inputs, wrong),
        MapSource("gradient", "permuted_question"): (network.model, network.inputs(batch.images, others), targets),
        MapSource("gradient", "random_weights#1"): (shuffled[1], inputs, targets),
        MapSource("gradient", "random_weights#2"): (shuffled[2], inputs, targets),
    }
    masses = {}
    for source, arguments in asked.items():
        expected = score_maps(attribution.explain(source.method, *arguments, explain_input="image"), batch.masks)
        expected = np.where(
            np.isnan(expected), batch.masks["single_object"].mean((1, 2))[:, None, None, None], expected
        )
        found = measured.scores[source]
        assert found.shape == (12, 2, 2, 10) and np.isnan(found[RIGHT:]).all()
        # Batches of other sizes round differently, which a rank can feel.
        np.testing.assert_allclose(found[:RIGHT, 0, 0], expected[:, 0, 0], rtol=1e-3, err_msg=source.name)
        np.testing.assert_allclose(found[:RIGHT, 0, 1], expected[:, 0, 1], atol=0.02, err_msg=source.name)
        masses[source] = expected[:, 0, 0, 5]
    as_asked = masses.pop(GRADIENT)
    assert all(not np.allclose(as_asked, mass, rtol=1e-2) for mass in masses.values())


def test_the_completeness_error_is_that_of_the_maps(evaluation_of, measured, network, data, tmp_path):
    (batch,) = data.batches(RIGHT, range(RIGHT))
    inputs, targets = network.inputs(batch.images, batch.questions), network.targets(batch.answers)
    maps = attribution.explain("integrated_gradients", network.model, inputs, targets, explain_input="image", points=4)
    rows = np.arange(RIGHT)
    black = dict(inputs, image=0 * inputs["image"])
    difference = network.model.scores(inputs)[rows, targets] - network.model.scores(black)[rows, targets]
    gaps = measured.gaps["integrated_gradients"]
    np.testing.assert_allclose(gaps[:RIGHT], np.abs(maps.sum((1, 2, 3)) / difference - 1), rtol=1e-2, atol=1e-4)
    assert np.isnan(gaps[RIGHT])
    finer = evaluation_of(network, data, tmp_path, list(methods.BASELINES), rows[:3], controls=(), steps=200)
    found = finer.measured.gaps
    assert list(found) == list(methods.BASELINES) and (np.stack(list(found.values())) < 0.05).all()
    assert len({tuple(column) for column in found.values()}) == 3  # of the path taken


def test_passes_are_spent_on_right_answers_alone_and_never_twice(evaluation_of, network, data, tmp_path):
    """Also where old and new questions meet in one batch."""
    counts = network.model.counts
    _ = evaluation_of(network, data, tmp_path, rows=(2, 7, 8), **FEW).measured
    before = counts.copy()
    first = evaluation_of(network, data, tmp_path, **FEW).measured
    assert counts["backward"] - before["backward"] == RIGHT - 3
    before = counts.copy()
    again = evaluation_of(network, data, tmp_path, **FEW).measured
    assert counts == before
    np.testing.assert_array_equal(first.scores[GRADIENT], again.scores[GRADIENT])
    for names, passes in ((("gradient",), 0), (("gradient", "integrated_gradients"), 2)):
        before = counts.copy()
        _ = evaluation_of(network, data, tmp_path / str(passes), names, controls=("uniform",)).measured
        assert counts["forward"] - before["forward"] == 12 + passes * RIGHT  # asked first, then both ends of the path


def test_fewer_questions_are_a_part_of_more_and_batches_do_not_matter(evaluation_of, network, data, measured, tmp_path):
    few = {"names": ("gradient", "smoothgrad"), "controls": ("wrong_class", "random")}
    _ = evaluation_of(network, data, tmp_path, rows=(2, 7, 11), **few).measured
    whole = evaluation_of(network, data, tmp_path, batch_size=3, **few).measured
    shared = set(whole.scores) & set(measured.scores)
    assert len(shared) == 4
    for source in shared:
        place = slice(None), slice(None), *MASS
        np.testing.assert_allclose(whole.scores[source][place], measured.scores[source][place], rtol=1e-3)
    assert whole.fingerprint == measured.fingerprint


def test_a_stopped_run_goes_on_to_the_same_numbers(evaluation_of, network, data, store, measured, tmp_path):
    few = {"names": ("gradient", "grad_cam", "smoothgrad"), "controls": ("random",)}

    class Stopped(Exception):
        pass

    class Stopping:
        directory = tmp_path / "maps"

        def has(self, method, file, key):
            return False

        def save(self, method, file, found, key):
            if method == "grad_cam" and int(file) > data.questions[4]["question_index"]:
                raise Stopped

    stopped = evaluation_of(network, data, tmp_path, **few)
    stopped.directory_of_maps = Stopping
    with pytest.raises(Stopped):
        _ = stopped.measured
    resumed = evaluation_of(network, data, tmp_path, **few).measured
    for source, found in resumed.scores.items():
        np.testing.assert_array_equal(found, measured.scores[source])
    contents = ScoreStore(tmp_path).contents()
    assert len(contents) == 5  # three methods, the random map, and the answers
    assert contents.items() <= ScoreStore(store).contents().items()


def test_another_setting_seed_or_image_finds_no_old_scores(evaluation_of, network, data, tmp_path, answered):
    few = {"names": ("gradient", "smoothgrad"), "rows": (0, 1), "controls": ("random",)}
    first = evaluation_of(network, data, tmp_path, **few).measured
    other = evaluation_of(network, data, tmp_path, seed=1, **few).measured
    drawn = MapSource("smoothgrad")
    np.testing.assert_array_equal(first.scores[GRADIENT], other.scores[GRADIENT])
    assert not np.array_equal(first.scores[drawn], other.scores[drawn])
    changed = Dataset("simple", answered, size=64)
    asked, *rest = changed.questions
    changed.questions = [dict(asked, question="What color is the ball?"), *rest]
    again = evaluation_of(network, changed, tmp_path, **few).measured
    assert again.fingerprint != first.fingerprint
    assert not np.array_equal(again.scores[GRADIENT][0], first.scores[GRADIENT][0])
    np.testing.assert_array_equal(again.scores[GRADIENT][1], first.scores[GRADIENT][1])


@pytest.mark.parametrize("damaged", ["scores", "answers"])
def test_damaged_records_are_named(evaluation_of, network, data, tmp_path, rewrite_scores, damaged):
    _ = evaluation_of(network, data, tmp_path, rows=(0, 1), **FEW).measured
    spoilt = {"scores": lambda key: key.get("method") == "gradient", "answers": lambda key: "predictions" in key}
    rewrite_scores(tmp_path, lambda key, record: ["x", 0.5] if spoilt[damaged](key) else record)
    with pytest.raises(BadInput, match=r"the scores in .* are damaged; remove that folder"):
        _ = evaluation_of(network, data, tmp_path, rows=(0, 1), **FEW).measured


def inside(maps, block, scores):
    """Return the share of the channels' absolute values on the first ground truth, (N,)."""
    strength = np.abs(maps.astype(np.float64)).sum(axis=3)
    return (strength * mask_of(block)).sum(axis=(1, 2)) / strength.sum(axis=(1, 2))


def test_a_metric_of_all_benchmarks_looks_at_the_first_ground_truth_asked_for(
    evaluation_of, network, answered, tmp_path
):
    """Against the mass accuracy of that truth, and whatever the same store already holds."""
    data = Dataset("complex", answered, size=64)
    for truth in ("union", "all_objects", "union"):
        evaluation = evaluation_of(
            network, data, tmp_path, metrics=("mass", of_maps("inside", inside)), ground_truth=(truth,), **FEW
        )
        groups = {(group.where["metric"], group.where["pooling"]): group for group in evaluation.groups()
                  if group.where["subset"] == "all"}  # fmt: skip
        shared, mass = groups["inside", ""], groups["mass", "l1-norm"]
        assert len(shared.inputs) > 5 and shared.where["ground_truth"] == truth
        assert shared.inputs == mass.inputs and shared.clusters == mass.clusters
        np.testing.assert_allclose(shared.values["gradient"], mass.values["gradient"], rtol=1e-8)


def test_the_number_that_is_right_is_that_of_all_batches(evaluation_of, network, data):
    assert f"{RIGHT} of 12 simple questions right" in evaluation_of(network, data).describe_models()[0]


@pytest.mark.parametrize("treatment", ["uniform", "drop"])
def test_saved_maps_score_as_they_would_in_memory(evaluation_of, data, tmp_path, write_json, treatment):
    """Channels come first; a map of zeros counts as the uniform map or is left out; a missing answer is a wrong one."""
    generator = np.random.default_rng(1)
    maps = {"rise": generator.random((12, 64, 64)), "lime": generator.normal(size=(12, 64, 64, 3))}
    maps["lime"][2] = 0
    indices = [question["question_index"] for question in data.questions]
    for name, found in maps.items():
        (tmp_path / name).mkdir()
        for index, one in zip(indices, found, strict=True):
            np.save(tmp_path / name / f"{index}.npy", np.moveaxis(one, -1, 0) if one.ndim == 3 else one)
    given = [{"question_index": index, "answer": answer} for index, answer in zip(indices, data.answers, strict=True)]
    given[4]["answer"] = "purple" if data.answers[4] != "purple" else "red"
    del given[5]
    write_json(tmp_path / "predictions.json", given)
    files = {"controls": ("edge_detector",), "precomputed_maps": str(tmp_path), "control_methods": ()}
    evaluation = evaluation_of(None, data, None, (), range(9), degenerate_maps=treatment, **files)
    measured = evaluation.measured
    assert measured.right.tolist() == [True] * 4 + [False] * 2 + [True] * 3
    assert measured.confidence is None and measured.gaps == {}
    (batch,) = data.batches(9, range(9))
    share = np.stack([mask.mean(axis=(1, 2)) for mask in batch.masks.values()], axis=1)[2]
    for name, found in maps.items():
        expected = score_maps(found[:9], batch.masks)
        expected[4:6] = np.nan
        if name == "lime" and treatment == "uniform":
            expected[2] = share[:, None, None]
        np.testing.assert_allclose(measured.scores[MapSource(name)], expected, rtol=1e-12)
        zero = measured.zero[MapSource(name)]
        assert zero[2].all() == (name == "lime") and zero.any(axis=(1, 2, 3)).sum() == (name == "lime")
    rows = {row["method"]: row for row in find(scores_of(evaluation), pooling="max-norm", metric="rank", subset="all")}
    left_out = int(treatment == "drop")
    assert (rows["lime"]["n"], rows["lime"]["undefined"], rows["lime"]["zero_maps"]) == (7 - left_out, left_out, 1)
    write_json(tmp_path / "predictions.json", [])
    with pytest.raises(BadInput, match="none of the 9 questions is answered correctly; there is nothing to score"):
        _ = evaluation_of(None, data, None, (), range(9), **files).measured


# Rows and tables, from numbers made up.

N = 12
SOURCES = (
    *(MapSource(name) for name in methods.TITLES),
    MapSource("gradient", "wrong_class"),
    MapSource("grad_cam", "wrong_class"),
    MapSource(control="uniform"),
    MapSource(control="edge_detector"),
)
SIZES = np.array([0, *range(500, 500 + 100 * (N - 1), 100)])
POSTER = {
    "lrp_clevr_xai": 0.85, "excitation_backprop": 0.80, "guided_backprop": 0.58, "guided_grad_cam": 0.58,
    "smoothgrad": 0.60, "vargrad": 0.58, "gradient": 0.49, "gradient_x_input": 0.43, "deconvnet": 0.18,
    "grad_cam": 0.09, **dict.fromkeys(methods.BASELINES, 0.71),
}  # fmt: skip


@pytest.fixture
def made_up(evaluation_of):
    """Return a maker of evaluations of made-up numbers of twelve questions; the methods lie where the poster has them.

    The first question has no mask, and the last two answers are wrong.
    """

    def made(kind="simple", changed=None, metrics=("mass", "rank"), **settings):
        data, generator = Dataset(kind), np.random.default_rng(0)
        truths = data.ground_truths
        right = np.arange(N) < 10
        shape = N, len(truths), len(METRICS), len(POOLINGS)
        scores = {}
        for source in SOURCES:
            level = 0.3 if source.control else POSTER[source.method]
            scores[source] = np.clip(level + 0.1 * generator.normal(size=shape), 0, 1)
            scores[source][~right] = np.nan
        zero = {source: np.zeros(shape, bool) for source in SOURCES}
        zero[MapSource("grad_cam", "wrong_class")][1:3] = True
        fields = {
            "right": right, "confidence": np.linspace(0.99998, 1, N), "pixels": dict.fromkeys(truths, SIZES),
            "scores": scores, "zero": zero, "gaps": {name: np.full(N, 0.02) for name in methods.BASELINES},
            "shared": {}, "fingerprint": "f",
        }  # fmt: skip
        evaluation = evaluation_of(None, data, None, list(methods.TITLES), metrics=metrics, **settings)
        evaluation.measured = Measured(**{**fields, **(changed(fields) if changed else {})})
        return evaluation

    return made


def test_a_row_for_every_source_metric_pooling_and_subset(made_up):
    evaluation = made_up()
    scores = scores_of(evaluation)
    keys = {(row["method"], row["metric"], row["pooling"], row["subset"]) for row in scores.rows}
    assert len(scores.rows) == len(keys) == len(SOURCES) * 2 * 10 * 3
    values = evaluation.measured.scores[GRADIENT][(slice(1, 10), 0, *MASS)]
    (row,) = find(scores, method="gradient", metric="mass", pooling="l2-norm,sq", subset="all")
    assert (row["n"], row["undefined"], row["answered_wrongly"], row["without_mask"]) == (9, 0, 2, 1)
    assert row["value"] == pytest.approx(values.mean(), rel=1e-12) and row["kind"] == "method"
    images = [evaluation.questions.dataset.questions[row]["image_filename"] for row in range(1, 10)]
    assert 1 < len(set(images)) < 9
    expected = statistics.mean_interval(values, clusters=images, bounds=(0, 1))
    np.testing.assert_allclose([row["low"], row["high"]], expected[1:3], rtol=1e-12)
    (row,) = find(scores, method="grad_cam/wrong_class", metric="mass", pooling="l2-norm,sq", subset="all")
    assert (row["n"], row["zero_maps"], row["kind"], row["of"], row["control"]) == (
        9, 2, "control", "grad_cam", "wrong_class",
    )  # fmt: skip
    assert {row["gap"] for row in scores.rows if "gap" in row} == {0.02}
    assert {row["method"] for row in scores.rows if "gap" in row} == set(methods.BASELINES)


def test_the_values_of_questions_are_kept_of_the_headings_of_all(made_up):
    evaluation = made_up()
    mass, rank = scores_of(evaluation).groups
    assert mass.where == {"benchmark": "clevr_xai", "metric": "mass", "questions": "simple", "subset": "all",
                          "ground_truth": "single_object", "pooling": "l2-norm,sq"}  # fmt: skip
    assert rank.where["pooling"] == "max-norm"
    assert mass.inputs == [str(index) for index in evaluation.questions.indices[1:10]]
    np.testing.assert_array_equal(
        mass.values["gradient"], evaluation.measured.scores[GRADIENT][(slice(1, 10), 0, *MASS)]
    )


def test_the_posters_figures_stand_where_they_belong_and_nowhere_else(made_up):
    scores = scores_of(made_up())
    for subset, figures in (
        ("all", (0.85, 0.17, 0.91)),
        ("confident", (0.9, 0.09, 0.93)),
        ("large_mask", (0.91, 0.09, 0.94)),
    ):
        (row,) = find(scores, method="lrp_clevr_xai", metric="mass", pooling="l2-norm,sq", subset=subset)
        assert (row["paper"], row["paper_std"], row["paper_median"]) == figures
    published = [row for row in scores.rows if row["paper"] is not None]
    assert {(row["metric"], row["pooling"], row["kind"]) for row in published} == {("mass", "l2-norm,sq", "method")}
    assert {row["method"]: row["paper"] for row in published if row["subset"] == "all"} == POSTER
    bounds = scores_of(made_up(confidence=0.9, min_mask_pixels=500))
    assert {row["subset"] for row in bounds.rows if row["paper"] is not None} == {"all"}
    for other in (made_up(ground_truth=("all_objects",)), made_up("complex")):
        assert not [row for row in scores_of(other).rows if row["paper"] is not None]


def test_a_subset_without_questions_has_no_table(made_up):
    scores = scores_of(made_up(min_mask_pixels=9999))
    empty = find(scores, subset="large_mask")
    assert {(row["n"], row["value"], row["reason"]) for row in empty} == {
        (0, None, "no question belongs to the subset")
    }
    assert "9,999 px" not in scores.text
    assert "to which no question belongs: large_mask (ground truth Single Object)." in " ".join(scores.text.split())
    asked = scores_of(made_up(min_mask_pixels=9999, subset=("large_mask",)))
    assert "9,999 px: 0 questions" in asked.text and "CLEVR-XAI, simple questions: 12 of" in asked.text


def test_the_tables_show_figures_controls_poolings_and_the_poster(made_up):
    scores = scores_of(made_up(pooling=("l1-norm", "max-norm")))
    text = " ".join(scores.text.split())
    shown = ("all questions: 9 questions", "softmax > 0.99999: ", "mask > 1,000 px: 3 questions")
    assert all(f"ground truth Single Object, {title}" in text for title in shown)
    (row,) = find(scores, method="gradient", metric="mass", pooling="l2-norm,sq", subset="all")
    line = next(line for line in scores.text.splitlines() if line.startswith("Vanilla Gradient  "))
    assert f"{row['value']:.3f} ({row['std']:.3f}) {row['median']:.3f}" in line and "0.490 (0.35) 0.49" in line
    assert "Relevance mass accuracy, ground truth Single Object: means by pooling method l1-norm max-norm" in text
    assert "Relevance rank accuracy, ground truth Single Object: means by pooling method l1-norm -" in text
    assert "counted as the uniform map, ground truth Single Object: Grad-CAM (wrong class) 2." in text
    assert "| Vanilla Gradient | " in scores.markdown


def test_a_metric_of_all_benchmarks_has_rows_and_a_table_of_its_own(made_up):
    values = np.arange(N)[:, None] / 1000
    values[3] = np.nan
    columns = {GRADIENT: values, MapSource("gradient", "wrong_class"): 2 * values}
    metric = of_maps("inside", inside, title="Share inside")
    evaluation = made_up(metrics=(metric,), changed=lambda fields: {"shared": {"inside": columns}})
    scores = scores_of(evaluation)
    assert [row["method"] for row in scores.rows] == ["gradient", "gradient/wrong_class"]
    row = scores.rows[0]
    assert (row["n"], row["undefined"], row["without_mask"], row["answered_wrongly"]) == (8, 1, 1, 2)
    assert (row["ground_truth"], row["pooling"], row["subset"]) == ("single_object", "", "all")
    assert row["value"] == pytest.approx(np.mean([1, 2, *range(4, 10)]) / 1000)
    assert "Share inside; more is better; ground truth Single Object: 9 questions\n" in scores.text
    assert "undefined for 1 of 9 inputs" in scores.text


def test_what_the_numbers_say(made_up):
    text = " ".join(scores_of(made_up()).text.split())
    for name in methods.BASELINES:
        assert f"over 11 methods, with {methods.TITLES[name]}" in text
    assert "f(image) - f(baseline) by this share of it (median): IG from black 2 %, IG from gray 2 %" in text
    assert "ours are l2-norm,sq for mass, max-norm for rank." in text
    text = " ".join(scores_of(made_up(ground_truth=("all_objects",), metrics=("rank",))).text.split())
    assert "with the poster" not in text and "ours are max-norm for rank." in text


def test_orders_are_over_the_questions_that_all_methods_have(made_up):
    """A method that is right where it points and points nowhere else would win by leaving out what it cannot do."""

    def changed(fields):
        scores = {source: np.full_like(found, 0.5) for source, found in fields["scores"].items()}
        for number, name in enumerate(POSTER):
            scores[MapSource(name)][:] = 0.9 - 0.05 * number
            scores[MapSource(name)][:3] -= 0.3 + 0.01 * number
        scores[MapSource("deconvnet")][:3] = np.nan
        return {"scores": scores}

    text = " ".join(scores_of(made_up(changed=changed)).text.split())
    names = [name for name in POSTER if name not in list(methods.BASELINES)[1:]]
    expected = correlation.spearman(-np.arange(len(names)), [POSTER[name] for name in names])
    assert f"mass accuracy over the 7 of 9 questions that every method has: {expected:.2f} (" in text
