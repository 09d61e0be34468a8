"""The one loop: the same with and without a store, nothing twice, stale when code changes, damaged stores named."""

import dataclasses
import json

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.controls import RANDOM, UNIFORM, WRONG_CLASS
from attribution_benchmarks.core.evaluator import Evaluator, Inputs, PredictionFilter
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import Explainer, Inapplicable
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore

INPUTS = np.random.default_rng(0).random((30, 4, 4, 1)).astype(np.float32)


@pytest.fixture(scope="module")
def model(toy):
    return attribution.load_model(toy.parent / "network")


class Counting:
    """Counts the inputs that a method explains and can fail in the middle."""

    def __init__(self, fails_at=None):
        self.explained, self.fails_at = 0, fails_at

    def count(self, inputs):
        self.explained += inputs
        if self.fails_at is not None and self.explained > self.fails_at:
            raise KeyboardInterrupt


class Counted(Explainer):
    def _explained(self, model, names, batch):
        self.counting.count(len(batch))
        return super()._explained(model, names, batch)


def drawn(passes):
    """Return random maps, so that keys matter."""
    return np.stack([passes.generator(row, "counting").random((4, 4)) for row in range(len(passes))])


def total(maps, batch, scores):
    return maps.reshape(len(maps), -1).sum(axis=1)


TOTAL = PerSampleMetric("total", total)


def scored(model, counting, store=None, size=8, controls=(), measures=(TOTAL,), method=(drawn, {}), seed=0, **options):
    explainer = Counted(model, {"counting": method}, controls, seed=seed, batch_size=size)
    explainer.counting = counting
    return Evaluator(explainer, measures, {"benchmark": "test"}, store=store, **options).run(
        Examples(INPUTS).batches(size)
    )


def numbers(found, measure=TOTAL):
    return found.of(MapSource("counting"), measure)


def test_with_and_without_a_store_in_any_block_size(model, tmp_path):
    plain = numbers(scored(model, Counting()))
    assert plain.shape == (30, 1) and np.isfinite(plain).all()
    np.testing.assert_array_equal(plain, numbers(scored(model, Counting(), ScoreStore(str(tmp_path)), size=7)))


def test_an_interrupted_run_resumes_explains_nothing_twice_and_ends_with_the_same_scores(model, tmp_path):
    scored(model, Counting(), ScoreStore(str(tmp_path / "whole")))
    with pytest.raises(KeyboardInterrupt):
        scored(model, Counting(fails_at=20), ScoreStore(str(tmp_path / "cut")))
    second, third = Counting(), Counting()
    scored(model, second, ScoreStore(str(tmp_path / "cut")))
    assert second.explained == 30 - 16  # two batches of eight were kept
    scored(model, third, ScoreStore(str(tmp_path / "cut")))
    assert third.explained == 0
    whole, cut = (ScoreStore(tmp_path / name).contents() for name in ("whole", "cut"))
    assert whole == cut


def unread(part):
    return dataclasses.replace(part, load=lambda: pytest.fail("read"))


def unexplained(passes):
    pytest.fail("explained")


def test_a_block_whose_numbers_are_known_is_not_even_read(model, tmp_path):
    store = ScoreStore(str(tmp_path))
    scored(model, Counting(), store)
    explainer = Explainer(model, {"counting": (unexplained, {})}, batch_size=8)
    explainer.key = lambda label: _key_of(store)
    run = Evaluator(explainer, [TOTAL], {"benchmark": "test"}, store=store)
    assert np.isfinite(run.run(map(unread, Examples(INPUTS).batches(8))).of(MapSource("counting"), TOTAL)).all()


def _key_of(store):
    (header,) = store.contents()
    return {name: json.loads(header)[name] for name in ("method", "seed", "code")}


def bright(passes):
    return passes.inputs * 2


def scaled_total(maps, batch, scores):
    return 2 * total(maps, batch, scores)


def zero(passes, *, level=0.0):
    """Return maps that are the same everywhere, by default zero."""
    return np.full((len(passes), 4, 4), level)


def share(maps, batch, scores):
    with np.errstate(invalid="ignore"):
        return maps[:, 0, 0] / maps.sum(axis=(1, 2))


def prepare():
    """Return what a benchmark's inputs are made by."""


def prepare_else():
    """Return other inputs of the same names."""


