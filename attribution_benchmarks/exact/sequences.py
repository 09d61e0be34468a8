"""Sequences: attention, recurrence and convolution over short texts, with exact Shapley values inside the domain.

A generated grammar poses six tasks on sequences of 6 to 12 tokens. An absent token is the mask token, which the
networks saw in training at every number of masked tokens, so every coalition of tokens is an ordinary input. The mask
token's embedding is the zero vector: methods that explain the embedding have it as their baseline. Padding is no
player: it stays padding in every coalition.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

import attribution
from attribution import METHODS as REGISTERED
from attribution import Method
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.bundled_models import default_model, given_or_bundled
from attribution_benchmarks.core.controls import RANDOM, UNIFORM
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.evaluation import ExampleEvaluation, Run
from attribution_benchmarks.core.evaluator import Evaluator, Numbers
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.settings import ALL, ExampleSettings
from attribution_benchmarks.exact.definition import DATA
from attribution_benchmarks.exact.metrics import (
    OVERALL,
    TOP_FEATURE,
    coalitions,
    distance_on,
    of_problem,
    shapley_values,
)
from attribution_benchmarks.exact.xai_tris import EXACT_VALUES
from attribution_benchmarks.metrics.imputation import Scores

NETWORKS = ("transformer", "transformer_rotary", "transformer_plain", "lstm", "cnn")
SEEDS = 3  # of the training
_TEXTS = DATA["sequences"]

LENGTH, SHORTEST = 12, 6
PAD, MASK = 0, 1
_FILLERS = ("the", "of", "and", "to", "in", "was", "for", "on")
_SUBJECTS, _VERBS = ("I", "he", "they"), ("am", "is", "are")
WORDS = (
    "[pad]", "[mask]", *_FILLERS, "sun", "rain", *_SUBJECTS, *_VERBS, "up", "down", "wake", "sleep", "gold", "lead",
    "not", "very", "good", "bad",
)  # fmt: skip
_NUMBER = {word: number for number, word in enumerate(WORDS)}
_DISTRACTORS = 0.3  # share of the irrelevant tokens that are words of other tasks


def _single(label: int, generator: np.random.Generator) -> Sequence[str]:
    return ["sun" if label else "rain"]


def _agreement(label: int, generator: np.random.Generator) -> Sequence[str]:
    subject = generator.integers(3)
    return [_SUBJECTS[subject], _VERBS[(subject + (0 if label else generator.integers(1, 3))) % 3]]


def _xor(label: int, generator: np.random.Generator) -> Sequence[str]:
    first = generator.integers(2)
    return [("up", "down")[first], ("up", "down")[first ^ label]]


def _order(label: int, generator: np.random.Generator) -> Sequence[str]:
    return ["wake", "sleep"] if label else ["sleep", "wake"]


def _either(label: int, generator: np.random.Generator) -> Sequence[str]:
    pairs = (("gold", "gold"), ("gold", "lead"), ("lead", "gold"))
    return pairs[generator.integers(3)] if label else ("lead", "lead")


def _negation(label: int, generator: np.random.Generator) -> Sequence[str]:
    negated = generator.integers(2)
    return [("very", "not")[negated], ("bad", "good")[label ^ negated]]


# Task -> the tokens that decide it, in their order, of a label; those of "negation" are neighbors.
_EVIDENCE: dict[str, Callable[[int, np.random.Generator], Sequence[str]]] = {
    "single": _single, "agreement": _agreement, "xor": _xor, "order": _order, "either": _either, "negation": _negation,
}  # fmt: skip
TASKS = tuple(_EVIDENCE)
_OF_TASK = {
    task: {word for label in (0, 1) for seed in range(20) for word in draw_words(label, np.random.default_rng(seed))}
    for task, draw_words in _EVIDENCE.items()
}


def draw(task: str, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw sequences of one of ``TASKS``.

    Returns tokens, (count, 12) int32, padded at the end, labels, (count,) int64, class 0 and class 1 in turn, and where
    the tokens that decide are, (count, 12) bool.
    """
    others = [_NUMBER[word] for word in WORDS[2 + len(_FILLERS) :] if word not in _OF_TASK[task]]
    labels = np.arange(count) % 2
    tokens, evidence = np.full((count, LENGTH), PAD, np.int32), np.zeros((count, LENGTH), bool)
    for row, label in enumerate(labels):
        words = _EVIDENCE[task](int(label), generator)
        length = int(generator.integers(SHORTEST, LENGTH + 1))
        drawn = generator.integers(2, 2 + len(_FILLERS), length)
        tokens[row, :length] = np.where(
            generator.random(length) < _DISTRACTORS, generator.choice(others, length), drawn
        )
        if task == "negation":
            places = generator.integers(length - 1) + np.arange(2)
        else:
            places = np.sort(generator.permutation(length)[: len(words)])
        tokens[row, places] = [_NUMBER[word] for word in words]
        evidence[row, places] = True
    return tokens, labels, evidence


def folder_of(network: str, seed: int) -> str:
    """Return the folder of a network of one training seed."""
    return f"{network}_seed{seed}" if seed else network


