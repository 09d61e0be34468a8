"""Put a filled family into words: descriptions, relations, articles, plurals, synonyms."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from clevr_xai.generation.search import Choice
from clevr_xai.vocabulary import SYNONYMS

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_PLACE = re.compile(r"\{(R|a|another|other)?(\d*)(s|thing)?\}")


def could_be(one: tuple, other: tuple) -> bool:
    """Return whether an object of the first description may also fit the second."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def put(
    text: str,
    choices: dict[int, Choice],
    rng: random.Random,
    other: Callable[[tuple, tuple], bool] = could_be,
) -> str:
    """Return a sentence.

    Parameters
    ----------
    text
        With places for slots, as the README of the families describes.
    choices
        Slot number -> (relation or None, description or None).
    rng
        Draws synonyms and decides about optional words.
    other
        Whether a place for "other" says it, given the description in slot 1 and its own.
    """
    text = _OPTIONAL.sub(lambda match: match[1] if rng.random() < 0.5 else "", text)

    def place(match: re.Match) -> str:
        lead, slot, ending = match.groups()
        if ending == "thing":
            return rng.choice(SYNONYMS["thing"])
        relation, description = choices[int(slot)]
        if lead == "R":
            return rng.choice(SYNONYMS[relation])
        phrase = noun_phrase(description, rng) + (ending or "")
        if lead in ("other", "another") and other(choices[1][1], description):
            return f"{lead} {phrase}"
        if lead in ("a", "another"):
            return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
        return phrase

    return " ".join(_PLACE.sub(place, text).split())


def noun_phrase(description: tuple, rng: random.Random) -> str:
    """Return a description (size, color, material, shape) in words, as in "tiny red shiny block"."""
    *adjectives, shape = description
    words = [value for value in (*adjectives, shape or "thing") if value is not None]
    return " ".join(rng.choice(SYNONYMS.get(word, (word,))) for word in words)
