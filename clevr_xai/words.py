"""CLEVR-XAI words: maps of the question's words, of a network that follows a word, and of one that reads the question.

The official benchmark scores maps of the picture alone. Here the network's embedding of the question is explained, and
a word's relevance is the sum over its numbers. The truth follows from the question's program: the words that name the
object in question are those of its filters. A word in front of the question suggests another answer than the scene
does. The shortcut gives that answer, the reader the scene's, as in ``contrast``, whose metrics these are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution import METHODS as REGISTERED
from attribution import Method
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.controls import GROUND_TRUTH, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.settings import Count, inherited
from clevr_xai import contrast, vocabulary
from clevr_xai.data import Dataset
from clevr_xai.programs import node_type
from clevr_xai.vocabulary import ANSWERS, PADDING, QUESTION_WORDS, SYNONYMS, words_of

LENGTH = 12  # words of a question with the cue in front; fixed in the files, so that relevance passes their recurrence
CUE = 'a word in front of the question that is one of the answers to it, such as "Red. What color is the large cube?"'
_ASKED = {"material": ("material", "made"), "size": ("size", "big")}  # words that ask for an attribute; else its name
_POOLING = {"mass": "sum,abs", "rank": "sum,abs"}


def truth_words(question: str, program: Sequence[dict]) -> tuple[np.ndarray, np.ndarray]:
    """Return which words of a simple question name its object, and which belong to any node of its program.

    The object's words are those of the values that the filters before ``unique`` take. The others of the program say
    which attribute the question is about. Both are (words,) bool.
    """
    values = [node["value_inputs"][0] for node in program if node_type(node).startswith("filter_")]
    naming = {word for value in values for word in SYNONYMS.get(value, (value,))}
    attribute = node_type(program[-1]).removeprefix("query_")
    words = words_of(question)
    named = np.isin(words, list(naming))
    return named, named | np.isin(words, _ASKED.get(attribute, (attribute,)))


def examples(count: int, seed: int, state: str = "contradicting") -> Examples:
    """Draw simple questions as ``contrast.examples`` does, with the cue in front of the question.

    Masks are (N, 12): "target", the words that name the object in question, "cue", and "program", the words of the
    question's program. Without a cue, the cue's answer is a wrong one that the network does not see.
    """
    drawn, dataset = contrast.examples(count, seed, state="none"), Dataset("simple")
    entries = {f"simple-{each['question_index']:06d}": each for each in dataset.questions}
    said = drawn.targets if state == "consistent" else drawn.truth["said"]
    masks = {name: np.zeros((len(drawn.names), LENGTH), bool) for name in ("target", "cue", "program")}
    sentences = []
    for row, (name, place) in enumerate(zip(drawn.names, said, strict=True)):
        front, question = [] if state == "none" else [f"{ANSWERS[place].capitalize()}."], entries[name]["question"]
        sentences.append(" ".join([*front, question]))
        masks["cue"][row, : len(front)] = True
        for mask, words in zip(("target", "program"), truth_words(question, entries[name]["program"]), strict=True):
            masks[mask][row, len(front) : len(front) + len(words)] = words
    return Examples(
        vocabulary.encode(sentences, QUESTION_WORDS, LENGTH),
        masks,
        drawn.targets,
        {**drawn.truth, "said": said, "question": np.array(sentences)},
        drawn.names,
        drawn.clusters,
        "question",
        {"image": drawn.inputs},
    )


def _on_words(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
    """Return mass and rank accuracy on the cue and on the target, and the mass on the program's words, (N, 5)."""
    of_words = maps.sum(axis=2) if maps.ndim == 3 else maps
    there = np.where(batch.inputs["question"] == PADDING, 0, of_words)[:, np.newaxis]
    masks = [batch.masks[name][:, np.newaxis] for name in ("cue", "target", "program")]
    return contrast.on_masks(there, masks, _POOLING)[:, :5]


def _last_words(batch: Batch, seed: int) -> np.ndarray:
    """Return maps that rise from the first word to the last, (N, 12) float64."""
    return np.tile(np.arange(1.0, LENGTH + 1), (len(batch), 1))


