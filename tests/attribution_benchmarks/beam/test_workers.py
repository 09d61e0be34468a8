"""Worker processes give results in order and end with their parent."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.beam import workers
from attribution_benchmarks.beam.workers import processes

PARENT = """
import sys, time
from attribution_benchmarks.beam.workers import processes
import {module} as work
if __name__ == "__main__":
    with processes(2) as mapped:
        for number in mapped(work.{function}, range(4)):
            print(number, flush=True)
        print("all", flush=True)
        time.sleep(60)
"""
WORK = r"""
import os, signal, time
def process(task):
    return os.getpid()
def killed(task):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_results_come_in_order(number):
    with processes(number) as mapped:
        assert list(mapped(abs, range(-5, 5))) == [abs(task) for task in range(-5, 5)]
        assert list(mapped(abs, [-7], 4)) == [7]


def alive(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ended(workers):
    """Return whether processes end within 20 seconds."""
    end = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(alive, workers))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
def test_they_are_killed_when_the_block_of_code_is_interrupted():
    before = set(multiprocessing.active_children())  # of other tests
    with pytest.raises(KeyboardInterrupt), processes(2) as mapped:
        mapped(time.sleep, [600, 600])
        started = [process.pid for process in set(multiprocessing.active_children()) - before]
        raise KeyboardInterrupt
    assert len(started) == 2 and ended(started)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_they_end_with_their_parent_however_it_ends(tmp_path, number):
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "parent.py").write_text(PARENT.format(module="work", function="process"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), str(tmp_path)])}
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], env=environment, stdout=-1, text=True)
    started = {int(parent.stdout.readline()) for _ in range(4)}
    assert parent.stdout.readline() == "all\n" and all(map(alive, started)) and parent.pid not in started
    parent.send_signal(number)
    parent.wait()
    assert ended(started)


def test_a_worker_that_the_system_ends_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "mortal.py").write_text(WORK)
    monkeypatch.syspath_prepend(tmp_path)
    import mortal

    with pytest.raises(BadInput, match="the system ended a worker process"), processes(2) as mapped:
        list(mapped(mortal.killed, range(4)))


def run_code(code):
    """Run Python in another process; return its exit code and output."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_workers_ignore_interruptions(interruptible):
    """Also while they start, and when a thread starts them, which cannot change what they inherit."""
    with workers._interrupts_ignored():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with concurrent.futures.ThreadPoolExecutor(1) as thread, processes(2) as mapped:
        found = thread.submit(lambda: list(mapped(signal.getsignal, [signal.SIGINT]))).result()
    assert found == [signal.SIG_IGN]


def test_a_worker_whose_parent_has_ended_ends():
    start = "import os, time\nfrom attribution_benchmarks.beam import workers\n"
    assert run_code(f"{start}workers.end_with_parent(1 << 22); print('it goes on')") == (1, "")
    code = f"{start}workers.end_with_parent(os.getppid()); time.sleep(0.5); print('it goes on')"
    assert run_code(code) == (0, "it goes on\n")
