r"""Check whether a custom method keeps the contract of attribution methods.

    python -m attribution.check_method my_method.py:sharpened
    python -m attribution.check_method my_method.py:sharpened --model=DIR

The method is tried on a small network of signals and one of images, or on --model. It must return one map for each
input, the same for the same seed, whatever the batch and the order. The number of passes must not depend on the batch.
A method may refuse one kind of input by ``BadInput``, but not all. The exit code is 1 if a check fails.

Cost: 9 CPU seconds and under 1 GB for a method of one gradient, most of it TensorFlow's start.
"""

from __future__ import annotations

import sys

from absl import flags

from attribution import cli
from attribution.check_method import FAILED, check_method
from attribution.cli import define_loading_flags, load_flagged_model
from attribution.errors import BadInput
from attribution.methods.registry import with_parameters

FLAGS = flags.FlagValues()
flags.DEFINE_multi_string(
    "method", [], "module:function, file.py:function or a name of the registry; may be written without --method=",
    flag_values=FLAGS,
)  # fmt: skip
define_loading_flags(FLAGS)
FLAGS["model"].help = "SavedModel, or .keras or .h5 file, to try the method on, in place of the two small networks"


def main(flag_values: flags.FlagValues) -> None:
    """Check each method; exit with code 1 if one breaks the contract."""
    if not flag_values.method:
        raise BadInput("no method is named; write file.py:function or module:function")
    methods = with_parameters(flag_values.method).values()
    model = load_flagged_model(flag_values) if flag_values.model else None
    broken = False
    for method, _ in methods:
        findings = check_method(method, model, explain_input=flag_values.explain_input or None)
        broken = broken or any(finding.outcome == FAILED for finding in findings)
    if broken:
        sys.stdout.flush()
        sys.exit(1)


def run() -> None:
    """Run the command; what does not begin with a dash is a method."""
    sys.argv[1:] = [word if word.startswith("-") else f"--method={word}" for word in sys.argv[1:]]
    cli.run(main, FLAGS, __doc__)


if __name__ == "__main__":
    run()
