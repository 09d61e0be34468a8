"""A function over many items gives the same files and values in one process, in several, and on Beam."""

import functools
import importlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.beam import parallel_map
from attribution_benchmarks.beam.parallel_map import BeamMap, local_map, serial_map

CUBES = '''
"""A cube an item, written to a file of its own; what else happens is read from the environment."""

import os
import pathlib
import sys
import time

from absl import flags

from attribution import cli
from attribution.files import atomic_write
from attribution_benchmarks.cli.beam_flags import parallel_map_from_flags
from attribution_benchmarks.cli.beam_flags import define_beam_flags

FLAGS = flags.FlagValues()
define_beam_flags(FLAGS)
flags.DEFINE_string("data_dir", "", "", flag_values=FLAGS)
flags.DEFINE_integer("jobs", 1, "", flag_values=FLAGS)
ITEMS = [[number, f"\\u00e9{number}"] for number in range(20)]


def cube(directory, item):
    number, word = item
    if str(number) in os.environ.get("CUBES_FAIL", "").split():
        raise ZeroDivisionError(f"no cube of {number}")
    path = pathlib.Path(directory, "cubes", f"{number}.txt")
    if not path.exists():
        with open(f"{directory}.notes", "a") as notes:
            notes.write(f"{os.getpid()} {number}\\n")
        time.sleep(float(os.environ.get("CUBES_SECONDS", "0")))
        atomic_write(path, f"{number**3}\\n")
    return {"word": word, "cube": number**3 / 7}


def code(function):
    return "1"


def main(flag_values):
    import functools

    claim = os.path.join(flag_values.data_dir, "claim")
    with parallel_map_from_flags(flag_values, "jobs", 2, code, claim) as each:
        atomic_write(claim, "cubes")
        found = list(each("some cubes", functools.partial(cube, flag_values.data_dir), ITEMS))
    print(found)


if __name__ == "__main__":
    cli.run(main, FLAGS, "Cubes.")
'''


@pytest.fixture
def cubes(tmp_path, monkeypatch):
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "cubes.py").write_text(CUBES)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))
    sys.modules.pop("cubes", None)
    yield importlib.import_module("cubes")
    sys.modules.pop("cubes", None)


@pytest.fixture
def run(cubes, tmp_path, capfd):
    """Return a function that runs the command on a directory: its exit code, output and errors."""
    pytest.importorskip("apache_beam")
    from attribution.cli import execute

    def run(directory, *arguments):
        given = ["cubes", f"--data_dir={tmp_path / directory}", *arguments]
        return execute(cubes.main, cubes.FLAGS, "Cubes.", given), *capfd.readouterr()

    return run


BEAM = "--runner=beam", "--block_size=4"


def left(directory):
    return {path.name: path.read_bytes() for path in (directory / "cubes").iterdir()}


def made(directory):
    """Return the items that were made, each as often as it was begun."""
    notes = directory.with_name(f"{directory.name}.notes")
    return sorted(int(line.split()[1]) for line in notes.read_text().splitlines()) if notes.exists() else []


def test_processes_return_and_leave_what_one_does(cubes, tmp_path):
    found = []
    for name, each in (("one", serial_map), ("two", None)):
        with local_map(2, chunk=2) as other:
            found.append(list((each or other)("cubes", functools.partial(cubes.cube, tmp_path / name), cubes.ITEMS)))
    assert found[0] == found[1] and [entry["word"] for entry in found[0]] == [word for _, word in cubes.ITEMS]
    assert left(tmp_path / "one") == left(tmp_path / "two") and len(left(tmp_path / "one")) == 20


def test_beam_returns_and_leaves_what_one_process_does(run, tmp_path):
    alone = run("alone")
    assert alone[0] == 0
    for workers in (1, 2):
        code, out, error = run(f"of{workers}", *BEAM, f"--workers={workers}")
        assert (code, out) == alone[:2], error
        assert left(tmp_path / f"of{workers}") == left(tmp_path / "alone")
    processes = {line.split()[0] for line in (tmp_path / "of2.notes").read_text().splitlines()}
    assert processes and str(os.getpid()) not in processes
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert {path.name for path in kept} == {"manifest.json"}


def test_what_is_there_is_not_made_again_and_what_is_gone_is(run, tmp_path):
    alone = run("data")
    for name in ("3.txt", "4.txt", "19.txt"):
        (tmp_path / "data" / "cubes" / name).unlink()
    before = made(tmp_path / "data")
    assert run("data", *BEAM)[:2] == alone[:2]
    assert made(tmp_path / "data") == sorted([*before, 3, 4, 19]) and len(left(tmp_path / "data")) == 20


def test_a_failed_block_is_told_and_the_others_go_on(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CUBES_FAIL", "9")
    code, out, error = run("data", *BEAM)
    assert (code, out) == (2, "")
    assert "block 2 of some-cubes failed: inputs [8, 'é8'] to [11, 'é11'] (4): ZeroDivisionError: no cube of 9" in error
    assert error.splitlines()[-1] == (
        "error: 1 of 5 blocks failed; computed results remain, and the same command tries these blocks again"
    )
    assert made(tmp_path / "data") == [n for n in range(20) if n not in (9, 10, 11)]
    monkeypatch.setenv("CUBES_FAIL", "")
    assert run("data", *BEAM)[:2] == run("alone")[:2]


def test_killed_with_all_its_workers_at_random_moments_it_goes_on(cubes, run, tmp_path):
    draw, directory = random.Random(0), tmp_path / "data"
    command = [sys.executable, cubes.__file__, *BEAM, f"--data_dir={directory}"]
    environment = {**os.environ, "CUBES_SECONDS": "0.2"}
    for _ in range(2):
        started = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
        deadline, files = time.monotonic() + 60, len(list(directory.rglob("*.txt")))
        while len(list(directory.rglob("*.txt"))) <= files and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 0.5))
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    assert len(made(directory)) < 20 + 2
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == run("alone")[:2], ended.stderr
    assert left(directory) == left(tmp_path / "alone")
    assert len(made(directory)) <= 20 + 2  # what was whole is not made again


def test_a_worker_that_sees_another_directory_makes_nothing(cubes, tmp_path, monkeypatch, capfd):
    pytest.importorskip("apache_beam")
    (tmp_path / "claim").write_text("cubes")
    each = BeamMap(cubes.code, str(tmp_path / "claim"), str(tmp_path / "blocks"))
    seen = iter(["of the command", "of the worker"])
    monkeypatch.setattr(parallel_map, "_digest_of_file", lambda path: next(seen))
    with pytest.raises(BadInput, match="1 of 1 blocks failed"):
        each("cubes", functools.partial(cubes.cube, str(tmp_path / "data")), cubes.ITEMS)
    assert f"a worker does not see {tmp_path / 'claim'} as it was written" in capfd.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("arguments, said", [
    ([*BEAM, "--jobs=2"], "--jobs: only with --runner=local; use --workers with --runner=beam"),
    ([*BEAM, "--data_dir=gs://bucket/data"], "--data_dir='gs://bucket/data' is an address, not a path"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(run, tmp_path, arguments, said):
    code, out, error = run("data", *arguments)
    assert (code, out) == (2, "") and said in error and len(error.splitlines()) == 1
    assert not (tmp_path / "data").exists()
