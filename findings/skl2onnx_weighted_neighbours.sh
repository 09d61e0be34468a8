#!/usr/bin/env bash
# skl2onnx: nearest neighbours weighted by distance become unweighted ones in the ONNX file.
#
# Guess: scikit-learn's models are right in ONNX, but for rounding. Written before the run of a list of models, of which
# this is one.
# Seen with skl2onnx 1.20.0, scikit-learn 1.9.1, ONNX Runtime 1.32.0, on wine: the file gives the probabilities of
# weights="uniform" to the last digits, off by up to 0.33; 11 of 89 labels differ. The regressor does the same.
# Two readers without tools, asked pointedly, answered: equal to 1e-4, and no label differs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet skl2onnx==1.20.0 onnxruntime==1.32.0 onnx==1.23.2 \
  scikit-learn==1.9.1 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
import sklearn
from sklearn.datasets import load_diabetes, load_wine
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)


def outputs(model, rows, **options):
    file = skl2onnx.to_onnx(model, rows[:1], **options).SerializeToString()
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"X": rows})


rows, classes = load_wine(return_X_y=True)
rows = rows.astype(np.float32)
weighted = KNeighborsClassifier(weights="distance").fit(rows[::2], classes[::2])
uniform = KNeighborsClassifier().fit(rows[::2], classes[::2])
labels, probabilities = outputs(weighted, rows[1::2], options={"zipmap": False})
to_weighted = np.abs(probabilities - weighted.predict_proba(rows[1::2])).max()
to_uniform = np.abs(probabilities - uniform.predict_proba(rows[1::2])).max()
others = (labels != weighted.predict(rows[1::2])).sum()
print(f"classifier: off by {to_weighted:.3f}; from an unweighted one by {to_uniform:.1e}; other labels: {others} of 89")
assert to_weighted > 0.2 and to_uniform < 1e-6 and others > 5
rows, targets = load_diabetes(return_X_y=True)
rows = rows.astype(np.float32)
weighted = KNeighborsRegressor(weights="distance").fit(rows[::2], targets[::2])
uniform = KNeighborsRegressor().fit(rows[::2], targets[::2])
(found,) = outputs(weighted, rows[1::2])
to_weighted = np.abs(found.ravel() - weighted.predict(rows[1::2])).max()
to_uniform = np.abs(found.ravel() - uniform.predict(rows[1::2])).max()
print(f"regressor: off by {to_weighted:.1f}; from an unweighted one by {to_uniform:.1e}")
assert to_weighted > 10 and to_uniform < 1e-3
PYTHON
