#!/usr/bin/env bash
# LightGBM's random forests: in an ONNX file the sum of the trees is divided by 100, whatever their number.
#
# Guess: of LightGBM's options only `zero_as_missing` is lost in ONNX. Written before the run of a list of options, of
# which this is one.
# Seen with onnxmltools 1.16.0, LightGBM 4.7.0 and ONNX Runtime 1.32.0: a regressor of 100 trees is exact, one of 10
# gives a tenth of the prediction, without an error; a classifier of 100 trees gives another label for 70 % of the rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxmltools==1.16.0 lightgbm==4.7.0 onnxruntime==1.32.0 onnx==1.23.2 \
  skl2onnx==1.20.0 scikit-learn==1.9.1 pandas==3.0.6 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import lightgbm
import numpy as np
import onnxmltools
import onnxruntime
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import load_breast_cancer, load_diabetes

print("onnxmltools", onnxmltools.__version__, "LightGBM", lightgbm.__version__)
forest = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1, "random_state": 0, "verbose": -1}


def outputs(model, rows, **options):
    kind = [("rows", FloatTensorType([None, rows.shape[1]]))]
    file = onnxmltools.convert_lightgbm(model, initial_types=kind, **options).SerializeToString()
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"rows": rows})


rows, targets = load_diabetes(return_X_y=True)
rows = rows.astype(np.float32)
for count in (100, 50, 10):
    model = lightgbm.LGBMRegressor(n_estimators=count, **forest).fit(rows, targets)
    ratio = outputs(model, rows)[0].ravel() / model.predict(rows)
    print(f"regressor of {count} trees: output / prediction {ratio.min():.4f} to {ratio.max():.4f}")
    np.testing.assert_allclose(ratio, count / 100, rtol=1e-4)
rows, classes = load_breast_cancer(return_X_y=True)
rows = rows.astype(np.float32)
model = lightgbm.LGBMClassifier(**forest).fit(rows[:400], classes[:400])
labels, probabilities = outputs(model, rows[400:], zipmap=False)
print("classifier:", probabilities[:2].tolist(), "instead of", model.predict_proba(rows[400:402]).tolist())
other = (labels != model.predict(rows[400:])).mean()
print(f"share of other labels: {other:.2f}")
assert other > 0.5
PYTHON
