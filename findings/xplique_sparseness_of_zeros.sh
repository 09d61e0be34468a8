#!/usr/bin/env bash
# Xplique: the sparseness of a map of zeros is -1.016, outside its documented range of 0 to 1.
#
# Guess: 0. Written after reading the source and before the run.
# Seen with Xplique 2.0.2, TensorFlow 2.20.0 (the newest that it allows) and Keras 3.15.1, maps of 64 values: -1.015625, or
# -65 / 64, of zeros; 0 of ones and 63 / 64 of a single 1, both right. It is a Gini index, a quotient minus (n + 1) / n;
# the quotient is 0 for zeros, and 65 / 64 for equal values.
# A reader without tools answered: +1.0156.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorflow==2.20.0 keras==3.15.1 tf_keras==2.20.1 \
  tensorflow-probability==0.25.0 scikit-image==0.25.2 scikit-learn==1.7.2 scipy==1.15.3 matplotlib==3.10.8 \
  opencv-python-headless==4.12.0.88 deprecated==1.3.1 einops==0.8.2 numpy==2.2.6
# Without what it requires: TensorFlow for a GPU, and an OpenCV with windows.
"$folder/venv/bin/pip" install --quiet --no-deps xplique==2.0.2
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import tensorflow as tf
from xplique.metrics import Sparseness

print("Xplique", version("xplique"), "TensorFlow", tf.__version__, "numpy", np.__version__)
one = np.zeros((1, 8, 8), np.float32)
one[0, 3, 4] = 1
maps = {"zeros": np.zeros((1, 8, 8), np.float32), "ones": np.ones((1, 8, 8), np.float32), "a single 1": one}
found = {name: float(Sparseness()(values)) for name, values in maps.items()}
print(found)
assert abs(found["zeros"] + 65 / 64) < 1e-5
assert abs(found["ones"]) < 1e-5 and abs(found["a single 1"] - 63 / 64) < 1e-5
PYTHON
