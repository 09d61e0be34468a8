"""What a CLEVR world consists of: attributes, relations, words, the 28 possible answers, and questions as tokens.

Johnson et al., "CLEVR: A Diagnostic Dataset for Compositional Language and Elementary Visual Reasoning",
CVPR 2017. JSON keys and values keep CLEVR's spelling ("color", "gray").
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

import numpy as np

from attribution.errors import BadInput
from attribution.reading import opened
from attribution.savedmodel.paths import find_saved_model

PADDING, UNKNOWN = 0, 1
FIRST_WORD = 2  # token of the first word of the list
WORDS_FILE, ANSWERS_FILE = "question_words.txt", "answers.txt"  # in the SavedModel's assets, one entry a line

SIZES = {"large": 0.7, "small": 0.35}  # radius in scene units
COLORS = {  # red, green, blue in 0..255, used linear by the renderer
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
MATERIALS = ("rubber", "metal")
SHAPES = ("cube", "sphere", "cylinder")
RELATIONS = ("left", "right", "behind", "front")

# In the order in which a noun phrase names them and a program filters by them.
ATTRIBUTES = {"size": tuple(SIZES), "color": tuple(COLORS), "material": MATERIALS, "shape": SHAPES}
INTEGERS = tuple(range(11))

# Every way a question may put a value; the first is the value's plain name.
SYNONYMS = {
    "thing": ("thing", "object"),  # the noun of a phrase that names no shape
    "cube": ("cube", "block"),
    "sphere": ("sphere", "ball"),
    "cylinder": ("cylinder",),
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metal", "metallic", "shiny"),
    "rubber": ("rubber", "matte"),
    "left": ("left of", "to the left of", "on the left side of"),
    "right": ("right of", "to the right of", "on the right side of"),
    "behind": ("behind",),
    "front": ("in front of",),
}

# The 80 words of CLEVR's questions, in both wordings.
QUESTION_WORDS = tuple(
    """
    a an another any anything are as and ball balls behind big block blocks blue both brown color cube cubes
    cyan cylinder cylinders do does either else equal fewer front gray greater green has have how in is it its
    large left less made many material matte metal metallic more number object objects of on or other purple
    red right rubber same shape shiny side size small sphere spheres than that the there thing things tiny to
    visible what yellow
    """.split()
)

ANSWERS = ("yes", "no", *map(str, INTEGERS), *SHAPES, *COLORS, *SIZES, *MATERIALS)


def answer_text(answer: bool | int | str) -> str:
    """Return an answer as one of the 28 words of ``ANSWERS``.

    Parameters
    ----------
    answer
        As the questions' JSON holds it: true or false, an integer, or a word.

    Raises
    ------
    ValueError
        If it is none of the 28.
    """
    text = {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else str(answer)
    if text not in ANSWERS:
        raise ValueError(f"{answer!r} is no answer of CLEVR; these are: {', '.join(ANSWERS)}")
    return text


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence in lower case, without punctuation."""
    return re.findall(r"[a-z0-9]+", sentence.lower())


def encode(sentences: Sequence[str], words: Sequence[str], length: int | None = None) -> np.ndarray:
    """Return sentences as rows of tokens, padding after the words.

    Parameters
    ----------
    sentences
    words
        The word list of the network.
    length
        Tokens a row; by default as many as the longest sentence has words, at least one.

    Returns
    -------
    (N, length) int32
        0 is padding, 1 an unknown word, ``k + 2`` the word ``words[k]``.

    Raises
    ------
    ValueError
        For a sentence of more than ``length`` words.
    """
    token = {word: number for number, word in enumerate(words, FIRST_WORD)}
    rows = [[token.get(word, UNKNOWN) for word in words_of(sentence)] for sentence in sentences]
    longest = max((len(row) for row in rows), default=0)
    if length is None:
        length = max(longest, 1)
    if longest > length:
        raise ValueError(f"a sentence of {longest} words does not fit into {length} tokens")
    tokens = np.full((len(rows), length), PADDING, np.int32)
    for row, numbers in zip(tokens, rows, strict=True):
        row[: len(numbers)] = numbers
    return tokens


def read_assets(path: str | pathlib.Path) -> tuple[list[str], list[str]]:
    """Return the words and the answers that a SavedModel was exported with.

    Parameters
    ----------
    path
        The SavedModel's directory, or the base path above its version directories, of which the highest counts.

    Returns
    -------
    words, answers : list of str

    Raises
    ------
    BadInput
        If there is no SavedModel, or it carries no such lists.
    """
    found, assets = [], find_saved_model(path) / "assets"
    for name in (WORDS_FILE, ANSWERS_FILE):
        file = assets / name
        try:
            with opened(file) as stream:
                found.append(stream.read().decode("utf-8").split())
        except BadInput:
            raise BadInput(f"no readable {file}; networks carry {WORDS_FILE} and {ANSWERS_FILE} as assets") from None
        if not found[-1] or len(set(found[-1])) < len(found[-1]):
            raise BadInput(f"{file} is empty or has an entry twice; it holds one entry a line, each once")
    return found[0], found[1]
