import dataclasses
import json

import keras
import numpy as np
import pytest

from clevr_xai import relation_network, train, training_batches
from command_line import BadInput


@pytest.fixture(scope="module")
def small_network():
    keras.utils.set_random_seed(0)
    return relation_network.build((6, 5), (7, 4), channels=3, pair_scale=0.1, dropout=0.0)


def learner(seed=0):
    keras.utils.set_random_seed(seed)
    return train.Learner(relation_network.build((6, 5), channels=3, pair_scale=0.1, dropout=0.0))


def stage(steps=4, **settings):
    return train.Stage("seeing", steps, 1e-2, **settings)


@pytest.fixture
def seen(training_data):
    """Draws batches for the seeing."""
    return lambda rng: training_batches.seeing_batch(training_data, rng, 2)


def inputs():
    rng = np.random.default_rng(0)
    return [rng.random((2, 128, 128, 3), np.float32), rng.integers(2, 82, (2, 6)).astype(np.int32)]


@pytest.mark.parametrize("widths", [(6, 5), (9, 8), (9, 8, 7, 6)])
def test_a_grown_network_computes_the_same(small_network, widths):
    large = train.grown(small_network, widths)
    np.testing.assert_allclose(large(inputs()), small_network(inputs()), rtol=1e-4, atol=1e-5)
    assert large.get_layer("relations").widths == widths


def test_new_units_learn(small_network):
    """They reach the logits by weights of zero, so the first step is theirs."""
    large = train.grown(small_network, (9, 8, 7, 30))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = large(inputs())
    gradient = tape.gradient(logits, large.get_layer("f").layers[0].kernel)
    assert np.abs(gradient[5:]).max() > 0


@pytest.mark.parametrize("widths", [(6,), (5, 5), (6, 4)])
def test_a_network_does_not_shrink(small_network, widths):
    with pytest.raises(ValueError, match="cannot grow"):
        train.grown(small_network, widths)


def test_rates_rise_stay_and_fall():
    falling = train.Stage("any", 1000, 0.5, constant=0.6)
    assert falling.rate(0) == pytest.approx(0.5 / train.WARM_UP)
    assert falling.rate(300) == falling.rate(600) == 0.5
    assert falling.rate(800) == pytest.approx(0.25)
    assert falling.rate(999) == pytest.approx(0.5 / 400)
    assert train.Stage("any", 1000, 0.5).rate(999) == 0.5


def test_cells_that_are_right_and_sure_cost_nothing():
    targets = np.full((1, 3, 5), -1, np.int32)
    targets[0, 1] = [1, 7, 0, 2, training_batches.CENTRE]
    logits = np.zeros((1, 3, 16), np.float32)
    logits[0, :, 0] = [-40, 40, -40]
    for position in (1 + 1, 3 + 7, 11 + 0, 13 + 2):
        logits[0, 1, position] = 40
    assert float(train.cell_loss(targets, logits)[0]) == pytest.approx(0, abs=1e-6)
    undecided = train.cell_loss(targets, np.zeros_like(logits))
    assert float(undecided[0]) == pytest.approx(5 * np.log(2) + np.log(2 * 8 * 2 * 3), rel=1e-5)


def test_members_count_where_there_are_an_object_and_a_set():
    targets = np.full((1, 2, 3, 4), -1, np.int32)
    targets[0, 0, 0, 0], targets[0, 1, 2, 3] = 1, 0
    logits = np.zeros((1, 2, 3, 4), np.float32)
    logits[0, 0, 0, 0] = 40  # right and sure; the other one undecided, and the rest does not count
    assert float(train.member_loss(targets, logits)[0]) == pytest.approx(4 * np.log(2) / 2, rel=1e-5)
    assert float(train.member_loss(np.full_like(targets, -1), logits)[0]) == 0


