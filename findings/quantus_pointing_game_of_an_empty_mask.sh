#!/usr/bin/env bash
# Quantus: the pointing game counts an input whose mask is False everywhere as a hit.
#
# Guess: NaN, since the source assigns it. Written after reading the source and before the run.
# Seen with Quantus 0.6.0, defaults, 8 x 8 x 3 inputs and maps of uniform numbers: True for the empty mask, as
# for a mask that is True everywhere, and False for a mask without the highest value. NaN goes into an array of bool.
# A reader without tools answered: False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pandas==3.1.1 opencv-python-headless==5.0.0.93 scikit-image==0.26.0 \
  scikit-learn==1.9.1 scipy==1.17.1 matplotlib==3.11.2 tqdm==4.70.1 cachetools==8.0.2 numpy==2.4.6
# Without what it requires: an OpenCV with windows.
"$folder/venv/bin/pip" install --quiet --no-deps quantus==0.6.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import quantus

print("Quantus", version("quantus"), "numpy", np.__version__)
random = np.random.default_rng(0)
inputs = random.random((3, 3, 8, 8))
maps = random.random((3, 1, 8, 8))
masks = np.zeros((3, 1, 8, 8), bool)  # the first stays empty
masks[1] = True
masks[2] = maps[2] < 0.5
metric = quantus.PointingGame(disable_warnings=True)
found = metric(model=None, x_batch=inputs, y_batch=np.zeros(3, int), a_batch=maps, s_batch=masks)
print("masks: empty, full, without the highest value:", found)
assert [bool(one) for one in found] == [True, True, False]
assert not any(np.isnan(found))
PYTHON
