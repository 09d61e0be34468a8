"""Commands in processes of their own: copies of one that has TensorFlow, and plain ones; both end with who asked."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.report.forkserver import POSSIBLE
from attribution_benchmarks.report.processes import ROOT, THREADS, Commands, Refused
from attribution_benchmarks.report.task_runner import only_run

COMMAND = """
import atexit, json, os, pathlib, sys, threading, time
if __name__ == "__main__":
    what = sys.argv[1]
    atexit.register(lambda: pathlib.Path("ended").write_text(what))
    if what == "tell":
        there = "tensorflow" in sys.modules
        total = None
        if there:
            import tensorflow as tf
            total = float(tf.reduce_sum(tf.ones((3, 3))))
        print(json.dumps({"arguments": sys.argv[1:], "there": there, "total": total, "parent": os.getppid(),
                          "threads": os.environ["TF_NUM_INTRAOP_THREADS"], "path": sys.path[0], "αβ": "ε"}))
        print("said", file=sys.stderr)
    if what == "refuse":
        print("error: the model takes images", file=sys.stderr)
        sys.exit(2)
    if what == "crash":
        raise RuntimeError("no such thing")
    if what == "die":
        os.kill(os.getpid(), 9)
    if what == "last":
        pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
        time.sleep(60)
"""
DRIVER = """
import pathlib, sys
from attribution_benchmarks.report.task_runner import Runner, only_run
with only_run(pathlib.Path(sys.argv[1])) as lock:
    Runner(pathlib.Path(sys.argv[1]), lock).commands.output_of(["-m", "toy_command", "last", sys.argv[2]])
"""
pytestmark = pytest.mark.skipif(not POSSIBLE, reason="copies are made on Linux alone")


@pytest.fixture(scope="module", autouse=True)
def hearing():
    """Let what this process starts be interrupted; the background of a shell is deaf, and so is all it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a command, in which this process is meanwhile."""
    directory = tmp_path_factory.mktemp("commands")
    (directory / "toy_command.py").write_text(COMMAND)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(directory), str(ROOT)]))
        for name in THREADS:
            patch.delenv(name, raising=False)
        yield directory


@pytest.fixture(scope="module")
def commands(place):
    with only_run(place / "work") as lock:
        found = Commands(lock)
        yield found
        found.close()


def waited(path, process=None):
    """Return the number of a process that writes it to a file."""
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline and (process is None or process.poll() is None)
        time.sleep(0.02)
    return int(path.read_text())


def has_ended(number):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_a_module_runs_in_a_copy_as_python_runs_it(commands, place):
    heard = []
    told = json.loads(commands.output_of(["-m", "toy_command", "tell", "--flag=a b"], heard.append))
    assert told.pop("parent") != os.getpid()  # a copy's parent is the process copied
    assert told == {
        "arguments": ["tell", "--flag=a b"], "there": True, "total": 9.0, "threads": "1", "path": str(place), "αβ": "ε"
    }  # fmt: skip
    assert b"".join(heard) == b"said\n"
    assert (place / "ended").read_text() == "tell"


def test_a_file_runs_in_a_process_of_its_own(commands, place):
    told = json.loads(commands.output_of([str(place / "toy_command.py"), "tell"]))
    assert not told["there"] and told["parent"] == os.getpid()


@pytest.mark.parametrize(
    ("what", "message", "crashed"),
    [
        ("refuse", "the model takes images", False),
        ("crash", "RuntimeError: no such thing", True),
        ("die", "the system ended it, perhaps for lack of memory; fewer --jobs need less", True),
    ],
)
@pytest.mark.parametrize("start", [["-m", "toy_command"], ["toy_command.py"]])
def test_what_does_not_end_well_is_refused_in_its_own_words(start, what, message, crashed, commands):
    with pytest.raises(Refused) as refused:
        commands.output_of([*start, what], lambda said: None)
    assert (str(refused.value), refused.value.crashed) == (message, crashed)


def test_commands_that_run_side_by_side_do_not_mix(commands):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda n: commands.output_of(["-m", "toy_command", "tell", str(n)], bytes), range(8))
        assert [json.loads(one)["arguments"][1] for one in found] == list(map(str, range(8)))


def test_closing_ends_what_runs_and_whoever_waits_for_it_is_interrupted(commands, place):
    other = Commands(commands.lock)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(other.output_of, [*start, "last", str(place / f"pid{number}")], bytes)
                for number, start in enumerate([["-m", "toy_command"], ["toy_command.py"]])]  # fmt: skip
        numbers = [waited(place / f"pid{number}") for number in range(2)]
        other.close()
        assert all(isinstance(one.exception(20), KeyboardInterrupt) for one in both)
    assert all(map(has_ended, numbers))
    with pytest.raises(KeyboardInterrupt):
        other.output_of(["toy_command.py", "tell"])


def test_a_killed_run_takes_its_copies_with_it_and_frees_the_directory(place):
    (place / "driver.py").write_text(DRIVER)
    process = subprocess.Popen([sys.executable, "driver.py", place / "killed", place / "killed_pid"])
    number = waited(place / "killed_pid", process)
    with pytest.raises(BadInput, match="another run is at work"), only_run(place / "killed"):
        pass
    process.kill()
    process.wait()
    assert has_ended(number)
    with only_run(place / "killed"):
        pass


def test_an_interrupted_command_interrupts_the_run(commands, place):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(commands.output_of, ["-m", "toy_command", "last", str(place / "interrupted")], bytes)
        os.kill(waited(place / "interrupted"), signal.SIGINT)
        assert isinstance(run.exception(20), KeyboardInterrupt)
