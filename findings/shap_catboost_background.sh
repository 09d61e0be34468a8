#!/usr/bin/env bash
# shap and CatBoost: with background data, the values of a regressor add up to the prediction without its mean.
#
# Guess: values of CatBoost and of shap's TreeExplainer both add up to the raw prediction. Written before the run, without
# a word on background data.
# Seen with shap 0.51.0 and CatBoost 1.2.10: without background data so, to 1e-8. With it, `expected_value` is about 0
# where targets have a mean of 6, and each sum is off by that mean (CatBoost's bias); the check of additivity is silent. A
# classifier has no bias and is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet shap==0.51.0 catboost==1.2.10 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import catboost
import numpy as np
import shap

random = np.random.RandomState(0)
options = {"iterations": 50, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
x = random.rand(500, 3)
y = 5 + x[:, 0] + 2 * x[:, 1] * x[:, 2]
model = catboost.CatBoostRegressor(**options).fit(x, y)
classifier = catboost.CatBoostClassifier(**options).fit(x, y > 6)


def gap(explainer, scores):
    """Return the largest difference between a prediction and the sum of its values and the expected value."""
    return np.abs(explainer.shap_values(x[:100]).sum(1) + explainer.expected_value - scores).max()


print("shap", shap.__version__, "CatBoost", catboost.__version__)
plain, background = shap.TreeExplainer(model), shap.TreeExplainer(model, x[:50])
gaps = [gap(explainer, model.predict(x[:100])) for explainer in (plain, background)]
print("mean target:", y.mean(), "expected values:", plain.expected_value, background.expected_value)
print("largest gap without and with background:", gaps)
assert gaps[0] < 1e-6 and abs(gaps[1] - y.mean()) < 0.1
assert abs(plain.expected_value - y.mean()) < 0.1 and abs(background.expected_value) < 0.1
margin = classifier.predict(x[:100], prediction_type="RawFormulaVal")
print("classifier:", gap(shap.TreeExplainer(classifier, x[:50]), margin))
assert gap(shap.TreeExplainer(classifier, x[:50]), margin) < 1e-5
PYTHON
