"""Questions as the numbers that a Relation Network reads, and the word lists that travel with its SavedModel."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

import numpy as np

from attribution.errors import BadInput
from attribution.file_io.reading import opened

PADDING, UNKNOWN = 0, 1
FIRST_WORD = 2  # token of the first word of the list
WORDS_FILE, ANSWERS_FILE = "question_words.txt", "answers.txt"  # in the SavedModel's assets, one entry a line


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
        If the SavedModel carries no such lists.
    """
    path = pathlib.Path(path)
    versions = [int(entry.name) for entry in path.glob("*") if entry.name.isdigit() and entry.is_dir()]
    if not (path / "saved_model.pb").exists() and versions:
        path = path / str(max(versions))
    found = []
    for name in (WORDS_FILE, ANSWERS_FILE):
        file = path / "assets" / name
        try:
            with opened(file) as stream:
                found.append(stream.read().decode("utf-8").split())
        except BadInput:
            raise BadInput(
                f"no readable {file}; a network for these questions carries its {WORDS_FILE} and {ANSWERS_FILE} "
                "as assets, one entry a line"
            ) from None
    return found[0], found[1]
