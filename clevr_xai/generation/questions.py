"""Questions on scenes, simple and complex, with programs, outputs of every node, and balanced answers.

Families are tried least used first, as in CLEVR. The counts of families and answers are reset every 250 images, so that
a block of 250 scenes is the unit of work: it depends only on the seed and its scenes.

Sentences have the wording of ``families/`` or the official one, the language of CLEVR-XAI's release: a frame of
``families/official_wording.json`` around phrases, which follow from the family's program. ``families/README.md``
describes the placeholders of both, which ``families.fill_sentence`` replaces by words. Frames of a family are sampled
uniformly; one that is listed twice is twice as frequent, as in the release. One deviation from the release is intended:
it writes "a object" where this grammar writes "an object".
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable, Iterator, Sequence

from clevr_xai import programs
from clevr_xai.generation import families
from clevr_xai.generation.families import Choice, Family, SceneIndex, Search, Step, could_be
from clevr_xai.vocabulary import ATTRIBUTES

BLOCK = 250  # scenes, after which the counts are reset
QUESTIONS_PER_IMAGE = 10  # at most; there are only four simple families
WORDINGS = ("plain", "official")


def generate(scenes: Sequence[dict], kind: str, seed: int, wording: str = "official") -> list[dict]:
    """Generate questions about scenes.

    Parameters
    ----------
    scenes
        In CLEVR's JSON form, in the order of their image index.
    kind
        "simple" or "complex".
    seed
        Of the run.
    wording
        "official", the language of CLEVR-XAI's release, or "plain", this project's wording. Programs, answers and
        outputs are the same in both.

    Returns
    -------
    list of dict
        ``split``, ``image_filename``, ``image_index``, ``question``, ``program`` (nodes ``type``, ``inputs``,
        ``value_inputs``, ``_output``), ``answer`` (a bool, an int or a word), ``template_filename``,
        ``question_family_index``, ``question_index``.
    """
    asked = (question for block in in_blocks(scenes) for question in generate_block(block, kind, seed, wording))
    return [{**question, "question_index": number} for number, question in enumerate(asked)]


def in_blocks(scenes: Sequence) -> list[Sequence]:
    """Return scenes, in any form, split into blocks."""
    return [scenes[start : start + BLOCK] for start in range(0, len(scenes), BLOCK)]


def generate_block(scenes: Sequence[dict], kind: str, seed: int, wording: str = "official") -> list[dict]:
    """Generate questions about at most 250 scenes, without ``question_index``; as ``generate`` otherwise."""
    known = families.load(kind)
    used = dict.fromkeys(known, 0)
    counts = {family: dict.fromkeys(family.possible_answers, 0) for family in known}
    asked = []
    for scene in scenes:
        rng = random.Random(f"clevr_xai {kind} questions {seed} {scene['image_index']}")
        index = SceneIndex(scene)
        number = 0
        for family in sorted(known, key=used.__getitem__):
            choices = Search(family, index, counts[family], rng).run()
            if choices is None:
                continue
            question = _question(family, choices, scene, rng)
            if wording == "official":
                question["question"] = _official_sentence(family, choices, f"{kind} {seed} {scene['image_index']}")
            counts[family][question["answer"]] += 1
            used[family] += 1
            asked.append(question)
            number += 1
            if number == QUESTIONS_PER_IMAGE:
                break
    return asked


def _question(family: Family, choices: list[Choice | None], scene: dict, rng: random.Random) -> dict:
    """Return the question of a filled family, its answer found by running its program on the scene."""
    program = _expand(family, choices)
    for node, output in zip(program, programs.execute(program, scene), strict=True):
        node["_output"] = output
    return {
        "split": scene["split"],
        "image_filename": scene["image_filename"],
        "image_index": scene["image_index"],
        "question": families.fill_sentence(rng.choice(family.text), _slots(family, choices), rng),
        "program": program,
        "answer": program[-1]["_output"],
        "template_filename": f"{family.file}.json",
        "question_family_index": family.index,
    }


def _official_sentence(family: Family, choices: list[Choice | None], place: str) -> str:
    """Return a filled family's sentence in the official wording.

    It has a separate random generator, so that the questions after it do not depend on the wording.
    """
    rng = random.Random(f"clevr_xai official wording {place} {family.file} {family.index}")
    text = rng.choice(texts(family))
    return families.fill_sentence(text, _slots(family, choices), rng, _other_object)


def _slots(family: Family, choices: list[Choice | None]) -> dict[int, Choice]:
    return {step.slot: choice for step, choice in zip(family.steps, choices, strict=True) if step.slot is not None}


def _expand(family: Family, choices: list[Choice | None]) -> list[dict]:
    """Return a family's program with every composite step split into nodes of CLEVR's language."""
    program: list[dict] = []
    ends = []  # position in the program of each step's last node

    def add(kind: str, inputs: list[int], *values: str) -> None:
        program.append({"type": kind, "inputs": inputs, "value_inputs": list(values)})

    for step, choice in zip(family.steps, choices, strict=True):
        inputs = [ends[earlier] for earlier in step.inputs]
        if step.slot is None:
            add(step.kind, inputs)
        else:
            relation, description = choice
            if relation is not None:
                add("relate", inputs, relation)
                inputs = [len(program) - 1]
            for attribute, value in zip(ATTRIBUTES, description or (), strict=False):
                if value is not None:
                    add(f"filter_{attribute}", inputs, value)
                    inputs = [len(program) - 1]
            last = step.kind.rpartition("_")[2]
            if last in ("unique", "count", "exist"):
                add(last, inputs)
        ends.append(len(program) - 1)
    return program


_FRAMES = json.loads((families.FOLDER / "official_wording.json").read_text("utf-8"))
_HOW_MANY = ("how many", "what number of")


@functools.cache
def texts(family: Family) -> tuple[str, ...]:
    """Return the sentences of a family, to be sampled uniformly, with placeholders for ``families.fill_sentence``."""
    last = family.steps[-1]
    kind, _, attribute = last.kind.partition("_")
    if kind == "query":
        found = _queries(family, attribute)
    elif last.kind in _FRAMES["numbers"]:
        these, those = (_things(family.steps, position) for position in last.inputs)
        found = (_filled(frame, these=these, those=those) for frame in _FRAMES["numbers"][last.kind])
    elif kind == "equal":
        found = _comparisons(family.steps, attribute)
    else:
        found = _SETS[family.file](family.steps)
    return tuple(f"{text[0].upper()}{text[1:]}?" for text in found)


def _other_object(one: tuple, other: tuple) -> bool:
    """Return whether a sentence has "other" before the second description, after it has named the first.

    The release has it where the nouns are the same and no other attribute differs. It leaves "other" out of "a thing
    of the same color as the ball", although the ball is a thing.
    """
    return one[-1] == other[-1] and could_be(one, other)


def _queries(family: Family, attribute: str) -> Iterable[str]:
    position = family.steps[-1].inputs[0]
    the, a = _the(family.steps, position), _a(family.steps, position)
    frames = (_FRAMES["query"][name] for name in _FRAMES["queries"][family.file][attribute])
    return (_filled(frame, A=attribute, the=the, a=a) for frame in frames)


def _comparisons(steps: tuple[Step, ...], attribute: str) -> Iterable[str]:
    first, second = (steps[position].inputs[0] for position in steps[-1].inputs)
    related = any(step.kind.startswith("relate") for step in steps)
    which = "material" if attribute == "material" else "related" if related else "bare"
    phrases = {"the": _the(steps, first), "a": _a(steps, first), "other": _the(steps, second)}
    return (_filled(frame, A=attribute, **phrases) for frame in _FRAMES["compare"][which])


def _bare(steps: tuple[Step, ...]) -> Iterable[str]:
    """Return the sentences that count things of a scene, or query their existence."""
    if steps[-1].kind.endswith("count"):
        return (f"{how} {{1s}} are there" for how in _HOW_MANY)
    return ("are there any {1s}", "is there {a1}", "are any {1s} visible")


def _related(steps: tuple[Step, ...]) -> Iterable[str]:
    """Return the sentences about things that are related to an object."""
    last, anchor = steps[-1], steps[-1].inputs[0]
    slot, place, there = last.slot, f"{{R{last.slot}}}", f"there is {_a(steps, anchor)};"
    where = ((f"{place} {_the(steps, anchor)}", ""), (f"{place} it", f"{there} "))
    if last.kind.endswith("count"):
        return (f"{start}{how} {{{slot}s}} are {at}" for how in _HOW_MANY for at, start in where)
    if len(steps) == 3:  # of one relation
        return (f"{start}are there any {{{slot}s}} {at}" for at, start in where)
    frames = (f"are there any {{{slot}s}} [that are]", f"is there {{a{slot}}} [that is]")
    return (f"{start}{frame} {at}" for frame in frames for at, start in where)


def _both(steps: tuple[Step, ...]) -> Iterable[str]:
    """Return the sentences that count things with two relations."""
    places = _both_places(steps, steps[-1].inputs[0])
    return (f"{how} {{{steps[-1].slot}s}} are {places}" for how in _HOW_MANY)


def _either(steps: tuple[Step, ...]) -> Iterable[str]:
    """Return the sentences that count things of two descriptions."""
    union = next(step for step in steps if step.kind == "union")
    first, second = (_things(steps, position) for position in union.inputs)
    counted = steps[steps[-1].inputs[0]]
    things = "{thing}s" if counted is union else f"{{{counted.slot}s}}"
    return (f"{how} {things} are [either] {first} or {second}" for how in _HOW_MANY)


def _same(steps: tuple[Step, ...]) -> Iterable[str]:
    """Return the sentences about things that share an attribute with an object."""
    position = next(position for position, step in enumerate(steps) if step.kind.startswith("same_"))
    attribute = steps[position].kind.removeprefix("same_")
    anchor = _the(steps, steps[position].inputs[0])
    same, alike = f"the same {attribute} as {anchor}", _alike(attribute, anchor)
    described = steps[-1].slot is not None
    if steps[-1].kind.endswith("count"):
        things = "{other2s}" if described else "other {thing}s"
        links = (f"have {same}" if described else f"are there of {same}", f"are {alike}")
        return (f"{how} {things} {link}" for how in _HOW_MANY for link in links)
    return _described_exist(attribute, same) if described else _anything_exists(attribute, same, alike)


def _described_exist(attribute: str, same: str) -> Iterator[str]:
    of = "made of" if attribute == "material" else "of"
    subjects = (("are there any {other2s}", "have"), ("is there {another2}", "has"))
    return (f"{subject} {link} {same}" for subject, have in subjects for link in (f"that {have}", of))


def _anything_exists(attribute: str, same: str, alike: str) -> Iterator[str]:
    subjects = (
        ("is there anything else", "is", "has"),
        ("is there any other {thing}", "is", "has"),
        ("are there any other {thing}s", "are", "have"),
    )
    of = (f"of {same}",) if attribute == "color" else ()
    return (
        f"{subject} {link}"
        for subject, be, have in subjects
        for link in (f"that {be} {alike}", f"that {have} {same}", *of)
    )


_SETS = {
    "zero_hop": _bare,
    "one_hop": _related,
    "two_hop": _related,
    "three_hop": _related,
    "single_and": _both,
    "single_or": _either,
    "same_relate": _same,
}


def _the(steps: tuple[Step, ...], position: int) -> str:
    """Return the phrase of the object that a step finds."""
    other = "other" if _found_by(steps, position, "same_") else ""
    return f"the {{{other}{steps[position].slot}}}{_tail(steps, position, 'is')}"


def _a(steps: tuple[Step, ...], position: int) -> str:
    """Return the phrase that says that there is the object."""
    article = "another" if _found_by(steps, position, "same_") else "a"
    return f"{{{article}{steps[position].slot}}}{_tail(steps, position, 'is')}"


def _things(steps: tuple[Step, ...], position: int) -> str:
    """Return the plural phrase of the objects that a step finds."""
    return f"{{{steps[position].slot}s}}{_tail(steps, position, 'are')}"


def _tail(steps: tuple[Step, ...], position: int, be: str) -> str:
    """Return the part of a phrase behind its noun, "is" or "are" agreeing with it."""
    step = steps[position]
    (before,) = step.inputs
    if step.kind.startswith("relate_filter"):
        return f" [that {be}] {{R{step.slot}}} {_the(steps, before)}"
    if steps[before].kind == "intersect":
        return f" that {be} {_both_places(steps, before)}"
    if _found_by(steps, position, "same_"):
        attribute = steps[before].kind.removeprefix("same_")
        return f" that {be} {_alike(attribute, _the(steps, *steps[before].inputs))}"
    return ""


def _alike(attribute: str, anchor: str) -> str:
    """Return the phrase for sharing an attribute with an object."""
    return f"{'[made of] ' if attribute == 'material' else ''}the same {attribute} as {anchor}"


def _found_by(steps: tuple[Step, ...], position: int, kind: str) -> bool:
    """Return whether a step narrows what a step of a kind finds."""
    return any(steps[before].kind.startswith(kind) for before in steps[position].inputs)


def _both_places(steps: tuple[Step, ...], position: int) -> str:
    """Return the two relations that a step intersects."""
    return "[both] " + " and ".join(
        f"{{R{steps[place].slot}}} {_the(steps, *steps[place].inputs)}" for place in steps[position].inputs
    )


def _filled(frame: str, **parts: str) -> str:
    for name, text in parts.items():
        frame = frame.replace(f"<{name}>", text)
    return frame
