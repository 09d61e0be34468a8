"""Draw README's picture: a question of CLEVR-XAI, and the maps of five methods by their mass.

    python docs/studies/clevr_xai_picture.py --output=docs/pictures/clevr_xai.png

The question is the first simple one about an object of more than 1,000 pixels that the bundled network answers
correctly, so no map chose it.

Cost: 20 CPU seconds.
"""

from __future__ import annotations

import numpy as np
from absl import flags

import attribution
from attribution import cli
from attribution.errors import print_line
from clevr_xai import metrics
from clevr_xai.data import Dataset
from clevr_xai.network import Answering

METHODS = {
    "Integrated Gradients from gray": ("integrated_gradients", {"baseline": 0.5}),
    "LRP-α1β0": ("lrp_alpha1beta0", {}),
    "Guided Backprop": ("guided_backprop", {}),
    "Vanilla Gradient": ("gradient", {}),
    "SmoothGrad": ("smoothgrad", {}),
}
POOLING = "l2-norm,sq"  # of the mass; drawn without the square, which would show the peaks alone
WHITE = 0.998  # quantile; a handful of pixels would leave all others dark

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_string("output", "clevr_xai.png", "picture to write", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Choose the question, explain the answer, and draw."""
    from matplotlib.figure import Figure

    network = Answering("saved_models/clevr_xai/relation_network")
    for batch in Dataset("simple").batches(1):
        mask = batch.masks["single_object"][0]
        if mask.sum() <= metrics.MASK_PIXELS:
            continue
        inputs = network.inputs(batch.images, batch.questions)
        if network.answers[network.model.predict(inputs)[0]] == batch.answers[0]:
            break
    panels = {}
    for title, (method, parameters) in METHODS.items():
        maps = attribution.explain(
            method, network.model, inputs, explain_input="image", seed=flag_values.seed, **parameters
        )
        squares = metrics.pool(maps, [POOLING])[POOLING][0]
        mass = float(metrics.relevance_mass_accuracy(squares[None], mask[None])[0])
        panels[title] = (mass, np.sqrt(squares))
    figure = Figure(figsize=(9, 6.6), dpi=110, layout="constrained")
    figure.suptitle(f"{batch.questions[0]}  –  {batch.answers[0]}", fontsize=19)
    axes = figure.subplots(2, 3).ravel()
    axes[0].imshow(batch.images[0])
    axes[0].set_title("the object asked about", fontsize=14)
    for axis, title in zip(axes[1:], sorted(panels, key=lambda title: -panels[title][0]), strict=True):
        mass, shown = panels[title]
        axis.imshow(shown, cmap="inferno", vmin=0, vmax=np.quantile(shown, WHITE))
        axis.set_title(f"{title}\n{100 * mass:.1f} % on the object", fontsize=14)
        print_line(f"{title}: {mass:.3f}")
    for axis in axes:
        axis.contour(mask, [0.5], colors="white", linewidths=1.5)
        axis.set_axis_off()
    figure.savefig(flag_values.output, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__ or "")
