#!/usr/bin/env bash
# XGBoost: trained for the absolute error on one constant feature, it predicts 3.0 where 60 of 100 targets are 0.
#
# Guess: a leaf is the median of its targets to 0.5, here 0. Written before the run of one tree of depth 1, one of whose
# leaves had these targets; it was 3.0.
# Seen with XGBoost 3.4.1 on a CPU: 60 zeros and 40 tens, `objective="reg:absoluteerror"`, else defaults, 200 rounds
# give 3.008, whose mean absolute error is 4.60; that of the median is 4. XGBoost 3.2.0 gives 0. More rounds do not
# help: the gradient is 0 there. 80 zeros and 20 tens give 0.28, 55 and 45 give 4.0.
# Two readers without tools, asked pointedly, answered 0.
# Cause, by the notes of release 3.4.0 and its pull request 12373: a leaf is no longer set to its median. A residual r
# has the gradient r c and the Hessian c = d / sqrt(d^2 + r^2), where d is the square of the mean of sqrt(|r|). The
# script finds where this gradient is 0.
#
# It needs Python 3.12 or newer: PYTHON=python3.13 bash findings/xgboost_median_of_a_constant.sh
set -euo pipefail
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit("not checked: needs Python 3.12 or newer" if sys.version_info < (3, 12) else 0)'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in before venv; do "$python" -m venv "$folder/$version"; done
"$folder/before/bin/pip" install --quiet xgboost-cpu==3.2.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/pip" install --quiet xgboost-cpu==3.4.1 scikit-learn==1.9.1 numpy==2.4.6
cat > "$folder/fit.py" <<'PYTHON'
import numpy as np
import xgboost

print("XGBoost", xgboost.__version__)


def fitted(zeros, **options):
    targets = np.repeat([0.0, 10.0], [zeros, 100 - zeros])
    model = xgboost.XGBRegressor(objective="reg:absoluteerror", **{"n_estimators": 200, **options})
    return float(model.fit(np.zeros((100, 1)), targets).predict([[0.0]])[0])


def stationary(zeros):
    share, (low, high) = zeros / 100, (0.0, 10.0)
    for _ in range(60):
        value = (low + high) / 2
        scale = (share * np.sqrt(value) + (1 - share) * np.sqrt(10 - value)) ** 2
        slope = share * value / np.hypot(scale, value) - (1 - share) * (10 - value) / np.hypot(scale, 10 - value)
        low, high = (low, value) if slope > 0 else (value, high)
    return value


found = {zeros: fitted(zeros) for zeros in (55, 60, 80)}
more = fitted(60, n_estimators=2000)
print("prediction by number of zeros:", found, "2000 rounds:", more)
if xgboost.__version__ == "3.2.0":
    assert all(value == 0 for value in [*found.values(), more])
else:
    print("gradient of 0 at:", {zeros: round(stationary(zeros), 4) for zeros in found})
    assert 3.0 < found[60] < 3.02 and abs(more - found[60]) < 0.01
    assert all(abs(value - stationary(zeros)) < 0.02 for zeros, value in found.items())
PYTHON
"$folder/before/bin/python" "$folder/fit.py"
"$folder/venv/bin/python" "$folder/fit.py"
