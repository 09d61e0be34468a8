"""Draw the exact values of parts of images and of tokens of texts, beside the maps of some methods.

    python -m tools.docs.exact_truth_pictures

Writes docs/pictures/parts.png and docs/pictures/sequences.png.

Cost: a CPU minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import attribution
from attribution_benchmarks.core.evaluation import load, prepare
from attribution_benchmarks.core.figures import save_figure
from attribution_benchmarks.exact import sequences
from attribution_benchmarks.parts import definition, metrics, truth
from attribution_benchmarks.parts.classes import PARTS
from tools.docs.page_parts import ROOT

IMAGES = (0, 12, 3, 5, 19)  # of five kinds of classes
OF_IMAGES = ("integrated_gradients", "lrp_alpha1beta0", "grad_cam", "guided_backprop")
TEXTS = (22, 101)  # an agreement and a negation
OF_TEXTS = ("lrp_attn", "integrated_gradients", "gradient_rollout", "attention_rollout")


def parts(rows: Sequence[int] = IMAGES, methods: Sequence[str] = OF_IMAGES):
    """Return images, the exact values of their parts, and the sums of maps over the parts, as a figure."""
    from matplotlib.figure import Figure

    loaded = load(prepare(definition.BENCHMARK, methods, definition.Settings(num_imgs=max(rows) + 1)))
    (model,) = loaded.models.values()
    batch = next(iter(loaded.data.batches(max(rows) + 1))).load().take(rows)
    bars = {"Exact Shapley values": truth.exact_values(batch)}
    for name, maps in attribution.explain_many(methods, model, batch.inputs, batch.targets).items():
        bars[attribution.METHODS[name].title] = metrics.region_sums(maps, batch, True)[:, : len(PARTS)]
    figure = Figure(figsize=(2 * (1 + len(bars)), 1.75 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1 + len(bars), squeeze=False)
    for row, (first, *others) in enumerate(axes):
        first.imshow(batch.inputs[row])
        first.set_title(str(batch.seeds[row]).partition("-")[0].replace("_", " "), fontsize=9)
        first.axis("off")
        for axis, values in zip(others, bars.values(), strict=True):
            axis.bar(PARTS, values[row], color=np.where(values[row] >= 0, "tab:red", "tab:blue"))
            axis.axhline(0, color="black", linewidth=0.6)
            axis.tick_params(labelsize=7)
            axis.set_yticks([])
    for axis, title in zip(axes[0, 1:], bars, strict=True):
        axis.set_title(title, fontsize=9)
    return figure


def texts(rows: Sequence[int] = TEXTS, methods: Sequence[str] = OF_TEXTS):
    """Return texts with the exact values of their tokens and the maps of methods as bars, as a figure."""
    path = sequences.folders()[0]
    with np.load(path / sequences.VALUES) as stored:
        tokens, targets, exact = (stored[key][list(rows)] for key in ("tokens", "targets", "values"))
    found = attribution.explain_many(methods, attribution.load_model(path), tokens, targets)
    maps = {"Exact Shapley values": exact, **{attribution.METHODS[name].title: found[name] for name in methods}}
    titles = [f"{sequences.TASKS[target // 2]}: class {target % 2}" for target in targets]
    return attribution.plot(maps, np.array(sequences.WORDS)[tokens], titles=titles)


if __name__ == "__main__":
    for name, figure in {"parts": parts(), "sequences": texts()}.items():
        save_figure(figure, ROOT / "docs" / "pictures", name, dpi=80)
