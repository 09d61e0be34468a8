"""What the file system refuses is one line that names the file."""

import pytest

from attribution_benchmarks.command_line import BadInput
from bim import disk


def test_a_refusal_names_the_file(tmp_path):
    with pytest.raises(BadInput, match=r"gone\.txt: No such file"), disk.failures_in_one_line():
        open(tmp_path / "gone.txt")
    with pytest.raises(BadInput, match="another line"), disk.failures_in_one_line():
        raise BadInput("another line")
