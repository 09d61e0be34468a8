"""The model card of a trained Relation Network, in Markdown."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from absl import flags

from attribution.errors import listed
from attribution.file_io.reading import read_text
from attribution_benchmarks.core import tables
from clevr_xai.generation import questions
from clevr_xai.subsets import CONFIDENCE
from clevr_xai.training import batches, learner, loop
from clevr_xai.training.evaluation import BlankLogits, question_groups
from clevr_xai.training.training_set import TrainingSet
from clevr_xai.vocabulary import ANSWERS, COLORS, INTEGERS, MATERIALS, SHAPES, SIZES

# Answers that compete: a network hardly ever gives one of another group.
_GROUPS = {
    "yes, no": ("yes", "no"),
    "0 to 10": tuple(map(str, INTEGERS)),
    "shape": SHAPES,
    "color": tuple(COLORS),
    "size": tuple(SIZES),
    "material": MATERIALS,
}


def model_card(
    counted: TrainingSet,
    correct: np.ndarray,
    settings: Mapping[str, object],
    stages: Sequence[Mapping[str, object]],
    command: str,
    unseen: bool = False,
    sections: Sequence[str] = (),
    earlier: Sequence[str] = (),
) -> str:
    """Return the text of ``MODEL_CARD.md``.

    Parameters
    ----------
    counted, correct
        Questions that the accuracies are of, and (Q,) bool: whether the network answers each correctly.
    settings, stages
        Of the training: settings by their names, and rows of the table of stages, in order and all of the same keys.
    command
        That trains this network.
    unseen
        Whether the questions are of scenes that were used for no choice, unlike those of the validation data.
    sections, earlier
        Lines of ``error_section`` and ``blank_section``, and of ``earlier_training``.
    """
    files, groups = counted.files, question_groups(counted)
    wordings = " and ".join(np.unique(counted.wordings))
    by_kind = [
        [f"{', '.join(name.split())} wording" if " " in name else name, *_score(correct[rows])]
        for name, rows in groups.items()
    ]
    by_file = [[name, *_score(correct[files == name])] for name in np.unique(files)]
    by_answer = []
    for group, values in _GROUPS.items():
        members = np.isin(counted.answers, list(map(ANSWERS.index, values)))
        simple, other = (_score(correct[groups[kind] & members]) for kind in ("simple", "complex"))
        by_answer.append([group, *simple, *other])
    lines = [
        "# Relation Network of CLEVR-XAI",
        "",
        "Answers questions about pictures of simple solids. CLEVR-XAI evaluates",
        "attribution methods on it. The configuration is the paper's: 484,548 trainable parameters.",
        "",
        "**Input.** `image` (N, 128, 128, 3) float32 in [0, 1]; `question` (N, L) int32, word numbers; 0 is",
        "padding and is ignored. **Output.** `logits` (N, 28). `1/assets` holds the words (the first",
        "has number 2; 1 is an unknown word) and the answers.",
        "",
        "## Accuracy",
        "",
        f"On {len(correct):,} questions about scenes of another seed, which were not used for training"
        + (" or selection." if unseen else "; some were looked at meanwhile."),
        "",
        *_table(["questions", "%", "number"], by_kind),
        *_table(["file of families", "%", "number"], by_file),
        *_table(["answer", "simple, %", "number", "complex, %", "number"], by_answer),
        *sections,
        "## Training",
        "",
        f"`{command}`",
        "",
        *_table(list(stages[0]), [list(stage.values()) for stage in stages]),
        "; ".join(f"{name}: {value}" for name, value in settings.items()) + ".",
        "",
        *earlier,
        "## Limits",
        "",
        f"Trained on rendered toys, with CLEVR's questions in {wordings} wording. The benchmark counts only",
        "questions that the network answers correctly.",
        "",
    ]
    return "\n".join(lines)


def error_section(by_pixels: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray]) -> list[str]:
    """Return the section on errors.

    It says which simple questions are answered correctly, by the visible pixels of their object, and which questions
    about training scenes, by their kind.
    """
    kinds = [(kind, *_score(correct)) for kind, correct in trained.items() if len(correct)]
    shares = " and ".join(f"{share} % of {number} {kind} ones" for kind, share, number in kinds)
    seen = [
        f"Of questions about training scenes it answers {shares} correctly.",
        "If that is no more than on unseen scenes, more scenes are unlikely to help.",
        "",
    ]
    return [
        "## Errors",
        "",
        "Simple questions, by how many of the image's 16,384 pixels show the queried object:",
        "",
        *_table(["pixels", "%", "number"], [[name, *_score(correct)] for name, correct in by_pixels.items()]),
        *(seen if kinds else []),
    ]


def earlier_training(directory: str | pathlib.Path) -> list[str]:
    """Return the sections on training of the card in a network's directory, as lines; none without such a card.

    The card may be a stranger's: its HTML, links and pictures become text.

    Raises
    ------
    BadInput
        If it cannot be read.
    """
    card = pathlib.Path(directory) / "MODEL_CARD.md"
    if not card.is_file():
        return []
    _, _, after = read_text(card).replace("<", "&lt;").replace("[", "\\[").partition("\n## Training\n")
    text = after.partition("\n## Limits\n")[0].replace("\n## Training of", "\n## Earlier training of")
    return ["## Training of the network that it starts from", *text.splitlines(), ""] if text else []


def blank_section(by_kind: Mapping[str, BlankLogits]) -> list[str]:
    """Return the section on blank images: one line a kind of question, and whether their logits are in range."""
    header = ["questions", "number", "f(image), median", "largest", "|f(black)|, largest", "|f(gray)|, largest",
              f"softmax > {CONFIDENCE:g}, of correct answers, %"]  # fmt: skip
    rows = [
        [kind, f"{one.number:,}", f"{one.median:.1f}", f"{one.largest:.1f}", f"{one.black:.1f}", f"{one.gray:.1f}",
         f"{100 * one.confident / one.correct:.1f}" if one.correct else "–"]
        for kind, one in by_kind.items()
    ]  # fmt: skip
    outside = [
        f"{name} for {kind} questions"
        for kind, one in by_kind.items()
        for name in ("black", "gray")
        if not getattr(one, name) < one.largest
    ]
    conclusion = (
        f"As far from zero as any f(image), or further: {', '.join(outside)}."
        if outside
        else "No blank image moves a logit as far as some image does."
    )
    return [
        "## Blank images and confidence",
        "",
        "f is the logit of the correct answer; black and gray are images of level 0 and 0.5, with the same questions.",
        "",
        *_table(header, rows),
        conclusion,
        "",
    ]


def describe_settings(options: flags.FlagValues, data: TrainingSet, start: str) -> dict[str, object]:
    """Return settings of a training by their names; ``start`` says what it starts from."""
    import tensorflow as tf  # Keras may run on another backend until the export

    weights = {name: weight for name, (_, weight) in learner.LOSSES.items()}
    return {
        "Training scenes": f"{len(data.images):,}, seed {data.seed}, rendered at {data.rendered}",
        "questions": f"{len(data.answers):,} ({options.rounds} round{'s' * (options.rounds > 1)} of each kind, in "
        f"{' and '.join(np.unique(data.wordings))} wording)",
        "last stage": f"{listed(options.final_questions)} questions",
        "starts from": start,
        "pairs a step": f"{options.pairs} of 2,401, all of two objects' centers",
        "g in training": options.precision,
        "sampling weights of questions": ", ".join(f"{name} {n}" for name, n in batches.SAMPLING_WEIGHTS.items()),
        "augmentation": f"moved by up to {batches.SHIFT} pixels, half of the images mirrored, "
        f"exposure by up to {batches.GAIN} times, contrast by {batches.CONTRAST:.0%}, red and blue by "
        f"{batches.TEMPERATURE:.0%}, noise of up to {batches.NOISE:g} gray levels, "
        f"{batches.FADED:.0%} faded towards black or gray, {batches.EVEN:.0%} of these wholly, "
        f"all this in {batches.JITTERED:.0%} of the images",
        "auxiliary losses": f"cells (weight {weights['cells']}, shapes {learner.SHAPE_WEIGHT:g} times), from "
        f"`following` on members of sets ({weights['members']}), compared pairs ({weights['compared']}) and operands "
        f"({weights['operands']}); only the reading trains the question encoder",
        "optimizer": f"Adam, and Muon for kernels of convolutions (steps of {loop.KERNEL_STEP:g} times the rate); "
        f"gradient norm at most {loop.GRADIENT_NORM}",
        "no dropout, no weight decay; seed": options.seed,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
    }


def describe_rewording(options: flags.FlagValues, sentences: Mapping[str, int]) -> dict[str, object]:
    """Return settings of a training of the question encoder alone; ``sentences`` is ``stages.SENTENCES``."""
    import tensorflow as tf

    return {
        "Sentences": f"{sentences['rounds']} rounds of questions of each kind about "
        f"{questions.BLOCK * sentences['blocks']:,} scenes, seed {sentences['seed']}, not rendered, each question in "
        f"{' and '.join(options.wording)} wording",
        "starts from": "an exported network, whose convolutions, g behind its first layer, and f stay as they are",
        "loss": "squared distance of the question's input to the first layer of g from that of the same question in "
        f"{options.wording[0]} wording, in the network that it starts from",
        "optimizer": f"Adam; gradient norm at most {loop.GRADIENT_NORM}",
        "seed": options.seed,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
    }


def _score(correct: np.ndarray) -> list[str]:
    """Return the percentage of True and the number of entries, as the tables show them."""
    return [f"{100 * correct.mean():.1f}" if len(correct) else "–", f"{len(correct):,}"]


def _table(header: Sequence[str], rows: Sequence[Sequence]) -> list[str]:
    return [*tables.markdown_table(list(header), [list(map(str, row)) for row in rows]).splitlines(), ""]