SHARE = PerSampleMetric("total", share)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({}, {"method": (bright, {})}),
        ({"method": (zero, {"level": 1.0})}, {"method": (zero, {"level": 2.0})}),
        (
            {"method": (zero, {"level": np.full((1, 4, 4), 1.0)})},
            {"method": (zero, {"level": np.full((1, 4, 4), 2.0)})},
        ),
        ({}, {"measures": (PerSampleMetric("total", scaled_total),)}),
        ({}, {"measures": (dataclasses.replace(TOTAL, digits=2),)}),
        (
            {"method": (zero, {}), "measures": (SHARE,)},
            {"method": (zero, {}), "measures": (dataclasses.replace(SHARE, degenerate_maps="uniform"),)},
        ),
        ({}, {"seed": 1}),
    ],
    ids=["method", "parameter", "array", "metric", "digits", "zeros", "seed"],
)
def test_what_changes_a_number_finds_no_old_one(model, tmp_path, first, then):
    alone = numbers(scored(model, Counting(), **then))
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(numbers(scored(model, Counting(), ScoreStore(tmp_path), **first)), alone)
    np.testing.assert_array_equal(numbers(scored(model, Counting(), ScoreStore(tmp_path), **then)), alone)


def query(batch):
    return [0] * len(batch)


def other_query(batch):
    return [0 + 0] * len(batch)


def judge(answers, part):
    return np.ones(len(answers), bool), np.zeros(len(answers), np.int64)


def other_judge(answers, part):
    return judge(answers, part)


@pytest.mark.parametrize("part", ["code", "query", "judge", "library"])
def test_other_code_of_a_benchmark_finds_no_old_number(model, tmp_path, monkeypatch, part):
    """Inputs of the same names and numbers, but prepared, chosen or computed in another way."""

    def count(second):
        answers = PredictionFilter("answers", query=query, judge=judge)
        if part == "code":
            options = {"code": [(prepare, prepare_else)[second]]}
        elif part == "library":
            options = {}
            if second:
                monkeypatch.setattr(manifest, "versions", lambda: {"numpy": "0"})
        else:
            other = dataclasses.replace(answers, **{part: {"query": other_query, "judge": other_judge}[part]})
            options = {"prediction_filter": (answers, other)[second]}
        counting = Counting()
        scored(model, counting, ScoreStore(tmp_path), **options)
        return counting.explained

    assert [count(0), count(0), count(1)] == [30, 0, 30]


def test_a_setting_of_arithmetic_is_part_of_the_key_and_no_method_changes_it(model, tmp_path, monkeypatch):
    explained = []
    for mode in ("STRICT", "STRICT", "BF16"):
        monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", mode)
        counting = Counting()
        scored(model, counting, ScoreStore(tmp_path))
        explained.append(counting.explained)
    assert explained == [30, 0, 30]

    def changing(passes):
        monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "ANY")
        return passes.inputs

    with pytest.raises(BadInput, match="'counting' has changed how TensorFlow computes"):
        scored(model, Counting(), method=(changing, {}))


def test_another_measure_of_the_same_maps_is_added_without_losing_the_first(model, tmp_path):
    store, first = ScoreStore(str(tmp_path)), Counting()
    before = numbers(scored(model, first, store))
    widest = PerSampleMetric(
        "extremes", lambda maps, batch, scores: np.stack([maps.min((1, 2)), maps.max((1, 2))], 1), width=2
    )
    found = scored(model, Counting(), store, measures=(TOTAL, widest))
    np.testing.assert_array_equal(numbers(found), before)
    assert numbers(found, measure=widest).shape == (30, 2) and (np.diff(numbers(found, measure=widest)) > 0).all()


def ask(batch):
    return [int(value > 0.5) for value in batch.pictures[:, 0, 0, 0]]


def judge_bright(answers, part):
    return np.array(answers, bool), np.zeros(len(answers), np.int64)


def test_only_what_counts_is_explained_and_answers_are_asked_once(model, tmp_path):
    method = Counting()

    answers = PredictionFilter("bright", ask, judge_bright)
    found = scored(model, method, ScoreStore(str(tmp_path)), prediction_filter=answers)
    bright = INPUTS[:, 0, 0, 0] > 0.5
    np.testing.assert_array_equal(found.counted, bright)
    assert method.explained == bright.sum()
    np.testing.assert_array_equal(np.isfinite(numbers(found)[:, 0]), bright)
    explainer, store = found.evaluator.explainer, ScoreStore(str(tmp_path))
    again = Evaluator(explainer, [TOTAL], {"benchmark": "test"}, store=store, prediction_filter=answers)
    assert again.run(map(unread, Examples(INPUTS).batches(8))).predictions == found.predictions


