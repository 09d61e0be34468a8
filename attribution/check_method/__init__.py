r"""Check whether a custom method keeps the contract of attribution methods.

    python -m attribution.check_method my_method.py:sharpened
    python -m attribution.check_method my_method.py:sharpened --model=DIR --allow=target_dependence

The method is tried on a small network of signals and one of images, or on --model. It must return one map for each
input, the same for the same seed, whatever the batch and the order. Maps must depend on input and class, and the number
of passes must not depend on the batch. It must not write to its inputs and must print nothing. A method may refuse one
kind of input by ``BadInput``, but not all. The exit code is 1 if a check fails that --allow does not name.

Cost: 9 CPU seconds and under 1 GB for a method of one gradient, most of it TensorFlow's start.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from attribution import cli
from attribution.cli import define_loading_flags, load_flagged_model
from attribution.errors import BadInput, listed, print_line, renamed_arguments
from attribution.methods.method import Method
from attribution.methods.protocols import ScoredModel

if TYPE_CHECKING:
    from attribution.check_method.checks import Specimen


FLAGS = flags.FlagValues()
flags.DEFINE_multi_string(
    "method", [], "module:function, file.py:function or a name of the registry; may be written without --method=",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list("allow", [], "checks that may fail, separated by commas", flag_values=FLAGS)
define_loading_flags(FLAGS)
FLAGS["model"].help = "directory of a SavedModel to try the method on, in place of the two small networks"

PASSED, FAILED, ALLOWED, REFUSED = "passed", "FAILED", "allowed", "refused"


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check on one model.

    Attributes
    ----------
    check
        Name of the check (``attribution.check_method.checks.CHECKS``).
    on
        Kind of the inputs.
    outcome
        ``"passed"``, ``"FAILED"``, ``"allowed"`` (failed, as expected) or ``"refused"`` (the method cannot explain this
        model and says so).
    words
        Observation.
    """

    check: str
    on: str
    outcome: str
    words: str

    def __str__(self) -> str:
        return f"{self.outcome.ljust(7)}  {self.on.ljust(7)}  {self.check.ljust(20)}  {self.words}"


@renamed_arguments(wrt="explain_input")
def check_method(
    method: Any,
    model: ScoredModel | None = None,
    *,
    allow: Sequence[str] = (),
    explain_input: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    show: bool = True,
) -> list[Finding]:
    """Check a method's contract.

    Parameters
    ----------
    method
        As ``attribution.explain`` takes it: ``"file.py:function"``, a function, a name of the registry.
    model : attribution.model.model.Model, optional
        The model to try it on, at random inputs; a small network of signals and one of images by default.
    allow
        Names of checks that may fail, such as ``"target_dependence"`` for an edge detector.
    explain_input
        Name of the explained input, where the model has several.
    parameters
        Parameters of the method in place of its defaults.
    show
        Whether to print the results.

    Returns
    -------
    list[Finding]
        One for each check and model; a method keeps the contract if none has the outcome ``"FAILED"``.

    Raises
    ------
    BadInput
        If the method or a check does not exist.
    """
    from attribution.check_method.checks import CHECKS, built_specimens, specimen_of
    from attribution.explain import with_parameters

    if unknown := sorted(set(allow) - CHECKS.keys()):
        raise BadInput(f"no check '{unknown[0]}'; the checks are {listed(CHECKS)}")
    parameters = parameters or {}
    ((resolved, _),) = with_parameters({"": (method, parameters)}).values()
    findings = []
    with tempfile.TemporaryDirectory() as directory:
        specimens = built_specimens(directory) if model is None else [specimen_of(model, explain_input)]
        for specimen in specimens:
            findings += _found(resolved, specimen, parameters, allow)
    if all(finding.outcome == REFUSED for finding in findings):
        findings = [dataclasses.replace(finding, outcome=FAILED) for finding in findings]
    if show:
        for finding in findings:
            print_line(finding)
        print_line(_summary(resolved.name, findings))
    return findings


def _found(method: Method, specimen: Specimen, parameters: Mapping[str, Any], allow: Sequence[str]) -> list[Finding]:
    from attribution.check_method.checks import CHECKS, Failed, Refused, Trial

    trial, findings = Trial(method, specimen, parameters), []
    for name, check in CHECKS.items():
        try:
            findings.append(Finding(name, specimen.title, PASSED, check(trial)))
        except Failed as failure:
            outcome = ALLOWED if name in allow else FAILED
            findings.append(Finding(name, specimen.title, outcome, str(failure)))
            if name == "returns_maps":  # the other checks need maps
                return findings
        except Refused as refusal:
            return [Finding(name, specimen.title, REFUSED, str(refusal))]
        except Exception as error:  # it ran before, and fails on other targets, batches or orders
            kind = "" if isinstance(error, BadInput) else f"{type(error).__name__}: "
            words = kind + " ".join(str(error).split())[:200]
            findings.append(Finding(name, specimen.title, ALLOWED if name in allow else FAILED, words))
    return findings


def _summary(name: str, findings: Sequence[Finding]) -> str:
    counts = {outcome: sum(finding.outcome == outcome for finding in findings) for outcome in (PASSED, FAILED, ALLOWED)}
    refused = [finding.on for finding in findings if finding.outcome == REFUSED]
    parts = [f"{counts[PASSED]} checks passed", f"{counts[FAILED]} failed"]
    parts += [f"{counts[ALLOWED]} failed as allowed"] if counts[ALLOWED] else []
    parts += [f"refuses {listed(refused)}"] if refused else []
    return f"{name}: {', '.join(parts)}"


def main(flag_values: flags.FlagValues) -> None:
    """Check each method; exit with code 1 if one breaks the contract."""
    if not flag_values.method:
        raise BadInput("no method is named; write file.py:function or module:function")
    model = load_flagged_model(flag_values) if flag_values.model else None
    broken = False
    for method in flag_values.method:
        findings = check_method(method, model, allow=flag_values.allow, explain_input=flag_values.explain_input or None)
        broken = broken or any(finding.outcome == FAILED for finding in findings)
    if broken:
        sys.stdout.flush()
        sys.exit(1)


def run() -> None:
    """Run the command; what does not begin with a dash is a method."""
    sys.argv[1:] = [word if word.startswith("-") else f"--method={word}" for word in sys.argv[1:]]
    cli.run(main, FLAGS, __doc__)
