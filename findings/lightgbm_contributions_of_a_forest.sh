#!/usr/bin/env bash
# LightGBM's random forests: contributions sum to the prediction times the number of trees.
#
# Guess: `pred_contrib=True` sums to the prediction for every kind of boosting, and so do shap's values. Expected, and not
# written down, when shap was run beside the converters of a list of options.
# Seen with LightGBM 4.7.0 and shap 0.51.0: with boosting_type="rf" `predict` averages the trees, but the contributions
# are those of their sum: 100 times the prediction for 100 trees, 10 times for 10. shap's TreeExplainer gives the same,
# with and without background data, and its check of additivity passes. With "gbdt" both sum to the prediction.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lightgbm==4.7.0 shap==0.51.0 scikit-learn==1.9.1 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import lightgbm
import numpy as np
import shap
from sklearn.datasets import load_diabetes

print("LightGBM", lightgbm.__version__, "shap", shap.__version__)
rows, targets = load_diabetes(return_X_y=True)


def ratios(count, **options):
    model = lightgbm.LGBMRegressor(n_estimators=count, random_state=0, verbose=-1, **options).fit(rows, targets)
    prediction = model.predict(rows[:50])
    found = {"LightGBM": model.predict(rows[:50], pred_contrib=True).sum(1) / prediction}
    for name, background in {"shap": None, "shap with background": rows[:50]}.items():
        explainer = shap.TreeExplainer(model, background)
        found[name] = (explainer.shap_values(rows[:50]).sum(1) + explainer.expected_value) / prediction
    return found


for count in (100, 10):
    for name, ratio in ratios(count, boosting_type="rf", subsample=0.5, subsample_freq=1).items():
        print(f"forest of {count} trees, {name}: sum / prediction {ratio.min():.3f} to {ratio.max():.3f}")
        np.testing.assert_allclose(ratio, count, rtol=1e-4)
for name, ratio in ratios(100).items():
    print(f"boosting, {name}: {ratio.min():.3f} to {ratio.max():.3f}")
    np.testing.assert_allclose(ratio, 1, rtol=1e-4)
PYTHON
