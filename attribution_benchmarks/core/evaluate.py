"""Score attribution methods on a benchmark that is one definition: a network, inputs, and metrics of maps.

    attribution-benchmarks score --benchmark=my_file.py:MINE
    attribution-benchmarks score --benchmark=my_file.py:MINE --methods=rise --output=scores.json

docs/extend.md shows how to write one.

Cost: each method's passes (docs/methods.md) for each of --num_imgs inputs, 100 by default.
"""

from __future__ import annotations

from absl import flags

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command

COMMAND = Command()
FLAGS, main = COMMAND.flags, COMMAND.main
flags.DEFINE_string("benchmark", "", "the definition: file.py:NAME or module:NAME", flag_values=FLAGS)
for _name in ("methods", "metrics"):
    FLAGS[_name].help += "; the benchmark's own when empty"

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
