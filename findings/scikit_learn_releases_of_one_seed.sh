#!/usr/bin/env bash
# scikit-learn: the same seed and rows give other boosted trees in 1.9 than in 1.6, and other weighted forests.
#
# Guess: random_state fixes the model, and results of small data stay the same over these releases. Written before the
# run. Seen with scikit-learn 1.6.1 and 1.9.1, 300 rows: probabilities of HistGradientBoostingClassifier differ by up to
# 0.14 without any randomness, those of a forest with class_weight="balanced" by up to 0.25 (rows are drawn by weight
# now); a forest without weights, and GradientBoostingClassifier, agree to 1e-9. Attributions kept from one are none of
# the other.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/1.6.1"
"$folder/1.6.1/bin/pip" install --quiet scikit-learn==1.6.1 numpy==2.2.6 scipy==1.15.3
python3 -m venv "$folder/1.9.1"
"$folder/1.9.1/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.2.6 scipy==1.15.3
for version in 1.6.1 1.9.1; do
  "$folder/$version/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np
import sklearn
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

x = np.random.RandomState(0).randn(300, 5)
y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int)
models = {
    "histogram": HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=20, random_state=0),
    "forest": RandomForestClassifier(20, random_state=0),
    "balanced": RandomForestClassifier(20, random_state=0, class_weight="balanced"),
}
seen = {name: model.fit(x, y).predict_proba(x)[:, 1] for name, model in models.items()}
np.savez(f"{sys.argv[1]}/{sklearn.__version__}.npz", **seen)
PYTHON
done
"$folder/1.9.1/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np

old, new = (np.load(f"{sys.argv[1]}/{version}.npz") for version in ("1.6.1", "1.9.1"))
gaps = {name: float(np.abs(old[name] - new[name]).max()) for name in old}
print("largest difference of 1.6.1 and 1.9.1:", gaps)
assert gaps["histogram"] > 0.005 and gaps["balanced"] > 0.05
assert gaps["boosting"] < 1e-9 and gaps["forest"] < 1e-9
PYTHON
