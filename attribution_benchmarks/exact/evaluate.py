"""Score attribution methods against exact truth.

    python -m attribution_benchmarks.exact.evaluate
    python -m attribution_benchmarks.exact.evaluate \
        --methods=deeplift,my_method.py:my_function --num_imgs=all --output=exact.json

The rest is as for every benchmark of one definition: python -m attribution_benchmarks.core.evaluate --help.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.core.evaluate import FLAGS, main

if __name__ == "__main__":
    FLAGS.set_default("benchmark", "exact")
    FLAGS.set_default("batch_size", 512)  # a small network, and 4,096 coalitions of each input
    cli.run(main, FLAGS, __doc__)
