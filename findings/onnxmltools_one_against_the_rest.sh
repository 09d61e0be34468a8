#!/usr/bin/env bash
# onnxmltools: LightGBM's one-against-the-rest classifier gets a softmax in the ONNX file.
#
# Guess: LightGBM's classifiers are equal in ONNX to 1e-5, or refused. Written before the run of a list of objectives.
# Seen with onnxmltools 1.16.0, LightGBM 4.7.0, ONNX Runtime 1.32.0, wine: with objective="multiclassova" the file gives
# the softmax of the scores, off by up to 0.3, where LightGBM gives a sigmoid of each. objective="multiclass" is equal.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxmltools==1.16.0 skl2onnx==1.20.0 onnx==1.23.2 \
  onnxruntime==1.32.0 lightgbm==4.7.0 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import lightgbm
import numpy as np
import onnxmltools
import onnxruntime
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import load_wine

print("onnxmltools", onnxmltools.__version__, "lightgbm", lightgbm.__version__)
onnxruntime.set_default_logger_severity(3)
rows, classes = load_wine(return_X_y=True)
rows = rows.astype(np.float32)
found = {}
for objective in ("multiclass", "multiclassova"):
    model = lightgbm.LGBMClassifier(n_estimators=10, objective=objective, verbose=-1).fit(rows, classes)
    types = [("X", FloatTensorType([None, rows.shape[1]]))]
    file = onnxmltools.convert_lightgbm(model, initial_types=types, zipmap=False)
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    probabilities = session.run(None, {"X": rows})[1]
    scores = model.predict(rows, raw_score=True)
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    found[objective] = [np.abs(probabilities - other).max() for other in (model.predict_proba(rows), softmax)]
    print(objective, "from LightGBM {:.1e}, from a softmax {:.1e}".format(*found[objective]))
assert max(found["multiclass"]) < 1e-5
assert found["multiclassova"][0] > 0.2 and found["multiclassova"][1] < 1e-5
PYTHON
