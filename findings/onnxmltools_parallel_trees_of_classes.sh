#!/usr/bin/env bash
# onnxmltools: an XGBoost classifier with several trees a round and class is another classifier in the ONNX file.
#
# Guess: XGBoost's regressors and classifiers are equal in ONNX to 1e-5, or refused. Written before the run.
# Seen with onnxmltools 1.16.0, XGBoost 3.2.0, ONNX Runtime 1.32.0, wine, three classes: with num_parallel_tree=3
# probabilities are off by more than 0.5, because trees are given to the classes in turn. One tree a round, and the
# regressor with three, are equal.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxmltools==1.16.0 skl2onnx==1.20.0 onnx==1.23.2 \
  onnxruntime==1.32.0 xgboost-cpu==3.2.0 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxmltools
import onnxruntime
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import load_wine

print("onnxmltools", onnxmltools.__version__, "xgboost", xgboost.__version__)
rows, classes = load_wine(return_X_y=True)
rows = rows.astype(np.float32)


def outputs(model):
    file = onnxmltools.convert_xgboost(model, initial_types=[("X", FloatTensorType([None, rows.shape[1]]))])
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": rows})


found = {}
for trees in (1, 3):
    options = {"n_estimators": 10, "num_parallel_tree": trees, "random_state": 0}
    model = xgboost.XGBClassifier(**options).fit(rows, classes)
    labels, probabilities = outputs(model)
    found["classifier", trees] = np.abs(probabilities - model.predict_proba(rows)).max()
    print(trees, "trees: labels that differ:", int((labels != model.predict(rows)).sum()), "of", len(rows))
    model = xgboost.XGBRegressor(**options).fit(rows, classes)
    found["regressor", trees] = np.abs(outputs(model)[0].ravel() - model.predict(rows)).max()
print({name: f"{value:.1e}" for name, value in found.items()})
assert found.pop(("classifier", 3)) > 0.3
assert max(found.values()) < 1e-4
PYTHON
