"""What the program of performance compares is the same work, and no method takes more passes than it needs."""

import builtins
import csv
import pathlib

import numpy as np
import pytest

import attribution
from attribution import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def performance():
    """Return the program as without PyTorch, whose import after TensorFlow may crash."""
    imported = builtins.__import__

    def without_torch(name, *given, **named):
        if name == "torch":
            raise ImportError(name)
        return imported(name, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "__import__", without_torch)
        from tools import performance

    return performance


def test_maps_of_the_tape_are_ours(performance, tmp_path):
    network = performance.built("cnn")
    network.export(tmp_path / "cnn", verbose=False)
    x = np.random.default_rng(0).random((3, 32, 32, 3), dtype=np.float32)
    targets = np.arange(3)
    ours = performance.ours(attribution.load_model(tmp_path / "cnn"), x, targets)
    tape = performance.with_tape(network, x, targets, network)
    for task in ("gradient", "occlusion"):
        expected = tape[task]()
        np.testing.assert_allclose(ours[task](), expected, atol=1e-5 * np.abs(expected).max())
    assert tape.keys() == ours.keys()


def test_an_unknown_task_is_refused(performance):
    command = [performance.main, performance.FLAGS, performance.__doc__, ["performance", "--only=no_such_task"]]
    assert cli.execute(*command) == 2


def test_no_method_takes_more_passes_than_it_needs():
    with (ROOT / "docs" / "performance.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] not in ("load", "first")]
    assert len(rows) >= 30
    assert [row for row in rows if row["passes"] != row["needed"]] == []
