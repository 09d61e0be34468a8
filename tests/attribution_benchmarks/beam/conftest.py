"""A command that squares numbers, which can be slow or fail; it needs no TensorFlow."""

import importlib
import sys

import pytest

from attribution_benchmarks.core.store import ScoreStore

COMMAND = '''
"""Squares of the numbers 0, 1, 2, ...; what else happens is read from the environment, so that workers see it too."""

import dataclasses
import os
import pathlib
import sys
import time

from absl import flags

from attribution import cli
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.cli.beam_flags import check_precompute_flags
from attribution_benchmarks.cli.beam_flags import precompute_from_flags
from attribution_benchmarks.cli.beam_flags import define_precompute_flags
from attribution_benchmarks.core.work import Computed, MissingWork

FLAGS = flags.FlagValues()
define_precompute_flags(FLAGS)
flags.DEFINE_string("scores_dir", "", "", flag_values=FLAGS)
flags.DEFINE_integer("count", 20, "", flag_values=FLAGS)


class Squares:
    name, key, batch_size = "squares", "0", 2

    def __init__(self, count, store=None):
        self.items = range(count)
        store = store or ScoreStore(None)
        self.series = {name: store.series(kind=name) for name in ("square", "double")}

    def missing(self, items):
        names = [f"n{item}" for item in items]
        held = {kind: [n for n in names if n in series] for kind, series in self.series.items()}
        held = {kind: there for kind, there in held.items() if there}
        return None if all(held.get(kind) == names for kind in self.series) else MissingWork(names, held)

    def compute(self, items, held):
        _note(f"{os.getpid()} {items[0]}")
        for item in items:
            if str(item) in os.environ.get("SQUARES_FAIL", "").split():
                raise ZeroDivisionError(f"no square of {item}")
            if f"{item}-once" in os.environ.get("SQUARES_FAIL", "").split() and _noted(f" {items[0]} ") < 2:
                raise OSError(f"{item} was away")
        time.sleep(float(os.environ.get("SQUARES_SECONDS", "0")))
        results = {"square": {f"n{i}": i * i / 7 for i in items}, "double": {f"n{i}": f"{2 * i}" for i in items}}
        results = {
            kind: {n: value for n, value in found.items() if n not in held.get(kind, ())}
            for kind, found in results.items()
        }
        return Computed([f"n{item}" for item in items], results)

    def save(self, results):
        for kind, records in results.items():
            self.series[kind].append(records)


def _note(line):
    if path := os.environ.get("SQUARES_NOTES"):
        with open(path, "a") as file:
            file.write(f"{line} \\n")


def _noted(words):
    return sum(words in line for line in pathlib.Path(os.environ["SQUARES_NOTES"]).read_text().splitlines())


@dataclasses.dataclass(frozen=True)
class Factory:
    count: int
    name: str = "squares"

    def __call__(self):
        return {"squares": Squares(self.count)}.__getitem__


def main(flag_values):
    work = Squares(flag_values.count, ScoreStore(flag_values.scores_dir or None))
    if check_precompute_flags(flag_values):
        precompute_from_flags(flag_values, Factory(flag_values.count), flag_values.scores_dir)([work])
    for start in range(0, flag_values.count, 2):
        items = work.items[start : start + 2]
        if missing := work.missing(items):
            work.save(work.compute(items, missing.held).results)
    print(sum(record for record in work.series["square"].records(work.series["square"])))


if __name__ == "__main__":
    cli.run(main, FLAGS, "Squares.")
'''


@pytest.fixture
def squares(tmp_path, monkeypatch):
    """Return the module of the command, importable here and in processes that are started."""
    pytest.importorskip("apache_beam")
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "squares.py").write_text(COMMAND)
    monkeypatch.syspath_prepend(folder)
    paths = [str(folder), *(path for path in sys.path if path)]
    monkeypatch.setenv("PYTHONPATH", ":".join(paths))
    monkeypatch.setenv("SQUARES_NOTES", str(tmp_path / "notes"))
    (tmp_path / "notes").touch()
    sys.modules.pop("squares", None)
    yield importlib.import_module("squares")
    sys.modules.pop("squares", None)


@pytest.fixture
def run(squares, capfd):
    """Return a function that runs the command in this process: its exit code, output and errors."""
    from attribution.cli import execute

    def run(*arguments):
        code = execute(squares.main, squares.FLAGS, "Squares.", ["squares", *map(str, arguments)])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def contents_of():
    """Return a function from a store's directory to all that it holds."""
    return lambda directory: ScoreStore(directory).contents()
