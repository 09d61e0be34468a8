"""Score methods on several benchmarks, with the settings of the report, and print their tables.

    attribution-benchmarks score my_method.py:my_function
    attribution-benchmarks score lrp_epsilon,gradient --benchmarks=svea,parts --output=scores.json
    attribution-benchmarks score gradient --benchmarks=my_file.py:MINE

Scores are stored in the cache, so that a second call is fast. The report compares with all other methods; a benchmark's
own command, such as attribution-benchmarks svea, has all of its settings.

Cost: a method's passes (docs/methods.md) on a few thousand small inputs; a method of one gradient takes about three
CPU minutes on the five benchmarks of the report.
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
    "quick", True, "the inputs and samples of the quick report, or those of the full one", flag_values=FLAGS
)


def main(flag_values: flags.FlagValues) -> None:
    """Score, print and save."""
    if not flag_values.methods:
        raise BadInput("no method; name one or several, such as: attribution-benchmarks score my_method.py:my_function")
    check_output(flag_values.output)
    from attribution_benchmarks import api

    scores = api.score(
        flag_values.methods, flag_values.benchmarks, model=flag_values.model or None, metrics=flag_values.metrics,
        quick=flag_values.quick, seed=flag_values.seed,
    )  # fmt: skip
    print_text(scores.text)
    if flag_values.output:
        scores.save(flag_values.output)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
