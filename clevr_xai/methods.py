"""The eleven methods of CLEVR-XAI with the settings of its paper; Integrated Gradients from three baselines.

Where the authors' path begins is stated nowhere, so there is a row for each place that it may: see ``BASELINES``.

Controls are what a method must beat to have explained something: maps that know no network, and what should spoil a
map. Sixt and Landgraf, "A Rigorous Study of the Deep Taylor Decomposition", TMLR 2022, explain another class and
another question: a map that stays on the same objects does not depend on the question. All but the question are the
controls of every benchmark.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

from attribution import Method, batching, resolve_method
from attribution.errors import BadInput
from attribution.methods.gradients import MEDIAN
from attribution.methods.registry import title_of
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import EDGE_DETECTOR, GROUND_TRUTH, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.random_weights import NETWORKS, RANDOM_WEIGHTS, networks
from clevr_xai.vocabulary import words_of

STEPS = 300  # of Integrated Gradients' path
SAMPLES = 300  # of SmoothGrad and VarGrad
NOISE = 0.05  # of SmoothGrad and VarGrad, as a share of max - min
TOLERANCE = 0.0  # of its completeness; 0 takes all steps
BASELINES: dict[str, float | str] = {  # method -> where Integrated Gradients begins; the authors' is not known
    "integrated_gradients": 0.0,  # black
    "integrated_gradients_gray": 0.5,
    "integrated_gradients_median": MEDIAN,  # the image's own median colour
}

TITLES = {  # in the order of the paper's table
    "lrp_clevr_xai": "LRP (CLEVR-XAI)",
    "excitation_backprop": "Excitation Backprop",
    "integrated_gradients": "IG from black",
    "integrated_gradients_gray": "IG from gray",
    "integrated_gradients_median": "IG from the median",
    "guided_backprop": "Guided Backprop",
    "guided_grad_cam": "Guided Grad-CAM",
    "smoothgrad": "SmoothGrad",
    "vargrad": "VarGrad",
    "gradient": "Vanilla Gradient",
    "gradient_x_input": "Gradient x Input",
    "deconvnet": "Deconvnet",
    "grad_cam": "Grad-CAM",
}
# They need hundreds of gradients; their controls would cost as much again.
COSTLY = (*BASELINES, "smoothgrad", "vargrad")
# They need hundreds of masked images: every control, but only one random network.
MASKED = ("score_cam", "sise", "rise")


def settings(
    methods: Mapping[str, Method] | Sequence[str],
    steps: int = STEPS,
    samples: int = SAMPLES,
    layer: str = "",
    tolerance: float = TOLERANCE,
) -> dict[str, tuple[Method, dict]]:
    """Return methods with their parameters.

    Parameters
    ----------
    methods
        Methods by name, or names of the registry, of ``BASELINES``, or ``module:function``.
    steps
        Of Integrated Gradients: intervals of the path to the image, one less than its gradients.
    samples
        Of SmoothGrad and VarGrad.
    layer
        Layer of the class activation maps; the last convolution's ReLU when empty.
    tolerance
        0 takes all steps of Integrated Gradients; above it, fewer where the sum of a map misses what it should be by at
        most this share: see ``attribution.methods.gradients``.

    Returns
    -------
    dict
        Name -> (method, overrides), in the order given.

    Raises
    ------
    BadInput
        For a name that is no method, and for methods that need a live network.
    """
    overrides = {
        **{
            name: {"points": steps + 1, "baseline": baseline, **({"tolerance": tolerance} if tolerance else {})}
            for name, baseline in BASELINES.items()
        },
        **{name: {"samples": samples, "noise": NOISE} for name in ("smoothgrad", "vargrad")},
    }
    if not isinstance(methods, Mapping):
        methods = {name: resolve_method("integrated_gradients" if name in BASELINES else name) for name in methods}
    chosen = {}
    for name, method in methods.items():
        if method.library:
            raise BadInput(f"method '{name}' needs a live Keras network of one input; a Relation Network has two")
        placed = {"layer": layer} if layer and "layer" in method.defaults else {}
        chosen[name] = method, {**overrides.get(name, overrides.get(method.name, {})), **placed}
    return chosen


def title(name: str) -> str:
    """Return what a method is called in a table; a user's own is called as its function."""
    return TITLES.get(name) or title_of(name)


# Known by name and title here; the other question needs the data set, see ``asked_of``.
PERMUTED_QUESTION = Control(
    "permuted_question",
    "other question",
    "the method's map after the words of the question were exchanged for another's",
)
_UNIFORM = dataclasses.replace(UNIFORM, about=f"{UNIFORM.about}; it scores the objects' share of the image")
CONTROLS = {
    control.name: control
    for control in (WRONG_CLASS, PERMUTED_QUESTION, RANDOM_WEIGHTS, _UNIFORM, RANDOM, EDGE_DETECTOR, GROUND_TRUTH)
}
BY_DEFAULT = tuple(name for name in CONTROLS if name != GROUND_TRUTH.name)  # the truth has all of mass and rank
MAPS = {name: control for name, control in CONTROLS.items() if control.maps}  # they know no network


def asked_of(dataset, network, names: Sequence[str], random_networks: int = NETWORKS) -> list[Control]:
    """Return the controls of a run with the given names of ``CONTROLS``, in the order of the tables.

    Other questions come from ``dataset`` and are encoded by ``network``, an ``Answering``. Each of the
    ``random_networks`` is a separate control.
    """
    chosen = networks((control for name, control in CONTROLS.items() if name in names), random_networks)
    if PERMUTED_QUESTION not in chosen:
        return chosen
    sentences = [question["question"] for question in dataset.questions]

    def another_question(model, batch: Batch, seed: int) -> tuple[object, Batch]:
        others = other_questions(sentences, batch.truth["row"], seed)
        encoded = network.encoded([sentences[other] for other in others])
        return model, dataclasses.replace(batch, inputs={**batch.inputs, "question": encoded})

    words = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    permuted = dataclasses.replace(PERMUTED_QUESTION, disturb=another_question, depends_on=words)
    return [permuted if control is PERMUTED_QUESTION else control for control in chosen]


def other_questions(sentences: Sequence[str], rows: Sequence[int], seed: int) -> list[int]:
    """Return for each of some rows another row of the data set, whose question has other words.

    It is the row itself where all questions are the same. The choice depends on the seed, the row and ``sentences``,
    all questions of the data set, alone.
    """
    found = []
    for row in rows:
        words = words_of(sentences[row])
        order = batching.generator(seed, int(row), "another question").permutation(len(sentences))
        found.append(next((int(other) for other in order if words_of(sentences[other]) != words), int(row)))
    return found
