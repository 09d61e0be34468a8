"""Functions are called in child processes that share one import of TensorFlow and end with their parent."""

import concurrent.futures
import functools
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.progress import Step
from attribution_benchmarks.report import processes
from attribution_benchmarks.report.processes import THREADS, Failed, Processes
from attribution_benchmarks.report.task_runner import only_run

ROOT = pathlib.Path(__file__).resolve().parents[3]
FUNCTIONS = """
import multiprocessing, os, pathlib, sys, threading, time
import tqdm
from attribution.errors import BadInput
from attribution_benchmarks.core.progress import Step

def report(text, progress):
    shared = "tensorflow" in sys.modules
    print("a line")
    print("two", "lines\\nof progress", file=sys.stderr)
    list(tqdm.tqdm(range(3)))
    progress(Step("inputs", "input", 3, 7))
    total = None
    if shared:
        import tensorflow as tf
        total = float(tf.reduce_sum(tf.ones((3, 3))))
    return {"text": text, "shared": shared, "total": total, "threads": os.environ["TF_NUM_INTRAOP_THREADS"],
            "start": multiprocessing.get_start_method()}

def refuse(progress):
    raise BadInput("the model takes\\nimages")

def crash(progress):
    raise RuntimeError("no such thing")

def leave(progress):
    sys.exit(3)

def die(progress):
    os.kill(os.getpid(), 9)

def stay(progress):
    print("no newline", end="")
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "returned"

def last(path, progress):
    pathlib.Path(path).write_text(str(os.getpid()))
    time.sleep(60)
"""
DRIVER = """
import functools, multiprocessing, pathlib, sys
import functions
from attribution_benchmarks.report.task_runner import TaskRunner, only_run
multiprocessing.set_forkserver_preload([])  # the functions need no TensorFlow
if __name__ == "__main__":
    with only_run(pathlib.Path(sys.argv[1])) as lock:
        runner = TaskRunner(pathlib.Path(sys.argv[1]), lock)
        runner.processes.call(functools.partial(functions.last, sys.argv[2]), print)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a directory with a module; it is the working directory meanwhile."""
    directory = tmp_path_factory.mktemp("functions")
    (directory / "functions.py").write_text(FUNCTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(directory), str(ROOT)]))
        patch.syspath_prepend(directory)
        for name in THREADS:
            patch.delenv(name, raising=False)
        yield directory
        sys.modules.pop("functions", None)


@pytest.fixture(scope="module")
def functions(place):
    import functions

    return functions


@pytest.fixture(scope="module")
def children(place):
    multiprocessing.forkserver._forkserver._stop()  # one of other tests may have another environment
    with only_run(place / "work") as lock:
        found = Processes(lock)
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


def test_a_function_reports_prints_and_returns(children, functions):
    events = []
    used = children.cpu_seconds
    found = children.call(functools.partial(functions.report, "αβ"), events.append)
    assert found == {
        "text": "αβ", "shared": sys.platform == "linux", "total": 9.0, "threads": "1",
        "start": multiprocessing.get_start_method(),
    }  # fmt: skip
    assert events == ["a line", "two lines", "of progress", Step("inputs", "input", 3, 7)]  # and no bar
    assert children.cpu_seconds > used


def test_a_thread_that_a_method_leaves_keeps_no_child(children, functions, monkeypatch):
    monkeypatch.setattr(processes, "_GRACE", 0.5)
    events, begun = [], time.monotonic()
    assert children.call(functions.stay, events.append) == "returned" and events == ["no newline"]
    assert time.monotonic() - begun < 40


@pytest.mark.parametrize(
    ("name", "message", "crashed"),
    [
        ("refuse", "the model takes images", False),
        ("crash", "RuntimeError: no such thing", True),
        ("leave", "a method called sys.exit(3); it must return its maps", True),
        ("die", "the system ended it, perhaps for lack of memory; fewer --jobs need less", True),
    ],
)
def test_a_failure_is_one_line(name, message, crashed, children, functions):
    events = []
    with pytest.raises(Failed) as failure:
        children.call(getattr(functions, name), events.append)
    assert (str(failure.value), failure.value.crashed) == (message, crashed)
    assert ("Traceback (most recent call last):" in events) == (name == "crash")


def test_results_of_concurrent_calls_do_not_mix(children, functions):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda n: children.call(functools.partial(functions.report, n), bool), range(8))
        assert [one["text"] for one in found] == list(range(8))


def test_close_kills_running_children_and_interrupts_their_threads(children, functions, place):
    other = Processes(children._lock_descriptor)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(other.call, functools.partial(functions.last, str(place / f"pid{number}")), bool)
            for number in range(2)
        ]
        numbers = [waited(place / f"pid{number}") for number in range(2)]
        other.close()
        assert all(isinstance(one.exception(20), KeyboardInterrupt) for one in both)
    assert all(map(has_ended, numbers))
    with pytest.raises(KeyboardInterrupt):
        other.call(functions.crash, bool)


def test_an_interrupted_child_interrupts_the_run(children, functions, place):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(children.call, functools.partial(functions.last, str(place / "interrupted")), bool)
        os.kill(waited(place / "interrupted"), signal.SIGINT)
        assert isinstance(run.exception(20), KeyboardInterrupt)


def test_children_of_a_killed_run_end_and_free_its_directory(place):
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
