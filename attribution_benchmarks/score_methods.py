"""Score methods, and rank them among the published ones.

    attribution-benchmarks score my_method.py:my_function
    attribution-benchmarks score my_method.py:my_function --time=60 --output=scores.html
    attribution-benchmarks score lrp_epsilon,gradient --benchmarks=svea,parts --output=scores.json
    attribution-benchmarks score gradient --benchmarks=my_file.py:MINE

Only these methods are computed, on the inputs and networks of the published scores; methods that are published, too,
are only compared. --time limits the seconds: after an estimate, fewer networks and controls are computed where it does
not suffice, and the answer says which. Scores are stored in the cache, so that the same command resumes, and completes
what was left out. Other benchmarks, and all with --model, --metrics or --seed, give a table with their baselines.

Cost: a method's passes (docs/methods.md) on some ten thousand small inputs. A method of one gradient takes three
minutes on the five benchmarks of the report, on two idle cores with an empty cache.
"""

from __future__ import annotations

from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_text
from attribution_benchmarks.core.places import BENCHMARKS
from attribution_benchmarks.core.registry import REPORTED
from attribution_benchmarks.core.scores import check_output

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, methods=[], model="", seed=0, output="", cache_dir="")
flags.DEFINE_list(
    "benchmarks", list(REPORTED), f"of {', '.join(BENCHMARKS)}, and custom ones as file.py:NAME", flag_values=FLAGS
)
flags.DEFINE_list("metrics", [], "further metrics: of docs/metrics.md, or custom as file.py:NAME", flag_values=FLAGS)
flags.DEFINE_bool(
    "quick", True, "without published scores: the inputs and samples of the quick report, or those of the full one",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_float("time", 180.0, "seconds for the comparison with published methods", 1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Score, print and save."""
    if not flag_values.methods:
        raise BadInput("no method; name one or several, such as: attribution-benchmarks score my_method.py:my_function")
    check_output(flag_values.output)
    from attribution_benchmarks import api

    scores = api.score(
        flag_values.methods, flag_values.benchmarks, model=flag_values.model or None, metrics=flag_values.metrics,
        quick=flag_values.quick, seed=flag_values.seed, time=flag_values.time,
    )  # fmt: skip
    print_text(scores.text)
    if flag_values.output:
        scores.save(flag_values.output)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
