"""What a network says where there is nothing to see, and how sure it is where there is: figures for its model card.

Integrated Gradients from black explains f(image) - f(black). A network whose f(black) is far outside the range of
f(image) gives most of such a map to the background, whatever it sees; and a network that is never sure leaves the
poster's subset of confident answers empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core import tables
from clevr_xai.answering import confidences
from clevr_xai.subsets import CONFIDENCE

BLANKS = {"black": 0.0, "grey": 0.5}


class Facts(NamedTuple):
    """Figures of some questions; f is the logit of the true answer.

    ``questions`` were asked, ``right`` of them answered rightly; ``largest`` is the largest f(image), ``middle`` the
    median. ``black`` and ``grey`` are the largest size of f of these questions about an image of one level, 0 and .5;
    ``sure`` is how many of the right answers have a softmax above .99999.
    """

    questions: int
    right: int
    largest: float
    middle: float
    black: float
    grey: float
    sure: int


def facts(
    logits: Callable[[np.ndarray, np.ndarray], np.ndarray],
    images: np.ndarray,
    questions: np.ndarray,
    answers: np.ndarray,
    batch_size: int = 64,
) -> Facts:
    """Ask a network questions about their images, about black and about mid-grey: three passes a question.

    Parameters
    ----------
    logits
        ``logits(images, questions)`` returns (n, answers); images are float32 in [0, 1].
    images : (N, side, side, 3)
        uint8, or float32 in [0, 1].
    questions : (N, words) int
        Word numbers.
    answers : (N,) int
        Places of the true answers among the logits.
    batch_size
        Questions of one pass.
    """
    answers, found = np.asarray(answers), {name: [] for name in ("image", *BLANKS)}
    for start in range(0, len(answers), batch_size):
        part = slice(start, start + batch_size)
        pictures = np.asarray(images[part])
        pictures = pictures.astype(np.float32) / (255 if pictures.dtype == np.uint8 else 1)
        found["image"].append(np.asarray(logits(pictures, questions[part])))
        for name, level in BLANKS.items():
            found[name].append(np.asarray(logits(np.full_like(pictures, level), questions[part])))
    scores = {name: np.concatenate(parts).astype(np.float64) for name, parts in found.items()}
    true = {name: every[np.arange(len(answers)), answers] for name, every in scores.items()}
    right = scores["image"].argmax(axis=1) == answers
    return Facts(
        len(answers),
        int(right.sum()),
        float(true["image"].max()),
        float(np.median(true["image"])),
        float(np.abs(true["black"]).max()),
        float(np.abs(true["grey"]).max()),
        int((confidences(scores["image"])[right] > CONFIDENCE).sum()),
    )


def card_lines(by_kind: Mapping[str, Facts]) -> list[str]:
    """Return a section of a model card in Markdown: one line a kind of question, and whether blank images are tame."""
    header = ["questions", "number", "f(image), median", "largest", "|f(black)|, largest", "|f(grey)|, largest",
              f"softmax > {CONFIDENCE:g}, of right answers, %"]  # fmt: skip
    rows = [
        [kind, f"{one.questions:,}", f"{one.middle:.1f}", f"{one.largest:.1f}", f"{one.black:.1f}", f"{one.grey:.1f}",
         f"{100 * one.sure / one.right:.1f}" if one.right else "–"]
        for kind, one in by_kind.items()
    ]  # fmt: skip
    wild = [
        f"{name} for {kind} questions"
        for kind, one in by_kind.items()
        for name in BLANKS
        if not getattr(one, name) < one.largest
    ]
    told = (
        f"As far from zero as any f(image), or further: {', '.join(wild)}."
        if wild
        else "No blank image moves a logit as far as some image does."
    )
    return [
        "## Blank images and confidence", "",
        "f is the logit of the true answer; black and grey are images of level 0 and .5, asked the same questions.", "",
        *tables.markdown_table(header, rows).splitlines(), "", told, "",
    ]  # fmt: skip
