"""SVEA as a definition: what the report and other tools need to know of it."""

from __future__ import annotations

from attribution_benchmarks.core.definition import Benchmark, ReportTask
from svea.controls import CONTROLS, OWN, RAW_SIGNAL
from svea.methods import METHODS
from svea.metrics import METRICS


def report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the command of a quick or a whole run."""
    masks = 200 if quick else 1000
    return [
        ReportTask(
            "svea", "svea", "SVEA, Table 1",
            ("-m", "svea.benchmark", f"--rise_masks={masks}", *((f"--seed={seed}",) if seed else ())),
            METHODS,
            f"All 5,000 signals, 1,000 of them scored; RISE with {masks:,} masks. The paper's nine methods, and "
            "methods of the other benchmarks, which the paper has no figure for. Every method but RISE is also held "
            "against its own regions on networks with random weights.",
            metrics=tuple(METRICS),
            model_flag="--model=",
            random_networks=True,
            cost=30 if quick else 75,
        )
    ]  # fmt: skip


BENCHMARK = Benchmark(
    name="svea",
    title="SVEA",
    about="Signals of 40 points carry one of ten shapes. A small network tells them apart; the question is whether "
    "the 12 points around the highest point of a map, the region of explanation, are the points that matter.",
    paper="Sattarzadeh, Sudhakar and Plataniotis, ICCV Workshops 2021",
    metrics=tuple(METRICS.values()),
    controls=(RAW_SIGNAL, *CONTROLS, OWN),
    methods=METHODS,
    method_note="SVEA takes the absolute gradient",
    beside_paper="Known to differ: another training of the network; windows that begin six points before the peak and "
    "stay inside the signal, where Eq. 1 is not followed to the letter; support vector machines solved to convergence. "
    "Why the paper's Score-CAM is lower is not known.",
    report_tasks=report_tasks,
    reasons={
        "integrated_gradients_smoothgrad": "625 gradients an explanation; a variant of BIM's authors",
        "integrated_gradients_gray": "a baseline for CLEVR-XAI's figures; Integrated Gradients itself is scored",
        "integrated_gradients_median": "a baseline for CLEVR-XAI's figures; Integrated Gradients itself is scored",
        "lrp_clevr_xai": "its rule for the first layer needs inputs between 0 and 1; see LRP-α1β0",
    },
    pictures={
        "examples": (
            "A grid of curves: a line for each method, a column for each of six test signals. Each cell shows the "
            "signal in black, the map as a blue area below it, the region of explanation as a yellow band and the "
            "place of the true shape as a green bar.",
            "Six test signals, three classified rightly and three wrongly, with every method's map and its region of "
            "explanation. A good region covers the green bar.",
        ),
        "positions": (
            "A line for each method and control, by the order of the ROE test: how often its windows lie how far from "
            "the true shape.",
            "Where the regions lie: a dark stripe at zero means that a method finds the shape.",
        ),
    },
)
