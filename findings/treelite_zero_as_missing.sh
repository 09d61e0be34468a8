#!/usr/bin/env bash
# treelite: a LightGBM model that takes zeros as missing is read without an error and predicts other numbers.
#
# Guess: treelite reads every LightGBM model that it does not refuse exactly. Written before the run.
# Seen with treelite 4.8.1 and LightGBM 4.7.0, rows where a fifth of the numbers are 0: off by tens where the targets are
# 25 to 346; without zero_as_missing, and with missing values, equal to 1e-9. Linear trees are refused with an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet treelite==4.8.1 lightgbm==4.7.0 scikit-learn==1.9.1 \
  numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import lightgbm
import numpy as np
import treelite
from sklearn.datasets import load_diabetes

print("treelite", treelite.__version__, "lightgbm", lightgbm.__version__)
rows, targets = load_diabetes(return_X_y=True)
rows[np.random.RandomState(0).rand(*rows.shape) < 0.2] = 0
missing = np.where(rows == 0, np.nan, rows)


def difference(rows, **options):
    model = lightgbm.LGBMRegressor(n_estimators=15, verbose=-1, **options).fit(rows, targets)
    model.booster_.save_model("model.txt")
    found = treelite.gtil.predict(treelite.frontend.load_lightgbm_model("model.txt"), rows)
    return np.abs(found.ravel() - model.predict(rows)).max()


zeros, nan, plain = difference(rows, zero_as_missing=True), difference(missing), difference(rows)
print(f"zero_as_missing: {zeros:.1f}; the same places missing: {nan:.1e}; neither: {plain:.1e}")
assert zeros > 10 and max(nan, plain) < 1e-9
PYTHON