LAST_WORDS = Control("last_words", "Last words", "a map that rises to the end of the question", _last_words)
ACCURACIES = (
    Metric(
        "rank_in_reader", "Rank, reader", bounds=(0.0, 1.0), masks=True,
        about="As many highest words as name the object, the share of them that does, in the reader's map. More is "
        "better.",
    ),
    Metric(
        "program_in_reader", "Program, reader", bounds=(0.0, 1.0), masks=True,
        about="Share of the reader's map on words of the program: those that name the object or the attribute in "
        "question. More is better; the rest is on words without a meaning here and on the cue.",
    ),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(contrast.PairSettings):
    """The pair, the number of questions, and the settings of methods."""

    num_imgs: Count = inherited(contrast.PairSettings, "num_imgs", 10)
    pair: str = inherited(contrast.PairSettings, "pair", f"{contrast.FOLDER}/word_seed0")
    steps: int = inherited(contrast.PairSettings, "steps", 50)
    samples: int = inherited(contrast.PairSettings, "samples", 20)


class WordsEvaluation(contrast.ContrastEvaluation):
    """The two networks of a pair whose cue is a word, explained at their embedding of the question."""

    explained, measure = "embedding", PerSampleMetric("mass and rank on words", _on_words, 5, degenerate_maps="uniform")

    @classmethod
    def draw(cls, settings: Any, count: int) -> Examples:
        """Return the questions, with a cue that contradicts the right answer."""
        return examples(count, settings.seed)


class _Words(contrast.PairBenchmark):
    def with_parameters(self, chosen: Mapping[str, Method], settings: Any) -> Mapping[str, tuple[Method, dict]]:
        """Return name -> (method, overrides of its parameters); Occlusion removes one word at a time."""
        found = super().with_parameters(chosen, settings)
        single = {"groups": "features"}
        return {
            name: (each, {**given, **single} if name == "occlusion" else given) for name, (each, given) in found.items()
        }


_OF_IMAGES = ("grad_cam", "guided_grad_cam", "score_cam", "lrp_clevr_xai")
_OF_RELUS = ("guided_backprop", "deconvnet")
METHODS = (
    "gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "vargrad", "lrp_epsilon", "lrp_gamma",
    "lrp_alpha1beta0", "excitation_backprop", "deeplift", "occlusion",
)  # fmt: skip


def _report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    further = ({"pair": f"{contrast.FOLDER}/{name}"} for name in contrast.pairs(["word"])[1:])
    return contrast.tasks(BENCHMARK, Settings, further, quick, seed)


_DEFINED = _Words(
    name="clevr_xai_words",
    title="CLEVR-XAI words",
    report=contrast.BENCHMARK.report.about_others(
        "Two networks of one architecture see the same image and question. One answers by a word in front of the "
        "question, the other by the scene. A map of the words is on that word in one, on those that name the object in "
        "the other.",
        METHODS,
        **dict.fromkeys(_OF_IMAGES, "for layers of images"),
        **dict.fromkeys(_OF_RELUS, "it is defined for networks of ReLUs alone"),
    ),
    metrics=(*contrast.CONTRASTS, *contrast.CHECKS, *ACCURACIES),
    controls=(WRONG_CLASS, RANDOM_WEIGHTS, UNIFORM, RANDOM, LAST_WORDS, GROUND_TRUTH),
    methods=METHODS,
    method_titles={name: REGISTERED[name].title for name in METHODS},
    settings=Settings,
    evaluation=WordsEvaluation.load,
    examples=examples,
    network=str(default_model("clevr_xai/contrast/word_seed0/reader")),
    report_tasks=_report_tasks,
)
# Class activation maps do not apply, so a ranking of words has too few methods in common with other benchmarks.
BENCHMARK: Benchmark = dataclasses.replace(
    _DEFINED,
    columns=tuple(
        dataclasses.replace(_DEFINED.column(each), comparable=False)
        for each in (contrast.CONTRASTS[0], contrast.CHECKS[1])
    ),
)
