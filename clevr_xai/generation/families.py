"""Families of questions: programs with open slots, their sentences, and constraints on the slots.

The files in ``families/`` hold the data, their README the format.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
import random
import re
from collections.abc import Callable

from clevr_xai.vocabulary import ATTRIBUTES, COLORS, INTEGERS, MATERIALS, SHAPES, SIZES, SYNONYMS

SIMPLE_FILES = ("simple",)
COMPLEX_FILES = (
    "compare_integer",
    "comparison",
    "one_hop",
    "same_relate",
    "single_and",
    "single_or",
    "three_hop",
    "two_hop",
    "zero_hop",
)
FOLDER = importlib.resources.files("clevr_xai.generation") / "families"
_POSSIBLE_ANSWERS = {
    "count": INTEGERS,
    "query_size": tuple(SIZES),
    "query_color": tuple(COLORS),
    "query_material": MATERIALS,
    "query_shape": SHAPES,
}
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_PLACE = re.compile(r"\{(R|a|another|other)?(\d*)(s|thing)?\}")


@dataclasses.dataclass(frozen=True)
class Step:
    """One node of a family's program, before its slot is filled."""

    kind: str
    inputs: tuple[int, ...]
    slot: int | None
    unnamed: tuple[int, ...]  # positions in ATTRIBUTES that the slot's description does not name
    live: tuple[int, ...]  # earlier steps whose outputs this step or a later one depends on
    # Has a slot and follows a relation that is a separate step. The check for degenerate questions depends on the
    # description itself, not only on the objects that it selects.
    behind_relate: bool
    after_such: bool  # comes later in the program than such a slot


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of questions."""

    file: str
    index: int  # in its file
    text: tuple[str, ...]
    steps: tuple[Step, ...]
    differ: tuple[tuple[int, int], ...]

    @property
    def has_relate(self) -> bool:
        """Whether a relation is a separate step; only then a question can be degenerate in CLEVR's sense."""
        return any(step.kind == "relate" for step in self.steps)

    @property
    def possible_answers(self) -> tuple:
        """Every answer that the last step's type allows."""
        kind = self.steps[-1].kind
        return _POSSIBLE_ANSWERS.get("count" if kind.endswith("count") else kind, (True, False))


@functools.cache
def load(kind: str) -> tuple[Family, ...]:
    """Return the families of "simple" (4) or "complex" (90) questions."""
    files = {"simple": SIMPLE_FILES, "complex": COMPLEX_FILES}[kind]
    return tuple(
        family(file, index, entry)
        for file in files
        for index, entry in enumerate(json.loads((FOLDER / f"{file}.json").read_text()))
    )


def family(file: str, index: int, entry: dict) -> Family:
    """Return a family from its entry in a file."""
    program, differ = entry["program"], tuple(map(tuple, entry.get("differ", ())))
    unnamed = {
        int(slot): tuple(list(ATTRIBUTES).index(name) for name in names)
        for slot, names in entry.get("unnamed", {}).items()
    }
    relations = {position for position, node in enumerate(program) if node["type"] == "relate"}
    behind: set[int] = set()
    for position, node in enumerate(program):
        if (behind | relations).intersection(node["inputs"]):
            behind.add(position)
    steps: list[Step] = []
    for position, node in enumerate(program):
        slot = node.get("slot")
        steps.append(
            Step(
                kind=node["type"],
                inputs=tuple(node["inputs"]),
                slot=slot,
                unnamed=unnamed.get(slot, ()),
                live=_live(program, differ, relations, position),
                behind_relate=position in behind and slot is not None,
                after_such=any(step.behind_relate for step in steps),
            )
        )
    return Family(file, index, tuple(entry["text"]), tuple(steps), differ)


def _live(program: list[dict], differ: tuple, relations: set[int], position: int) -> tuple[int, ...]:
    """Return the steps before ``position`` whose outputs that step or a later one depends on."""
    needed = {earlier for later in program[position:] for earlier in later["inputs"]}
    needed |= {first for first, second in differ if second >= position}
    needed |= relations  # the check for degenerate questions runs the program again from every relation on
    return tuple(sorted(earlier for earlier in needed if earlier < position))


def could_be(one: tuple, other: tuple) -> bool:
    """Return whether an object of the first description may also fit the second."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def fill_sentence(
    text: str,
    choices: dict[int, tuple],
    rng: random.Random,
    other: Callable[[tuple, tuple], bool] = could_be,
) -> str:
    """Return a sentence.

    Parameters
    ----------
    text
        With placeholders for slots, as the README of the families describes.
    choices
        Slot number -> (relation or None, description or None).
    rng
        For synonyms and optional words.
    other
        Whether a placeholder for "other" is filled, given the description in slot 1 and its own.
    """
    text = _OPTIONAL.sub(lambda match: match[1] if rng.random() < 0.5 else "", text)

    def place(match: re.Match) -> str:
        lead, slot, ending = match.groups()
        if ending == "thing":
            return rng.choice(SYNONYMS["thing"])
        relation, description = choices[int(slot)]
        if lead == "R":
            return rng.choice(SYNONYMS[relation])
        phrase = _noun_phrase(description, rng) + (ending or "")
        if lead in ("other", "another") and other(choices[1][1], description):
            return f"{lead} {phrase}"
        if lead in ("a", "another"):
            return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
        return phrase

    return " ".join(_PLACE.sub(place, text).split())


def _noun_phrase(description: tuple, rng: random.Random) -> str:
    """Return a description (size, color, material, shape) in words, as in "tiny red shiny block"."""
    *adjectives, shape = description
    words = [value for value in (*adjectives, shape or "thing") if value is not None]
    return " ".join(rng.choice(SYNONYMS.get(word, (word,))) for word in words)
