#!/usr/bin/env bash
# Keras on PyTorch: `model.export` of a functional model with an open batch fails, also with everything it asks for.
#
# Guess: Keras exports on PyTorch through torch_xla; once torch_xla is installed, and imported before TensorFlow, export of
# a small functional model works. Asked "with torch_xla imported first, does model.export(path) of a functional model with
# the default batch work?", the answer from memory was yes, with a batch of 1.
# Seen with Keras 3.15.1, PyTorch 2.9.1, torch_xla 2.9.0: torch.export refuses it, because Keras describes the open sizes by
# another structure than that of the model's arguments. With a fixed batch the same model is written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.9.1 torch_xla==2.9.0 keras==3.15.1 tensorflow==2.21.0 jax==0.10.2 numpy==2.4.6
cd "$folder"
KERAS_BACKEND=torch "$folder/venv/bin/python" - <<'PYTHON'
import torch_xla  # isort: skip  (after TensorFlow it ends the process)
import keras
import torch

print("keras", keras.__version__, "torch", torch.__version__, "torch_xla", torch_xla.__version__)
inputs = keras.Input((8, 8, 3))
model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(keras.layers.Conv2D(4, 3)(inputs))))
try:
    model.export("open", verbose=False)
    message = ""
except Exception as error:
    message = str(error)
print("open batch:", message.splitlines()[0][:160] if message else "written")
assert "structure" in message and "dynamic_shapes" in message
model.export("fixed", input_signature=[keras.InputSpec(shape=(4, 8, 8, 3), dtype="float32")], verbose=False)
import tensorflow as tf  # noqa: E402

signature = tf.saved_model.load("fixed").signatures["serving_default"]
print("fixed batch:", [tuple(spec.shape) for spec in signature.structured_input_signature[1].values()])
assert [tuple(spec.shape) for spec in signature.structured_input_signature[1].values()] == [(4, 8, 8, 3)]
PYTHON
