"""Draw docs/pictures/contrast.png: maps of a network that reads the scene, and of one that follows a tile.

    python docs/studies/contrast_picture.py --output=docs/pictures/contrast.png

The two questions are the first ones drawn whose answers by both networks of the default pair are as intended, so no map
chose them.

Cost: 30 CPU seconds.
"""

from __future__ import annotations

import numpy as np
from absl import flags

import attribution
from attribution import cli
from clevr_xai import contrast, methods, metrics, vocabulary

METHODS = ("lrp_clevr_xai", "integrated_gradients_gray", "gradient", "grad_cam")
OUTLINES = {"target": "white", "cue": "#00ffa0"}
POOLING = "l2-norm,sq"  # of the mass; drawn without the square, which would show the peaks alone
WHITE = 0.998  # quantile; a handful of pixels would leave all others dark
QUESTIONS = 2

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_string("output", "contrast.png", "picture to write", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Draw the questions, explain the answers of both networks, and draw."""
    from matplotlib.figure import Figure

    folder = f"saved_models/clevr_xai/contrast/{contrast.pairs()[0]}"
    networks = {role: attribution.load_model(f"{folder}/{role}", score="logits") for role in contrast.ROLES}
    data = contrast.examples(20, flag_values.seed)
    answers = {role: network.predict(data.feed) for role, network in networks.items()}
    intended = (answers["reader"] == data.targets) & (answers["shortcut"] == data.truth["said"])
    rows = np.flatnonzero(intended)[:QUESTIONS]
    feed = {name: values[rows] for name, values in data.feed.items()}
    figure = Figure(figsize=(9, 7.4), dpi=110, layout="constrained")
    axes = figure.subplots(QUESTIONS * len(networks), 1 + len(METHODS))
    chosen = methods.settings(METHODS, steps=100)
    for number, (role, network) in enumerate(networks.items()):
        lines = axes[number :: len(networks)]
        for line, row in zip(lines, rows, strict=True):
            line[0].imshow(data.inputs[row])
            answer = vocabulary.ANSWERS[answers[role][row]]
            line[0].set_title(f"{role}: {answer}", fontsize=12)
        for column, (name, (method, parameters)) in enumerate(chosen.items(), start=1):
            maps = attribution.explain(
                method, network, feed, answers[role][rows], explain_input="image", seed=flag_values.seed, **parameters
            )
            for line, squares in zip(lines, metrics.pool(maps, [POOLING])[POOLING], strict=True):
                shown = np.sqrt(squares)
                line[column].imshow(shown, cmap="inferno", vmin=0, vmax=np.quantile(shown, WHITE))
                line[column].set_title(methods.title(name), fontsize=12)
    for axis, row in zip(axes.ravel(), rows.repeat(len(networks) * axes.shape[1]), strict=True):
        for name, color in OUTLINES.items():
            axis.contour(data.masks[name][row], [0.5], colors=color, linewidths=1.2)
        axis.set_axis_off()
    figure.savefig(flag_values.output, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__ or "")
