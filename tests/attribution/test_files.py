"""Files and directories are written completely or not at all, locked, and cleared of what killed processes left."""

import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import attribution
from attribution import files
from attribution.errors import BadInput
from attribution.files import (
    LOCK,
    atomic_directory,
    atomic_write,
    cache_directory,
    check_directory,
    check_file,
    is_special,
    locked_directory,
    make_directory,
    remove_stale,
)

WRITERS = {
    "file": "atomic_write(sys.argv[1] + '/table.csv', lambda file: (file.write(b'half'), file.flush(), wait()))",
    "directory": "with atomic_directory(sys.argv[1] + '/set') as made: (made / 'a').write_text('half'); wait()",
    "locked": "with locked_directory(sys.argv[1], 'numbers'): wait()",
}


def start_writer(kind, directory):
    """Start a process that writes to a directory and waits for a line of input halfway."""
    code = "import sys\nfrom attribution.files import *"
    code += "\ndef wait(): print('half', flush=True); sys.stdin.readline()\n" + WRITERS[kind]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", code, str(directory)], text=True, **pipes)


def kill(process):
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie: in a container, nobody may ever reap it


def test_text_bytes_and_what_a_function_writes_arrive_as_they_are(tmp_path):
    atomic_write(tmp_path / "file.txt", "naïve\r\nline\n")
    assert (tmp_path / "file.txt").read_bytes() == "naïve\r\nline\n".encode()
    atomic_write(str(tmp_path / "file.txt"), b"\0new", durable=False)
    assert (tmp_path / "file.txt").read_bytes() == b"\0new"
    array = np.arange(5)
    atomic_write(tmp_path / "below" / "array.npy", lambda file: np.save(file, array))
    np.testing.assert_array_equal(np.load(tmp_path / "below" / "array.npy"), array)
    assert sorted(os.listdir(tmp_path)) == ["below", "file.txt"] and os.listdir(tmp_path / "below") == ["array.npy"]


