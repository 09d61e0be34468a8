"""Maps do not depend on where, when and in which order they are made."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def test_other_surroundings_give_the_same_bytes():
    """Hashes, locale, time zone, directory and the order of methods at once; one by one in ``same_bytes.py``."""
    arguments = ["--targets=explain", "--circumstances=all"]
    done = subprocess.run([sys.executable, HERE / "same_bytes.py", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "explain, all: same bytes\n"


def test_memory_stays_flat_over_calls_models_and_clients():
    """A small part of ``soak.py``."""
    arguments = ["--calls=60", "--models=2", "--seconds=3"]
    done = subprocess.run([sys.executable, HERE / "soak.py", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 calls over 2 models" in done.stdout and "answers to eight clients" in done.stdout