def test_cells_that_show_a_part_count_less():
    targets = np.zeros((1, 2, 5), np.int32)
    targets[0, :, 4] = [training_batches.CENTRE, training_batches.PART]
    logits = np.zeros((1, 2, 16), np.float32)
    logits[0, :, 0] = 40  # both show an object: right
    logits[0, 0, [1, 3, 11, 13]] = 40  # the centre's attributes are right, the part's undecided
    expected = train.PART_WEIGHT * np.log(2 * 8 * 2 * 3) / (1 + train.PART_WEIGHT)
    assert float(train.cell_loss(targets, logits)[0]) == pytest.approx(expected, rel=1e-5)


def test_a_sum_over_sampled_pairs_is_that_over_all_when_all_are_drawn():
    relations = relation_network.Relations((5, 4), pair_scale=0.3)
    rng = np.random.default_rng(3)
    cells, questions = rng.normal(size=(2, 6, 3)).astype(np.float32), rng.normal(size=(2, 3, 4)).astype(np.float32)
    expected = [relations(cells, questions[:, number]) for number in range(3)]
    pairs = np.stack(np.divmod(rng.permutation(36), 6), axis=-1).astype(np.int32)
    some = ((pairs < 4).all(axis=-1)).astype(np.float32)
    of_two = np.stack([some, pairs[:, 0] == 2]).astype(np.float32)  # of "objects": four cells', and cell 2's

    def sums(weights):
        arguments = [np.tile(each, (2, *[1] * each.ndim)) for each in (pairs, weights, of_two)]
        return train.SampledRelations(relations)(cells, questions, *arguments)

    every, of_objects = sums(np.ones(36, np.float32))
    for number in range(3):
        np.testing.assert_allclose(every[:, number], expected[number], rtol=1e-4, atol=1e-5)
    first_four = relations(cells[:, :4], questions[:, 1])
    np.testing.assert_allclose(sums(some)[0][:, 1], first_four, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_objects[:, 1, 0] * 0.3, first_four, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        of_objects[:, 2, 1] * 0.3, sums((pairs[:, 0] == 2).astype(np.float32))[0][:, 2], rtol=1e-4, atol=1e-5
    )


def test_a_step_on_all_pairs_answers_as_the_network_does(training_data):
    """From codes of mirrored questions, too: the network that reads them itself gives the same logits."""
    aided = learner()
    training_data = dataclasses.replace(training_data, codes=aided.codes(training_data))
    rng = np.random.default_rng(0)
    inputs, _ = training_batches.answering_batch(training_data, rng, 3, 4, 49 * 49, mirror=1.0)
    found = aided.answering(4, 49 * 49)(inputs)["answer"]
    words = {
        tuple(code): row
        for code, row in zip(
            training_data.codes[1].round(5), training_batches.MIRRORED_TOKENS[training_data.tokens], strict=True
        )
    }
    for image in range(3):
        tokens = np.stack([words[tuple(code)] for code in inputs["code"][image].round(5)]).astype(np.int32)
        images = np.tile(inputs["image"][image] / np.float32(255), (4, 1, 1, 1))
        np.testing.assert_allclose(found[image], aided.network([images, tokens]), rtol=1e-3, atol=1e-4)


