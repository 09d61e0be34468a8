"""Score attribution methods on SVEA: its Table 1, with controls, intervals and the paper's figures beside ours.

    python -m svea.benchmark
    python -m svea.benchmark --models=saved_models/svea/baseline,saved_models/svea/baseline_seed1
    python -m svea.benchmark --model=path/to/saved_model --methods=rise,my_module:my_method --output=scores.json
    python -m svea.benchmark --precomputed_maps=my/maps

With --scores_dir, a run that was stopped resumes, and one that ended costs next to nothing again. --save_maps saves
every map as METHOD/train_0000.npy or METHOD/test_0000.npy, and --precomputed_maps scores such files.

Every method explains the probability of the predicted class for all 5,000 signals of MNIST-1D. ROE test: how often a
linear support vector machine finds the class from the 12 points around the map's peak (higher is better). Drop and
Increase: how the network's confidence changes when it sees these points alone.

Cost: 40 to 50 seconds on two cores and under 1 GB.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from svea.definition import BENCHMARK

COMMAND = Command(BENCHMARK)
FLAGS, main = COMMAND.flags, COMMAND.main

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
