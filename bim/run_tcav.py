"""Score the concept "dog" with TCAV in the layers of a BIM model, and contrast two models.

    python -m bim.run_tcav --model=obj

CAVs of dogs against random counterparts, at block_layer1 to block_layer4 and the logits; the class is the one
of the images of dogs in bedrooms: dog for the object model, bedroom for a scene model. The contrast is BIM's
own measure: the dog should matter more to the object model than to the scene model. A model of your own is

    python -m bim.run_tcav --model=my/model --target=dog --contrast_with=my/other --contrast_target=bedroom

A concept activation vector (CAV) is the normal of a linear classifier that separates a concept's activations from
those of random images, pointing to the concept. The TCAV score (Kim et al., ICML 2018) is the share of a class's images
whose score rises along it. Scores over several random counterparts are tested against those of CAVs between two random
sets, which carry no concept. It is written here because PyPI's tcav needs TensorFlow 1 sessions.

Cost: 33 CPU seconds for two networks at the first run, nine of them for drawing 1,200 images.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from bim.tcav import TCAV

COMMAND = Command(TCAV)
FLAGS, main = COMMAND.flags, COMMAND.main

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
