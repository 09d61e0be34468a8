"""The quick part of ``tests/faults/fuzz_models.py``: no operation or file that passes the check opens anything."""

import pathlib
import platform
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="system calls are watched on Linux, x86_64"
)


def fuzz(files, *flags):
    command = [sys.executable, HERE / "fuzz_models.py", "--draws=1", f"--files={files}", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert re.search(rf"operations: \d+ draws .*\n.*files: {2 * files} draws", done.stdout), done.stderr[-3000:]
    return done


def test_what_the_check_allows_opens_nothing():
    done = fuzz(8)
    operations, files = (int(number) for number in re.findall(r"(\d+) draws of \d+ kinds ran", done.stdout))
    assert done.returncode == 0, done.stderr[-3000:]
    assert operations > 150 and files > 4  # undamaged files among them


def test_what_the_check_refuses_is_seen_to_open_files():
    """Else the test above could not fail."""
    done = fuzz(6, "--seed=6", "--refused", "--operations", "ImmutableConst", "ReadFile")
    assert done.returncode == 1
    assert "refused operations: ImmutableConst: openat" in done.stderr and "trusted files: " in done.stderr
