"""CLEVR-XAI as a definition: what the report and other tools need to know of it."""

from __future__ import annotations

from attribution import METHODS
from attribution_benchmarks.core.definition import Benchmark, Column, ReportTask
from clevr_xai.accuracies import ACCURACIES
from clevr_xai.controls import CONTROLS
from clevr_xai.methods import BASELINES, TITLES
from clevr_xai.scoring import HEADING

_MISSED = 0.05  # of f(image) - f(baseline)
_TRUTHS = {"simple": "single_object", "complex": "union"}  # one stands for the others in the matrix


def report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the commands of a quick or a whole run."""
    steps, samples = (10, 10) if quick else (300, 40)
    path = f"{steps} steps" if quick else f"up to {steps} steps, until a map's sum misses by {100 * _MISSED:g} %"
    found = []
    for kind, truths in (("simple", "single_object"), ("complex", "union,unique")):
        counted, note = ("--num_questions=8", "8 questions drawn; those count that the network answers rightly")
        if not quick and kind == "simple":
            counted, note = ("--num_questions=75", note.replace("8", "75", 1))
        elif not quick:
            counted, note = ("--num_right=100", "Questions drawn until the network answers 100 rightly, which count")
        asked = (
            "-m", "clevr_xai.evaluate", f"--questions={kind}", f"--ground_truth={truths}",
            counted, f"--steps={steps}", f"--samples={samples}", *(() if quick else (f"--tolerance={_MISSED}",)),
            *((f"--seed={seed}",) if seed else ()),
        )  # fmt: skip
        found.append(
            ReportTask(
                f"clevr_xai_{kind}", "clevr_xai", f"CLEVR-XAI: {kind} questions",
                (*asked, "--num_pictures=2"),
                tuple(TITLES),
                f"{note}. Integrated Gradients from black, middle gray and each image's median colour with {path}; "
                f"SmoothGrad and VarGrad with {samples} samples. The paper takes at least 300 of each. "
                "Every method but these is also held against its own map for another answer, after another question "
                "and on each of several networks with random weights; theirs would cost three times as much again. "
                "Score-CAM and SISE are held against one such network.",
                trial=(*asked, "--controls=uniform"),
                metrics=tuple(ACCURACIES),
                model_flag="--model=",
                random_networks=True,
                cost=40 if quick else {"simple": 450, "complex": 880}[kind],
            )
        )  # fmt: skip
    return found


def _where(questions: str, pooling: str = "") -> dict[str, str]:
    """Return the keys of the rows that a column shows; metrics of all benchmarks have no pooling."""
    return {"questions": questions, "ground_truth": _TRUTHS[questions], "pooling": pooling, "subset": "all"}


BENCHMARK = Benchmark(
    name="clevr_xai",
    title="CLEVR-XAI",
    about="A network answers questions about rendered scenes. The program behind a question says which objects it is "
    "about, and the scene which pixels these are: that is where a map should be.",
    paper="Arras, Osman and Samek, Information Fusion 81, 2022",
    metrics=tuple(ACCURACIES.values()),
    controls=tuple(CONTROLS.values()),
    methods=tuple(TITLES),
    method_titles=TITLES,
    method_families=dict.fromkeys(BASELINES, METHODS["integrated_gradients"].family),
    columns=tuple(
        Column("clevr_xai", metric, f"{metric}, {questions}", "CLEVR-XAI", where=_where(questions, pooling))
        for questions in _TRUTHS
        for metric, pooling in HEADING.items()
    ),
    contexts=tuple(map(_where, _TRUTHS)),
    beside_paper="Known to differ: a network trained anew, on scenes that were rendered anew; the poster "
    "names no pooling, and nowhere is said where Integrated Gradients' path begins, which moves its figure most.",
    report_tasks=report_tasks,
    reasons={
        "rise": "a thousand masked images an explanation: more than all other methods together",
        "integrated_gradients_smoothgrad": "625 gradients an explanation; a variant of BIM's authors",
    },
    pictures={
        "question": (
            "A rendered scene, the masks of all ground truths of a question about it, and the maps of all methods with "
            "the scored objects outlined; above each map its mass and rank accuracy.",
            "A question, the objects it is about, and where every method points. A good map lies inside the outline.",
        ),
        "mass": (
            "Box plots of the relevance mass accuracy of single questions, one box a method or control.",
            "Relevance mass accuracy of single questions: the mean alone does not show how unsteady a method is.",
        ),
        "rank": (
            "Box plots of the relevance rank accuracy of single questions, one box a method or control.",
            "Relevance rank accuracy of single questions.",
        ),
    },
)
