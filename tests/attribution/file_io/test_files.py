"""Files are there whole or not at all; where they may go is said before any work."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from attribution.file_io import files
from attribution.file_io.files import cache_directory, check_directory, check_file, make_directory, write_whole


def test_text_bytes_and_what_a_function_writes_arrive_as_they_are(tmp_path):
    write_whole(tmp_path / "file.txt", "naïve\r\nline\n")
    assert (tmp_path / "file.txt").read_bytes() == "naïve\r\nline\n".encode()
    write_whole(str(tmp_path / "file.txt"), b"\0new", durable=False)
    assert (tmp_path / "file.txt").read_bytes() == b"\0new"
    array = np.arange(5)
    write_whole(tmp_path / "below" / "array.npy", lambda file: np.save(file, array))
    np.testing.assert_array_equal(np.load(tmp_path / "below" / "array.npy"), array)
    assert sorted(os.listdir(tmp_path)) == ["below", "file.txt"] and os.listdir(tmp_path / "below") == ["array.npy"]


def test_names_that_are_no_text_are_written_as_escapes(tmp_path):
    write_whole(tmp_path / "file.txt", "name \udcff")
    assert (tmp_path / "file.txt").read_text() == "name \\udcff"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_what_was_there_stays_if_the_writing_fails(tmp_path, failure):
    def stopped(file):
        file.write(b"half")
        raise failure

    write_whole(tmp_path / "file.txt", "old")
    with pytest.raises(failure):
        write_whole(tmp_path / "file.txt", stopped)
    assert (tmp_path / "file.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_name_of_any_length_that_the_file_system_takes(tmp_path):
    name = "ä" * 127
    write_whole(tmp_path / name, "text")
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
    with pytest.raises(BadInput, match=r"no ordinary file|cannot write"):
        write_whole(path, "new")
    with pytest.raises(BadInput, match="--output="):
        check_file("output", path)
    assert sorted(os.listdir(tmp_path)) == before


FULL = """
import io, resource, signal, sys
import numpy as np
from PIL import Image
from attribution.cli import BadInput, write_whole
content = {"text": "x" * 20_000, "bytes": bytes(20_000)}
picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8))
content["jpeg"] = lambda file: picture.save(file, "JPEG", quality=95)
content["array"] = lambda file: np.savez(file, one=np.zeros(9000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    write_whole(sys.argv[1], content[sys.argv[2]])
except BadInput as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["text", "bytes", "jpeg", "array"])
def test_no_space_is_one_line_and_leaves_nothing(tmp_path, kind):
    """A limit on the size of files stands for a full disk; Pillow writes short there when it has a descriptor."""
    path = tmp_path / "file"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL, path, kind], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"cannot write {path}: File too large; make room or name another place\n"
    assert os.listdir(tmp_path) == ["file"] and path.read_text() == "old"


def test_the_pixels_of_a_picture_do_not_depend_on_where_it_is_written(tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8))
    image.save(tmp_path / "theirs.png")
    write_whole(tmp_path / "ours.png", lambda file: image.save(file, "PNG"))
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


def test_what_a_killed_process_left_of_a_file_goes_when_it_is_written_again(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, other, mine = (
        tmp_path / f".{name}.{process}-0a1.unfinished"
        for name, process in (("table.csv", gone.pid), ("picture.png", gone.pid), ("table.csv", os.getpid()))
    )
    for path in (left, other, mine):
        path.write_text("half")
    write_whole(tmp_path / "table.csv", "whole")
    assert sorted(tmp_path.iterdir()) == sorted([other, mine, tmp_path / "table.csv"])


def test_what_another_machine_is_writing_stays_for_a_day(tmp_path, monkeypatch):
    """On a file system of both: numbers of processes there say nothing here."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    monkeypatch.setattr(os, "getpid", lambda: gone.pid)
    here = tmp_path / files.unfinished_name("table.csv")
    monkeypatch.setattr(files, "_machine", lambda: "0123abcd")
    there = tmp_path / files.unfinished_name("table.csv")
    monkeypatch.undo()
    here.write_text("half")
    there.write_text("half")
    assert files.is_left_behind(here) and not files.is_left_behind(there)
    write_whole(tmp_path / "table.csv", "whole")
    assert sorted(tmp_path.iterdir()) == sorted([there, tmp_path / "table.csv"])
    os.utime(there, (0, 0))
    write_whole(tmp_path / "table.csv", "whole")
    assert list(tmp_path.iterdir()) == [tmp_path / "table.csv"]


def test_what_must_be_a_path_is_no_address():
    """Else a folder called gs: would be made."""
    with pytest.raises(BadInput, match="--maps_dir='gs://bucket/maps' is no path; name a directory"):
        files.check_directory("maps_dir", "gs://bucket/maps")
    with pytest.raises(BadInput, match=r"--output='gs://bucket/a\.json' is no path; name a file"):
        files.check_file("output", "gs://bucket/a.json", [".json"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what a process that has ended leaves differs")
def test_a_process_that_has_ended_writes_no_more_even_while_nobody_has_asked_how_it_went(tmp_path):
    """In a container nobody may ever ask: a killed run's helpers would keep their half files for good."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    left = tmp_path / f".table.csv.{child.pid}-0a1.unfinished"
    left.write_text("half")
    assert not files.is_left_behind(left)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still there as a number
    os.kill(child.pid, 0)
    assert files.is_left_behind(left)
    child.communicate()
