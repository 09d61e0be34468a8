"""CLEVR-XAI's network and questions: explained and measured.

The poster has relevance mass accuracy, simple questions, ground truth Single Object: mean, standard deviation and
median for all correctly answered questions, for those with a softmax above 0.99999, and for those with a mask of more
than 1,000 pixels. It states neither its pooling nor the baseline of its Integrated Gradients, so its one row is listed
next to each of ours.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.methods import third_party
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.bundled_models import default_model, given_or_bundled, shown_model
from attribution_benchmarks.core.controls import GROUND_TRUTH, Control
from attribution_benchmarks.core.evaluation import Evaluation, Run, undefined_notes
from attribution_benchmarks.core.evaluator import Evaluator, Inputs, Numbers
from attribution_benchmarks.core.explainer import Explainer, MapsDirectory, SavedMaps, with_all_maps
from attribution_benchmarks.core.metric import UNIFORM
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.random_weights import network as random_network
from attribution_benchmarks.core.scores import InputScores, Scores
from clevr_xai import methods, notes, questions
from clevr_xai.data import Dataset, QuestionBatch, wording
from clevr_xai.metrics import (
    ACCURACIES,
    CONFIDENCE,
    DIGITS,
    HEADING,
    MASK_PIXELS,
    METRICS,
    POOLINGS,
    TRUTH_TITLES,
    path_gap,
    relevance_accuracy,
    subset_members,
)
from clevr_xai.network import Answering, live_network
from clevr_xai.questions import Questions, draw_rows, rows_until_right
from clevr_xai.settings import DRAWN, Settings

MODELS = default_model("clevr_xai")


@dataclasses.dataclass(frozen=True)
class Measured:
    """Numbers of n questions.

    Attributes
    ----------
    right
        (n,) bool, whether the answer was right; only these questions were explained.
    confidence
        (n,) softmax of the answer; None for precomputed maps.
    pixels
        Ground truth -> (n,) size of the mask, 0 where the question has none.
    scores
        Source of maps -> (n, ground truths, metrics, poolings) float64; NaN where undefined and where the answer was
        wrong. A pooled map that is zero everywhere has no accuracy. It counts as the uniform map, whose mass and whose
        expected rank accuracy are the mask's share of the image, or is NaN with ``--degenerate_maps=drop``.
    zero
        Source -> such maps, bool of the same shape.
    gaps
        Method of Integrated Gradients -> (n,) share by which the sum of its map misses the difference of the scores.
    shared
        Metric of all benchmarks -> source -> (n, width) float64, NaN likewise.
    fingerprint
        SHA-256 of the questions, answers, images and masks.
    """

    right: np.ndarray
    confidence: np.ndarray | None
    pixels: dict[str, np.ndarray]
    scores: dict[MapSource, np.ndarray]
    zero: dict[MapSource, np.ndarray]
    gaps: dict[str, np.ndarray]
    shared: dict[str, dict[MapSource, np.ndarray]]
    fingerprint: str


class ClevrXaiEvaluation(Evaluation):
    """A network, or none with ``precomputed_maps``, and questions.

    Attributes
    ----------
    questions
        Those of the run.
    accuracies, shared, gaps
        What is measured: both accuracies under all poolings, metrics of all benchmarks by name, against the first
        ground truth, and the completeness error by method of Integrated Gradients.
    """

    settings: Settings

    def __init__(self, run: Run, models: Mapping[str, Any], questions: Questions):
        super().__init__(run, models)
        self.questions = questions
        # Precomputed maps are scored again each time, so there is no store to keep small.
        self.accuracies = relevance_accuracy(questions.dataset.ground_truths, DIGITS if questions.network else None)
        self.shared = {  # under a name that says which mask they look at, so that no other mask's numbers are found
            name: dataclasses.replace(
                metric.measure,
                name=f"{metric.measure.name} {questions.truths[0]}",
                degenerate_maps=self.settings.degenerate_maps,
            )
            for name, metric in run.shared_metrics.items()
        }
        self.gaps = {
            name: path_gap(name, parameters["baseline"])
            for name, (_, parameters) in run.methods.items()
            if name in methods.BASELINES
        }

    @classmethod
    def load(cls, run: Run) -> ClevrXaiEvaluation:
        """Load the network, if any, and sample the questions."""
        settings: Any = run.settings
        if settings.precomputed_maps:
            return cls(run, {}, _questions_with_maps(run, settings))
        # A model is compiled into several functions on purpose; TensorFlow takes that for a mistake.
        logging.getLogger("tensorflow").addFilter(lambda record: "tf.function retracing" not in record.getMessage())
        path = _model_path(settings.model)
        network = Answering(path)
        style = wording(settings.questions, settings.data_dir)
        if not run.in_worker and not _reads(path, style):
            print_line(
                f"warning: {shown_model(path)} was not trained on questions in {style} wording, as these are, and only "
                "correct answers count",
                file=sys.stderr,
            )
        third_party.offer(network.model, live_network)
        if settings.layer:
            network.model.layer(settings.layer, "image")  # raises for an unknown layer
        dataset = Dataset(settings.questions, settings.data_dir, network.size)
        questions = Questions(dataset, _sample(run, settings, dataset, network), network, settings.truths[0])
        return cls(run, {shown_model(path): network.model}, questions)

    def describe_models(self) -> list[str]:
        """Return the network's accuracy on the questions and the layer of class activation maps."""
        questions, network, size = self.questions, self.questions.network, self.settings.batch_size
        layer = network.model.layer(self.settings.layer or None, "image")
        correct = 0
        for batch in questions.dataset.batches(size, questions.rows):
            logits = network.model.scores(network.inputs(batch.images, batch.questions), size)
            correct += int((logits.argmax(axis=1) == network.targets(batch.answers)).sum())
        return [
            f"{name} fits CLEVR-XAI: images of {network.size} pixels, {len(network.words)} words, "
            f"{len(network.answers)} answers; {correct} of {len(questions.rows)} {self.settings.questions} questions "
            f"right; class activation maps of the layer {layer}"
            for name in self.models
        ]

    def measurements(self) -> list[list[Evaluator]]:
        """Return one evaluator of the questions, whose name is their kind."""
        settings, asked = self.settings, self.questions
        dataset, network = asked.dataset, asked.network
        answers = asked.predicted() if network else None
        if settings.precomputed_maps and (given := questions.read_predictions(settings.precomputed_maps)) is not None:
            answers = asked.given(given)
        evaluator = Evaluator(
            self.explainer_of_questions(),
            [self.accuracies, *self.shared.values(), *self.gaps.values()],
            {
                "benchmark": "clevr_xai",
                "model": network.model.fingerprint if network else "",
                "questions": dataset.kind,
                "ground_truths": list(dataset.ground_truths),
            },
            [Questions],
            self.run.store,
            answers,
            self.directory_of_maps(),
            Inputs(
                dataset.kind,
                asked.rows.tolist(),
                settings.batch_size,
                lambda rows, size: asked.take(rows).batches(size),
            ),
        )
        return [[evaluator]]

    def explainer_of_questions(self) -> Explainer | SavedMaps:
        """Return what makes the maps, or reads them."""
        settings, questions = self.settings, self.questions
        names = list(settings.controls)
        if self.run.shared_metrics and settings.controls == methods.BY_DEFAULT:
            names.append(GROUND_TRUTH.name)  # trivially maximal on the benchmark's own metrics only
        if settings.precomputed_maps:
            return self.explainer(None, [control for name, control in methods.MAPS.items() if name in names])
        chosen = methods.asked_of(questions.dataset, questions.network, names, settings.random_networks)
        controlled = {each.name: settings.control_methods or _affordable(each, self.run.methods) for each in chosen}
        return self.explainer(questions.network.model, chosen, controlled)

    def directory_of_maps(self) -> MapsDirectory | None:
        """Return where maps are saved; None without ``save_maps``."""
        if not self.settings.save_maps:
            return None
        parameters = {
            name: {key: repr(value) for key, value in method.parameters(overrides).items()}
            for name, (method, overrides) in self.run.methods.items()
        }
        model = self.questions.network.model.fingerprint
        return self.maps_directory(model=model, questions=self.settings.questions, settings=parameters)

    @functools.cached_property
    def measured(self) -> Measured:
        """The numbers of the questions; the explained answers are saved next to saved maps."""
        ((evaluator,),) = self.measurements()
        numbers = self.computed(evaluator, "question", "questions")
        if not numbers.counted.any():
            raise BadInput(
                f"none of the {len(numbers.names)} questions is answered correctly; there is nothing to score"
            )
        asked, settings = self.questions, self.settings
        if settings.save_maps:
            explained = zip(np.array(asked.indices), asked.rows, numbers.counted, strict=True)
            answers = ((index, asked.dataset.answers[row]) for index, row, right in explained if right)
            questions.save_predictions(settings.save_maps, answers)
        if not asked.network and "confident" in settings.subset:
            print_line("precomputed maps have no confidence, so the subset 'confident' is skipped", file=sys.stderr)
        return self._collected(numbers)

    def _collected(self, numbers: Numbers) -> Measured:
        asked, right = self.questions, numbers.counted
        sizes = np.array([asked.mask_pixels[row] for row in asked.rows])
        counts = (sizes > 0) & right[:, None]
        scores, zero = {}, {}
        for source in numbers.sources:
            found = numbers.of(source, self.accuracies)
            found = found.reshape(*sizes.shape, len(METRICS), len(POOLINGS))
            zero[source] = np.isnan(found) & counts[:, :, None, None]
            uniform = (sizes / asked.dataset.size**2)[:, :, None, None]
            treated = zero[source] & (self.settings.degenerate_maps == UNIFORM)
            scores[source] = np.where(treated, uniform, found)
        return Measured(
            right,
            np.array([sure for _, sure in numbers.predictions], np.float64) if asked.network else None,
            dict(zip(asked.dataset.ground_truths, sizes.T, strict=True)),
            scores,
            zero,
            {name: numbers.of(MapSource(name), gap)[:, 0] for name, gap in self.gaps.items()},
            {
                name: {source: numbers.of(source, measure) for source in numbers.sources if measure.applies_to(source)}
                for name, measure in self.shared.items()
            },
            hashlib.sha256("\n".join(numbers.names).encode()).hexdigest(),
        )

    def groups(self) -> Iterator[InputScores]:
        """Yield the accuracies of each ground truth and subset under all poolings, then the metrics of all benchmarks.

        A table shows both accuracies, each under the pooling of its heading, and other poolings on request.
        """
        own, settings = [name for name in ACCURACIES if name in self.run.metrics], self.settings
        for truth in settings.truths if own else ():
            for subset in settings.subset:
                if self._counted(truth, subset) is None:
                    continue
                for metric in own:
                    yield self._accuracy(metric, truth, subset, HEADING[metric], self._title(own, truth, subset))
                further = [(metric, pooling) for metric in own for pooling in POOLINGS if pooling != HEADING[metric]]
                shown = settings.poolings if subset == "all" else ()
                for metric, pooling in sorted(further, key=lambda one: one[1] not in shown):
                    title = f"{ACCURACIES[metric].title}, ground truth {TRUTH_TITLES[truth]}: means by pooling"
                    yield self._accuracy(metric, truth, subset, pooling, title if pooling in shown else None)
        for name in self.shared:
            yield self._shared_metric(name)

    def _counted(self, truth: str, subset: str = "all") -> np.ndarray | None:
        """Return which questions belong to a subset, (n,) bool; None for confident ones without a network."""
        measured = self.measured
        return subset_members(subset, measured.right, measured.pixels[truth], measured.confidence, self.settings.bounds)

    def _title(self, metrics: Sequence[str], truth: str, subset: str) -> str | None:
        """Return the title of a table; None for a subset without a question, unless it comes first."""
        count = int(self._counted(truth, subset).sum())
        if not count and subset != self.settings.subset[0]:
            return None
        pooled = " and ".join(f"{ACCURACIES[name].title.lower()} (pooling {HEADING[name]})" for name in metrics)
        title = {
            "all": "all questions",
            "confident": f"softmax > {self.settings.confidence:g}",
            "large_mask": f"mask > {self.settings.min_mask_pixels:,} px",
        }[subset]
        return f"{pooled[0].upper()}{pooled[1:]}, ground truth {TRUTH_TITLES[truth]}, {title}: {_questions(count)}"

    def _accuracy(self, metric: str, truth: str, subset: str, pooling: str, table: str | None) -> InputScores:
        """Return the values of the questions of a subset by one accuracy under one pooling."""
        measured, counted, is_heading = self.measured, self._counted(truth, subset), pooling == HEADING[metric]
        truth_place = self.questions.dataset.ground_truths.index(truth)
        place = counted, truth_place, list(METRICS).index(metric), POOLINGS.index(pooling)
        facts = {}
        for source, members in by_kind(measured.scores).items():
            fact: dict[str, Any] = {"zero_maps": int(sum(measured.zero[member][place].sum() for member in members))}
            if not counted.any():
                fact["reason"] = notes.NO_QUESTION
            if source.method in self.gaps and not source.control:
                gap = measured.gaps[source.method][counted]
                fact["gap"] = float(np.median(gap[np.isfinite(gap)])) if np.isfinite(gap).any() else np.nan
            facts |= {member.name: fact for member in members}
        return self._group(
            {"metric": metric, "ground_truth": truth, "pooling": pooling, "subset": subset},
            counted,
            {source: found[place] for source, found in measured.scores.items()},
            facts,
            table=table,
            column=metric if is_heading else pooling,
            kept=is_heading and subset == "all",
            brief=not is_heading,
        )

    def _shared_metric(self, name: str) -> InputScores:
        """Return the values of all questions by a metric of all benchmarks."""
        truth, metric, found = self.settings.truths[0], self.run.metrics[name], self.measured.shared[name]
        counted = self._counted(truth)
        return self._group(
            {"metric": name, "ground_truth": truth, "pooling": "", "subset": "all"},
            counted,
            {source: values[counted, 0] for source, values in found.items()},
            {},
            table=f"{metric.title}; {metric.better} is better; ground truth {TRUTH_TITLES[truth]}: "
            f"{_questions(int(counted.sum()))}",
            curves={
                source.name: values[counted, 1:]
                for source, values in found.items()
                if metric.curve and not (source.method and source.control)
            },
        )

    def _group(
        self,
        where: Mapping[str, str],
        counted: np.ndarray,
        values: Mapping[MapSource, np.ndarray],
        facts: Mapping[str, Mapping[str, Any]],
        **further: Any,
    ) -> InputScores:
        asked, measured = self.questions, self.measured
        missing = measured.right & (measured.pixels[where["ground_truth"]] == 0)
        of_all = {"answered_wrongly": int((~measured.right).sum()), "without_mask": int(missing.sum())}
        return InputScores(
            {**where, "questions": asked.dataset.kind},
            [str(index) for index, used in zip(asked.indices, counted, strict=True) if used],
            {source.name: column for source, column in values.items()},
            [asked.dataset.questions[row]["image_filename"] for row in asked.rows[counted]],
            sources=list(values),
            facts={source.name: {**of_all, **facts.get(source.name, {})} for source in values},
            **further,
        )

    def published(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the poster's figures; none for a subset that has other bounds than the poster's."""
        as_published = row["subset"] == "all" or self.settings.bounds == (CONFIDENCE, MASK_PIXELS)
        return super().published(row) if as_published else {}

    def heading(self) -> list[str]:
        """Return how many questions were sampled, and how many of them count."""
        measured, confidence, dataset = self.measured, self.settings.confidence, self.questions.dataset
        total, correct = len(measured.right), int(measured.right.sum())
        model = next(iter(self.models), "saved maps")
        lines = [f"CLEVR-XAI, {dataset.kind} questions: {total:,} of {len(dataset):,} drawn, {model}"]
        if measured.confidence is not None or correct < total:
            lines.append(
                f"{correct:,} answered correctly ({100 * correct / total:.1f} %) and counted, {total - correct:,} "
                "wrongly and skipped"
            )
        if measured.confidence is not None:
            sure = int((measured.right & (measured.confidence > confidence)).sum())
            lines.append(
                f"{sure:,} of them with a softmax above {confidence:g}"
                if sure
                else f"none of them with a softmax above {confidence:g}, so that the poster's subset is empty"
            )
        for truth, pixels in measured.pixels.items():
            missing = int((measured.right & (pixels == 0)).sum())
            if missing:
                lines.append(f"{missing:,} of them have no mask '{truth}' and do not count there")
        return lines

    def notes(self, scores: Scores) -> list[str]:
        """Compare the scores with the poster's."""
        return [*undefined_notes(scores.groups), *notes.notes(scores, self.settings.seed)]

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of the questions by their kind."""
        return {self.questions.dataset.kind: self.measured.fingerprint}


def _questions(count: int) -> str:
    return f"{count:,} question{'s' if count != 1 else ''}"


def _sample(run: Run, settings: Settings, dataset: Dataset, network: Answering) -> Sequence[int] | np.ndarray:
    """Return the rows of the questions to score; in a worker all, since its tasks name theirs."""
    if run.in_worker:
        return range(len(dataset))
    if settings.wanted_correct and not run.only_describes:
        return rows_until_right(dataset, network, settings.wanted_correct, settings.seed)
    count = settings.num_questions or DRAWN
    if settings.subset != ("large_mask",):
        return draw_rows(len(dataset), count, settings.seed)
    large = [_large_masks(batch, settings) for batch in dataset.batches(64)]  # a few of a hundred: drawn among these
    candidates = np.concatenate(large)
    if not len(candidates):
        raise BadInput(
            f"no question has a mask of more than {settings.min_mask_pixels:,} pixels; lower --min_mask_pixels"
        )
    return candidates[draw_rows(len(candidates), count, settings.seed)]


def _large_masks(batch: QuestionBatch, settings: Settings) -> np.ndarray:
    """Return the rows of a batch whose mask of the first ground truth is large."""
    return batch.rows[batch.masks[settings.truths[0]].sum(axis=(1, 2)) > settings.min_mask_pixels]


def _questions_with_maps(run: Run, settings: Settings) -> Questions:
    """Return those of the sampled questions that have a precomputed map of every method."""
    folders = run.map_folders
    dataset = Dataset(settings.questions, settings.data_dir, questions.side(folders))
    rows = draw_rows(len(dataset), settings.num_questions or DRAWN, settings.seed)
    available = with_all_maps([dataset.questions[row]["question_index"] for row in rows], folders)
    if not any(available):
        raise BadInput(f"none of the questions drawn has maps of all methods in {listed(map(str, folders.values()))}")
    return Questions(dataset, rows[available], ground_truth=settings.truths[0])


def _affordable(control: Control, names: Iterable[str]) -> list[str]:
    """Return the methods to run under a control by default: those cheap enough for it."""
    kind = MapSource(control=control.name).kind.name
    repeated = kind == RANDOM_WEIGHTS.name and control.name != random_network(1).name
    excluded = {*methods.COSTLY, *(methods.MASKED if repeated else ())}
    return [name for name in names if name not in excluded]


def _model_path(model: str) -> pathlib.Path:
    """Return the directory of the network to explain, the default one where empty."""
    path = given_or_bundled(model or MODELS / "relation_network")
    if model or path.is_dir():
        return path
    raise BadInput(
        "the default network is missing; train it with scripts/train_relation_network.py, or give a SavedModel with "
        "--model="
    )


def _reads(path: pathlib.Path, style: str) -> bool:
    """Return whether a network was trained on a wording: False only where its card names other wordings."""
    cards = [folder / "MODEL_CARD.md" for folder in (path, path.parent)]
    text = "".join(card.read_text("utf-8", "replace") for card in cards if card.is_file())
    named = re.search(r"with CLEVR's questions in (.+) wording", text)
    return named is None or style in named[1]
