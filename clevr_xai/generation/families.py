"""Families of questions: programs with open slots, their sentences, and the search that fills the slots for a scene.

The files in ``families/`` hold the data, their README the format.

The search is random, depth first, and remembers failures. The rules are those of CLEVR's question generator (Johnson et
al., CVPR 2017). A described object must be unique. Outputs must differ where the family requires it. An answer that is
too frequent is rejected, and a relation must matter. Sets are bit sets: bit i is object i, so that a filter or a
relation is one machine operation. A choice that failed rules out every choice with the same output.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import itertools
import json
import random
import re
from collections.abc import Callable, Iterable

from clevr_xai.vocabulary import ATTRIBUTES, INTEGERS, RELATIONS, SYNONYMS

FILES = {
    "simple": ("simple",),
    "complex": (
        "compare_integer", "comparison", "one_hop", "same_relate", "single_and", "single_or", "three_hop", "two_hop",
        "zero_hop",
    ),
}  # fmt: skip
FOLDER = importlib.resources.files("clevr_xai.generation") / "families"
_POSSIBLE_ANSWERS = {"count": INTEGERS} | {f"query_{name}": values for name, values in ATTRIBUTES.items()}
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_PLACE = re.compile(r"\{(R|a|another|other)?(\d*)(s|thing)?\}")

Description = tuple  # (size, color, material, shape), None where unnamed
_NOTHING_NAMED = (None,) * len(ATTRIBUTES)
_POSITION = {name: position for position, name in enumerate(ATTRIBUTES)}
_VALUES = tuple((*values, None) for values in ATTRIBUTES.values())

TRIVIAL_ODDS = 9  # useful relations among the choices for each trivial one: at most a tenth are trivial

Choice = tuple  # (relation or None, description or None)


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
    text: tuple[str, ...]  # sentences in the plain wording
    official: tuple[str, ...]
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
    return tuple(
        family(file, index, entry)
        for file in FILES[kind]
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
        needed = {earlier for later in program[position:] for earlier in later["inputs"]}
        needed |= {first for first, second in differ if second >= position}
        needed |= relations  # the check for degenerate questions runs the program again from every relation on
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
    return Family(file, index, tuple(entry["text"]), tuple(entry["official"]), tuple(steps), differ)


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
        *adjectives, shape = description  # as in "tiny red shiny block"
        words = [value for value in (*adjectives, shape or "thing") if value is not None]
        phrase = " ".join(rng.choice(SYNONYMS.get(word, (word,))) for word in words) + (ending or "")
        if lead in ("other", "another") and other(choices[1][1], description):
            return f"{lead} {phrase}"
        if lead in ("a", "another"):
            return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
        return phrase

    return " ".join(_PLACE.sub(place, text).split())


class SceneIndex:
    """The sets of objects that descriptions and relations select in one scene.

    Parameters
    ----------
    scene
        In CLEVR's JSON form.
    """

    def __init__(self, scene: dict):
        objects = [tuple(item[name] for name in ATTRIBUTES) for item in scene["objects"]]
        self.attributes = objects
        self.everything = (1 << len(objects)) - 1
        self.having = [  # for each attribute: value -> the objects that have it
            {value: _bits(index for index, item in enumerate(objects) if item[position] == value) for value in values}
            for position, values in enumerate(ATTRIBUTES.values())
        ]
        self.described: dict[Description, int] = {}
        for index, values in enumerate(objects):
            for key in itertools.product(*[(None, value) for value in values]):  # named or not
                self.described[key] = self.described.get(key, 0) | 1 << index
        self.related = {name: list(map(_bits, scene["relationships"][name])) for name in RELATIONS}
        # Many families need the same; cached as long as the scene.
        self.descriptions = functools.cache(self._descriptions)
        self.relations = functools.cache(self._relations)

    def select(self, description: Description, among: int) -> int:
        """Return the objects among a set that fit a description, which need not fit any object."""
        for having, value in zip(self.having, description, strict=True):
            if value is not None:
                among &= having[value]
        return among

    def same(self, position: int, index: int) -> int:
        """Return the other objects with the same value of an attribute, given by its position."""
        return self.having[position][self.attributes[index][position]] & ~(1 << index)

    def _descriptions(self, unnamed: tuple[int, ...]) -> list[tuple[Description, int]]:
        """Return the descriptions that fit some object without naming some attributes, and the objects they select."""
        return [
            (key, objects)
            for key, objects in self.described.items()
            if all(key[position] is None for position in unnamed)
        ]

    def _relations(self, index: int, unnamed: tuple[int, ...]) -> tuple[list, list]:
        """Return the combinations of a relation to an object and a description.

        Returns
        -------
        two lists of ((relation, description), objects)
            Those in which the relation matters, and the trivial ones, in which all objects that fit the description
            have that relation.
        """
        useful, trivial = [], []
        for name in RELATIONS:
            candidates = self.related[name][index]
            for key, fitting in self.descriptions(unnamed):
                objects = candidates & fitting
                (trivial if objects == fitting else useful).append(((name, key), objects))
        return useful, trivial


def _overrepresented(counts: dict, answer) -> bool:
    """Return whether an answer is too frequent among the answers of its family so far.

    That is more than 1.1 times the count of the second most frequent one, or more than five times the median, which
    counts as at least 5.
    """
    ranked = sorted(counts.values())
    median = max(ranked[len(ranked) // 2], 5)
    return counts[answer] > 1.1 * ranked[-2] or counts[answer] > 5 * median


class Search:
    """One search for a question of a family on a scene.

    Parameters
    ----------
    family
    index
        Of the scene.
    counts
        Of each possible answer of the family so far.
    rng
        For the order of all choices.
    """

    def __init__(self, family: Family, index: SceneIndex, counts: dict, rng: random.Random):
        self.family, self.index, self.counts, self.rng = family, index, counts, rng
        self.rejected = {answer for answer in counts if _overrepresented(counts, answer)}
        self.outputs: list = []
        self.choices: list[Choice | None] = []
        self.failed: set = set()

    def run(self) -> list[Choice | None] | None:
        """Return one choice a step, None for a step without slot; None if the family has no question on this scene."""
        if len(self.rejected) == len(self.counts):
            return None
        return list(self.choices) if self._descend(0) else None

    def _descend(self, position: int) -> bool:
        steps = self.family.steps
        if position == len(steps):
            answer = self.outputs[-1]
            return answer not in self.rejected and not (self.family.has_relate and self._degenerate(answer))
        step = steps[position]
        state = (position, *(self.outputs[earlier] for earlier in step.live))
        if state in self.failed:
            return False
        useless = set()
        for choice, output in self._options(step):
            if output in useless or any(
                second == position and self.outputs[first] == output for first, second in self.family.differ
            ):
                continue
            self.outputs.append(output)
            self.choices.append(choice)
            if self._descend(position + 1):
                return True
            self.outputs.pop()
            self.choices.pop()
            if not step.behind_relate:
                useless.add(output)
        if not step.after_such:
            self.failed.add(state)
        return False

    def _degenerate(self, answer) -> bool:
        """Return whether the answer stays the same if some relation is replaced by the whole scene."""
        for position, step in enumerate(self.family.steps):
            if step.kind != "relate":
                continue
            outputs = [*self.outputs[:position], self.index.everything]
            for later in range(position + 1, len(self.family.steps)):
                outputs.append(self._output(self.family.steps[later], self.choices[later], outputs))
                if outputs[-1] is None:
                    break
            else:
                if outputs[-1] == answer:
                    return True
        return False

    def _options(self, step: Step):
        """Yield choices for a step with their outputs, each once, in random order."""
        if step.slot is None:
            yield None, self._output(step, None, self.outputs)
            return
        options = list(self._choices(step))
        finish = _FINISH.get(step.kind.rpartition("_")[2], _keep)
        while options:
            # Sample without replacement: only as much of a shuffle as the search needs.
            position = self.rng.randrange(len(options))
            choice, objects = options[position]
            options[position] = options[-1]
            options.pop()
            yield choice, finish(objects)

    def _choices(self, step: Step):
        """Return the choices for a step's slot as (choice, selected objects)."""
        before = self.outputs[step.inputs[0]]
        kind = step.kind
        if kind == "relate":
            return [((name, None), self.index.related[name][before]) for name in RELATIONS]
        if kind.startswith("relate_filter"):
            return self._related(step, before)
        position = _POSITION.get(kind.removeprefix("filter_"))
        if position is not None:
            values = self.index.having[position]
            rest = _NOTHING_NAMED[position + 1 :]
            return [
                ((None, (*_NOTHING_NAMED[:position], value, *rest)), before & objects)
                for value, objects in values.items()
            ]
        fitting = [((None, key), objects & before) for key, objects in self.index.descriptions(step.unnamed)]
        if step.kind == "filter_unique":
            return _singles(fitting)
        if step.kind == "filter" or before == self.index.everything:
            # "How many things are there?" has no object that a mask could show.
            fitting = [option for option in fitting if option[0][1] != _NOTHING_NAMED]
        number = len(fitting if step.kind == "filter_exist" else _singles(fitting))
        for _ in range(number):  # random descriptions, most of which fit no object, give the answers "no" and 0
            key = tuple(
                None if position in step.unnamed else values[self.rng.randrange(len(values))]
                for position, values in enumerate(_VALUES)
            )
            if key != _NOTHING_NAMED:
                fitting.append(((None, key), self.index.select(key, before)))
        return fitting

    def _related(self, step: Step, before: int) -> list:
        """Return choices of a relation and a description, at most a tenth of them with a trivial relation."""
        useful, trivial = self.index.relations(before, step.unnamed)
        if step.kind.endswith("unique"):
            useful, trivial = _singles(useful), _singles(trivial)
        elif step.kind == "relate_filter":
            useful, trivial = ([option for option in options if option[1]] for options in (useful, trivial))
        allowed = len(useful) // TRIVIAL_ODDS
        return useful + self.rng.sample(trivial, min(allowed, len(trivial)))

    def _output(self, step: Step, choice: Choice | None, outputs: list):
        """Return a step's output with its slot filled, None where a ``unique`` is not unique."""
        kind = step.kind
        inputs = [outputs[earlier] for earlier in step.inputs]
        if step.slot is not None:
            (relation, description), (objects,) = choice, inputs
            if relation is not None:
                objects = self.index.related[relation][objects]
            if description is not None:
                objects = self.index.select(description, objects)
            last = kind.rpartition("_")[2]
            return None if last == "unique" and objects.bit_count() != 1 else _FINISH.get(last, _keep)(objects)
        if kind == "scene":
            return self.index.everything
        if kind in _SETS:
            return _SETS[kind](*inputs)
        name = kind.partition("_")[2]
        if kind.startswith("same_"):
            return self.index.same(_POSITION[name], inputs[0])
        if kind.startswith("query_"):
            return self.index.attributes[inputs[0]][_POSITION[name]]
        return inputs[0] == inputs[1]  # equal_*


def _bits(indices: Iterable[int]) -> int:
    return sum(1 << index for index in indices)


def _singles(options: list) -> list:
    """Return the choices that select a single object."""
    return [option for option in options if option[1].bit_count() == 1]


def _keep(objects):
    return objects


# The last step of a composite node.
_FINISH = {
    "unique": lambda objects: objects.bit_length() - 1,
    "count": int.bit_count,
    "exist": bool,
}
_SETS = {
    "union": lambda first, second: first | second,
    "intersect": lambda first, second: first & second,
    "count": int.bit_count,
    "exist": bool,
    "less_than": lambda first, second: first < second,
    "greater_than": lambda first, second: first > second,
}
