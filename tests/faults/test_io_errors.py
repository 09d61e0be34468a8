"""A disk that fails: a system call that ends with EIO is one line and exit code 2, and nothing is half-written."""

import ctypes
import errno
import json
import os
import platform
import sys

import numpy as np
import pytest
from absl import flags
from PIL import Image

from attribution import cli
from attribution.files import atomic_directory, atomic_write, locked_directory
from attribution.reading import read_array, read_arrays, read_json, read_pixels
from attribution_benchmarks.core.store import ScoreStore

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="uses the numbers of the system calls of Linux on x86_64",
)
NUMBERS = {"read": 0, "write": 1, "pread64": 17, "pwrite64": 18, "fsync": 74, "fdatasync": 75, "ftruncate": 77,
           "rename": 82, "mkdir": 83}  # fmt: skip
PIXELS = np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8)
RECORDS = {f"{number}": number / 7 for number in range(300)}


def write_directory(place):
    with atomic_directory(place / "new") as unfinished:
        atomic_write(unfinished / "a", "1" * 9000)
        atomic_write(unfinished / "b", "2" * 9000)


def write_locked(place):
    with locked_directory(place / "data") as directory:
        atomic_write(directory / "a", "1" * 9000)


ACTIONS = {
    "a file": (lambda place: atomic_write(place / "old", "new" * 9000), "write fsync rename"),
    "a picture": (lambda place: atomic_write(place / "new.png", lambda file: Image.fromarray(PIXELS).save(file, "PNG")),
                  "write fsync rename"),
    "a directory": (write_directory, "write fsync rename mkdir"),
    "a locked directory": (write_locked, "write fsync rename mkdir"),
    "scores": (lambda place: ScoreStore(place).series(method="new").append(RECORDS), "pread64 pwrite64"),
    "first scores": (lambda place: ScoreStore(place / "scores").series(method="new").append(RECORDS), "pwrite64 mkdir"),
    "stored scores": (lambda place: list(ScoreStore(place).series(method="old").records(RECORDS)), "pread64"),
    "a stored picture": (lambda place: read_pixels(place / "old.png"), "read"),
    "a stored picture of 16 bits": (lambda place: read_pixels(place / "deep.png"), "read"),
    "a stored array": (lambda place: read_array(place / "old.npy"), "read"),
    "stored arrays": (lambda place: read_arrays(place / "old.npz"), "read"),
    "stored JSON": (lambda place: read_json(place / "old.json"), "read"),
}  # fmt: skip
CASES = [(kind, call) for kind, (_, calls) in ACTIONS.items() for call in calls.split()]


class Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint))


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction)))


def fail(call):
    """Let a system call of this process end with EIO, except on standard streams, by Linux's seccomp."""
    refused = 0x00050000 | errno.EIO
    lines = [(0x20, 0, 0, 0), (0x15, 0, 3, NUMBERS[call]), (0x20, 0, 0, 16), (0x25, 0, 1, 2), (0x06, 0, 0, refused)]
    lines.append((0x06, 0, 0, 0x7FFF0000))  # allow all others
    program = Program(len(lines), (Instruction * len(lines))(*(Instruction(*line) for line in lines)))
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if library.syscall(317, 1, 1, ctypes.byref(program)) < 0:  # SECCOMP_SET_MODE_FILTER, for all threads
        raise OSError(ctypes.get_errno(), "seccomp")


def in_a_child(action, said, prepare):
    """Run an action as a command in a copy of this process; return its exit code."""
    process = os.fork()
    if not process:
        code = 1
        try:
            with open(said, "w") as file:
                os.dup2(file.fileno(), 2)
            sys.stderr = open(2, "w", buffering=1, closefd=False)
            prepare()
            code = cli.execute(lambda _: action(), flags.FlagValues(), "", [""])
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def content(place):
    """Return the content of each file, and the records of the store."""
    stores = {
        str(path.parent.relative_to(place)): ScoreStore(path.parent).contents() for path in place.rglob("*.sqlite")
    }
    files = {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if "sqlite" not in path.name and path.is_file()
    }
    return {**files, **{name: found for name, found in stores.items() if found}}


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    (place / "old").write_text("old")
    Image.fromarray(PIXELS).save(place / "old.png")
    Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257).save(place / "deep.png")
    np.save(place / "old.npy", PIXELS)
    np.savez(place / "old.npz", one=PIXELS)
    (place / "old.json").write_text(json.dumps([0] * 9000))
    ScoreStore(place).series(method="old").append(RECORDS)
    return place


@pytest.mark.parametrize(("kind", "call"), CASES)
def test_a_disk_that_fails_is_one_line_and_leaves_nothing_half_written(kind, call, place, tmp_path):
    action, before = ACTIONS[kind][0], content(place)
    for reading in (read_pixels, read_json):  # imports what is imported late
        reading(place / ("deep.png" if reading is read_pixels else "old.json"))
    code = in_a_child(lambda: action(place), tmp_path / "said", lambda: fail(call))
    said = (tmp_path / "said").read_text()
    assert code == 2 and said.startswith("error: ") and said.count("\n") == 1, said
    assert content(place) == before
    assert in_a_child(lambda: action(place), tmp_path / "said", lambda: None) == 0, (tmp_path / "said").read_text()
    assert not [path for path in place.rglob("*") if path.name.endswith((".unfinished", ".lock"))]
