"""Print how the order of methods on SVEA changes when only the definition of a metric changes.

    python tools/docs/measure_metric_definitions.py

For each metric with a definition of a library: Kendall's tau of the methods' mean scores with those by this project's
definition, and the pairs of methods whose order flips. Cost: 2 CPU minutes.
"""

from __future__ import annotations

import itertools
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from scipy.stats import kendalltau  # noqa: E402

import attribution  # noqa: E402
from attribution_benchmarks.core.batch import Batch  # noqa: E402
from attribution_benchmarks.core.tables import markdown_table  # noqa: E402
from attribution_benchmarks.metrics.registry import select_metrics  # noqa: E402
from svea import mnist1d  # noqa: E402

METHODS = ("gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "vargrad", "guided_backprop",
           "deconvnet", "lrp_epsilon", "lrp_alpha1beta0", "occlusion", "deeplift", "excitation_backprop")  # fmt: skip
DEFINITIONS = ("sparseness@quantus", "sparseness@xplique", "complexity@quantus", "complexity@xplique",
               "effective_complexity@quantus", "deletion@xplique", "insertion@xplique", "pixel_flipping@quantus",
               "selectivity@quantus", "faithfulness_estimate@quantus", "mu_fidelity@xplique")  # fmt: skip
OWN = {"pixel_flipping": "deletion"}
INPUTS = 40


def main() -> None:
    """Score the methods by both definitions of each metric, and print a table."""
    signals = mnist1d.load().test.signals[:INPUTS, :, None]
    model = attribution.load_model(ROOT / "saved_models" / "svea" / "baseline")
    targets = model.scores(signals).argmax(axis=1)
    batch = Batch(signals, [f"signal{number}" for number in range(INPUTS)], targets)
    maps = {name: attribution.explain(name, model, signals, targets) for name in METHODS}

    def scores(inputs: Any) -> np.ndarray:
        return model.scores(getattr(inputs, "pictures", inputs))

    def means(metric: str) -> np.ndarray:
        (one,) = select_metrics([metric], {}).values()
        found = [np.nanmean(one.measure.compute(each, batch, scores)[:, 0]) for each in maps.values()]
        return np.array(found) * (1 if one.better == "more" else -1)

    rows = []
    for name in DEFINITIONS:
        metric = name.partition("@")[0]
        ours, theirs = means(OWN.get(metric, metric)), means(name)
        pairs = list(itertools.combinations(range(len(METHODS)), 2))
        flips = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) < 0 for a, b in pairs)
        first = [METHODS[int(np.argmax(each))] for each in (ours, theirs)]
        tau = kendalltau(ours, theirs).statistic
        rows.append([f"`{name}`", f"{tau:.2f}", f"{flips} of {len(pairs)}", *(f"`{one}`" for one in first)])
        print(" | ".join(rows[-1]), flush=True)
    print(markdown_table(["definition", "tau", "pairs that flip", "first here", "first there"], rows))


if __name__ == "__main__":
    main()
