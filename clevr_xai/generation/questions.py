"""Questions on scenes, simple and complex, with programs, outputs of every node, and balanced answers.

Families are tried least used first, as in CLEVR. The counts of families and answers are reset every 250 images, so that
a block of 250 scenes is the unit of work: it depends only on the seed and its scenes.

Sentences have the official wording, the language of CLEVR-XAI's release, or the plain one, this project's own. Both are
in ``families/``, whose README describes the placeholders that ``families.fill_sentence`` replaces by words. Sentences
of a family are sampled uniformly; one that is listed twice is twice as frequent, as in the release. One deviation from
the release is intended: it writes "a object" where this grammar writes "an object".
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from clevr_xai import programs
from clevr_xai.generation import families
from clevr_xai.generation.families import Choice, Family, SceneIndex, Search, could_be
from clevr_xai.vocabulary import ATTRIBUTES

BLOCK = 250  # scenes, after which the counts are reset
QUESTIONS_PER_IMAGE = 10  # at most; there are only four simple families
WORDINGS = ("plain", "official")


def in_blocks(scenes: Sequence) -> list[Sequence]:
    """Return scenes, in any form, split into blocks."""
    return [scenes[start : start + BLOCK] for start in range(0, len(scenes), BLOCK)]


def generate_block(scenes: Sequence[dict], kind: str, seed: int, wording: str = "official") -> list[dict]:
    """Generate questions about scenes.

    Parameters
    ----------
    scenes
        At most 250, in CLEVR's JSON form, in the order of their image index.
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
        ``question_family_index``.
    """
    known = families.load(kind)
    used = dict.fromkeys(known, 0)
    counts = {family: dict.fromkeys(family.possible_answers, 0) for family in known}
    asked = []
    for scene in scenes:
        rng = random.Random(f"clevr_xai {kind} questions {seed} {scene['image_index']}")
        index = SceneIndex(scene)
        before = len(asked)
        for family in sorted(known, key=used.__getitem__):
            if len(asked) - before == QUESTIONS_PER_IMAGE:
                break
            choices = Search(family, index, counts[family], rng).run()
            if choices is None:
                continue
            question = _question(family, choices, scene, rng)
            if wording == "official":
                # A separate generator, so that the questions after it do not depend on the wording.
                place = f"{kind} {seed} {scene['image_index']} {family.file} {family.index}"
                own = random.Random(f"clevr_xai official wording {place}")
                slots, text = _slots(family, choices), own.choice(family.official)
                question["question"] = families.fill_sentence(text, slots, own, _other_object)
            counts[family][question["answer"]] += 1
            used[family] += 1
            asked.append(question)
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


def _other_object(one: tuple, other: tuple) -> bool:
    """Return whether a sentence has "other" before the second description, after it has named the first.

    The release has it where the nouns are the same and no other attribute differs. It leaves "other" out of "a thing
    of the same color as the ball", although the ball is a thing.
    """
    return one[-1] == other[-1] and could_be(one, other)
