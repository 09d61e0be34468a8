r"""Score attribution methods against exact truth.

    python -m attribution_benchmarks.exact.evaluate
    python -m attribution_benchmarks.exact.evaluate \
        --methods=deeplift,my_method.py:my_function --num_imgs=all --output=exact.json

Cost: each method's passes (docs/methods.md) and 4,096 passes of a small network for each of --num_imgs inputs.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from attribution_benchmarks.exact.definition import BENCHMARK

COMMAND = Command(BENCHMARK)
FLAGS, main = COMMAND.flags, COMMAND.main

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
