"""Functions are called in child processes that share one import of TensorFlow and end with their parent."""

import functools
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.progress import Step
from attribution_benchmarks.report import processes
from attribution_benchmarks.report.processes import KILLED, THREADS, Answer, Processes
from attribution_benchmarks.report.tasks import only_run

ROOT = pathlib.Path(__file__).resolve().parents[3]
FUNCTIONS = """
import multiprocessing, os, pathlib, sys, threading, time
from attribution.errors import BadInput
from attribution_benchmarks.core.progress import Step

def report(text, progress):
    shared = "tensorflow" in sys.modules
    print("a line")
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
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "returned"

def last(path, progress):
    pathlib.Path(path).write_text(str(os.getpid()))
    time.sleep(60)
"""
DRIVER = """
import functools, multiprocessing, pathlib, sys
import functions
from attribution_benchmarks.report.processes import Processes
from attribution_benchmarks.report.tasks import only_run
multiprocessing.set_forkserver_preload([])  # the functions need no TensorFlow
if __name__ == "__main__":
    with only_run(pathlib.Path(sys.argv[1])), Processes() as processes:
        processes.start("last", functools.partial(functions.last, sys.argv[2]))
        processes.answer(print)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a directory with a module; it is the working directory meanwhile."""
    directory = tmp_path_factory.mktemp("functions")
    (directory / "functions.py").write_text(FUNCTIONS)
    multiprocessing.forkserver._forkserver._stop()  # one of other tests may have another environment
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


def called(function, on_step=lambda name, step: None):
    with Processes() as found:
        found.start("it", function)
        return found.answer(on_step)[1]


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


def test_functions_report_and_return_side_by_side(functions):
    steps = []
    with Processes() as found:
        for number in range(4):
            found.start(str(number), functools.partial(functions.report, f"αβ{number}"))
        answers = dict(found.answer(lambda *step: steps.append(step)) for _ in range(4))
        assert found.running == ()
    assert sorted(steps) == [(str(number), Step("inputs", "input", 3, 7)) for number in range(4)]
    for number in range(4):
        assert answers[str(number)] == Answer({
            "text": f"αβ{number}", "shared": sys.platform == "linux", "total": 9.0, "threads": "1",
            "start": multiprocessing.get_start_method(),
        })  # fmt: skip
    assert "TF_NUM_INTRAOP_THREADS" not in os.environ


def test_a_thread_that_a_method_leaves_keeps_no_child(functions, monkeypatch):
    monkeypatch.setattr(processes, "_GRACE", 0.5)
    begun = time.monotonic()
    assert called(functions.stay) == Answer("returned")
    assert time.monotonic() - begun < 40


@pytest.mark.parametrize(
    ("name", "message", "killed"),
    [
        ("refuse", "the model takes images", False),
        ("crash", "RuntimeError: no such thing", False),
        ("leave", "a method called sys.exit(3); it must return its maps", False),
        ("die", KILLED, True),
    ],
)
def test_a_failure_is_one_line(name, message, killed, functions):
    assert called(getattr(functions, name)) == Answer(None, message, killed)


def test_an_interrupt_kills_running_children(functions, place):
    with pytest.raises(KeyboardInterrupt), Processes() as found:
        for number in range(2):
            found.start(str(number), functools.partial(functions.last, str(place / f"pid{number}")))
        numbers = [waited(place / f"pid{number}") for number in range(2)]
        raise KeyboardInterrupt
    assert all(map(has_ended, numbers))


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
