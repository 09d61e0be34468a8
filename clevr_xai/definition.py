"""CLEVR-XAI as a benchmark: its description, and what is chosen before anything is loaded."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attribution import METHODS, Method, resolve_method
from attribution.errors import BadInput, listed
from attribution.files import cache_directory
from attribution_benchmarks.core.definition import Benchmark, Column, ReportTask
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.published import read_figures
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.metrics.registry import select_metrics
from clevr_xai import masks, methods
from clevr_xai.methods import BASELINES, TITLES
from clevr_xai.metrics import ACCURACIES, HEADING, POOLINGS, SUBSETS
from clevr_xai.settings import AttentionSettings, Settings

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluation import Run
    from clevr_xai.evaluation import ClevrXaiEvaluation

_MISSED = 0.05  # of f(image) - f(baseline)
_TRUTHS = {"simple": "single_object", "complex": "union"}  # one represents the others in the matrix
_REPORTED_TRUTHS = {"simple": ("single_object",), "complex": ("union", "unique")}
_ASKED = tuple(name for name in TITLES if name != "integrated_gradients_median")
_OF_RELUS = ("guided_backprop", "guided_grad_cam", "deconvnet")
_OF_ATTENTION = (*(name for name in _ASKED if name not in _OF_RELUS), "lrp_attn", "lrp_cp", "lrp_epsilon")


class _ClevrXai(Benchmark):
    """What CLEVR-XAI chooses."""

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return the metrics by name; there must be one."""
        return select_metrics(names, ACCURACIES)

    def check(self, settings: Settings, metrics: Mapping[str, Metric], names: Sequence[str]) -> None:
        """Raise ``BadInput`` for unknown names, and for settings that do not go together."""
        super().check(settings, metrics, names)
        _check_names(settings, names)
        if settings.num_correct and (settings.num_questions is not None or settings.precomputed_maps):
            raise BadInput("--num_correct determines the questions; leave out --num_questions and --precomputed_maps")

    def method_named(self, name: str) -> Method:
        """Return the method of a name; Integrated Gradients for one of its baselines."""
        return resolve_method("integrated_gradients" if name in BASELINES else name)

    def with_parameters(self, chosen: Mapping[str, Method], settings: Settings) -> dict[str, tuple[Method, dict]]:
        """Return the methods with the paper's settings."""
        found = methods.settings(chosen, settings.steps, settings.samples, settings.layer, settings.tolerance)
        if not found and not set(settings.controls) & set(methods.MAPS):
            raise BadInput("--methods is empty and there are no controls; name at least one method")
        unknown = [name for name in settings.control_methods if name not in found]
        if unknown:
            raise BadInput(f"--control_methods has '{unknown[0]}', which is not scored; choose of {listed(found)}")
        return found

    def default_scores_dir(self, settings: Settings) -> str:
        """Return a directory in the user's cache; empty for precomputed maps, whose scores are not stored."""
        return "" if settings.precomputed_maps else str(cache_directory("clevr_xai_scores"))


def _load(run: Run) -> ClevrXaiEvaluation:
    from clevr_xai.evaluation import ClevrXaiEvaluation

    return ClevrXaiEvaluation.load(run)


