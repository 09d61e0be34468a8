#!/usr/bin/env bash
# daal4py: a converted XGBoost model of counts predicts their logarithms, without an error.
#
# Guess: convert_model gives the predictions of XGBoost to 1e-5, or refuses. Written before the run of a list of models.
# Seen with daal4py of scikit-learn-intelex 2026.2.0 and XGBoost 3.2.0: objective="count:poisson" gives the logarithm of
# the counts, "reg:logistic" the number before the sigmoid. "reg:squarederror" is equal; DART is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-learn-intelex==2026.2.0 daal==2026.2.0 \
  xgboost-cpu==3.2.0 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import xgboost
from daal4py.mb import convert_model
from sklearn.datasets import load_diabetes

print("xgboost", xgboost.__version__)
rows, targets = load_diabetes(return_X_y=True)
rows = rows.astype(np.float32)
found = {}
for objective, scale in (("reg:squarederror", 1), ("count:poisson", 1), ("reg:logistic", 400)):
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=3, objective=objective).fit(rows, targets / scale)
    converted = np.ravel(convert_model(model.get_booster()).predict(rows))
    margin = model.predict(rows, output_margin=True)
    found[objective] = [np.abs(converted - other).max() for other in (model.predict(rows), margin)]
    print(objective, converted[:3], model.predict(rows)[:3])
print({name: [f"{value:.1e}" for value in values] for name, values in found.items()})
assert max(found["reg:squarederror"]) < 1e-3
assert found["count:poisson"][0] > 100 and found["count:poisson"][1] < 1e-3
assert found["reg:logistic"][0] > 0.5 and found["reg:logistic"][1] < 1e-4
PYTHON