def folders() -> list[pathlib.Path]:
    """Return the directories of the networks of all training seeds."""
    return [default_model(f"exact/sequences/{folder_of(name, seed)}") for name in NETWORKS for seed in range(SEEDS)]


def exact_values(tokens: np.ndarray, targets: np.ndarray, scores: Scores) -> np.ndarray:
    """Return the exact Shapley values of each sequence's target, (N, 12) float64.

    ``tokens`` are (N, 12) int32 and ``targets`` (N,) int. ``scores(tokens)`` returns (M, classes); it is called with
    2^length sequences for each sequence. Padding gets zero.
    """
    found = np.zeros(tokens.shape)
    for row, (sequence, target) in enumerate(zip(tokens, targets, strict=True)):
        real = np.flatnonzero(sequence != PAD)
        members = coalitions(len(real))
        parts = np.tile(sequence, (len(members), 1))
        parts[:, real] = np.where(members, sequence[real], MASK)
        found[row, real] = shapley_values(np.asarray(scores(parts), np.float64)[np.newaxis, :, target])[0]
    return found


_FOLDERS = tuple(f"exact/sequences/{network}" for network in NETWORKS)
VALUES = "values.npz"  # in the folder of each network
_PASS = 1024  # sequences in one pass when coalitions are counted


def values_of(path: pathlib.Path, model: Any, tokens: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return ``exact_values`` of a network in the folder ``path``; those that are stored beside it are not counted."""
    known: dict[bytes, np.ndarray] = {}
    if (file := path / VALUES).exists():
        with np.load(file) as stored:
            if str(stored["network"]) == model.fingerprint:
                rows = zip(stored["tokens"], stored["targets"], stored["values"], strict=True)
                known = {row.tobytes() + bytes([target]): values for row, target, values in rows}
    keys = [row.tobytes() + bytes([target]) for row, target in zip(tokens, targets, strict=True)]
    new = [place for place, key in enumerate(keys) if key not in known]
    counted = exact_values(tokens[new], targets[new], lambda parts: model.scores(parts, _PASS))
    known |= zip([keys[place] for place in new], counted, strict=True)
    return np.array([known[key] for key in keys])


def store_values(path: pathlib.Path) -> None:
    """Count the exact values of the benchmark's sequences for the network in a folder, and write them beside it."""
    data, model = _sequences(MOST * len(TASKS), 0), attribution.load_model(path)
    values = values_of(path, model, data.inputs, np.asarray(data.targets))
    np.savez_compressed(
        path / VALUES, tokens=data.inputs, targets=np.asarray(data.targets), values=values, network=model.fingerprint
    )


MOST = 20  # sequences of a task


def _sequences(count: int, seed: int) -> Examples:
    """Draw sequences, as many of each task, at most 20; the target is the true class, output 2 task + label."""
    each = min(-(-count // len(TASKS)), MOST)
    drawn = [draw(task, MOST, np.random.default_rng([seed, place, 3])) for place, task in enumerate(TASKS)]
    tokens, labels, evidence = (np.concatenate([part[:each] for part in parts]) for parts in zip(*drawn, strict=True))
    return Examples(
        tokens,
        masks={"evidence": evidence},
        targets=2 * np.repeat(np.arange(len(TASKS)), each) + labels,
        names=[f"{task}-{number:03d}" for task in TASKS for number in range(each)],
    )


def _for_networks(data: Examples, values: Mapping[str, np.ndarray | None]) -> Examples:
    """Return the sequences once for each network, by its folder's name, with its exact values where they are known."""
    count, copies = len(data.names), len(values)
    numbers = {folder_of(network, seed): number for number, network in enumerate(NETWORKS) for seed in range(SEEDS)}
    truth = {"network": np.repeat([numbers.get(name, -1) for name in values], count)}
    if all(each is not None for each in values.values()):
        truth["shapley"] = np.concatenate([np.asarray(each) for each in values.values()])
    return Examples(
        np.tile(data.inputs, (copies, 1)),
        {name: np.tile(mask, (copies, 1)) for name, mask in data.masks.items()},
        np.tile(np.asarray(data.targets), copies),
        truth,
        [f"{network}-{name}" for network in values for name in data.names],
        list(data.names) * copies,
    )


def examples(count: int, seed: int) -> Examples:
    """Draw sequences, the same ``count`` for each of ``NETWORKS``; ``truth["network"]`` is its number."""
    return _for_networks(_sequences(count, seed), dict.fromkeys(NETWORKS))


class _Joined(Numbers):
    """The results of several networks, one after the other; NaN where a method does not apply to a network."""

    def __init__(self, parts: Sequence[Numbers]):
        self.parts, self.evaluator = parts, parts[0].evaluator
        self.names = [name for part in parts for name in part.names]
        self.counted = np.concatenate([part.counted for part in parts])
        self.predictions: Sequence[Any] = []
        self.sources = tuple(dict.fromkeys(source for part in parts for source in part.sources))

    def of(self, source: MapSource, measure: PerSampleMetric) -> np.ndarray:
        """Return the numbers of one source, (N, width) float64."""
        return np.concatenate(
            [
                part.of(source, measure)
                if source in part.sources
                else np.full((len(part.names), measure.width), np.nan)
                for part in self.parts
            ]
        )


class _Evaluation(ExampleEvaluation):
    """Several networks on the same sequences, each with the methods that apply to it."""

    @classmethod
    def load(cls, run: Run) -> _Evaluation:
        """Load the networks and the sequences, and the exact values of both."""
        settings = cast(ExampleSettings, run.settings)
        data = _sequences(10**6 if settings.num_imgs == ALL else int(settings.num_imgs), settings.seed)
        given = [given_or_bundled(settings.model)] if settings.model else map(default_model, _FOLDERS)
        paths = {path.name: path for path in given}
        models = {name: attribution.load_model(path, score="logits") for name, path in paths.items()}
        targets = np.asarray(data.targets)
        values = {name: values_of(paths[name], model, data.inputs, targets) for name, model in models.items()}
        return cls(run, models, _for_networks(data, values))

    def measurements(self) -> list[list[Evaluator]]:
        """Return one run for each network, with the methods that apply to it."""
        return [[self._run(name, model) for name, model in self.models.items()]]

    def _run(self, name: str, model: Any) -> Evaluator:
        attends = "Softmax" in {node.op for node in model.graph.nodes.values()}
        methods = {key: each for key, each in self.run.methods.items() if attends or key not in _OF_ATTENTION}
        rows = [row for row, each in enumerate(self.data.names) if each.startswith(f"{name}-")]
        return self.evaluator_of(name, model, rows, methods)

    @functools.cached_property
    def numbers(self) -> Numbers:
        """What was explained and measured, network by network."""
        (runs,) = self.measurements()
        return _Joined([self.computed(each, title=f"Sequences, {each.name}") for each in runs])


def _of_networks(places: Sequence[int], name: str, about: str) -> Metric:
    """Return the distance to the truth on some of ``NETWORKS``."""
    title = name.replace("_", " ").capitalize().replace("Lstm", "LSTM").replace("Cnn", "CNN")
    return distance_on(name, title, about, lambda batch: np.isin(batch.truth["network"], places))


BY_NETWORK = tuple(
    _of_networks([place], name, f"one network alone: {_TEXTS['networks'][name]}") for place, name in enumerate(NETWORKS)
)
TRANSFORMERS = _of_networks(range(3), "transformers", "the three transformers, to which every method here applies.")
METHODS = (
    "attention_rollout", "gradient_rollout", "lrp_attn", "lrp_cp", "lrp_epsilon", "lrp_gamma", "lrp_alpha1beta0",
    "deeplift", "integrated_gradients", "smoothgrad", "gradient", "gradient_x_input", "kernel_shap", "occlusion",
)  # fmt: skip
_COSTLY = ("lrp_epsilon", "lrp_gamma", "lrp_alpha1beta0", "deeplift", "smoothgrad", "gradient")  # to prepare
_OF_ATTENTION = tuple(name for name in METHODS if REGISTERED[name].family == "attention")


class _Sequences(Benchmark):
    """Occlusion removes tokens one at a time; its patches of an eighth would be pairs."""

    def with_parameters(
        self, methods: Mapping[str, Method], settings: Any
    ) -> Mapping[str, tuple[Method, Mapping[str, Any]]]:
        """Return name -> (method, overrides of its parameters)."""
        chosen = super().with_parameters(methods, settings)
        single = {"groups": "features"}
        return {
            name: (each, {**more, **single} if name == "occlusion" else more) for name, (each, more) in chosen.items()
        }


def _report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    count = 12 if quick else MOST * len(TASKS)
    settings = ExampleSettings(num_imgs=count, seed=seed, random_networks=0)  # a full report has more
    methods = tuple(name for name in METHODS if not (quick and name in _COSTLY))
    return [
        ReportTask(
            "sequences", "sequences", "Sequences", settings, methods,
            f"{count} sequences, the same for each of five networks.", shared=False,
            metrics=_DEFINED.default_metrics, random_networks=not quick, cost=20 if quick else 100,
        )
    ]  # fmt: skip


_DEFINED = _Sequences(
    name="sequences",
    title="Sequences",
    report=ReportText.load(pathlib.Path(__file__).with_name("sequences_report.toml")),
    metrics=(
        *OVERALL,
        TOP_FEATURE,
        TRANSFORMERS,
        *BY_NETWORK,
        *(of_problem(place, task, _TEXTS["tasks"][task], classes=2) for place, task in enumerate(TASKS)),
    ),
    controls=(UNIFORM, RANDOM, EXACT_VALUES, RANDOM_WEIGHTS),
    methods=METHODS,
    evaluation=_Evaluation.load,
    examples=examples,
    network=str(default_model("exact/sequences")),  # all of them
    report_tasks=_report_tasks,
)
# Class activation maps do not apply, so a ranking of sequences has too few methods in common with other benchmarks.
BENCHMARK = dataclasses.replace(
    _DEFINED, columns=(dataclasses.replace(_DEFINED.column(TRANSFORMERS), comparable=False),)
)
