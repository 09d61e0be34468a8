#!/usr/bin/env bash
# OpenCV: the softmax of a row that is masked everywhere is 0, where other readers of the file give NaN.
#
# Guess: readers are equal to 1e-4 or refuse, but for OpenCV's resizing and average pooling. Written before the run of a
# list of operations, of which this is one.
# Seen with OpenCV 5.0.0, ONNX Runtime 1.32.0 and onnx 1.23.2: a row of eight times -inf gives eight zeros in cv2.dnn, so
# that the probabilities sum to 0; the others give NaN. A row with one finite number is equal in all.
# A reader without tools, asked pointedly, answered 0.125 in every place.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet opencv-python-headless==5.0.0.93 onnx==1.23.2 \
  onnxruntime==1.32.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import cv2
import numpy as np
import onnxruntime
from onnx import helper, save

print("OpenCV", cv2.__version__, "onnxruntime", onnxruntime.__version__)
info = [helper.make_tensor_value_info(name, 1, (1, 8)) for name in "xy"]
graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=1)], "softmax", info[:1], info[1:])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), "softmax.onnx")


def outputs(row):
    network = cv2.dnn.readNetFromONNX("softmax.onnx")
    network.setInput(row)
    session = onnxruntime.InferenceSession("softmax.onnx", providers=["CPUExecutionProvider"])
    return network.forward(), session.run(None, {"x": row})[0]


masked = np.full((1, 8), -np.inf, np.float32)
one = masked.copy()
one[0, 3] = 2
found, runtime = outputs(masked)
print("OpenCV", found, "ONNX Runtime", runtime)
np.testing.assert_array_equal(*outputs(one))
np.testing.assert_array_equal(found, np.zeros((1, 8)))
assert np.isnan(runtime).all()
PYTHON
