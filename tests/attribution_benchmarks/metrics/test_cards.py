"""Every metric that is offered has a card, and what is said of it follows from what was measured."""

import dataclasses

import pytest

from attribution_benchmarks.exact.measure_card import CHANGES
from attribution_benchmarks.metrics import cards
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs import measure_cards

CARD = cards.cards()["deletion"]


def test_every_metric_that_is_offered_has_a_card():
    assert cards.cards().keys() == measure_cards.offered().keys() >= METRIC_REGISTRY.keys()
    for name, card in cards.cards().items():
        assert card.changes.keys() == CHANGES.keys() and card.phrase, name


@pytest.mark.parametrize(
    ("same", "phrase"),
    [
        ({"offset", "scale", "odd_power", "monotone"}, "sees only the order of values"),
        ({"scale", "odd_power", "negated", "absolute"}, "sees only the order of magnitudes"),
        ({"scale", "odd_power"}, "sees only signs and the order of magnitudes"),
        ({"scale", "negated", "absolute", "permuted"}, "blind to scale, signs and positions"),
        ({"offset"}, "blind to offsets"),
        ({"monotone", "permuted"}, "sees only the order of values; blind to positions"),
        (set(), "no blind spot found"),
    ],
)
def test_the_phrase_follows_from_the_invariances(same, phrase):
    changes = {name: cards.SAME if name in same else cards.CHANGED for name in CHANGES}
    assert dataclasses.replace(CARD, changes=changes).phrase == phrase


def test_cautions_follow_from_the_numbers():
    changes = dict.fromkeys(CHANGES, cards.CHANGED)
    quiet = dataclasses.replace(CARD, changes=changes)
    assert quiet.cautions() == []
    assert "compares with a mask" in dataclasses.replace(quiet, masks=True).cautions()[0]


def test_the_card_of_a_name():
    assert cards.card_of("deletion") is CARD
    assert cards.card_of("mass") is None and cards.card_of("mass", "clevr_xai").masks
    assert cards.card_of("deletion", "bim") is None  # a benchmark's own metric of the name of a shared one