def test_names_that_are_no_text_are_written_as_escapes(tmp_path):
    atomic_write(tmp_path / "file.txt", "name \udcff")
    assert (tmp_path / "file.txt").read_text() == "name \\udcff"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_is_one_line_and_leaves_the_old_file(call, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    atomic_write(tmp_path / "file.txt", "old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(BadInput, match=r"^cannot write .*file\.txt: Input/output error; name another place$"):
        atomic_write(tmp_path / "file.txt", "new")
    assert os.listdir(tmp_path) == ["file.txt"] and (tmp_path / "file.txt").read_text() == "old"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_what_was_there_stays_if_the_writing_fails(tmp_path, failure):
    def stopped(file):
        file.write(b"half")
        raise failure

    atomic_write(tmp_path / "file.txt", "old")
    with pytest.raises(failure):
        atomic_write(tmp_path / "file.txt", stopped)
    assert (tmp_path / "file.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("kind", ["a file above it", "a directory in its place", "a pipe in its place"])
def test_what_cannot_be_written_is_one_line(tmp_path, kind):
    path = tmp_path / "file.txt"
    if kind.startswith("a file"):
        (tmp_path / "above").write_text("x")
        path = tmp_path / "above" / "file.txt"
    elif kind.startswith("a directory"):
        path.mkdir()
    else:
        os.mkfifo(path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BadInput, match=r"not a regular file|cannot write"):
        atomic_write(path, "new")
    with pytest.raises(BadInput, match="--output="):
        check_file("output", path)
    assert sorted(os.listdir(tmp_path)) == before


FULL = """
import io, resource, signal, sys
import numpy as np
from PIL import Image
from attribution.errors import BadInput
from attribution.files import atomic_write
content = {"text": "x" * 20_000}
picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8))
content["jpeg"] = lambda file: picture.save(file, "JPEG", quality=95)
content["array"] = lambda file: np.savez(file, one=np.zeros(9000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    atomic_write(sys.argv[1], content[sys.argv[2]])
except BadInput as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["text", "jpeg", "array"])
def test_no_space_is_one_line_and_leaves_nothing(tmp_path, kind):
    """A limit on the size of files simulates a full disk; Pillow writes short there when it has a descriptor."""
    path = tmp_path / "file"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL, path, kind], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"cannot write {path}: File too large; make room or name another place\n"
    assert os.listdir(tmp_path) == ["file"] and path.read_text() == "old"


def test_directories_to_write_to_may_be_missing_but_not_files(tmp_path):
    (tmp_path / "file").write_text("x")
    check_directory("plot_dir", "")
    check_directory("plot_dir", tmp_path / "a" / "b" / "c")
    check_file("output", tmp_path / "a" / "b" / "scores.json", [".json"])
    assert os.listdir(tmp_path) == ["file"]
    assert make_directory(tmp_path / "a" / "b" / "c").is_dir()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match=r"--plot_dir=.*file' is a file; name a directory"):
            check_directory("plot_dir", path)
        with pytest.raises(BadInput, match="cannot write"):
            make_directory(path)
    with pytest.raises(BadInput, match=r"--output=.* ends in none of '.json', '.csv'"):
        check_file("output", tmp_path / "file", [".json", ".csv"])


def test_a_directory_that_takes_no_files_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"--plot_dir='/proc/new': '/proc' cannot be written to"):
        check_directory("plot_dir", "/proc/new")


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.delenv(files.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default = tmp_path / "attribution_benchmarks" / "drawn"
    assert cache_directory("drawn") == default
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory("drawn") == pathlib.Path("~/.cache/attribution_benchmarks/drawn").expanduser()
    monkeypatch.setenv(files.CACHE_VARIABLE, str(tmp_path / "named"))
    assert cache_directory("drawn") == tmp_path / "named" / "drawn"
    with files.cache_at(str(tmp_path / "flag")):
        assert cache_directory("drawn") == tmp_path / "flag" / "drawn"
    assert cache_directory("drawn") == tmp_path / "named" / "drawn"


def test_what_must_be_a_path_is_no_address():
    """Else a folder called gs: would be made."""
    for check, path in ((check_directory, "gs://bucket/maps"), (check_file, "gs://bucket/a.json")):
        with pytest.raises(BadInput, match=f"--flag='{path}' is an address, not a path; mount it"):
            check("flag", path)
    with pytest.raises(BadInput, match=r"^'gs://bucket/model' is an address"):
        attribution.load_model("gs://bucket/model")


def test_only_unfinished_paths_are_stale_and_after_a_day(tmp_path):
    for name in (".hidden", "table.csv.unfinished", ".gitignore"):
        (tmp_path / name).write_text("x")
    before = sorted(os.listdir(tmp_path))
    (tmp_path / ".file.unfinished").write_text("x")
    (tmp_path / ".folder.unfinished").mkdir()
    remove_stale(tmp_path)
    assert len(os.listdir(tmp_path)) == 5
    for name in (".file.unfinished", ".folder.unfinished"):
        os.utime(tmp_path / name, (0, time.time() - 90_000))
    remove_stale(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_second_process_waits_for_a_locked_directory_and_says_so(tmp_path):
    directory = tmp_path / "new" / "data"
    first = start_writer("locked", directory)
    assert first.stdout.readline() == "half\n"
    others = [start_writer("locked", directory) for _ in range(2)]
    for other in others:
        assert other.stderr.readline() == f"waiting for another process that makes numbers in {directory}\n"
        other.stdin.write("\n")
        other.stdin.flush()
    first.communicate("\n", timeout=60)
    for other in others:
        assert other.wait(timeout=60) == 0
    assert os.listdir(directory) == []


def test_a_killed_process_locks_nothing_and_its_unfinished_files_below_are_removed(tmp_path):
    (tmp_path / "below").mkdir()
    killed, half = start_writer("locked", tmp_path), start_writer("file", tmp_path / "below")
    for process in (killed, half):
        assert process.stdout.readline() == "half\n"
        kill(process)
    assert (tmp_path / LOCK).exists()
    with locked_directory(tmp_path):
        assert os.listdir(tmp_path / "below") == []
    assert os.listdir(tmp_path) == ["below"]


def test_a_thread_may_lock_again_and_another_one_waits(tmp_path):
    order = []

    def other():
        with locked_directory(tmp_path):
            order.append("other")

    thread = threading.Thread(target=other)
    with locked_directory(tmp_path), locked_directory(tmp_path / ".." / tmp_path.name):
        thread.start()
        time.sleep(0.2)
        order.append("this")
    thread.join(timeout=60)
    assert order == ["this", "other"]


def test_a_directory_that_cannot_be_locked_is_one_line(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match=r"cannot write .*file"), locked_directory(tmp_path / "file"):
        pass


def test_a_directory_is_complete_or_absent(tmp_path):
    path = tmp_path / "above" / "set"
    with pytest.raises(KeyboardInterrupt), atomic_directory(path) as unfinished:
        (unfinished / "file").write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    with atomic_directory(path) as unfinished:
        assert not path.exists()
        (unfinished / "file").write_text("one")
    with pytest.raises(BadInput, match="was made by another process meanwhile"), atomic_directory(path) as unfinished:
        pass
    with atomic_directory(path, replace=True) as unfinished:
        (unfinished / "other").write_text("two")
        assert (path / "file").read_text() == "one"
    assert os.listdir(path) == ["other"] and os.listdir(tmp_path / "above") == ["set"]


def test_directories_pipes_and_devices_are_special(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    assert all(map(is_special, (tmp_path, tmp_path / "pipe", tmp_path / "link", os.devnull)))
