"""Blocks by Beam end with the bytes of one process: retried, damaged, killed, run twice at once, without memory."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("apache_beam")
from attribution_benchmarks.beam import pipeline
from attribution_benchmarks.core.store import FILE

BEAM = "--runner=beam", "--block_size=4"


@pytest.fixture
def alone(run, contents_of, tmp_path):
    """What one process prints, and the bytes of its store."""
    code, out, _ = run(f"--scores_dir={tmp_path / 'alone'}")
    assert code == 0
    (tmp_path / "notes").write_text("")
    return out, contents_of(tmp_path / "alone")


def blocks(store):
    (folder,) = (store / "blocks").iterdir()
    return sorted(path for path in folder.iterdir() if path.name[0].isdigit())


def explained(tmp_path):
    """Return how often each block, by its first input, was begun."""
    begun = [line.split()[1] for line in (tmp_path / "notes").read_text().splitlines()]
    return {first: begun.count(first) for first in begun}


def test_the_same_bytes_in_this_process_and_in_others(run, alone, contents_of, tmp_path):
    portable = "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"
    for number, way in enumerate((["--workers=1"], ["--workers=2"], ["--", portable])):
        store = tmp_path / f"{number}"
        code, out, error = run(*BEAM, f"--scores_dir={store}", *way)
        assert (code, out, contents_of(store)) == (0, *alone), error
        assert len(blocks(store)) == 5
    processes = {line.split()[0] for line in (tmp_path / "notes").read_text().splitlines()}
    assert len(processes) == 3 and str(os.getpid()) in processes  # and two workers


def test_what_the_store_holds_is_not_computed_again(run, alone, contents_of, tmp_path):
    store = tmp_path / "store"
    run(f"--scores_dir={store}", "--count=6")
    (tmp_path / "notes").write_text("")
    assert run(*BEAM, f"--scores_dir={store}")[:2] == (0, alone[0])
    assert explained(tmp_path) == {"4": 1, "8": 1, "12": 1, "16": 1}
    assert contents_of(store) == alone[1]
    assert run(*BEAM, f"--scores_dir={store}")[0] == 0
    assert sum(explained(tmp_path).values()) == 4


def test_a_damaged_block_is_computed_again_and_said(run, alone, tmp_path):
    store = tmp_path / "store"
    assert run(*BEAM, f"--scores_dir={store}")[0] == 0
    (store / FILE).unlink()
    damaged = blocks(store)[2]
    damaged.write_bytes(damaged.read_bytes()[:-80])
    (tmp_path / "notes").write_text("")
    code, out, error = run(*BEAM, f"--scores_dir={store}")
    assert (code, out) == (0, alone[0]) and explained(tmp_path) == {"8": 1}
    assert "block 2 of squares is damaged (wrong checksum) and is computed again" in error


def test_a_failed_block_tells_its_inputs_and_why_and_the_others_go_on(run, alone, tmp_path, monkeypatch):
    store = tmp_path / "store"
    monkeypatch.setenv("SQUARES_FAIL", "9")
    code, out, error = run(*BEAM, f"--scores_dir={store}")
    assert (code, out) == (2, "")
    assert "block 2 of squares failed: inputs 8 to 11 (4): ZeroDivisionError: no square of 9" in error
    assert "error: 1 of 5 blocks failed; computed results remain" in error
    assert explained(tmp_path) == {"0": 1, "4": 1, "8": 3, "12": 1, "16": 1}  # three attempts
    monkeypatch.setenv("SQUARES_FAIL", "")
    assert run(*BEAM, f"--scores_dir={store}")[:2] == (0, alone[0])


def test_what_fails_once_is_tried_again(run, alone, contents_of, tmp_path, monkeypatch):
    monkeypatch.setenv("SQUARES_FAIL", "9-once")
    store = tmp_path / "store"
    assert run(*BEAM, f"--scores_dir={store}")[:2] == (0, alone[0])
    assert explained(tmp_path)["8"] == 2 and contents_of(store) == alone[1]


def test_killed_with_all_its_workers_at_random_moments_it_goes_on(squares, alone, contents_of, tmp_path):
    draw, store = random.Random(0), tmp_path / "store"
    command = [sys.executable, squares.__file__, *BEAM, f"--scores_dir={store}"]
    environment = {**os.environ, "SQUARES_SECONDS": "0.5"}
    for _ in range(2):
        started = subprocess.Popen([*command, "--workers=1"], env=environment, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        deadline = time.monotonic() + 60
        files = len(list(store.rglob("[0-9]*.jsonl")))
        while len(list(store.rglob("[0-9]*.jsonl"))) <= files and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 0.6))
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, alone[0])
    assert contents_of(store) == alone[1]
    assert sum(explained(tmp_path).values()) <= 5 + 2  # what was whole is not computed again


@pytest.mark.parametrize("arguments, said", [
    (["--workers=2"], "--workers: only with --runner=beam"),
    (["--", "--runner=FlinkRunner"], "options after --: only with --runner=beam"),
    ([*BEAM, "--block_size=3"], "--block_size=3 is not a multiple of --batch_size=2"),
    ([*BEAM, "--blocks_dir=/dev/null/x"], "--blocks_dir="),
    ([*BEAM, "--", "--runner=NoSuchRunner"], "Beam does not accept the options after --"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(run, arguments, said):
    code, out, error = run(*arguments)
    assert (code, out) == (2, "") and said in error and len(error.splitlines()) == 1


def test_without_beam_the_line_says_how_to_install_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    code, _, error = run(*BEAM)
    assert code == 2
    assert re.fullmatch("error: --runner=beam needs Apache Beam: pip install 'apache-beam[^ ]*'\n", error)


def test_a_worker_of_other_code_computes_nothing(squares, run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        pipeline, "provide_works", lambda *_: contextlib.nullcontext()
    )  # so that the work is made by the factory
    monkeypatch.setattr(squares.Squares, "key", property(lambda self: "0" if self.series["square"].path else "1"))
    code, _, error = run(*BEAM, f"--scores_dir={tmp_path / 'store'}")
    assert code == 2 and "this worker has other code, another model or other versions" in error
