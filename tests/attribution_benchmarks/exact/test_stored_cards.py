"""The stored card of each metric says what its formula says, and is what is measured."""

import functools
import json

import pytest

from attribution_benchmarks.exact import measure_card
from attribution_benchmarks.metrics import cards
from tools.docs import measure_cards

# Metric -> changes of a map that its formula cannot see. All others it can, on some map.
BLIND = {
    # ranks of magnitudes
    "roc_auc": {"scale", "negated", "odd_power", "absolute"},
    "average_precision": {"scale", "negated", "odd_power", "absolute"},
    "iou_at_area": {"scale", "negated", "odd_power", "absolute"},  # relevance rank accuracy r is 2 IoU / (1 + IoU)
    # shares of a sum: of magnitudes, of positive values
    "attribution_localisation": {"scale", "negated", "absolute"},  # relevance mass accuracy
    "focus": {"scale", "positive_part"},
    # of sorted shares of magnitudes
    "sparseness": {"scale", "negated", "absolute", "permuted"},
    "complexity": {"scale", "negated", "absolute", "permuted"},
    # orders of values
    "deletion": {"offset", "scale", "odd_power", "monotone"},
    "insertion_deletion": {"offset", "scale", "odd_power", "monotone"},
    # correlations of sums over sets of one size, which a constant shifts alike; sets of several sizes see it
    "sensitivity_n": {"offset", "scale"},
    "faithfulness_correlation": {"offset", "scale"},
    "infidelity": {"scale"},
    # |S - D| / (|S| + |D|) of a sum
    "completeness": {"permuted"},
}


OFFERED = measure_cards.offered()
OTHERS = sorted(OFFERED.keys() - BLIND.keys())


@functools.cache
def measured(name):
    return measure_card.measure_card(OFFERED[name])


def assert_is_stored(name):
    assert json.loads(cards.as_json({name: measured(name)}))[name] == json.loads(cards.FILE.read_text())[name]


@pytest.mark.parametrize("name", BLIND)
def test_a_card_has_the_invariances_of_the_formula_and_no_other(name):
    same = {change for change, effect in measured(name).changes.items() if effect == cards.SAME}
    assert same == BLIND[name]


@pytest.mark.parametrize("name", BLIND)
def test_the_stored_card_is_what_is_measured(name):
    assert_is_stored(name)


@pytest.mark.parametrize("name", OTHERS)
def test_every_stored_card_is_what_is_measured(name):
    assert_is_stored(name)


def test_a_correlation_of_drops_changes_its_sign_with_the_map():
    assert measured("sensitivity_n").changes["negated"] == cards.MIRRORED
