"""The card of a trained Relation Network, in Markdown, from what was computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clevr_xai import blank_images
from clevr_xai.vocabulary import ANSWERS

# Answers that compete: one of another row is hardly ever given.
_GROUPS = {
    "yes, no": ("yes", "no"),
    "0 to 10": tuple(map(str, range(11))),
    "shape": ("cube", "sphere", "cylinder"),
    "colour": ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"),
    "size": ("large", "small"),
    "material": ("rubber", "metal"),
}


def model_card(
    right: np.ndarray,
    families: Sequence[str],
    answers: np.ndarray,
    recipe: Mapping[str, object],
    stages: Sequence[Mapping[str, object]],
    command: str,
    blank: Mapping[str, blank_images.Facts] | None = None,
    unseen: bool = False,
    missed: Sequence[str] = (),
    wordings: Sequence[str] = (),
) -> str:
    """Return the text of ``MODEL_CARD.md``.

    Parameters
    ----------
    right : (Q,) bool
        Which of the questions counted the network answers rightly.
    families : (Q,) of str
        "simple 0", "one_hop 3", ...
    answers : (Q,) int
        Their answers' positions in ``vocabulary.ANSWERS``.
    recipe
        Settings by their names.
    stages
        Rows of the table of stages, in order; all of the same keys.
    command
        That trains this network.
    blank
        For each kind of questions what ``blank_images.facts`` found; no such section without.
    unseen
        Whether the questions counted are of scenes that nothing was chosen on, unlike those of the validation.
    missed
        Lines of ``misses.card_lines``; no such section without.
    wordings : (Q,) of str
        "plain" or "official"; "plain" for all when empty.
    """
    files = np.array([family.rsplit(" ", 1)[0] for family in families])
    simple = files == "simple"
    kinds = {"simple": simple, "complex": ~simple}
    by_kind = [[kind, *_score(right[rows])] for kind, rows in kinds.items()]
    worded = np.array(wordings) if len(wordings) else np.full(len(right), "plain")
    known = sorted(set(worded))
    if len(known) > 1:
        by_kind += [
            [f"{kind}, {wording} wording", *_score(right[rows & (worded == wording)])]
            for kind, rows in kinds.items()
            for wording in known
        ]
    by_file = [[name, *_score(right[files == name])] for name in np.unique(files)]
    by_answer = [
        [group, *(cell for rows in kinds.values() for cell in _score(right[rows & np.isin(answers, _numbers(values))]))]
        for group, values in _GROUPS.items()
    ]
    return "\n".join(
        [
            "# Relation Network of CLEVR-XAI",
            "",
            "Answers questions about pictures of simple solids. It exists to be explained: CLEVR-XAI judges",
            "attribution methods on it. The configuration is the paper's: 484,548 trainable parameters.",
            "",
            "**Input.** `image` (N, 128, 128, 3) float32 in [0, 1]; `question` (N, L) int32, word numbers, 0 for",
            "padding, which changes nothing. **Output.** `logits` (N, 28). `1/assets` holds the words (the first",
            "has number 2, 1 is an unknown word) and the answers.",
            "",
            "## Accuracy",
            "",
            f"On {len(right):,} questions about scenes of another seed, which had no part in training"
            + (" nor in any choice." if unseen else "; some were looked at meanwhile."),
            "",
            *_table(["questions", "%", "number"], by_kind),
            *_table(["file of families", "%", "number"], by_file),
            *_table(["answer", "simple, %", "number", "complex, %", "number"], by_answer),
            *missed,
            *(blank_images.card_lines(blank) if blank else []),
            "## Training",
            "",
            f"`{command}`",
            "",
            *_table(list(stages[0]), [list(stage.values()) for stage in stages]),
            "; ".join(f"{name}: {value}" for name, value in recipe.items()) + ".",
            "",
            "## Limits",
            "",
            f"Trained on rendered toys, with CLEVR's questions in {' and '.join(known)} wording. Only questions",
            "answered correctly count in the benchmark, so methods are compared where the network is good.",
            "",
        ]
    )


def _numbers(values: Sequence[str]) -> list[int]:
    return [ANSWERS.index(value) for value in values]


def _score(right: np.ndarray) -> list[str]:
    return [f"{100 * right.mean():.1f}" if len(right) else "–", f"{len(right):,}"]


def _table(header: list[str], rows: list[list]) -> list[str]:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return [*("| " + " | ".join(map(str, line)) + " |" for line in lines), ""]
