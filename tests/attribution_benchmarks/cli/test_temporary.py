"""Temporary directories of killed processes do not stay."""

import os
import signal
import subprocess
import sys

from attribution_benchmarks.cli.temporary import temporary_directory


def test_temporary_directories_of_killed_processes_are_swept_away(tmp_path, monkeypatch):
    """By the next that asks for the same kind: those of living ones stay, and so do young ones and other kinds."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = """
import sys, time
from attribution_benchmarks.cli.temporary import temporary_directory
kept = temporary_directory("solids")
open(kept.name + "/file", "w").close()
print(kept.name, flush=True)
time.sleep(60)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed, living, young = (
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    )
    left, used, new = (process.stdout.readline().strip() for process in (killed, living, young))
    for process in (killed, young):
        process.kill()
        process.wait()
    other = tmp_path / "attribution_benchmarks_others_x"
    other.mkdir()
    for path in (left, used, other):
        os.utime(path, (0, 0))
    own = temporary_directory("solids")
    assert sorted(map(str, tmp_path.iterdir())) == sorted([used, new, str(other), own.name])
    living.terminate()
    assert living.wait(timeout=60) == -signal.SIGTERM
    assert os.path.exists(used)
    again = temporary_directory("solids")
    assert not os.path.exists(used) and os.path.exists(own.name)
    own.cleanup()
    del again
    assert sorted(map(str, tmp_path.iterdir())) == sorted([new, str(other)])
