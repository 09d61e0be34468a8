"""SVEA as a benchmark: its description, and what is chosen before anything is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attribution import Method
from attribution.errors import BadInput
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from svea import methods
from svea.methods import CANDIDATES, CONTROLS, METHODS, RAW_SIGNAL
from svea.metrics import METRICS
from svea.settings import Settings

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluation import Run
    from svea.evaluation import SveaEvaluation


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


def _report_tasks(quick: bool, seed: int, share: float = 1.0) -> list[ReportTask]:
    """Return the task of a quick or a full run; the test needs all signals, whatever the ``share``."""
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
                dataclasses.replace(settings, model=f"saved_models/svea/baseline_seed{seed}") for seed in range(1, 5)
            ),
        )
    ]  # fmt: skip


BENCHMARK = _Svea(
    name="svea",
    title="SVEA",
    about="Signals of 40 points carry one of ten shapes. A small network classifies them; the question is whether "
    "the 12 points around the highest point of a map, the region of explanation, are the points that matter.",
    paper="Sattarzadeh, Sudhakar and Plataniotis, ICCV Workshops 2021",
    metrics=tuple(METRICS.values()),
    controls=(RAW_SIGNAL, *CONTROLS, RANDOM_WEIGHTS),
    methods=(*METHODS, *CANDIDATES),
    method_titles={"score_cam_constant_masks": "Score-CAM, constant masks (candidate)"},
    method_note="SVEA takes the absolute gradient",
    beside_paper="Known to differ: another training of the network; windows that begin six points before the peak and "
    "stay inside the signal, where Eq. 1 is not followed to the letter; support vector machines solved to convergence; "
    "softmax in double precision, which raises Grad-CAM and XGrad-CAM. "
    "Why the paper's Score-CAM is lower is not known.",
    settings=Settings,
    command="svea.benchmark",
    evaluation=_load,
    figures=True,
    report_tasks=_report_tasks,
    reasons={
        "integrated_gradients_smoothgrad": "625 gradients an explanation; a variant of BIM's authors",
        "integrated_gradients_gray": "a baseline for CLEVR-XAI's figures; Integrated Gradients itself is scored",
        "lrp_clevr_xai": "its rule for the first layer needs inputs between 0 and 1; see LRP-α1β0",
    },
    pictures={
        "examples": (
            "A grid of curves: a line for each method, a column for each of six test signals. Each cell shows the "
            "signal in black, the map as a blue area below it, the region of explanation as a yellow band and the "
            "place of the true shape as a green bar.",
            "Six test signals, three classified correctly and three wrongly, with every method's map and its region of "
            "explanation. A good region covers the green bar.",
        ),
        "positions": (
            "A line for each method and control, by the order of the ROE test: how often its windows lie how far from "
            "the true shape.",
            "Where the regions lie: a dark stripe at zero means that a method finds the shape.",
        ),
    },
)
