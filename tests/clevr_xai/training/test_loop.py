"""Stages take the steps they say, go on from a checkpoint, and are slow where they should be."""

import dataclasses
import json

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import relation_network
from clevr_xai.training import batches, loop
from clevr_xai.training.learner import Learner


def stage(steps=4, **settings):
    return loop.Stage("seeing", steps, 1e-2, **settings)


@pytest.fixture
def seen(training_data):
    """Draws batches for the seeing."""
    return lambda rng: batches.seeing_batch(training_data, rng, 2)


def test_rates_rise_stay_and_fall():
    falling = loop.Stage("any", 1000, 0.5, constant=0.6)
    assert falling.rate(0) == pytest.approx(0.5 / loop.WARM_UP)
    assert falling.rate(300) == falling.rate(600) == 0.5
    assert falling.rate(800) == pytest.approx(0.25)
    assert falling.rate(999) == pytest.approx(0.5 / 400)
    assert loop.Stage("any", 1000, 0.5).rate(999) == 0.5


def test_a_stopped_stage_ends_with_the_same_weights(learner, seen, tmp_path, monkeypatch):
    straight, stopped = learner().seeing, learner().seeing
    (tmp_path / "straight").mkdir()
    (tmp_path / "stopped").mkdir()
    loop.run(straight, stage(), seen, tmp_path / "straight", seed=0)

    drawn = []

    def breaking(rng):
        drawn.append(rng)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        return seen(rng)

    monkeypatch.setattr(loop, "SHOWN", 1)
    with pytest.raises(KeyboardInterrupt):
        loop.run(stopped, stage(), breaking, tmp_path / "stopped", seed=0, every=2)
    fresh = learner(seed=1).seeing
    loop.run(fresh, stage(), seen, tmp_path / "stopped", seed=0)
    for one, other in zip(straight.variables, fresh.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    steps = [json.loads(line)["step"] for line in (tmp_path / "stopped" / "log.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4]


def test_a_checkpoint_of_another_network_is_refused(learner, seen, tmp_path):
    loop.run(learner().seeing, stage(1), seen, tmp_path, seed=0)
    other = Learner(relation_network.build((6, 5), channels=4))
    with pytest.raises(BadInput, match="another network"):
        loop.run(other.seeing, stage(1), seen, tmp_path, seed=0)


@pytest.mark.parametrize(("share", "moved"), [(0.0, {"relations", "f"}), (1.0, {"convolutions", "relations", "f"})])
def test_convolutions_are_as_slow_as_a_stage_says(learner, training_data, tmp_path, share, moved):
    aided = learner()
    training_data = dataclasses.replace(training_data, codes=aided.codes(training_data))

    def kernels():
        """Not the moving statistics of the normalisation."""
        layers = {name: aided.network.get_layer(name) for name in ("convolutions", "relations", "f")}
        return {name: [w.copy() for w in layer.get_weights() if w.ndim > 1] for name, layer in layers.items()}

    before = kernels()
    loop.run(
        aided.answering(2, 128),
        dataclasses.replace(stage(2), slow_share=share),
        lambda rng: batches.answering_batch(training_data, rng, 2, 2, 128),
        tmp_path,
        seed=0,
    )
    same = {name: all(map(np.array_equal, after, before[name])) for name, after in kernels().items()}
    assert {name for name in same if not same[name]} == moved
