#!/usr/bin/env bash
# emlearn: a forest of features in 0..1, converted with the defaults, gives wrong labels for a third of the rows.
#
# Guess: the converted forest gives scikit-learn's labels. Written before the run.
# Seen with emlearn 0.23.2, breast cancer scaled to 0..1, ten trees: thresholds and features are int16 by default, so that
# both become 0 or 1. With dtype="float" all labels are the same. No warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet emlearn==0.23.2 setuptools==80.9.0 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import emlearn
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

rows, classes = load_breast_cancer(return_X_y=True)
rows = (rows - rows.min(0)) / np.ptp(rows, axis=0)
forest = RandomForestClassifier(10, random_state=0).fit(rows[::2], classes[::2])
labels = forest.predict(rows[1::2])


def others(**options):
    return int((np.ravel(emlearn.convert(forest, **options).predict(rows[1::2])) != labels).sum())


default, by_float = others(), others(dtype="float")
print(f"labels that differ: {default} of {len(labels)} by default, {by_float} with dtype='float'")
assert default > 50 and by_float == 0
PYTHON
