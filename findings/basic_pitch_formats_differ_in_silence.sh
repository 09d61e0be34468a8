#!/usr/bin/env bash
# basic-pitch: the three files of its one network agree to 1e-6 for sound, and differ by up to 0.1 for silence.
#
# Guess: the files of one network agree to 1e-4. Written before the run.
# Seen with basic-pitch 0.4.0, TensorFlow 2.21.0 and ONNX Runtime 1.32.0 on a CPU: for a sine the largest difference of
# probabilities is 1e-6. For zeros SavedModel and ONNX differ by 0.05 for an onset and by 0.02 for a contour, and TFLite
# and ONNX agree to 1e-6; for noise of 1e-8 all three differ, by 0.05 to 0.1.
# Two readers without tools, asked about zeros, answered: SavedModel and ONNX agree to 1e-5, TFLite differs by 0.05.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorflow==2.21.0 onnxruntime==1.32.0 numpy==2.4.6
"$folder/venv/bin/pip" install --quiet --no-deps --target="$folder/pitch" basic-pitch==0.4.0
cd "$folder/pitch/basic_pitch/saved_models/icassp_2022"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
import tensorflow as tf

print("TensorFlow", tf.__version__, "ONNX Runtime", onnxruntime.__version__)
graph = tf.compat.v1.Session(graph=tf.Graph())  # this loader needs no Keras of the time of the file
saved = tf.compat.v1.saved_model.load(graph, ["serve"], "nmp").signature_def["serving_default"]
fetches = {name: output.name for name, output in saved.outputs.items()}
interpreter = tf.lite.Interpreter("nmp.tflite")
interpreter.allocate_tensors()
lite = interpreter.get_signature_runner()
session = onnxruntime.InferenceSession("nmp.onnx", providers=["CPUExecutionProvider"])
# The ONNX file numbers its outputs in the order of their names in the SavedModel.
names = {f"StatefulPartitionedCall:{place}": name for place, name in enumerate(("contour", "note", "onset"))}


def differences(sound):
    sound = sound.astype(np.float32).reshape(1, -1, 1)
    values = session.run(list(names), {session.get_inputs()[0].name: sound})
    onnx = dict(zip(names.values(), values, strict=True))
    values = graph.run(fetches, {saved.inputs["input_2"].name: sound})
    by_saved = {name: float(np.abs(value - onnx[name]).max()) for name, value in values.items()}
    by_lite = {name: float(np.abs(value - onnx[name]).max()) for name, value in lite(input_2=sound).items()}
    return by_saved, by_lite


length = 43844
noise = np.random.RandomState(0).randn(length)
sounds = {
    "sine": 0.5 * np.sin(2 * np.pi * 440 * np.arange(length) / 22050),
    "zeros": np.zeros(length),
    "noise of 1e-8": 1e-8 * noise,
}
found = {name: differences(sound) for name, sound in sounds.items()}
for name, (by_saved, by_lite) in found.items():
    print(f"{name}: SavedModel and ONNX {by_saved}, TFLite and ONNX {by_lite}")
assert max(found["sine"][0].values()) < 1e-4 and max(found["zeros"][1].values()) < 1e-4
assert 0.03 < found["zeros"][0]["onset"] < 0.08 and found["noise of 1e-8"][0]["contour"] > 0.05
PYTHON