def test_a_stopped_stage_ends_with_the_same_weights(seen, tmp_path, monkeypatch):
    straight, stopped = learner().seeing, learner().seeing
    (tmp_path / "straight").mkdir()
    (tmp_path / "stopped").mkdir()
    train.run(straight, stage(), seen, tmp_path / "straight", seed=0)

    drawn = []

    def breaking(rng):
        drawn.append(rng)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        return seen(rng)

    monkeypatch.setattr(train, "SHOWN", 1)
    with pytest.raises(KeyboardInterrupt):
        train.run(stopped, stage(), breaking, tmp_path / "stopped", seed=0, every=2)
    fresh = learner(seed=1).seeing
    train.run(fresh, stage(), seen, tmp_path / "stopped", seed=0)
    for one, other in zip(straight.variables, fresh.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    steps = [json.loads(line)["step"] for line in (tmp_path / "stopped" / "log.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4]


def test_a_checkpoint_of_another_network_is_refused(seen, tmp_path):
    train.run(learner().seeing, stage(1), seen, tmp_path, seed=0)
    other = train.Learner(relation_network.build((6, 5), channels=4))
    with pytest.raises(BadInput, match="another network"):
        train.run(other.seeing, stage(1), seen, tmp_path, seed=0)


def test_a_slow_variable_takes_a_share_of_the_others_step():
    variables = [keras.Variable([1.0, 2.0], name=name) for name in ("convolutions_kernel", "relations_kernel")]
    optimizer = train.Adam(0.1, slow_share=0.25)
    for _ in range(3):
        optimizer.apply([keras.ops.convert_to_tensor([3.0, -4.0])] * 2, variables)
    slow, other = (variable.numpy() - [1.0, 2.0] for variable in variables)
    np.testing.assert_allclose(other, [-0.3, 0.3], rtol=1e-5)
    np.testing.assert_allclose(slow, other * 0.25, rtol=1e-5)


@pytest.mark.parametrize(("follow", "moved"), [(True, {"relations", "f"}), (False, {"convolutions", "relations", "f"})])
def test_convolutions_are_slow_where_members_are_told(training_data, tmp_path, monkeypatch, follow, moved):
    aided = learner()
    training_data = dataclasses.replace(training_data, codes=aided.codes(training_data))

    def kernels():
        """Not the moving statistics of the normalisation."""
        layers = {name: aided.network.get_layer(name) for name in ("convolutions", "relations", "f")}
        return {name: [w.copy() for w in layer.get_weights() if w.ndim > 1] for name, layer in layers.items()}

    before = kernels()
    monkeypatch.setattr(train, "SLOW_SHARE", 0.0)
    train.run(
        aided.answering(2, 128, follow=follow),
        stage(2),
        lambda rng: training_batches.answering_batch(training_data, rng, 2, 2, 128),
        tmp_path,
        seed=0,
    )
    same = {name: all(map(np.array_equal, after, before[name])) for name, after in kernels().items()}
    assert {name for name in same if not same[name]} == moved


def test_accuracies_are_counted_by_kind(training_data, small_network):
    rows = np.arange(len(training_data.answers))
    images = training_data.images[training_data.image_of].astype(np.float32) / 255
    logits = small_network.predict([images, training_data.tokens.astype(np.int32)], verbose=0)
    right = logits.argmax(axis=1) == training_data.answers
    np.testing.assert_array_equal(train.accuracy(small_network, training_data, rows, batch_size=50), right)
    found = train.accuracy_by_kind(small_network, training_data, rows)
    kinds = training_data.rows_of_kind()
    for kind in kinds:
        assert found[kind] == pytest.approx(right[kinds[kind]].mean(), abs=1e-4)
    assert found["families"]["simple"] == pytest.approx(found["simple"], abs=1e-3)


def test_a_perfect_eye_sees_every_attribute(training_data):
    class Perfect:
        def predict(self, inputs, **_):
            targets = training_batches.cell_targets(
                training_data.centres, training_data.owners, training_data.attributes
            )
            logits = np.zeros((*targets.shape[:2], 16))
            logits[..., 0] = np.where(targets[..., 0] >= 0, 1, -1)
            for position, start in enumerate((1, 3, 11, 13)):
                np.put_along_axis(logits, start + np.maximum(targets[..., position : position + 1], 0), 1, axis=-1)
            return {"cells": logits}

    found = train.cell_accuracy(Perfect(), training_data)
    assert found == dict.fromkeys(["presence", "size", "color", "material", "shape"], 1.0)


def test_programs_count_as_read_when_every_node_is_right(training_data):
    class Reader:
        def predict(self, inputs, **_):
            row = {tuple(words): number for number, words in enumerate(training_data.tokens)}
            found = [training_data.programs[row[tuple(words)]] for words in inputs["question"]]
            logits = np.eye(len(train.NODES))[np.array(found)]
            logits[::4, 2] = 1  # one node of every fourth question undecided, and the first of equals is taken
            return {"program": logits}

    read = train.program_accuracy(Reader(), training_data)
    assert 0.7 < read < 0.8