def test_methods_are_checked_where_the_first_inputs_do_not_count(model):
    def refused(queries):
        raise BadInput("never")

    last = PredictionFilter(
        "last", lambda batch: [0] * len(batch), lambda answers, part: (np.array(part.names) == names[-1], None)
    )
    (part,) = Examples(INPUTS).batches(30)
    names, explainer = part.names, Explainer(model, {"gradient": attribution.METHODS["gradient"], "no": (refused, {})})
    inputs = Inputs("all", range(30), 8, lambda rows, size: Examples(INPUTS).batches(size, rows))
    run = Evaluator(explainer, [TOTAL], {"benchmark": "test"}, prediction_filter=last, inputs=inputs)
    run.predictions.append(dict.fromkeys(names, 0))
    with pytest.raises(Inapplicable) as error:
        run.check_methods()
    assert error.value.refused == {"no": "never"}


def test_controls_of_methods_and_controls_without_a_network(model):
    explainer = Explainer(
        model, {"gradient": attribution.METHODS["gradient"], "random": attribution.METHODS["random"]},
        [WRONG_CLASS, UNIFORM, RANDOM], controlled=["gradient"],
    )  # fmt: skip
    assert [label.name for label in explainer.sources] == ["gradient", "random", "gradient/wrong_class", "uniform",
                                                          "random"]  # fmt: skip
    targets = np.zeros(30, np.int64)
    batch = Batch(INPUTS, list(range(30)), targets)
    maps = {(label.method, label.control): found for label, found in explainer.maps(explainer.sources, batch)}
    np.testing.assert_array_equal(maps["gradient", "wrong_class"], -maps["gradient", ""])  # of two opposite logits
    assert (maps["", "uniform"] == 1).all() and maps["", "uniform"].shape == (30, 4, 4)
    np.testing.assert_allclose(maps["", "random"], maps["random", ""], rtol=1e-6)  # same seed and keys, float32


def test_a_changed_file_of_ones_own_is_scored_again(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store, sums = ScoreStore("scores"), []
    for sign in ("", "-"):
        (tmp_path / "own.py").write_text(f"def maps(passes):\n    return {sign}passes.inputs\n")
        explainer = Explainer(model, {"own.py:maps": attribution.resolve_method("own.py:maps")})
        found = Evaluator(explainer, [TOTAL], {"benchmark": "test"}, store=store).run(Examples(INPUTS).batches(8))
        sums.append(found.of(MapSource("own.py:maps"), TOTAL))
    np.testing.assert_array_equal(sums[0], -sums[1])
    assert len(store.contents()) == 2


@pytest.mark.parametrize("record", ["a b", 3, "1 2"])
def test_records_that_are_not_numbers_are_named(model, tmp_path, record, rewrite_scores):
    scored(model, Counting(), ScoreStore(tmp_path))
    rewrite_scores(tmp_path, lambda key, before: record)
    with pytest.raises(BadInput, match="damaged; remove that folder"):
        numbers(scored(model, Counting(), ScoreStore(tmp_path)))


def test_a_measure_that_refuses_names_the_method(model):
    def refuse(maps, batch, scores):
        raise BadInput("maps are too small")

    with pytest.raises(BadInput, match="'counting' cannot be scored: maps are too small"):
        scored(model, Counting(), measures=(PerSampleMetric("refuses", refuse),))


def test_numbers_come_back_as_they_were():
    values = np.array([[0.1, np.nan], [1 / 3, -1e-300]])
    exact = PerSampleMetric("exact", total, width=2)
    np.testing.assert_array_equal([exact.from_record(record) for record in exact.to_records(values)], values)
    short = PerSampleMetric("short", total, width=2, digits=3)
    assert short.to_records(values)[1] == "0.333 -1e-300"


def test_pending_names_and_files_stand_for_each_input():
    (part,) = Examples(INPUTS[:2], names=("a", "b")).batches(5)
    assert isinstance(part, LazyBatch) and list(part.files) == ["a", "b"]
    assert part.names[0].startswith("a ") and part.names[0] != part.names[1]
    (changed,) = Examples(INPUTS[:2] + 1, names=("a", "b")).batches(5)
    assert changed.names[0] != part.names[0]
