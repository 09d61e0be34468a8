"""Draw docs/pictures/parts.png: objects, the exact values of their parts, and the sums of maps over the parts.

    python tools/docs/parts_picture.py --output=docs/pictures/parts.png

Cost: half a CPU minute.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import attribution
from attribution import cli
from attribution_benchmarks.core.evaluation import load, prepare
from attribution_benchmarks.parts import definition, metrics, truth
from attribution_benchmarks.parts.classes import PARTS

FLAGS = flags.FlagValues()
flags.DEFINE_string("output", "docs/pictures/parts.png", "file of the picture", flag_values=FLAGS)

ROWS = (0, 12, 3, 5, 19)  # images of five kinds of classes
SHOWN = ("integrated_gradients", "lrp_alpha1beta0", "grad_cam", "guided_backprop")


def main(flag_values: flags.FlagValues) -> None:
    """Explain some images and draw them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    loaded = load(prepare(definition.BENCHMARK, SHOWN, definition.Settings(num_imgs=20)))
    (model,) = loaded.models.values()
    batch = next(iter(loaded.data.batches(20))).load().take(ROWS)
    found = {name: attribution.explain(name, model, batch.inputs, batch.targets) for name in SHOWN}
    bars = {"exact values": truth.exact_values(batch)}
    for name in SHOWN:
        bars[attribution.METHODS[name].title] = metrics.region_sums(found[name], batch, True)[:, : len(PARTS)]
    figure, axes = pyplot.subplots(len(ROWS), 1 + len(bars), figsize=(2 * (1 + len(bars)), 1.75 * len(ROWS)))
    for row, line in enumerate(axes):
        line[0].imshow(batch.inputs[row])
        line[0].set_title(str(batch.seeds[row]).partition("-")[0].replace("_", " "), fontsize=9)
        line[0].axis("off")
        for axis, (title, values) in zip(line[1:], bars.items(), strict=True):
            axis.bar(PARTS, values[row], color=np.where(values[row] >= 0, "tab:blue", "tab:red"))
            axis.axhline(0, color="black", linewidth=0.6)
            axis.tick_params(labelsize=7)
            axis.set_yticks([])
            if row == 0:
                axis.set_title(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(flag_values.output, dpi=90)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
