"""Score attribution methods with CLEVR-XAI: how much of a map lies on the objects that a question is about.

    python -m clevr_xai.evaluate --questions=simple --metrics=mass,rank
    python -m clevr_xai.evaluate --questions=complex --ground_truth=unique,union --output=scores.json
    python -m clevr_xai.evaluate --methods=gradient,my_module:my_method --data_dir=CLEVR-XAI_v1.0 --num_questions=all
    python -m clevr_xai.evaluate --precomputed_maps=my/maps

Only questions that the network answers correctly count; the logit of the answer is explained. Without --data_dir, the
embedded questions are used: 100 simple ones, or complex ones until 300 are answered correctly. A question costs a
gradient for each step of Integrated Gradients, from three baselines, and of the 300 samples that SmoothGrad and VarGrad
share. A path has as many of 300 steps as an estimated error of 20 % needs; --map_error=0 takes all.

The default network reads the wording of the official release, which the embedded questions have, and the plain wording
of scripts/generate_clevr_xai.py.

Scores are kept in --scores_dir: a run that was stopped goes on, and one of more questions computes only those that are
new.

Relevance mass accuracy: the share of a map's total inside the mask. Relevance rank accuracy: the share inside of the
mask's number of highest pixels. All ten poolings of a map's channels are scored; the tables show l2-norm,sq for mass
and max-norm for rank, as reproductions of the paper have it, and --output holds all.

Cost: 22 CPU seconds a question and 1 GB, measured on 8 questions; with --map_error=0 some 40 seconds.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from clevr_xai.definition import BENCHMARK

COMMAND = Command(BENCHMARK)
FLAGS, main = COMMAND.flags, COMMAND.main
FLAGS["metrics"].help += "; the latter are computed against the first ground truth"

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
