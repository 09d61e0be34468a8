r"""Score attribution methods against the exact importance of the parts of drawn objects.

    python -m attribution_benchmarks.parts.evaluate
    python -m attribution_benchmarks.parts.evaluate --model=saved_models/parts/residual_seed0 --num_imgs=all

Cost: each method's passes (docs/methods.md), 36 passes of a small network for each of --num_imgs images, and two more
maps of each prototype for the target sensitivity.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from attribution_benchmarks.parts.definition import BENCHMARK

COMMAND = Command(BENCHMARK)
FLAGS, main = COMMAND.flags, COMMAND.main

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
