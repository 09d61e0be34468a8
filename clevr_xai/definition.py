"""CLEVR-XAI as a benchmark: its description, and the hooks of ``core.runner``."""

from __future__ import annotations

import dataclasses
import functools
import logging
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from attribution import METHODS, cli
from attribution.errors import BadInput, listed, print_line
from attribution.files import cache_directory
from attribution.reading import read_text
from attribution_benchmarks.cli.bundled_models import default_model, given_or_bundled, shown_model
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import GROUND_TRUTH, Control
from attribution_benchmarks.core.definition import Benchmark, Column, ReportTask
from attribution_benchmarks.core.metric import DROP, UNIFORM, Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.random_weights import network as random_network
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.runner import Run
from attribution_benchmarks.metrics.registry import select_metrics
from clevr_xai import masks, methods
from clevr_xai.methods import BASELINES, TITLES
from clevr_xai.metrics import ACCURACIES, CONFIDENCE, HEADING, MASK_PIXELS, POOLINGS, SUBSETS, pool

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluator import ShardedRun
    from attribution_benchmarks.core.input_scores import InputScores
    from clevr_xai._commentary import Covariates, Shares
    from clevr_xai.answering import Measured

MODELS = default_model("clevr_xai")
CORRECT_OF_COMPLEX = 300  # answers of a run by default
DEFAULT_TRUTHS = {"simple": ("single_object",), "complex": ("unique", "unique_firstnonempty", "union")}
_MISSED = 0.05  # of f(image) - f(baseline)
_TRUTHS = {"simple": "single_object", "complex": "union"}  # one represents the others in the matrix
_CLUSTERS = "Intervals draw images again, since questions on one image belong together."


@dataclasses.dataclass(frozen=True)
class _Results:
    """Numbers of the questions, the shares of their masks, and correlations with their properties."""

    measured: Measured
    shares: Sequence[Shares]
    covariates: Sequence[Covariates]


class _DegenerateMaps(flags.EnumParser):
    """Parse ``--degenerate_maps``; accepts the former value "left_out" for one release."""

    def parse(self, argument: str) -> str:
        return super().parse(DROP if argument == "left_out" else argument)


