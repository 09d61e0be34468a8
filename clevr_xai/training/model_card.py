"""Accuracy of a Relation Network, of its auxiliary heads, its logits on blank images, and its model card in Markdown.

Integrated Gradients from black explains f(image) - f(black). If f(black) is far outside the range of f(image), most of
such a map goes to the background. A network without confident answers leaves the subset of confident answers empty.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from attribution.errors import listed
from attribution.reading import read_text
from attribution_benchmarks.core import tables
from clevr_xai.answering import confidences
from clevr_xai.generation import questions
from clevr_xai.metrics import CONFIDENCE
from clevr_xai.training import batches, learner, loop, training_set
from clevr_xai.training.settings import TrainingSettings
from clevr_xai.training.training_set import MAX_OBJECTS, TrainingSet
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, COLORS, INTEGERS, MATERIALS, SHAPES, SIZES

CARD = pathlib.Path(__file__).with_name("network_card.md")
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
    files, groups = counted.files, _question_groups(counted)
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
    return CARD.read_text("utf-8").format(
        number=len(correct),
        unseen=" or selection." if unseen else "; some were looked at meanwhile.",
        by_kind=tables.markdown_table(["questions", "%", "number"], by_kind),
        by_file=tables.markdown_table(["file of families", "%", "number"], by_file),
        by_answer=tables.markdown_table(["answer", "simple, %", "number", "complex, %", "number"], by_answer),
        sections="".join(f"{line}\n" for line in sections),
        command=command,
        stages=tables.markdown_table(list(stages[0]), [list(map(str, stage.values())) for stage in stages]),
        settings="; ".join(f"{name}: {value}" for name, value in settings.items()),
        earlier="".join(f"{line}\n" for line in earlier),
        wordings=" and ".join(np.unique(counted.wordings)),
    )


def error_section(by_pixels: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray]) -> list[str]:
    """Return the section on errors.

    It says which simple questions are answered correctly, by the visible pixels of their object, and which questions
    about training scenes, by their kind.
    """
    kinds = [(kind, *_score(correct)) for kind, correct in trained.items() if len(correct)]
    shares = " and ".join(f"{share} % of {number} {kind} ones" for kind, share, number in kinds)
    seen = [
        f"Of questions about training scenes it answers {shares} correctly.",
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


def describe_settings(options: TrainingSettings, data: TrainingSet, start: str) -> dict[str, object]:
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
        "sampling weights of questions": ", ".join(f"{name} {n}" for name, n in training_set.SAMPLING_WEIGHTS.items()),
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


def describe_rewording(options: TrainingSettings, sentences: Mapping[str, int]) -> dict[str, object]:
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


PIXEL_BANDS = (0, 40, 100, 200)  # visible pixels of 128x128 at which a band begins


def correct_answers(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> np.ndarray:
    """Return whether a network answers some questions correctly, (len(rows),) bool, with all pairs of cells."""
    return _logits(network, data, rows, batch_size).argmax(axis=-1) == data.answers[rows]


def _logits(network, data, rows, batch_size, level=None) -> np.ndarray:
    """Return logits of questions about their images, or about blank ones of a level in [0, 1]."""
    found = []
    for start in range(0, len(rows), batch_size):
        chosen = np.resize(rows[start : start + batch_size], min(batch_size, len(rows)))  # one shape, one graph
        images = data.images[data.image_of[chosen]].astype(np.float32) / 255
        images = images if level is None else np.full_like(images, level)
        found.append(np.asarray(network.predict_on_batch([images, data.tokens[chosen].astype(np.int32)])))
    return np.concatenate(found)[: len(rows)]


def accuracy_by_kind(network: keras.Model, data: TrainingSet, rows: np.ndarray) -> dict:
    """Return the accuracies on simple and on complex questions and, under ``families``, on each file of families.

    Where the questions are in several wordings, also on each kind in each of them.
    """
    correct = correct_answers(network, data, rows)
    groups = {name: chosen[rows] for name, chosen in _question_groups(data).items()}
    result: dict = {name: round(float(correct[chosen].mean()), 4) for name, chosen in groups.items() if chosen.any()}
    return result | {"families": _by_file(data.files[rows], correct)}


def _question_groups(data: TrainingSet) -> dict[str, np.ndarray]:
    """Return which questions, (Q,) bool, are of each kind and, if they are in several wordings, of each in each."""
    groups = {"simple": data.files == "simple", "complex": data.files != "simple"}
    known = np.unique(data.wordings)
    if len(known) > 1:
        groups |= {f"{kind} {name}": groups[kind] & (data.wordings == name) for kind in groups for name in known}
    return groups


def _by_file(files: np.ndarray, correct: np.ndarray) -> dict[str, float]:
    return {str(name): round(float(correct[files == name].mean()), 3) for name in np.unique(files)}


def reading_accuracy(reading: keras.Model, data: TrainingSet, num_questions: int = 1000) -> dict:
    """Return the share of sampled questions all of whose program's nodes are predicted correctly, as ``programs``.

    And, as ``phrases``, the share of those all of whose phrases are, by file of families.
    """
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:num_questions]
    logits = reading.predict({"question": data.tokens[rows].astype(np.int32)}, batch_size=100, verbose=0)
    programs = (logits["program"].argmax(axis=-1) == data.programs[rows]).all(axis=-1)
    parts = np.split(logits["phrases"], np.cumsum(batches.SLOT_SIZES)[:-1], axis=-1)
    found = np.stack([part.argmax(axis=-1) for part in parts], axis=-1)
    phrases = (found == batches.phrase_targets(data.programs[rows])).all(axis=(1, 2))
    return {"programs": round(float(programs.mean()), 4), "phrases": _by_file(data.files[rows], phrases)}


def cell_accuracy(seeing: keras.Model, data: TrainingSet, num_images: int = 400) -> dict:
    """Return the accuracy of each attribute over the cells with an object's centre, and of presence over all cells."""
    some = slice(num_images)
    logits = seeing.predict({"image": data.images[some]}, batch_size=50, verbose=0)["cells"]
    wanted = batches.cell_targets(data.centres[some], data.segmentation[some], data.attributes[some])
    presence = (logits[..., 0] > 0) == (wanted[..., 0] >= 0)
    present = wanted[..., 4] == batches.CENTRE
    result = {"presence": round(float(presence.mean()), 4)}
    parts = np.split(logits[..., 1:], np.cumsum([len(values) for values in ATTRIBUTES.values()])[:-1], axis=-1)
    for position, (name, part) in enumerate(zip(ATTRIBUTES, parts, strict=True)):
        result[name] = round(float((part.argmax(axis=-1) == wanted[..., position])[present].mean()), 4)
    return result


