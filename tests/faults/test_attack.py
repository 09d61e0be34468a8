"""The quick part of ``tests/faults/attack.py``: kills, races, full disks and missing rights leave whole files."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.slow
def test_kills_races_and_full_disks():
    numbers = ["--kills=2", "--races=1", "--disks=1", "--small_disks=1", "--rights=1", "--failing=1",
               "--targets=construct,generate"]  # fmt: skip
    done = subprocess.run([sys.executable, HERE / "attack.py", *numbers], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("\n0 failures\n")