class _ClevrXai(Benchmark):
    """The hooks of CLEVR-XAI; modules that need TensorFlow are imported inside. ``run.data`` are ``Questions``."""

    def define_flags(self, flag_values: flags.FlagValues) -> None:
        """Define the network, the questions, and the settings of methods, controls, tables and figures."""
        cli.define_common_flags(flag_values, model="", data_dir="", num_questions=100, cache_dir="")
        flag_values.set_default("batch_size", 8)
        flag_values["metrics"].help += "; the latter are computed against the first ground truth"
        flag_values["save_maps"].help = "directory to save maps in, as METHOD/QUESTION_INDEX.npy"
        _define_questions(flag_values)
        methods.define_flags(flag_values)
        _define_controls(flag_values)
        flags.DEFINE_list(
            "pooling", [], "poolings to compare in a table of means: names such as l2-norm or 'all'",
            flag_values=flag_values,
        )  # fmt: skip
        flags.DEFINE(
            _DegenerateMaps([UNIFORM, DROP]), "degenerate_maps", UNIFORM,
            "treatment of maps that are zero everywhere: score them as the uniform map, so that all methods are "
            "scored on the same questions, or drop and count them",
            flag_values=flag_values, serializer=flags.ArgumentSerializer(),
        )  # fmt: skip
        flags.DEFINE_alias("zero_maps", "degenerate_maps", flag_values=flag_values)
        flags.DEFINE_string(
            "maps_pooling", "", "save maps of this pooling, (H, W), instead of whole ones, (H, W, C)",
            flag_values=flag_values,
        )  # fmt: skip
        flags.DEFINE_integer("num_pictures", 4, "questions to draw", lower_bound=1, flag_values=flag_values)

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return the metrics of ``--metrics`` by name; there must be one."""
        return select_metrics(names, ACCURACIES)

    def check(self, run: Run) -> None:
        """Raise ``BadInput`` for unknown names, and for flags that do not go together."""
        super().check(run)
        given = run.flags
        _check_names(run)
        if given.num_correct and not run.in_worker and (given["num_questions"].present or given.precomputed_maps):
            raise BadInput("--num_correct determines the questions; leave out --num_questions and --precomputed_maps")
        if given.maps_pooling and not given.save_maps:
            raise BadInput("--maps_pooling says how to save maps; name the directory with --save_maps")

    def select_methods(self, run: Run) -> dict[str, tuple[Any, Mapping]]:
        """Return the methods with the paper's settings."""
        given = run.flags
        chosen = methods.settings(
            run.method_names, given.steps, given.samples, given.noise, given.batch_norm, given.layer, given.tolerance
        )
        if not chosen and not set(given.controls) & set(methods.MAPS):
            raise BadInput("--methods is empty and there are no controls; name at least one method")
        unknown = [name for name in given.control_methods if name not in chosen]
        if unknown:
            raise BadInput(f"--control_methods has '{unknown[0]}', which is not scored; choose of {listed(chosen)}")
        return chosen

    def default_scores_dir(self, run: Run) -> str:
        """Return a directory in the user's cache; empty for precomputed maps, whose scores are not stored."""
        return "" if run.flags.precomputed_maps else str(cache_directory("clevr_xai_scores"))

    def load(self, run: Run) -> None:
        """Load the network, if any, and sample the questions."""
        if run.flags.precomputed_maps:
            run.data = self._questions_with_maps(run)
            return
        from clevr_xai.answering import Answering, Questions, attach_live_network
        from clevr_xai.dataset import Dataset, wording

        # A model is compiled into several functions on purpose; TensorFlow takes that for a mistake.
        logging.getLogger("tensorflow").addFilter(lambda record: "tf.function retracing" not in record.getMessage())
        path = _model_path(run.flags)
        network = Answering(path)
        style = wording(run.flags.questions, run.flags.data_dir)
        if not run.in_worker and not _reads(path, style):
            print_line(
                f"warning: {shown_model(path)} was not trained on questions in {style} wording, as these are, and only "
                "correct answers count",
                file=sys.stderr,
            )
        network.model.live_source = functools.partial(attach_live_network, network=network)
        if run.flags.layer:
            network.model.layer(run.flags.layer, "image")  # raises for an unknown layer
        dataset = Dataset(run.flags.questions, run.flags.data_dir, network.size)
        run.models = {shown_model(path): network.model}
        run.data = Questions(dataset, self._sample(run, dataset, network), network, _ground_truths(run)[0])

    def _sample(self, run: Run, dataset: Any, network: Any) -> Sequence[int]:
        """Return the rows of the questions to score; in a worker all, since its tasks name theirs."""
        from clevr_xai.answering import draw_rows, rows_until_right

        wanted = run.flags.num_correct
        if run.flags.questions == "complex" and not wanted and not run.flags["num_questions"].present:
            wanted = CORRECT_OF_COMPLEX
        if run.in_worker:
            return range(len(dataset))
        if wanted and not run.flags.check_model:
            return rows_until_right(dataset, network, wanted, run.flags.seed)
        return draw_rows(len(dataset), run.flags.num_questions, run.flags.seed)

    def _questions_with_maps(self, run: Run) -> Any:
        """Return those of the sampled questions that have a precomputed map of every method."""
        from attribution_benchmarks.core.explainer import with_all_maps
        from clevr_xai import answering
        from clevr_xai.answering import Questions, draw_rows
        from clevr_xai.dataset import Dataset

        folders = run.explainer(None).folders
        dataset = Dataset(run.flags.questions, run.flags.data_dir, answering.side(folders))
        rows = draw_rows(len(dataset), run.flags.num_questions, run.flags.seed)
        available = with_all_maps([dataset.questions[row]["question_index"] for row in rows], folders)
        if not any(available):
            raise BadInput(
                f"none of the questions drawn has maps of all methods in {listed(map(str, folders.values()))}"
            )
        return Questions(dataset, rows[available], ground_truth=_ground_truths(run)[0])

    def describe_models(self, run: Run) -> list[str]:
        """Return the network's accuracy on the questions and the layer of class activation maps."""
        questions, network = run.data, run.data.network
        layer = network.model.layer(run.flags.layer or None, "image")
        correct = 0
        for batch in questions.dataset.batches(run.flags.batch_size, questions.rows):
            logits = network.model.scores(network.inputs(batch.images, batch.questions), run.flags.batch_size)
            correct += int((logits.argmax(axis=1) == network.targets(batch.answers)).sum())
        return [
            f"{name} fits CLEVR-XAI: images of {network.size} pixels, {len(network.words)} words, "
            f"{len(network.answers)} answers; {correct} of {len(questions.rows)} {run.flags.questions} questions "
            f"right; class activation maps of the layer {layer}"
            for name in run.models
        ]

    def sharded_runs(self, run: Run) -> list[list[ShardedRun]]:
        """Return one run through the questions."""
        return [[self.sharded_run(run, run.data.dataset.kind)]]

    def sharded_run(self, run: Run, name: str) -> ShardedRun:
        """Return the run through the questions, whose name is their kind."""
        from clevr_xai import answering

        given = run.flags
        predictions = answering.read_predictions(given.precomputed_maps) if given.precomputed_maps else None
        return answering.sharded_run(
            run.data, self._explainer(run), predictions, run.shared_metrics, run.store, given.batch_size,
            self._maps_directory(run), given.degenerate_maps,
        )  # fmt: skip

    def _explainer(self, run: Run) -> Any:
        """Return what makes the maps, or reads them."""
        names = list(run.flags.controls)
        if run.shared_metrics and names == run.flags["controls"].default:
            names.append(GROUND_TRUTH.name)  # trivially maximal on the benchmark's own metrics only
        if run.flags.precomputed_maps:
            return run.explainer(None, [control for name, control in methods.MAPS.items() if name in names])
        questions = run.data
        chosen = methods.asked_of(questions.dataset, questions.network, names, run.flags.random_networks)
        controlled = {each.name: run.flags.control_methods or _affordable(each, run.methods) for each in chosen}
        return run.explainer(questions.network.model, chosen, controlled)

    def _maps_directory(self, run: Run) -> Any:
        if not run.flags.save_maps:
            return None
        pooling = run.flags.maps_pooling
        reduce = (lambda one: pool(one[np.newaxis], [pooling])[pooling][0]) if pooling else None
        settings = {
            name: {key: repr(value) for key, value in method.parameters(overrides).items()}
            for name, (method, overrides) in run.methods.items()
        }
        return run.maps_directory(
            reduce, model=run.data.network.model.fingerprint, questions=run.flags.questions, settings=settings,
            pooling=pooling,
        )  # fmt: skip

    def drop(self, run: Run, failed: Mapping[str, Sequence]) -> None:
        """Drop questions that workers could not compute."""
        questions = run.data
        run.data = questions.take(np.setdiff1d(questions.rows, failed[questions.dataset.kind]))

    def evaluate(self, run: Run) -> _Results:
        """Explain and measure; save the explained answers next to saved maps."""
        from clevr_xai import _commentary, answering

        questions = run.data
        dataset, truths = questions.dataset, _ground_truths(run)
        results = run.evaluate(self.sharded_run(run, dataset.kind), "question", "questions")
        found = answering.collect(questions, results, run.shared_metrics, run.flags.degenerate_maps)
        if not found.right.any():
            raise BadInput(f"none of the {len(found.rows)} questions is answered correctly; there is nothing to score")
        if run.flags.save_maps:
            explained = zip(found.indices[found.right], found.rows[found.right], strict=True)
            answering.save_predictions(
                run.flags.save_maps, [(index, dataset.answers[row]) for index, row in explained]
            )  # fmt: skip
        if found.confidence is None and "confident" in run.flags.subset:
            print_line("precomputed maps have no confidence, so the subset 'confident' is skipped", file=sys.stderr)
        return _Results(
            found,
            _commentary.mask_shares(found, dataset, truths),
            _commentary.correlations(found, dataset, truths[0], _own_metrics(run)),
        )

    def input_scores(self, run: Run) -> list[InputScores]:
        """Return each question's value by each metric and ground truth."""
        from clevr_xai import table

        return table.input_scores(run.results.measured, _ground_truths(run), _own_metrics(run))

    def rows(self, run: Run) -> list[dict]:
        """Return the rows of the benchmark's own metrics, for all poolings, then those of all benchmarks."""
        from clevr_xai import table

        measured, truths = run.results.measured, _ground_truths(run)
        rows = table.long_rows(measured, truths, _own_metrics(run), run.flags.subset, *_bounds(run))
        return rows + table.shared_rows(measured, truths[0], run.shared_metrics)

    def heading(self, run: Run) -> list[str]:
        """Return how many questions were sampled, and how many of them count."""
        measured, confidence = run.results.measured, run.flags.confidence
        total, correct = len(measured.rows), int(measured.right.sum())
        model = next(iter(run.models), "saved maps")
        lines = [f"CLEVR-XAI, {measured.kind} questions: {total:,} of {len(run.data.dataset):,} drawn, {model}"]
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

    def table(self, run: Run, rows: Sequence[Mapping], markdown: bool = False) -> str:
        """Return the tables of metrics, mask shares and correlations."""
        from clevr_xai import _commentary, table

        return (
            table.text(rows, _poolings(run), _bounds(run), markdown, run.shared_metrics)
            + _commentary.shares_text(run.results.shares, markdown)
            + _commentary.correlations_text(run.results.covariates, markdown)
        )

    def titles(self, run: Run) -> dict[str, str]:
        """Return the titles of methods and controls by name."""
        return self.row_titles(run.results.measured.sources)

    def notes(self, run: Run, rows: Sequence[Mapping]) -> list[str]:
        """Compare the scores with the poster's, and explain those of the edge detector."""
        from clevr_xai import _commentary

        notes = _commentary.findings(run.results.measured, rows)
        pooled = ", ".join(f"{HEADING[metric]} for {metric}" for metric in _own_metrics(run))
        notes.append(f"The poster does not name its pooling; ours are {pooled}. {_CLUSTERS}" if pooled else _CLUSTERS)
        return notes + _commentary.edges_explained(run.results.shares)

    def data_fingerprints(self, run: Run) -> dict[str, str]:
        """Return the fingerprint of the questions by their kind."""
        return {run.data.dataset.kind: run.results.measured.fingerprint}

    def write_figures(self, run: Run, rows: Sequence[Mapping]) -> None:
        """Write maps of some questions, box plots, and questions for a report."""
        from clevr_xai import _pictures

        measured, truths, given = run.results.measured, _ground_truths(run), run.flags
        questions, explainer = run.data, self._explainer(run)

        def maps(rows: Sequence[int]) -> dict[str, np.ndarray]:
            found = _pictures.maps_of(questions, rows, explainer, run.store)
            return {name: one / 255 for name, one in found.items()}

        picked = _pictures.example_rows(run.input_scores, measured, truths[0])
        for path in _pictures.write_pictures(
            given.plot_dir, measured, questions.dataset, maps, truths, _own_metrics(run), given.num_pictures,
            given.plot_format, picked if len(picked) >= given.num_pictures else None,
        ):  # fmt: skip
            print_line(f"picture: {path}", file=sys.stderr)
        _pictures.save_examples(given.plot_dir, questions, measured, explainer, run.input_scores, truths[0], run.store)


