"""Maps that know nothing of the model: what a method must beat to have explained something."""

from __future__ import annotations

import dataclasses

from attribution_benchmarks.core.controls import CENTRE_PRIOR, EDGE_DETECTOR, RANDOM

# The same region of one image gets the same from them under every model: no contrast, and no change by a patch.
CONTROLS = (
    dataclasses.replace(RANDOM, trivial_max_of=("iir",)),
    dataclasses.replace(CENTRE_PRIOR, trivial_max_of=("mcs", "idr", "iir")),
    dataclasses.replace(EDGE_DETECTOR, trivial_max_of=("mcs",)),
)
