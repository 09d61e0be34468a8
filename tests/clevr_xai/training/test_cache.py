import dataclasses
import json
import os

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import layout
from clevr_xai.training import cache, loading

ROUNDS = {"simple": 1}


@pytest.fixture
def loads(monkeypatch):
    """The arguments with which data were read from their directory."""
    found, load = [], loading.load

    def counted(*arguments):
        found.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(loading, "load", counted)
    return found


def test_a_second_start_reads_the_same_from_one_file(training_dir, tmp_path, loads):
    first, second = (cache.load(tmp_path / "set.npz", training_dir, ROUNDS) for _ in range(2))
    assert len(loads) == 1
    for field in dataclasses.fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)
    assert os.listdir(tmp_path) == ["set.npz"]


@pytest.mark.parametrize("change", ["rounds", "number", "scenes", "wordings", "code"])
def test_what_has_changed_is_read_anew(training_dir, tmp_path, loads, change, monkeypatch):
    arguments = [tmp_path / "set.npz", training_dir, ROUNDS, 3]
    cache.load(*arguments)
    if change == "scenes":
        scenes = training_dir / layout.SCENES
        os.utime(scenes, (1, 1))
    elif change == "code":
        monkeypatch.setattr(cache, "code_fingerprint", lambda *objects, files: "other code")
    elif change == "wordings":
        arguments.append(["official"])
    else:
        arguments[2:] = ({"simple": 2}, 3) if change == "rounds" else (ROUNDS, 2)
    again = cache.load(*arguments)
    assert len(loads) == 2
    assert len(again.images) == arguments[3]
    cache.load(*arguments)
    assert len(loads) == 2


def test_the_families_of_questions_are_among_what_it_depends_on():
    assert (cache.FAMILIES / "zero_hop.json").is_file()


def test_a_directory_without_data_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(BadInput, match="generate_clevr_xai"):
        cache.load(tmp_path / "set.npz", tmp_path, ROUNDS)
    assert not any(tmp_path.iterdir())


def test_codes_are_computed_once_a_checkpoint(training_data, tmp_path):
    class Learner:
        times = 0

        def codes(self, data):
            self.times += 1
            return np.full((2, len(data.tokens), 3), self.times, np.float32)

    learner, checkpoint, file = Learner(), tmp_path / "reading.npz", tmp_path / "codes.npy"
    checkpoint.write_text(json.dumps("any"))
    os.utime(checkpoint, (1, 1))
    for expected in (1, 1):
        assert (cache.codes(file, checkpoint, learner, training_data) == expected).all()
    os.utime(file, (0, 0))  # older than the checkpoint
    assert (cache.codes(file, checkpoint, learner, training_data) == 2).all()
    fewer = training_data.only(["simple"])
    assert cache.codes(file, checkpoint, learner, fewer).shape == (2, len(fewer.tokens), 3)
