#!/usr/bin/env bash
# kornia: the distance transform of one point gives 32.4 where the distance is 45.3.
#
# Guess: Euclidean distances within 1 %. Written before the run.
# Seen with kornia 0.8.2 and PyTorch 2.9.1, a picture of 64 x 64 with a single 1 at (32, 32), defaults: (0, 0) gets 32.4,
# its distance is 45.3.
# A reader without tools, asked pointedly, answered 47.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet kornia==0.8.2 torch==2.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import kornia
import numpy as np
import torch

print("kornia", kornia.__version__, "torch", torch.__version__)
picture = torch.zeros(1, 1, 64, 64)
picture[0, 0, 32, 32] = 1
found = kornia.contrib.distance_transform(picture)[0, 0].numpy()
right = np.hypot(*(np.indices((64, 64)) - 32))
print("corner", found[0, 0], "instead of", right[0, 0], "largest error", np.abs(found - right).max())
assert abs(found[0, 0] - 32.4142) < 0.01 and abs(right[0, 0] - 45.2548) < 0.01
assert abs(found[33, 33] - 2**0.5) < 0.01
PYTHON
