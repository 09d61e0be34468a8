#!/usr/bin/env bash
# skl2onnx: the probabilities of a linear discriminant of two classes are too extreme in the ONNX file.
#
# Guess: scikit-learn's linear models are right in ONNX, but for rounding. Written before the run of a list of models, of
# which this is one.
# Seen with skl2onnx 1.20.0, scikit-learn 1.9.1, ONNX Runtime 1.32.0, on breast cancer: labels agree, probabilities are
# off by up to 0.15, since the score is doubled before the sigmoid. With three classes (iris) they agree to 1e-6.
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
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)


def compare(model, load):
    rows, classes = load(return_X_y=True)
    rows = rows.astype(np.float32)
    model.fit(rows[::2], classes[::2])
    file = skl2onnx.to_onnx(model, rows[:1], options={"zipmap": False}).SerializeToString()
    labels, found = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"X": rows})
    expected = model.predict_proba(rows)
    off = np.abs(found - expected).max()
    print(f"{type(model).__name__}, {expected.shape[1]} classes: probabilities off by up to {off:.1e}")
    assert (labels == model.predict(rows)).all()
    return off, found[:, 1], model.decision_function(rows)


off, found, score = compare(LinearDiscriminantAnalysis(), load_breast_cancer)
assert off > 0.1
np.testing.assert_allclose(found, 1 / (1 + np.exp(-2 * score)), atol=1e-3)
assert compare(LinearDiscriminantAnalysis(), load_iris)[0] < 1e-4
assert compare(LogisticRegression(max_iter=5000), load_breast_cancer)[0] < 1e-4
PYTHON
