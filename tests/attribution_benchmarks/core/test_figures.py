"""Figures in files: every format whole, the same bytes each time, nothing cut off."""

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attribution_benchmarks.core.figures import FORMATS, save_figure


def figure():
    found = Figure(figsize=(2, 1))
    axis = found.subplots()
    axis.plot([1, 2, 3])
    axis.set_ylabel("a label that is far longer than the figure is high")
    return found


def test_a_figure_is_written_once_a_format_and_the_same_each_time(tmp_path):
    written = [save_figure(figure(), tmp_path / name, "lines", list(FORMATS)) for name in ("first", "second")]
    assert [path.rpartition("/")[2] for path in written[0]] == ["lines.png", "lines.pdf", "lines.svg"]
    contents = [[open(path, "rb").read() for path in paths] for paths in written]
    assert contents[0] == contents[1]
    png, pdf, svg = contents[0]
    assert png.startswith(b"\x89PNG") and pdf.startswith(b"%PDF") and b"<svg" in svg


def test_nothing_is_clipped(tmp_path):
    (path,) = save_figure(figure(), tmp_path, "lines")
    with Image.open(path) as opened:
        pixels = np.asarray(opened.convert("L"))
    assert pixels.shape[0] > 110  # more than an inch: the label asked for it
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    assert (border == 255).all()
