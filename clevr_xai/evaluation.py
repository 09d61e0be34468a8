"""CLEVR-XAI's network and questions: explained, measured and laid out."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.methods import third_party
from attribution.reading import read_text
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.bundled_models import default_model, given_or_bundled, shown_model
from attribution_benchmarks.core.controls import GROUND_TRUTH, Control
from attribution_benchmarks.core.evaluation import Run, Section, TableEvaluation
from attribution_benchmarks.core.evaluator import ShardedRun
from attribution_benchmarks.core.explainer import Explainer, MapsDirectory, SavedMaps, saved_methods, with_all_maps
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.random_weights import network as random_network
from attribution_benchmarks.core.scores import InputScores
from clevr_xai import _commentary, answering, methods, table
from clevr_xai._commentary import Covariates, Shares
from clevr_xai.answering import Answering, Measured, Questions, draw_rows, live_network, rows_until_right
from clevr_xai.data import Dataset, wording
from clevr_xai.metrics import ACCURACIES, HEADING, pool
from clevr_xai.settings import DRAWN, Settings

MODELS = default_model("clevr_xai")
_CLUSTERS = "Intervals draw images again, since questions on one image belong together."


@dataclasses.dataclass(frozen=True)
class _Results:
    """Numbers of the questions, the shares of their masks, and correlations with their properties."""

    measured: Measured
    shares: Sequence[Shares]
    covariates: Sequence[Covariates]


class ClevrXaiEvaluation(TableEvaluation):
    """A network, or none with ``precomputed_maps``, and questions."""

    settings: Settings

    def __init__(self, run: Run, models: Mapping[str, Any], questions: Questions):
        super().__init__(run, models)
        self.questions = questions

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

    def sharded_runs(self) -> list[list[ShardedRun]]:
        """Return one run through the questions, whose name is their kind."""
        settings = self.settings
        predictions = answering.read_predictions(settings.precomputed_maps) if settings.precomputed_maps else None
        return [
            [
                answering.sharded_run(
                    self.questions, self.explainer_of_questions(), predictions, self.run.shared_metrics, self.run.store,
                    settings.batch_size, self._maps_directory(), settings.degenerate_maps,
                )
            ]
        ]  # fmt: skip

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

    def _maps_directory(self) -> MapsDirectory | None:
        if not self.settings.save_maps:
            return None
        pooling = self.settings.maps_pooling
        reduce = (lambda one: pool(one[np.newaxis], [pooling])[pooling][0]) if pooling else None
        parameters = {
            name: {key: repr(value) for key, value in method.parameters(overrides).items()}
            for name, (method, overrides) in self.run.methods.items()
        }
        return self.maps_directory(
            reduce, model=self.questions.network.model.fingerprint, questions=self.settings.questions,
            settings=parameters, pooling=pooling,
        )  # fmt: skip

    def without(self, failed: Mapping[str, Sequence[Any]]) -> ClevrXaiEvaluation:
        """Return the evaluation without some questions."""
        questions = self.questions
        left = questions.take(np.setdiff1d(questions.rows, failed[questions.dataset.kind]))
        return ClevrXaiEvaluation(self.run, self.models, left)

    def evaluate(self) -> _Results:
        """Explain and measure; save the explained answers next to saved maps."""
        questions, settings, shared = self.questions, self.settings, self.run.shared_metrics
        dataset, truths = questions.dataset, settings.truths
        ((sharded_run,),) = self.sharded_runs()
        results = self.computed(sharded_run, "question", "questions")
        found = answering.collect(questions, results, shared, settings.degenerate_maps)
        if not found.right.any():
            raise BadInput(f"none of the {len(found.rows)} questions is answered correctly; there is nothing to score")
        if settings.save_maps:
            explained = zip(found.indices[found.right], found.rows[found.right], strict=True)
            answering.save_predictions(settings.save_maps, [(index, dataset.answers[row]) for index, row in explained])
        if found.confidence is None and "confident" in settings.subset:
            print_line("precomputed maps have no confidence, so the subset 'confident' is skipped", file=sys.stderr)
        return _Results(
            found,
            _commentary.mask_shares(found, dataset, truths),
            _commentary.correlations(found, dataset, truths[0], self._own_metrics()),
        )

    def input_scores(self, results: _Results) -> list[InputScores]:
        """Return each question's value by each metric and ground truth."""
        return table.input_scores(results.measured, self.settings.truths, self._own_metrics())

    def rows(self, results: _Results, scores: Sequence[InputScores]) -> list[dict[str, Any]]:
        """Return the rows of the benchmark's own metrics, for all poolings, then those of all benchmarks."""
        measured, settings = results.measured, self.settings
        rows = table.long_rows(measured, settings.truths, self._own_metrics(), settings.subset, *settings.bounds)
        return rows + table.shared_rows(measured, settings.truths[0], self.run.shared_metrics)

    def heading(self, results: _Results) -> list[str]:
        """Return how many questions were sampled, and how many of them count."""
        measured, confidence = results.measured, self.settings.confidence
        total, correct = len(measured.rows), int(measured.right.sum())
        model = next(iter(self.models), "saved maps")
        lines = [f"CLEVR-XAI, {measured.kind} questions: {total:,} of {len(self.questions.dataset):,} drawn, {model}"]
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

    def table(self, results: _Results, rows: Sequence[Mapping[str, Any]], markdown: bool) -> str:
        """Return the tables of metrics, mask shares and correlations."""
        settings = self.settings
        return (
            table.text(rows, settings.poolings, settings.bounds, markdown, self.run.shared_metrics)
            + _commentary.shares_text(results.shares, markdown)
            + _commentary.correlations_text(results.covariates, markdown)
        )

    def titles(self, results: Sequence[_Results]) -> dict[str, str]:
        """Return the titles of methods and controls by name."""
        return self.run.benchmark.row_titles(results[0].measured.sources)

    def notes(self, results: _Results, scores: Sequence[InputScores], rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Compare the scores with the poster's, and explain those of the edge detector."""
        notes = _commentary.findings(results.measured, rows)
        pooled = ", ".join(f"{HEADING[metric]} for {metric}" for metric in self._own_metrics())
        notes.append(f"The poster does not name its pooling; ours are {pooled}. {_CLUSTERS}" if pooled else _CLUSTERS)
        return notes + _commentary.edges_explained(results.shares)

    def data_fingerprints(self, results: Sequence[_Results]) -> dict[str, str]:
        """Return the fingerprint of the questions by their kind."""
        return {self.questions.dataset.kind: results[0].measured.fingerprint}

    def write_figures(self, section: Section, directory: str, formats: Sequence[str]) -> None:
        """Write maps of some questions, box plots, and questions for a report."""
        from clevr_xai import _pictures

        measured, truths, count = section.results[0].measured, self.settings.truths, self.settings.num_pictures
        questions, explainer, store = self.questions, self.explainer_of_questions(), self.run.store

        def maps(rows: Sequence[int]) -> dict[str, np.ndarray]:
            return {name: one / 255 for name, one in _pictures.maps_of(questions, rows, explainer, store).items()}

        picked = _pictures.example_rows(section.input_scores, measured, truths[0])
        for path in _pictures.write_pictures(
            directory, measured, questions.dataset, maps, truths, self._own_metrics(), count, formats,
            picked if len(picked) >= count else None,
        ):  # fmt: skip
            print_line(f"picture: {path}", file=sys.stderr)
        _pictures.save_examples(directory, questions, measured, explainer, section.input_scores, truths[0], store)

    def _own_metrics(self) -> list[str]:
        return [name for name in self.run.metrics if name in ACCURACIES]


def _sample(run: Run, settings: Settings, dataset: Dataset, network: Answering) -> Sequence[int]:
    """Return the rows of the questions to score; in a worker all, since its tasks name theirs."""
    if run.in_worker:
        return range(len(dataset))
    if settings.wanted_correct and not run.only_describes:
        return rows_until_right(dataset, network, settings.wanted_correct, settings.seed)
    return draw_rows(len(dataset), settings.num_questions or DRAWN, settings.seed)


def _questions_with_maps(run: Run, settings: Settings) -> Questions:
    """Return those of the sampled questions that have a precomputed map of every method."""
    folders = saved_methods(settings.precomputed_maps, run.names)
    dataset = Dataset(settings.questions, settings.data_dir, answering.side(folders))
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
    text = "".join(read_text(card) for card in cards if card.is_file())
    named = re.search(r"with CLEVR's questions in (.+) wording", text)
    return named is None or style in named[1]
