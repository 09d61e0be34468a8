"""Commands run as ``python`` runs them, share one import of TensorFlow, and end with the process that started them."""

import concurrent.futures
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from attribution_benchmarks.report.forkserver import ROOT, THREADS, CommandFailed, Commands

from attribution.errors import BadInput
from attribution_benchmarks.report.task_runner import only_run

COMMAND = """
import atexit, json, multiprocessing, os, pathlib, sys, threading, time
if __name__ == "__main__":
    what = sys.argv[1]
    atexit.register(lambda: pathlib.Path("ended").write_text(what))
    if what == "report":
        shared = "tensorflow" in sys.modules
        total = None
        if shared:
            import tensorflow as tf
            total = float(tf.reduce_sum(tf.ones((3, 3))))
        print(json.dumps({"arguments": sys.argv[1:], "shared": shared, "total": total,
                          "threads": os.environ["TF_NUM_INTRAOP_THREADS"], "path": sys.path[0], "αβ": "ε",
                          "start": multiprocessing.get_start_method()}))
        print("progress", file=sys.stderr)
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
import multiprocessing, pathlib, sys
from attribution_benchmarks.report.task_runner import TaskRunner, only_run
multiprocessing.set_forkserver_preload([])  # the command needs no TensorFlow
if __name__ == "__main__":
    with only_run(pathlib.Path(sys.argv[1])) as lock:
        TaskRunner(pathlib.Path(sys.argv[1]), lock).commands.run(["-m", "toy_command", "last", sys.argv[2]])
"""
MODULE, FILE = ["-m", "toy_command"], ["toy_command.py"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a directory with a command; it is the working directory meanwhile."""
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
    """Return the process id that a process writes to a file."""
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


@pytest.mark.parametrize("start", [MODULE, FILE])
def test_a_command_runs_as_python_runs_it(start, commands, place):
    chunks = []
    used = commands.cpu_seconds
    found = json.loads(commands.run([*start, "report", "--flag=a b"], chunks.append))
    assert found == {
        "arguments": ["report", "--flag=a b"], "shared": sys.platform == "linux", "total": 9.0, "threads": "1",
        "path": str(place), "αβ": "ε", "start": multiprocessing.get_start_method(),
    }  # fmt: skip
    assert b"".join(chunks) == b"progress\n"
    assert (place / "ended").read_text() == "report"
    assert commands.cpu_seconds > used


@pytest.mark.parametrize(
    ("what", "message", "crashed"),
    [
        ("refuse", "the model takes images", False),
        ("crash", "RuntimeError: no such thing", True),
        ("die", "the system ended it, perhaps for lack of memory; fewer --jobs need less", True),
    ],
)
def test_a_failure_is_its_last_error_line(what, message, crashed, commands):
    with pytest.raises(CommandFailed) as failure:
        commands.run([*MODULE, what], bytes)
    assert (str(failure.value), failure.value.crashed) == (message, crashed)


def test_outputs_of_concurrent_commands_do_not_mix(commands):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda n: commands.run([*MODULE, "report", str(n)], bytes), range(8))
        assert [json.loads(one)["arguments"][1] for one in found] == list(map(str, range(8)))


def test_close_kills_running_commands_and_interrupts_their_threads(commands, place):
    other = Commands(commands._lock_descriptor)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(other.run, [*MODULE, "last", str(place / f"pid{number}")], bytes) for number in range(2)]
        numbers = [waited(place / f"pid{number}") for number in range(2)]
        other.close()
        assert all(isinstance(one.exception(20), KeyboardInterrupt) for one in both)
    assert all(map(has_ended, numbers))
    with pytest.raises(KeyboardInterrupt):
        other.run([*FILE, "report"])


def test_an_interrupted_command_interrupts_the_run(commands, place):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(commands.run, [*MODULE, "last", str(place / "interrupted")], bytes)
        os.kill(waited(place / "interrupted"), signal.SIGINT)
        assert isinstance(run.exception(20), KeyboardInterrupt)


def test_commands_of_a_killed_run_end_and_free_its_directory(place):
    (place / "driver.py").write_text(DRIVER)
    process = subprocess.Popen([sys.executable, "driver.py", place / "killed", place / "killed_pid"])
    number = waited(place / "killed_pid", process)
    with pytest.raises(BadInput, match="another run uses"), only_run(place / "killed"):
        pass
    process.kill()
    process.wait()
    assert has_ended(number)
    with only_run(place / "killed"):
        pass
