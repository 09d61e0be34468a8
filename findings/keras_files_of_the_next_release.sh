#!/usr/bin/env bash
# Keras 3.15.1: a saved model of one Dense layer cannot be read by Keras 3.14, released before it.
#
# Guess: a .keras file of Keras 3.15 with common layers is read by 3.12 and later; older releases may refuse layers that
# have got new arguments. Written before the run.
# Seen with Keras 3.15.1 as the writer and 3.14.0, 3.13.2 and 3.12.0 as readers: a Dense layer is read by none of these.
# The default initializer GlorotUniform is written with `input_axes`, which 3.14 and 3.13 do not know, so that also
# convolutions, LSTM and GRU fail; 3.12 stops at `quantization_config` before. LayerNormalization and files of weights
# are read by all.
# Two readers without tools, asked which of 3.14, 3.13 and 3.12 read the Dense layer, answered 3.14 and 3.13.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2 numpy==2.4.6
for version in 3.14.0 3.13.2 3.12.0; do
  "$folder/venv/bin/pip" install --quiet --no-deps --target="$folder/$version" "keras==$version"
done
cat >"$folder/files.py" <<'PYTHON'
import sys

import keras


def dense():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])


if sys.argv[1] == "write":
    dense().save("dense.keras")
    dense().save_weights("dense.weights.h5")
    keras.Sequential([keras.Input((4,)), keras.layers.LayerNormalization()]).save("normalization.keras")
    print("written by keras", keras.__version__)
else:
    assert keras.__version__ == sys.argv[1]
    keras.models.load_model("normalization.keras")
    dense().load_weights("dense.weights.h5")
    try:
        keras.models.load_model("dense.keras")
        message = ""
    except TypeError as error:
        message = str(error)
    print(f"read by keras {keras.__version__}: normalization and weights yes, dense:", message[-90:] or "yes")
    assert "input_axes" in message or "quantization_config" in message
PYTHON
cd "$folder"
export KERAS_BACKEND=jax
"$folder/venv/bin/python" files.py write
for version in 3.14.0 3.13.2 3.12.0; do
  PYTHONPATH="$folder/$version" "$folder/venv/bin/python" files.py "$version"
done
