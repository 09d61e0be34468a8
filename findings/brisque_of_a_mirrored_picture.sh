#!/usr/bin/env bash
# brisque: a picture mirrored left to right has another quality, 18.2 instead of 10.8; rotated by 180 degrees, the same.
#
# Guess: mirrored or rotated by 180 degrees, within 2 of the picture's score. Written before the run.
# Seen with brisque 0.2.0 and NumPy 2.3.5, scikit-image's astronaut: 10.8, mirrored 18.2, rotated by 180 degrees 10.8.
# Coffee: 3.1, 6.7 and 3.1. With NumPy 2.4, score() raises TypeError.
# Two readers without tools, asked pointedly, answered 10.9 for the mirrored astronaut.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet brisque==0.2.0 libsvm-official==3.37.0 opencv-python-headless==5.0.0.93 \
  scikit-image==0.26.0 pooch==1.9.0 numpy==2.3.5 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import skimage.data
from brisque import BRISQUE

print("brisque", version("brisque"), "numpy", np.__version__)
quality = BRISQUE(url=False)
for name, (upright, mirrored) in {"astronaut": (10.79, 18.15), "coffee": (3.05, 6.67)}.items():
    picture = getattr(skimage.data, name)()
    changes = {"as it is": picture, "mirrored": picture[:, ::-1], "rotated": picture[::-1, ::-1]}
    found = {change: float(quality.score(np.ascontiguousarray(one))) for change, one in changes.items()}
    print(name, {change: round(score, 2) for change, score in found.items()})
    assert abs(found["as it is"] - upright) < 0.5 and abs(found["mirrored"] - mirrored) < 0.5
    assert abs(found["rotated"] - found["as it is"]) < 0.2
PYTHON
