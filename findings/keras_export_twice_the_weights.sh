#!/usr/bin/env bash
# Keras 3.15.1 on TensorFlow: a SavedModel written by `model.export` holds each weight twice.
#
# Guess: 223,466 float32 weights make 894 kB of variables.data, each weight once. Written when a file of 1.79 MB was
# seen, before its cause was known.
# Seen with Keras 3.15.1 and TensorFlow 2.21.0: 1,789 kB. The checkpoint has each weight as `variables/N` and again as
# `_all_variables/N`. `ExportArchive.track(model)` writes the same. Two others write each once:
# `add_variable_collection("variables", [v.value for v in model.variables])` in place of `track`, and
# `tf.saved_model.save` of the same model.
# A reader without tools answered 905,000 bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorflow==2.21.0 keras==3.15.1 numpy==2.4.6
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - <<'PYTHON'
from pathlib import Path

import keras
import tensorflow as tf

print("keras", keras.__version__, "TensorFlow", tf.__version__)
network = keras.Sequential([keras.Input((64,)), keras.layers.Dense(2902), keras.layers.Dense(12)])


def archive(folder, track):
    written = keras.export.ExportArchive()
    track(written)
    written.add_endpoint("serve", network.call, input_signature=[tf.TensorSpec((None, 64))])
    written.write_out(folder, verbose=False)


network.export("export", verbose=False)
archive("track", lambda written: written.track(network))
values = [variable.value for variable in network.variables]
archive("collection", lambda written: written.add_variable_collection("variables", values))
tf.saved_model.save(network, "tf.saved_model.save")

print(network.count_params(), "float32 weights,", 4 * network.count_params(), "bytes")
weights, found = sorted(tuple(value.shape) for value in values), {}
for name in ("export", "track", "collection", "tf.saved_model.save"):
    size = sum(file.stat().st_size for file in Path(name, "variables").glob("variables.data*"))
    stored = [one for one in tf.train.list_variables(f"{name}/variables/variables") if one[1]]
    found[name] = size / 4 / network.count_params()
    print(f"{name}: {size} bytes in variables.data:", *(key.partition("/.ATTR")[0] for key, _ in stored))
    if name in ("export", "track"):
        for owner in ("variables/", "_all_variables/"):
            assert sorted(tuple(shape) for key, shape in stored if key.startswith(owner)) == weights
assert 1.99 < found["export"] < 2.02 and 1.99 < found["track"] < 2.02
assert 0.99 < found["collection"] < 1.02 and 0.99 < found["tf.saved_model.save"] < 1.02
PYTHON
