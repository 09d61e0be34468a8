#!/usr/bin/env bash
# Quantus: the weighted localisation of an input depends on how many inputs the call has; with two, it is infinite.
#
# Guess: 0.25 for four inputs of 8 x 8 x 3 whose relevance is all inside a mask of 16 of the 64 positions. Written after
# reading the source and before the run.
# Seen with Quantus 0.6.0, AttributionLocalisation(weighted=True): inf for one or two inputs, 0.0833 each for three and
# 0.0417 each for four. The size of an input is taken from x_batch[2:], all inputs from the third on, not from x.shape[2:].
# A reader without tools answered: 0.042 for two inputs, 0.021 for four.
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
import warnings
from importlib.metadata import version

import numpy as np
import quantus

print("Quantus", version("quantus"), "numpy", np.__version__)
warnings.simplefilter("ignore")  # of the division by 0
inputs = np.random.default_rng(0).random((5, 3, 8, 8))
masks = np.zeros((5, 1, 8, 8), bool)
masks[:, :, 2:6, 2:6] = True
maps = masks.astype(float)


def localisation(count, weighted):
    metric = quantus.AttributionLocalisation(weighted=weighted, disable_warnings=True)
    chosen = {"x_batch": inputs[:count], "a_batch": maps[:count], "s_batch": masks[:count]}
    return np.array(metric(model=None, y_batch=np.zeros(count, int), **chosen), float)


for count in range(1, 6):
    found = localisation(count, True)
    print(count, "inputs:", found, "without weights", localisation(count, False))
    np.testing.assert_allclose(localisation(count, False), np.ones(count), rtol=1e-6)
    expected = 16 / (192 * (count - 2)) if count > 2 else np.inf
    np.testing.assert_allclose(found, np.full(count, expected), rtol=1e-6)
PYTHON