def _define_questions(flag_values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "num_correct", 0,
        "sample questions until this number is answered correctly, instead of --num_questions; by default "
        f"{CORRECT_OF_COMPLEX} of complex questions, of which fewer are correct",
        lower_bound=0, flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_alias("num_right", "num_correct", flag_values=flag_values)
    flags.DEFINE_enum(
        "questions", "simple", list(masks.GROUND_TRUTHS), "kind of the questions", flag_values=flag_values
    )
    flags.DEFINE_list(
        "ground_truth", [],
        "masks to score against: single_object, all_objects (simple); unique, unique_firstnonempty, union, all_objects "
        "(complex); by default single_object, or the first three of complex",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_list("subset", list(SUBSETS), "of all, confident, large_mask", flag_values=flag_values)
    flags.DEFINE_float(
        "confidence", CONFIDENCE, "softmax above which an answer is confident",
        lower_bound=0, upper_bound=1, flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "min_mask_pixels", MASK_PIXELS, "pixels above which a mask is large", lower_bound=0,
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_alias("mask_pixels", "min_mask_pixels", flag_values=flag_values)


def _define_controls(flag_values: flags.FlagValues) -> None:
    flags.DEFINE_list(
        "controls", list(methods.BY_DEFAULT),
        f"of {', '.join(methods.CONTROLS)}; the last by default only with metrics of all benchmarks",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_list(
        "control_methods", [],
        "methods to explain for another class, for another question and on all random networks; by default all but "
        f"{', '.join(methods.COSTLY)}, whose controls would triple the cost, and on one random network "
        f"{', '.join(methods.MASKED)}",
        flag_values=flag_values,
    )  # fmt: skip


def _check_names(run: Run) -> None:
    """Raise ``BadInput`` for unknown names in the flags that are lists."""
    given = run.flags
    for flag, names, known in (
        ("ground_truth", _ground_truths(run), masks.GROUND_TRUTHS[given.questions]),
        ("subset", given.subset, SUBSETS),
        ("controls", given.controls, methods.CONTROLS),
        ("pooling", _poolings(run), POOLINGS),
        ("maps_pooling", filter(None, [given.maps_pooling]), POOLINGS),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise BadInput(f"--{flag} has no {unknown[0]!r}; choose of {listed(known)}")
    if not given.subset:
        raise BadInput(f"--subset is empty; choose of {listed(SUBSETS)}")
    misplaced = [name for name in given.methods if name in methods.MAPS]
    if misplaced:
        raise BadInput(f"'{misplaced[0]}' is a control; select it with --controls={misplaced[0]}")


def _ground_truths(run: Run) -> list[str]:
    return list(dict.fromkeys(run.flags.ground_truth or DEFAULT_TRUTHS[run.flags.questions]))


def _own_metrics(run: Run) -> list[str]:
    return [name for name in run.metrics if name in ACCURACIES]


def _poolings(run: Run) -> list[str]:
    return list(POOLINGS) if run.flags.pooling == ["all"] else run.flags.pooling


def _bounds(run: Run) -> tuple[float, int]:
    """Return the confidence and the number of mask pixels above which the subsets begin."""
    return run.flags.confidence, run.flags.min_mask_pixels


def _affordable(control: Control, names: Iterable[str]) -> list[str]:
    """Return the methods to run under a control by default: those cheap enough for it."""
    kind = MapSource(control=control.name).kind.name
    repeated = kind == RANDOM_WEIGHTS.name and control.name != random_network(1).name
    excluded = {*methods.COSTLY, *(methods.MASKED if repeated else ())}
    return [name for name in names if name not in excluded]


def _model_path(flag_values: flags.FlagValues) -> pathlib.Path:
    """Return the directory of the network to explain."""
    path = given_or_bundled(flag_values.model or MODELS / "relation_network")
    if flag_values.model or path.is_dir():
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


def report_tasks(quick: bool, seed: int, share: float = 1.0) -> list[ReportTask]:
    """Return the commands of a quick run, or of a full run on a share of its questions."""
    steps, samples = (10, 10) if quick else (300, 40)
    path = f"{steps} steps" if quick else f"up to {steps} steps, until a map's sum misses by {100 * _MISSED:g} %"
    found = []
    for kind, truths in (("simple", "single_object"), ("complex", "union,unique")):
        count = 8 if quick else max(6, round({"simple": 40, "complex": 60}[kind] * share))
        counted, note = f"--num_questions={count}", f"{count} questions drawn; those count that are answered correctly"
        if kind == "complex" and not quick:
            counted, note = (
                f"--num_correct={count}",
                f"Questions drawn until {count} are answered correctly, which count",
            )
        asked = (
            "-m", "clevr_xai.evaluate", f"--questions={kind}", f"--ground_truth={truths}",
            counted, f"--steps={steps}", f"--samples={samples}", *(() if quick else (f"--tolerance={_MISSED}",)),
            *((f"--seed={seed}",) if seed else ()),
        )  # fmt: skip
        found.append(
            ReportTask(
                f"clevr_xai_{kind}", "clevr_xai", f"CLEVR-XAI: {kind} questions",
                (*asked, "--num_pictures=2"),
                tuple(name for name in TITLES if name != "integrated_gradients_median"),
                f"{note}. Integrated Gradients from black and from middle gray with {path}; "
                f"SmoothGrad and VarGrad with {samples} samples. The paper takes at least 300 of each. "
                "Every other method is also compared with its own map for another answer, after another question and "
                "on several networks with random weights; for these it would triple the cost. Score-CAM and SISE are "
                "compared with one such network.",
                trial=(*asked, "--controls=uniform"),
                metrics=tuple(ACCURACIES),
                model_flag="--model=",
                random_networks=True,
                networks=tuple((f"--model=saved_models/clevr_xai/relation_network_seed{seed}",) for seed in (1, 2)),
                cost=40 if quick else 40 + {"simple": 175, "complex": 390}[kind] * share,
            )
        )  # fmt: skip
    return found


def _where(questions: str, pooling: str = "") -> dict[str, str]:
    """Return the keys of the rows that a column shows; metrics of all benchmarks have no pooling."""
    return {"questions": questions, "ground_truth": _TRUTHS[questions], "pooling": pooling, "subset": "all"}


BENCHMARK = _ClevrXai(
    name="clevr_xai",
    title="CLEVR-XAI",
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=tuple(ACCURACIES.values()),
    controls=tuple(methods.CONTROLS.values()),
    methods=tuple(TITLES),
    method_titles=TITLES,
    method_families=dict.fromkeys(BASELINES, METHODS["integrated_gradients"].family),
    columns=tuple(
        Column(
            "clevr_xai",
            metric,
            f"{metric}, {questions}",
            "CLEVR-XAI",
            where=_where(questions, pooling),
            bounds=(0.0, 1.0),
        )
        for questions in _TRUTHS
        for metric, pooling in HEADING.items()
    ),
    contexts=tuple(map(_where, _TRUTHS)),
    report_tasks=report_tasks,
)
