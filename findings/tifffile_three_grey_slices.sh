#!/usr/bin/env bash
# tifffile: a stack of three grey slices is written as one picture in colour.
#
# Guess: an array of shape (3, 64, 64) is three pages of grey, and only (64, 64, 3) is taken as RGB. Written before the
# run. Seen with tifffile 2026.3.3 and Pillow 12.3.0: (3, 64, 64) and (4, 64, 64) of uint8 are one page, RGB in planes,
# and Pillow opens the three slices as one picture of mode RGB; (2, 64, 64) and (5, 64, 64) are pages of grey. With
# ome=True or imagej=True, or photometric="minisblack", three slices are three pages.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tifffile==2026.3.3 pillow==12.3.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import os
import tempfile

import numpy as np
import tifffile
from PIL import Image

print("tifffile", tifffile.__version__)


def written(slices, **options):
    """Return the pages and the photometric of a file of grey slices, and how Pillow opens it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.tif")
        tifffile.imwrite(path, np.zeros((slices, 64, 64), np.uint8), **options)
        with tifffile.TiffFile(path) as file, Image.open(path) as picture:
            return len(file.pages), file.pages[0].photometric.name, picture.n_frames, picture.mode


seen = {slices: written(slices) for slices in (2, 3, 4, 5)}
print("slices: pages, photometric, Pillow's frames and mode:", seen)
assert seen[3] == (1, "RGB", 1, "RGB") and seen[4][:2] == (1, "RGB")
assert [seen[slices] for slices in (2, 5)] == [(slices, "MINISBLACK", slices, "L") for slices in (2, 5)]
for options in ({"ome": True}, {"imagej": True}, {"photometric": "minisblack"}):
    assert written(3, **options)[:2] == (3, "MINISBLACK")
PYTHON
