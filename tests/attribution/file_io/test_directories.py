"""A directory is made by one process at a time, and whole or not at all."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from attribution.errors import BadInput
from attribution.file_io.directories import LOCK, held, sweep, whole_directory

HOLDER = """
import sys, time
from attribution.file_io.directories import held
with held(sys.argv[1], "numbers"):
    print("held", flush=True)
    with open(sys.argv[1] + "/log", "a") as file:
        file.write("begin ")
        file.flush()
        sys.stdin.readline() if sys.argv[2] == "until told" else time.sleep(float(sys.argv[2]))
        file.write("end ")
"""


def started(directory, seconds):
    command = [sys.executable, "-c", HOLDER, str(directory), str(seconds)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, **pipes)


def test_a_second_process_waits_and_says_so(tmp_path):
    directory = tmp_path / "new" / "data"
    first = started(directory, "until told")
    assert first.stdout.readline() == "held\n"
    others = [started(directory, 0.01) for _ in range(3)]
    assert others[0].stderr.readline() == f"waiting for another process that makes numbers in {directory}\n"
    first.stdin.write("\n")
    first.stdin.flush()
    for process in [first, *others]:
        assert process.wait(timeout=60) == 0
    assert (directory / "log").read_text() == "begin end " * 4
    assert os.listdir(directory) == ["log"]


def test_a_killed_process_holds_nothing_and_its_leftovers_are_swept_away(tmp_path):
    process = started(tmp_path, 60)
    assert process.stdout.readline() == "held\n"
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / f".picture.jpg.{process.pid}-0a1.unfinished").write_text("half")
    (tmp_path / f".set.{process.pid}-0a2.unfinished").mkdir()
    mine = tmp_path / f".picture.jpg.{os.getpid()}-0a1.unfinished"
    mine.write_text("half")
    sweep(tmp_path)
    assert len(list(tmp_path.rglob("*.unfinished"))) == 3  # it lives
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / LOCK).exists()
    with held(tmp_path):
        assert list(tmp_path.rglob("*.unfinished")) == [mine]  # what this process writes elsewhere at the same time
    assert not (tmp_path / LOCK).exists()


def test_a_thread_may_hold_again_and_another_one_waits(tmp_path):
    order = []

    def other():
        with held(tmp_path):
            order.append("other")

    thread = threading.Thread(target=other)
    with held(tmp_path), held(tmp_path / ".." / tmp_path.name):
        thread.start()
        time.sleep(0.2)
        order.append("this")
    thread.join(timeout=60)
    assert order == ["this", "other"]


def test_what_cannot_be_held_is_one_line(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match=r"cannot write .*file"), held(tmp_path / "file"):
        pass


def test_a_directory_is_whole_or_not_there(tmp_path):
    path = tmp_path / "above" / "set"
    with pytest.raises(KeyboardInterrupt), whole_directory(path) as unfinished:
        (unfinished / "file").write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    with whole_directory(path) as unfinished:
        assert not path.exists()
        (unfinished / "file").write_text("one")
    with pytest.raises(BadInput, match="was made by another process meanwhile"), whole_directory(path) as unfinished:
        pass
    with whole_directory(path, replace=True) as unfinished:
        (unfinished / "other").write_text("two")
        assert (path / "file").read_text() == "one"
    assert os.listdir(path) == ["other"] and os.listdir(tmp_path / "above") == ["set"]