def _check_names(settings: Settings, methods_named: Sequence[str]) -> None:
    """Raise ``BadInput`` for unknown names in the settings that are lists."""
    for flag, names, known in (
        ("ground_truth", settings.truths, masks.GROUND_TRUTHS[settings.questions]),
        ("subset", settings.subset, SUBSETS),
        ("controls", settings.controls, methods.CONTROLS),
        ("pooling", settings.poolings, POOLINGS),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise BadInput(f"--{flag} has no {unknown[0]!r}; choose of {listed(known)}")
    if not settings.subset:
        raise BadInput(f"--subset is empty; choose of {listed(SUBSETS)}")
    misplaced = [name for name in methods_named if name in methods.MAPS]
    if misplaced:
        raise BadInput(f"'{misplaced[0]}' is a control; select it with --controls={misplaced[0]}")


def _tasks(
    benchmark: str,
    title: str,
    kinds: Sequence[str],
    asked: Sequence[str],
    first: Settings,
    further: Sequence[str],
    quick: bool,
    seed: int,
) -> list[ReportTask]:
    """Return the tasks of some kinds of questions on a first network and on further ones."""
    steps, samples = (10, 10) if quick else (304, 40)
    found = []
    for kind in kinds:
        count = 6 if quick else {"simple": 40, "complex": 60}[kind]
        drawn: dict[str, int] = {"num_questions": count}
        note = f"{count} questions drawn; those count that are answered correctly"
        if kind == "complex" and not quick:
            drawn, note = {"num_correct": count}, f"Questions drawn until {count} are answered correctly, which count"
        settings = dataclasses.replace(
            first, questions=kind, ground_truth=_REPORTED_TRUTHS[kind], **drawn, steps=steps, samples=samples,
            tolerance=methods.TOLERANCE if quick else _MISSED, seed=seed,
        )  # fmt: skip
        found.append(
            ReportTask(
                f"{benchmark}_{kind}", benchmark, f"{title}: {kind} questions", settings, asked,
                f"{note}. Integrated Gradients from black and from middle gray with {steps} steps at most; "
                f"SmoothGrad and VarGrad with {samples} samples. The paper takes at least 300 of each. "
                "Every other method is also compared with its own map for another answer, after another question and "
                "on networks with random weights; for these it would triple the cost.",
                metrics=tuple(ACCURACIES),
                networks=tuple(dataclasses.replace(settings, model=model) for model in further),
                cost=40 if quick else {"simple": 215, "complex": 430}[kind],
            )
        )  # fmt: skip
    return found


def report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the tasks of a quick or of a full run."""
    further = [f"saved_models/clevr_xai/relation_network_seed{number}" for number in (1, 2)]
    return _tasks("clevr_xai", "CLEVR-XAI", tuple(_TRUTHS), _ASKED, Settings(), further, quick, seed)


def _attention_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the task of the networks of cross-attention in a quick or in a full run."""
    first = AttentionSettings()
    further = [f"{first.model}_seed1"]
    tasks = _tasks(ATTENTION.name, ATTENTION.title, ("simple",), _OF_ATTENTION, first, further, quick, seed)
    return [dataclasses.replace(task, shared=False) for task in tasks]


def _where(questions: str, pooling: str = "") -> dict[str, str]:
    """Return the keys of the rows that a column shows; metrics of all benchmarks have no pooling."""
    return {"questions": questions, "ground_truth": _TRUTHS[questions], "pooling": pooling, "subset": "all"}


def _columns(name: str, title: str, kinds: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of a benchmark: both accuracies of some kinds of questions."""
    return tuple(
        Column(name, metric, f"{metric}, {kind}", title, where=_where(kind, pooling), bounds=(0.0, 1.0))
        for kind in kinds
        for metric, pooling in HEADING.items()
    )


BENCHMARK = _ClevrXai(
    name="clevr_xai",
    title="CLEVR-XAI",
    paper=read_figures(pathlib.Path(__file__).with_name("paper.json")),
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=tuple(ACCURACIES.values()),
    controls=tuple(methods.CONTROLS.values()),
    methods=tuple(TITLES),
    method_titles=TITLES,
    method_families=dict.fromkeys(BASELINES, METHODS["integrated_gradients"].family),
    columns=_columns("clevr_xai", "CLEVR-XAI", _TRUTHS),
    contexts=tuple(map(_where, _TRUTHS)),
    settings=Settings,
    command="clevr_xai.evaluate",
    evaluation=_load,
    report_tasks=report_tasks,
)

ATTENTION = dataclasses.replace(
    BENCHMARK,
    name="clevr_xai_attention",
    title="CLEVR-XAI, cross-attention",
    paper=(),
    report=BENCHMARK.report.about_others(
        "The questions and masks of CLEVR-XAI, asked of networks in which the question attends to the image's cells.",
        _OF_ATTENTION,
        **dict.fromkeys(_OF_RELUS, "it is defined for networks of ReLUs alone"),
    ),
    methods=_OF_ATTENTION,
    method_titles={name: TITLES.get(name) or METHODS[name].title for name in _OF_ATTENTION},
    columns=_columns("clevr_xai_attention", "Cross-attention", ["simple"]),
    contexts=(_where("simple"),),
    settings=AttentionSettings,
    command="",
    report_tasks=_attention_tasks,
)
