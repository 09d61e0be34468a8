"""Links, and images of 16 bits."""

import numpy as np
from PIL import Image

from bim import dataset


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
