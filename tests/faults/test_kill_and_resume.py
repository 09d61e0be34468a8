"""A command that was killed and started again writes the bytes of a run that was never killed."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = "-m svea.benchmark --methods=gradient --batch_size=250 --scores_dir={0}/scores --output={0}/table.json"


def started(place):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *COMMAND.format(place).split()]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def stored(place):
    """Return the stored records, none before the first."""
    file = place / "scores" / "scores.sqlite"
    with contextlib.suppress(sqlite3.OperationalError):
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            return set(database.execute("SELECT series, input, record FROM records"))
    return set()


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = started(killed)
    while not stored(killed) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL and not (killed / "table.json").exists()
    before = stored(killed)
    printed = []
    for place in (killed, whole):
        process = started(place)
        printed.append(process.communicate()[0].replace(str(place).encode(), b"PLACE"))
        assert process.returncode == 0
    assert printed[0] == printed[1]
    after = stored(killed)
    assert 0 < len(before) < len(after) and before < after == stored(whole)
    tables = [(place / "table.json").read_bytes().replace(str(place).encode(), b"PLACE") for place in (killed, whole)]
    assert tables[0] == tables[1]
    assert {path.name for path in killed.rglob("*")} == {path.name for path in whole.rglob("*")}
