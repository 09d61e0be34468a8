"""What the file system refuses is one line that names the file."""

import pytest

from attribution_benchmarks.command_line import BadInput
from bim import disk


def test_a_refusal_names_the_file(tmp_path):
    with pytest.raises(BadInput, match=r"gone\.txt: No such file"), disk.failures_in_one_line():
        open(tmp_path / "gone.txt")
    with pytest.raises(BadInput, match="another line"), disk.failures_in_one_line():
        raise BadInput("another line")


def test_a_folder_to_write_to_may_be_missing_but_not_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    disk.check_directory("plot_dir", "")
    disk.check_directory("plot_dir", str(tmp_path / "new" / "below"))
    assert not (tmp_path / "new").exists()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match=r"--plot_dir=.*file is not a folder"):
            disk.check_directory("plot_dir", str(path))
