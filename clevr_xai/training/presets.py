"""What decides a Relation Network's training beside its flags, and how the network's card tells all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attribution.errors import listed
from clevr_xai.training import augmentation, batches
from clevr_xai.training.training_set import TrainingSet

STAGES = ("reading", "seeing", "small", "following", "final")
SMALL_WIDTHS = (128, 128, 128)
READ = 128  # questions in a step of reading
NUM_QUESTIONS = {"small": 8, "following": 8, "final": 4}  # about each image in a step
NUM_IMAGES = dict.fromkeys(STAGES, 32)
LEARNING_RATES = {"reading": 2e-3, "seeing": 2e-3, "small": 2e-3, "following": 1e-3, "final": 8e-4}
# Share of a stage's steps at a constant rate. Nothing follows the reading and the seeing that would continue them, and
# the last stage ends in the network that counts.
CONSTANT = {"reading": 0.6, "seeing": 0.6, "small": 1.0, "following": 1.0, "final": 0.25}
# Of the convolutions' rate: while g begins to use what they see, and in the last stage, which begins at a high rate
# where the seeing ended at a low one: with all of it cells that told 94.9 % of the shapes told 93.1 % 1,000 steps on.
SLOW_SHARES = {"following": 0.3, "final": 0.1}
FURTHER = ("reading", "seeing", "final")  # stages of a training that goes on from an exported network


def stage_rows(steps: Mapping[str, int], goes_on: bool) -> list[dict[str, object]]:
    """Return the rows of a card's table of stages.

    Parameters
    ----------
    steps
        Of each stage; those of 0 have no row.
    goes_on
        Whether the training goes on from an exported network.
    """
    return [
        {
            "stage": name,
            "steps": f"{steps[name]:,}",
            "images a step": NUM_IMAGES[name] if name != "reading" else f"{READ} questions",
            "questions an image": NUM_QUESTIONS.get(name, "–"),
            "learning rate": LEARNING_RATES[name],
            "share of it constant": CONSTANT[name],
        }
        for name in (FURTHER if goes_on else STAGES)
        if steps[name]
    ]


def told(
    data: TrainingSet,
    final_questions: Sequence[str],
    rounds: int,
    num_pairs: int,
    precision: str,
    seed: int,
    goes_on: bool,
) -> dict[str, object]:
    """Return the settings of a training by their names, for the card; parameters are those of ``stages.train``."""
    import keras
    import tensorflow as tf

    from clevr_xai.training import loop, losses, optimizer

    slow = {name: share for name, share in SLOW_SHARES.items() if name in FURTHER or not goes_on}
    small = f"{len(SMALL_WIDTHS)} layers of {SMALL_WIDTHS[0]}, then grown"
    return {
        "Training scenes": f"{len(data.images):,}, seed {data.seed}, rendered at {data.rendered}",
        "questions": f"{len(data.answers):,} ({rounds} round{'s' * (rounds > 1)} of each kind, in "
        f"{' and '.join(np.unique(data.wordings))} wording)",
        "last stage": f"{listed(final_questions)} questions",
        **({"starts from": "an exported network"} if goes_on else {"g in the stage `small`": small}),
        "pairs a step": f"{num_pairs} of 2,401, all of two objects' centres",
        "g in training": precision,
        "questions drawn more often": ", ".join(f"{name} {times} times" for name, times in batches.DRAWN.items()),
        "augmentation": "moved by up to 6 pixels, half of the images mirrored, "
        f"exposure by up to {augmentation.GAIN} times, contrast by {augmentation.CONTRAST:.0%}, red and blue by "
        f"{augmentation.TEMPERATURE:.0%}, noise of up to {augmentation.NOISE:g} gray levels, "
        f"{augmentation.FADED:.0%} faded towards black or gray, {augmentation.EVEN:.0%} of these wholly, "
        f"all this in {augmentation.RELIT:.0%} of the images",
        "aids": f"cells (weight {losses.CELL_LOSS}, shapes {losses.SHAPE_LOSS:g} times), from `following` on members "
        f"of sets ({losses.MEMBER_LOSS}) and compared pairs ({losses.COMPARED_LOSS}) and what they compare "
        f"({losses.OPERAND_LOSS}); the question encoder stays as the reading left it",
        "optimizer": f"Adam, and Muon for kernels of convolutions (steps of {optimizer.KERNEL_STEP:g} times the rate); "
        f"gradient norm at most {loop.GRADIENT_NORM}",
        "rate of the convolutions": ", ".join(f"{share} of the others' in `{name}`" for name, share in slow.items()),
        "no dropout, no weight decay; seed": seed,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
    }
