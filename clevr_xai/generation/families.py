"""Families of questions: a program with open slots, the sentences that put it, and what the slots must obey.

The files in ``families/`` hold the data, their README the format.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json

from clevr_xai.vocabulary import ATTRIBUTES, COLORS, INTEGERS, MATERIALS, SHAPES, SIZES

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
_POSSIBLE_ANSWERS = {
    "count": INTEGERS,
    "query_size": tuple(SIZES),
    "query_color": tuple(COLORS),
    "query_material": MATERIALS,
    "query_shape": SHAPES,
}


@dataclasses.dataclass(frozen=True)
class Step:
    """One node of a family's program, before its slot is filled."""

    kind: str
    inputs: tuple[int, ...]
    slot: int | None
    unnamed: tuple[int, ...]  # positions in ATTRIBUTES that the slot's description leaves out
    live: tuple[int, ...]  # earlier steps whose outputs this step or a later one depends on
    # A slot behind a relation that is a step of its own: the check for degenerate questions looks at the
    # description itself, not only at the objects it selects.
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
        """Whether a relation is a step of its own; only then a question can be degenerate in CLEVR's sense."""
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
    folder = importlib.resources.files("clevr_xai.generation") / "families"
    return tuple(
        family(file, index, entry)
        for file in files
        for index, entry in enumerate(json.loads((folder / f"{file}.json").read_text()))
    )


def family(file: str, index: int, entry: dict) -> Family:
    """Return a family from its entry in a file."""
    attributes = tuple(ATTRIBUTES)
    program, differ = entry["program"], tuple(map(tuple, entry.get("differ", ())))
    unnamed = {
        int(slot): tuple(attributes.index(name) for name in names) for slot, names in entry.get("unnamed", {}).items()
    }
    behind: set[int] = set()
    for position, node in enumerate(program):
        if any(earlier in behind or program[earlier]["type"] == "relate" for earlier in node["inputs"]):
            behind.add(position)
    steps: list[Step] = []
    for position, node in enumerate(program):
        needed = {earlier for later in program[position:] for earlier in later["inputs"]}
        needed |= {first for first, second in differ if second >= position}
        # The check for degenerate questions runs the program again from every relation on.
        needed |= {earlier for earlier, before in enumerate(program) if before["type"] == "relate"}
        slot = node.get("slot")
        steps.append(
            Step(
                kind=node["type"],
                inputs=tuple(node["inputs"]),
                slot=slot,
                unnamed=unnamed.get(slot, ()),
                live=tuple(sorted(earlier for earlier in needed if earlier < position)),
                behind_relate=position in behind and slot is not None,
                after_such=any(step.behind_relate for step in steps),
            )
        )
    return Family(file, index, tuple(entry["text"]), tuple(steps), differ)
