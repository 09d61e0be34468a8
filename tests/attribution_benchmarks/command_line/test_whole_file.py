import os

import pytest

from attribution_benchmarks.command_line import write_whole


def test_text_arrives_as_it_is(tmp_path):
    write_whole(tmp_path / "file.txt", "naïve\r\nline\n")
    assert (tmp_path / "file.txt").read_bytes() == "naïve\r\nline\n".encode()
    write_whole(str(tmp_path / "file.txt"), "new")
    assert (tmp_path / "file.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_what_was_there_stays_if_the_writing_fails(tmp_path):
    write_whole(tmp_path / "file.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file.txt", "new \ud800")
    assert (tmp_path / "file.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]