def visible_pixels(data: TrainingSet, rows: np.ndarray) -> np.ndarray:
    """Return how many of 128x128 pixels show the object that simple questions are about, (Q,) int64."""
    found = data.sets[rows]
    queried = found[np.arange(len(rows)), (found > 0).argmax(axis=1)]  # by the node nearest to the answer: "unique"
    position = np.round(np.log2(queried)).astype(np.int64)
    counts = np.array([np.bincount(image.ravel(), minlength=MAX_OBJECTS + 1) for image in data.segmentation])
    return counts[data.image_of[rows], position + 1]


def by_visible_pixels(data: TrainingSet, rows: np.ndarray, correct: np.ndarray) -> dict[str, np.ndarray]:
    """Split ``correct``, (Q,) bool, of the simple questions ``rows`` by the visible pixels of the queried object."""
    band = np.searchsorted(PIXEL_BANDS, visible_pixels(data, rows), side="right") - 1
    names = [f"{low} to {high - 1}" for low, high in itertools.pairwise(PIXEL_BANDS)] + [f"{PIXEL_BANDS[-1]} or more"]
    return {name: correct[band == number] for number, name in enumerate(names)}


def spread_rows(data: TrainingSet, number: int) -> dict[str, np.ndarray]:
    """Return the positions of ``number`` questions of each kind at most, spread evenly over the images."""
    return {
        kind: rows[np.linspace(0, len(rows) - 1, min(number, len(rows))).round().astype(np.int64)]
        for kind, rows in data.rows_of_kind().items()
    }


class BlankLogits(NamedTuple):
    """The logit f of the correct answer on images and on blank images, over ``number`` questions.

    ``correct`` of them are answered correctly, ``confident`` of these with a softmax above .99999. ``largest`` and
    ``median`` are those of f(image). ``black`` and ``gray`` are the largest |f| of an image of level 0 and .5.
    """

    number: int
    correct: int
    largest: float
    median: float
    black: float
    gray: float
    confident: int


def blank_logits(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> BlankLogits:
    """Evaluate a network on some questions about their images, about black and about mid-gray."""
    levels = {"image": None, "black": 0.0, "gray": 0.5}
    logits = {
        name: _logits(network, data, rows, batch_size, level).astype(np.float64) for name, level in levels.items()
    }
    answers = data.answers[rows]
    scores = {name: values[np.arange(len(rows)), answers] for name, values in logits.items()}
    correct = logits["image"].argmax(axis=1) == answers
    largest = [float(np.abs(scores[name]).max()) for name in ("black", "gray")]
    confident = int((confidences(logits["image"])[correct] > CONFIDENCE).sum())
    image = scores["image"]
    return BlankLogits(len(rows), int(correct.sum()), float(image.max()), float(np.median(image)), *largest, confident)
