"""Make the network of the benchmark of exact truth anew.

    python tools/make_exact_networks.py --output_dir=saved_models/exact/problems

The hand-set parts are the same everywhere; the trained ones differ in the last digits from one processor to another.

Cost: half a minute on one core.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution import cli
from attribution.file_io.paths import check_directory

FLAGS = flags.FlagValues()
flags.DEFINE_string("output_dir", "saved_models/exact/problems", "folder of the network's versions", flag_values=FLAGS)
flags.DEFINE_integer("seed", 0, "of data, first weights and order of the training", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Train, save, and say how well the trained parts learnt."""
    check_directory("output_dir", flag_values.output_dir)
    from attribution_benchmarks.exact import networks

    for name, explained in networks.save(pathlib.Path(flag_values.output_dir) / "1", flag_values.seed).items():
        print(f"{name}: {100 * explained:.1f} % of the variance of new examples explained")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
