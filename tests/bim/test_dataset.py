"""What the file system refuses is one line that names the file."""

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from bim import dataset


def test_a_refusal_names_the_file(tmp_path):
    with pytest.raises(BadInput, match=r"gone\.txt: No such file"), dataset.failures_in_one_line():
        open(tmp_path / "gone.txt")
    with pytest.raises(BadInput, match="another line"), dataset.failures_in_one_line():
        raise BadInput("another line")


def test_a_link_that_another_process_makes_at_the_same_time_stays_a_link(tmp_path, monkeypatch):
    source, target = tmp_path / "a.jpg", tmp_path / "b.jpg"
    source.write_bytes(b"picture")
    dataset.link(str(source), str(target))
    monkeypatch.setattr(dataset.os.path, "exists", lambda path: False)  # as it was a moment before
    dataset.link(str(source), str(target))
    assert source.samefile(target)


def test_images_of_16_bits_are_scaled_to_8(tmp_path):
    ramp = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(dataset.read_image(str(tmp_path / "deep.png"), 16), np.dstack([ramp // 257] * 3))
