"""SVEA as a benchmark: its description, and what is chosen before anything is loaded."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attribution import Method
from attribution.errors import BadInput
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.published import read_figures
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from svea import methods
from svea.methods import CANDIDATES, CONTROLS, METHODS, RAW_SIGNAL
from svea.metrics import METRICS
from svea.settings import Settings

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluation import Run
    from svea.evaluation import SveaEvaluation

NETWORKS = 20  # trained, with the seeds from 0 on


class _Svea(Benchmark):
    """What SVEA chooses."""

    def check(self, settings: Settings, metrics: Mapping[str, Metric], names: Sequence[str]) -> None:
        """Refuse an ambiguous choice of networks."""
        if len(settings.paths()) > 1 and (settings.save_maps or settings.precomputed_maps):
            raise BadInput("maps are of one network; give one with --model=")

    def with_parameters(self, chosen: Mapping[str, Method], settings: Settings) -> dict[str, tuple[Any, Mapping]]:
        """Return the methods with SVEA's settings."""
        return methods.settings(chosen, settings.rise_masks, settings.layer)


def _load(run: Run) -> SveaEvaluation:
    from svea.evaluation import SveaEvaluation

    return SveaEvaluation.load(run)


def _report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the task of a quick or a full run; the test needs all signals."""
    masks = 200 if quick else 1000
    settings = Settings(rise_masks=masks, seed=seed)
    return [
        ReportTask(
            "svea", "svea", "SVEA, Table 1", settings, METHODS,
            f"All 5,000 signals, 1,000 of them scored; RISE with {masks:,} masks. The paper's nine methods, and "
            "methods of the other benchmarks, which the paper has no figure for. Every method but RISE is compared "
            "with its own regions on networks with random weights.",
            metrics=tuple(METRICS),
            cost=30 if quick else 60,
            further_cost=0 if quick else 45,
            networks=tuple(
                dataclasses.replace(settings, model=f"saved_models/svea/baseline_seed{number}")
                for number in range(1, NETWORKS)
            ),
        )
    ]  # fmt: skip


BENCHMARK = _Svea(
    name="svea",
    title="SVEA",
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=tuple(METRICS.values()),
    controls=(RAW_SIGNAL, *CONTROLS, RANDOM_WEIGHTS),
    methods=(*METHODS, *CANDIDATES),
    method_titles={"score_cam_constant_masks": "Score-CAM with constant masks (candidate)"},
    settings=Settings,
    command="svea.benchmark",
    evaluation=_load,
    paper=read_figures(pathlib.Path(__file__).with_name("paper.json")),
    report_tasks=_report_tasks,
)
