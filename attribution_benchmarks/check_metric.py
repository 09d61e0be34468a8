r"""Check a metric's contract, and show its evaluation card: what it cannot see.

    python -m attribution_benchmarks.check_metric my_metric.py:MINE
    python -m attribution_benchmarks.check_metric deletion pixel_flipping@quantus --output=cards.json

The metric scores exact, random and changed maps of small networks whose truth is known. It must return one number for
each map, the same for the same seed, whatever the other inputs, within its bounds. It must not write to its inputs and
must print nothing. A metric may refuse some networks by ``BadInput``, but not all. The exit code is 1 if a check fails
that --allow does not name. --output writes the cards as JSON.

Cost: 10 CPU seconds and one for most metrics; half a minute for those that explain noisy inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from absl import flags

from attribution import cli
from attribution.check_method import FAILED
from attribution.errors import BadInput, print_line
from attribution.files import atomic_write, check_file
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.exact.measure_card import CHANGES, check_metric
from attribution_benchmarks.metrics.cards import Card, as_json
from attribution_benchmarks.metrics.registry import select_metrics

FLAGS = flags.FlagValues()
flags.DEFINE_multi_string(
    "metric", [], "module:NAME, file.py:NAME or a metric's name; may be written without --metric=", flag_values=FLAGS
)
flags.DEFINE_list("allow", [], "checks that may fail, separated by commas", flag_values=FLAGS)
flags.DEFINE_string("output", "", "file for the cards, as JSON", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Check each metric; exit with code 1 if one breaks the contract."""
    if not flag_values.metric:
        raise BadInput("no metric is named; write file.py:NAME, module:NAME or a metric's name")
    check_file("output", flag_values.output)
    metrics = select_metrics(flag_values.metric, {})
    found = {name: _checked(name, metric, flag_values.allow) for name, metric in metrics.items()}
    cards = {name: card for name, card in found.items() if card}
    if flag_values.output:
        atomic_write(flag_values.output, as_json(cards))
    if len(cards) < len(found):
        sys.stdout.flush()
        sys.exit(1)


def _checked(name: str, metric: Metric, allow: Sequence[str]) -> Card | None:
    """Check a metric, and print what was found and its card; return the card, None where a check fails."""
    findings, card = check_metric(metric, allow)
    for finding in findings:
        print_line(f"{finding.outcome.ljust(7)}  {finding.on.ljust(33)}  {finding.check.ljust(22)}  {finding.words}")
    if card:
        _show(name, card)
    else:
        print_line(f"{name}: {sum(finding.outcome == FAILED for finding in findings)} checks failed; no card")
    return card


def _show(name: str, card: Card) -> None:
    """Print a card."""
    print_line()
    print_line(f"{name}, {card.better} is better: {card.phrase}")
    facts = {CHANGES[change][0]: effect for change, effect in card.changes.items()}
    facts["queries"] = "the network" if card.queries else "the map alone"
    for fact, text in facts.items():
        print_line(f"  {fact.ljust(52)}{text}")
    print_line("What not to conclude:")
    for caution in card.cautions():
        print_line(f"  {caution}")


def run() -> None:
    """Run the command; what does not begin with a dash is a metric."""
    sys.argv[1:] = [word if word.startswith("-") else f"--metric={word}" for word in sys.argv[1:]]
    cli.run(main, FLAGS, __doc__)


if __name__ == "__main__":
    run()
