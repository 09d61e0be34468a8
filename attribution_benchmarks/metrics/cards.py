"""What a metric can and cannot see: an evaluation card, measured on networks whose truth is known.

``exact.measure_card`` measures cards. Those of all metrics that are offered are in cards.json beside this module;
docs/metrics.md and the report say what they say.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence

from attribution.reading import read_json

FILE = pathlib.Path(__file__).with_name("cards.json")
SAME, MIRRORED, CHANGED, UNDEFINED = "same", "mirrored", "changed", "undefined"


@dataclasses.dataclass(frozen=True)
class Card:
    """Invariances and blind spots of a metric.

    Attributes
    ----------
    better
        "more" or "less".
    inputs
        Kinds of inputs on which it is defined: "vectors", "images".
    changes
        Change of a map (``exact.measure_card.CHANGES``) -> what the score does: ``SAME``; ``MIRRORED``, to -score or
        1 - score; ``CHANGED``; ``UNDEFINED``. Maps that lose their score do not count.
    undefined
        Changes after which some maps have no score, and kinds of maps without one.
    varies
        Whether two maps of one input ever have different scores.
    queries
        Whether it needs any score of the network, any further map, or exact Shapley values.
    masks
        Whether it compares with a ground-truth mask.
    """

    better: str
    inputs: Sequence[str]
    changes: Mapping[str, str]
    undefined: Sequence[str]
    varies: bool
    queries: bool
    masks: bool

    @property
    def blind_spots(self) -> list[str]:
        """Changes of a map that do not change the score, the most general name for each."""
        same = self._same
        spots = {
            "offsets": "offset" in same and "monotone" not in same,
            "scale": "scale" in same and not self.order,
            "signs": bool(same & {"negated", "absolute"}) and "magnitudes" not in self.order,
            "negative values": "positive_part" in same,
            "positions": "permuted" in same,
        }
        return [name for name, blind in spots.items() if blind]

    @property
    def order(self) -> str:
        """What alone counts where sizes do not: "the order of values", or of magnitudes; else empty."""
        if "monotone" in self._same:
            return "the order of values"
        if "odd_power" not in self._same:
            return ""
        return "the order of magnitudes" if "absolute" in self._same else "signs and the order of magnitudes"

    @property
    def phrase(self) -> str:
        """Return the blind spots in a few words, "blind to offsets and scale"."""
        if not self.varies:
            return "the same for every map"
        spots = self.blind_spots
        parts = [f"sees only {self.order}" if self.order else "", f"blind to {_joined(spots)}" if spots else ""]
        return "; ".join(filter(None, parts)) or "no blind spot found"

    def cautions(self) -> list[str]:
        """Return what not to conclude from the metric, in sentences."""
        same = self._same
        blind_to_signs = bool(same & {"negated", "absolute"})
        found = [
            (not self.varies, "Every map of an input has the same score: do not compare methods by it."),
            (not (self.queries or self.masks),
             "It reads the map alone: a good score does not mean that the map describes the network."),
            (self.masks, "It compares with a mask: do not conclude that the network uses what is in the mask."),
            ("offset" in same, "A constant added to a map changes nothing: do not read values as contributions."),
            ("scale" in same and not self.order,
             "Maps that differ in scale score alike: do not conclude that values have the right size."),
            (bool(self.order),
             f"It sees only {self.order}: do not conclude that one position matters twice as much as another."),
            (blind_to_signs,
             "Signs do not count: it does not distinguish evidence for the class from evidence against it."),
            ("permuted" in same, "Positions do not count: do not conclude that the right ones are marked."),
            ("zero" in self.undefined,
             "A map of zeros has no score: methods that return some are scored on other inputs."),
        ]  # fmt: skip
        return [text for applies, text in found if applies]

    @property
    def _same(self) -> set[str]:
        return {name for name, effect in self.changes.items() if self.varies and effect == SAME}


def _joined(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part) if words else ""


@functools.cache
def cards() -> Mapping[str, Card]:
    """Return the cards of the metrics that are offered, by name."""
    return {name: Card(**fields) for name, fields in read_json(FILE).items()}


def card_of(name: str, benchmark: str = "") -> Card | None:
    """Return the card of a metric by its name; None where there is none.

    ``benchmark`` is the name of the benchmark that the metric belongs to; empty for one that all share.
    """
    return cards().get(f"{benchmark}:{name}" if benchmark else name)


def as_json(found: Mapping[str, Card]) -> str:
    """Return cards as JSON, one line each."""
    lines = [f"{json.dumps(name)}: {json.dumps(dataclasses.asdict(card))}" for name, card in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
