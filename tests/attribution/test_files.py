"""Files and directories are written completely or not at all, locked, and cleared of what killed processes left."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from PIL import Image

from attribution import files
from attribution.errors import BadInput
from attribution.files import (
    LOCK,
    UNFINISHED,
    atomic_directory,
    atomic_write,
    cache_directory,
    check_directory,
    check_file,
    is_special,
    locked_directory,
    make_directory,
    remove_stale,
    temporary_directory,
)

WRITERS = {
    "file": "atomic_write(sys.argv[1] + '/table.csv', lambda file: (file.write(b'half'), file.flush(), wait()))",
    "directory": "with atomic_directory(sys.argv[1] + '/set') as made: (made / 'a').write_text('half'); wait()",
    "locked": "with locked_directory(sys.argv[1], 'numbers'): wait()",
    "temporary": "made = temporary_directory('solids'); open(made.name + '/a', 'w').close(); wait()",
}


def start_writer(kind, directory):
    """Start a process that writes to a directory and waits for a line of input halfway."""
    code = "import sys\nfrom attribution.files import *\nfrom attribution.files import temporary_directory"
    code += "\ndef wait(): print('half', flush=True); sys.stdin.readline()\n" + WRITERS[kind]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**os.environ, "TMPDIR": str(directory)}
    process = subprocess.Popen([sys.executable, "-c", code, str(directory)], text=True, env=environment, **pipes)
    return process


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


def record_calls(monkeypatch, path):
    """Record calls that order writes: name, size of the file that is flushed, and whether ``path`` exists already."""
    calls = []

    def recording(name):
        function = getattr(os, name)

        def call(*arguments):
            size = os.fstat(arguments[0]).st_size if name == "fsync" else None
            calls.append((name, size, os.path.lexists(path)))
            return function(*arguments)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "sync", "replace", "rename"):
        recording(name)
    return calls


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    calls = record_calls(monkeypatch, path)
    atomic_write(path, b"0123456789")
    assert calls == [("fsync", 10, False), ("replace", None, False)]
    calls.clear()
    before = os.open(path, os.O_RDONLY)
    atomic_write(path, b"other", durable=False)
    assert calls == [("replace", None, True)]
    assert os.read(before, 99) == b"0123456789"  # a reader of the old file is not disturbed
    os.close(before)


def test_a_directory_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    path = tmp_path / "set"
    calls = record_calls(monkeypatch, path)
    with atomic_directory(path) as unfinished:
        (unfinished / "file").write_text("x")
    assert calls == [("sync", None, False), ("rename", None, False)]


def test_names_that_are_no_text_are_written_as_escapes(tmp_path):
    atomic_write(tmp_path / "file.txt", "name \udcff")
    assert (tmp_path / "file.txt").read_text() == "name \\udcff"


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


def test_a_name_of_any_length_that_the_file_system_takes(tmp_path):
    name = "ä" * 127
    atomic_write(tmp_path / name, "text")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    "kind",
    ["a file in place of its directory", "a directory in its place", "a pipe in its place", "a loop of links"],
)
def test_what_cannot_be_written_is_one_line(tmp_path, kind):
    path = tmp_path / "file.txt"
    if kind.startswith("a file"):
        (tmp_path / "above").write_text("x")
        path = tmp_path / "above" / "file.txt"
    elif kind.startswith("a directory"):
        path.mkdir()
    elif kind.startswith("a pipe"):
        os.mkfifo(path)
    else:
        (tmp_path / "one").symlink_to(tmp_path / "two")
        (tmp_path / "two").symlink_to(tmp_path / "one")
        path = tmp_path / "one" / "file.txt"
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
content = {"text": "x" * 20_000, "bytes": bytes(20_000)}
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


@pytest.mark.parametrize("kind", ["text", "bytes", "jpeg", "array"])
def test_no_space_is_one_line_and_leaves_nothing(tmp_path, kind):
    """A limit on the size of files simulates a full disk; Pillow writes short there when it has a descriptor."""
    path = tmp_path / "file"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL, path, kind], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"cannot write {path}: File too large; make room or name another place\n"
    assert os.listdir(tmp_path) == ["file"] and path.read_text() == "old"


def test_the_pixels_of_a_picture_do_not_depend_on_where_it_is_written(tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8))
    image.save(tmp_path / "theirs.png")
    atomic_write(tmp_path / "ours.png", lambda file: image.save(file, "PNG"))
    assert (tmp_path / "ours.png").read_bytes() == (tmp_path / "theirs.png").read_bytes()


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
    with pytest.raises(BadInput, match="cannot be used: File name too long"):
        check_directory("plot_dir", "x" * 300)
    for path in ("x" * 260, tmp_path / "missing" / ("x" * 260), tmp_path / ("x" * 260) / "missing"):
        with pytest.raises(BadInput, match=r"--output=.* cannot be used: File name too long"):
            check_file("output", path)


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
    with pytest.raises(BadInput, match="--save_maps='gs://bucket/maps' is not a path; name a directory"):
        check_directory("save_maps", "gs://bucket/maps")
    with pytest.raises(BadInput, match=r"--output='gs://bucket/a\.json' is not a path; name a file"):
        check_file("output", "gs://bucket/a.json", [".json"])


@pytest.mark.parametrize("kind", ["file", "directory", "temporary"])
def test_the_next_writer_removes_what_a_killed_one_left(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, living = (start_writer(kind, tmp_path) for _ in range(2))
    for process in (killed, living):
        assert process.stdout.readline() == "half\n"
    assert len(os.listdir(tmp_path)) == 2 and all(name.endswith(UNFINISHED) for name in os.listdir(tmp_path))
    kill(killed)
    if kind == "file":
        atomic_write(tmp_path / "table.csv", "whole")
    elif kind == "directory":
        with atomic_directory(tmp_path / "set"):
            pass
    else:
        mine = temporary_directory("solids")
    assert len(list(tmp_path.glob(f"*{UNFINISHED}"))) == (2 if kind == "temporary" else 1)  # of those that live
    living.kill()
    living.wait()
    remove_stale(tmp_path, prefix="")
    assert os.listdir(tmp_path) == [{"file": "table.csv", "directory": "set"}.get(kind) or os.path.basename(mine.name)]
    killed.wait()


def test_only_unfinished_paths_are_stale(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x")
    here = tmp_path / "here"
    here.mkdir()
    for name in (".hidden", "table.csv.unfinished", ".gitignore"):
        (here / name).write_text("x")
    (here / ".link.unfinished").symlink_to(tmp_path / "outside" / "file")
    (here / ".folder.unfinished").symlink_to(tmp_path / "outside")
    before = sorted(os.listdir(here))
    remove_stale(here)
    assert sorted(os.listdir(here)) == before and (tmp_path / "outside" / "file").read_text() == "x"
    (here / ".file.unfinished").write_text("x")
    remove_stale(here)
    assert sorted(os.listdir(here)) == before


def test_a_pipe_with_the_name_of_a_stale_file_blocks_nobody(tmp_path):
    code = "import sys; from attribution.files import atomic_write; atomic_write(sys.argv[1], 'x')"
    os.mkfifo(tmp_path / ".table.csv.0.unfinished")
    subprocess.run([sys.executable, "-c", code, tmp_path / "table.csv"], check=True, timeout=10)
    assert os.listdir(tmp_path) == ["table.csv"]


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


def test_a_directory_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    path, rename = tmp_path / "set", os.rename
    with atomic_directory(path) as unfinished:
        (unfinished / "file").write_text("one")

    def failing(source, target):
        if os.listdir(source) == ["other"]:
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(BadInput, match="Input/output error"), atomic_directory(path, replace=True) as unfinished:
        (unfinished / "other").write_text("two")
    assert os.listdir(path) == ["file"] and os.listdir(tmp_path) == ["set"]
    with pytest.raises(BadInput, match="Input/output error"), atomic_directory(tmp_path / "new") as unfinished:
        (unfinished / "other").write_text("two")
    assert os.listdir(tmp_path) == ["set"]


def test_a_file_that_comes_and_goes_is_never_special(tmp_path):
    path, ended = tmp_path / "file", threading.Event()

    def come_and_go():
        while not ended.is_set():
            path.touch()
            path.unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    found = {is_special(path) for _ in range(20_000)}
    ended.set()
    thread.join()
    assert found == {False}


def test_directories_pipes_and_devices_are_special(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    assert all(map(is_special, (tmp_path, tmp_path / "pipe", tmp_path / "link", os.devnull)))
