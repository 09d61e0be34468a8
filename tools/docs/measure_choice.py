"""Measure what ``choose`` is worth where the truth is known: attribution_benchmarks/choosing/worth.json.

    python -m tools.docs.measure_choice

A case is a network, its inputs, and the score of each method by a benchmark that knows the truth: 1 - distance to the
exact Shapley values, SVEA's ROE test, BIM's model contrast score or CLEVR-XAI's mass. ``choose`` sees the network and
the inputs alone, and for Shapley values their absent value, 0. What it takes is compared with the method of the best
mean rank over the cases of the other benchmarks, with the mean over methods, which is what a random choice gets, and
with the best one. Where it takes none, it gets the mean. Masks are the boxes of BIM's objects and the object of other
questions of CLEVR-XAI; with them the method of the largest mass on the masks is compared with the same.

Cost: 15 CPU minutes at most; written after each case, and resumed there.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

import attribution
from attribution.errors import print_line
from attribution.files import atomic_write
from attribution_benchmarks import choose, evaluate
from attribution_benchmarks.choosing.choice import WORTH
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from bim.attributions import method_named
from bim.classifiers import network_inputs
from bim.dataset import load_set, resolve_data_dir
from bim.scores import sample_rows
from bim.settings import Settings as BimSettings
from clevr_xai.answering import Answering, draw_rows
from clevr_xai.dataset import Dataset
from clevr_xai.methods import TITLES
from clevr_xai.methods import settings as method_settings
from clevr_xai.metrics import HEADING
from clevr_xai.settings import Settings as ClevrXaiSettings
from svea import mnist1d
from svea.settings import Settings as SveaSettings
from tools.docs.page_parts import ROOT

INPUTS = 24  # of a case
EXACT = ("exact", "xai_units", "xai_tris")
IMAGES = 12  # of a case of BIM or CLEVR-XAI, for the choice
STEPS = 20  # of Integrated Gradients, SmoothGrad and VarGrad on CLEVR-XAI
BIM_METHODS = (
    "gradient", "smoothgrad", "integrated_gradients", "gradient_x_input", "guided_backprop", "guided_grad_cam",
    "grad_cam", "xgrad_cam", "grad_cam_plus_plus", "deconvnet", "lrp_alpha1beta0", "lrp_epsilon",
    "excitation_backprop", "deeplift",
)  # fmt: skip
CLEVR_XAI = ("relation_network", "relation_network_seed1", "relation_network_seed2")
CLEVR_XAI_METHODS = tuple(
    name for name in TITLES if name not in ("integrated_gradients_gray", "integrated_gradients_median")
)
SVEA = ("baseline", "baseline_seed1", "baseline_seed2", "baseline_seed3", "baseline_seed4")
_Masses = Callable[[Sequence[str]], dict[str, float]]
# Name, truth, choice of methods, and masses of methods on masks.
_Case = tuple[str, Callable[[], dict[str, float]], Callable[[Sequence[str]], Any], _Masses | None]


def exact_cases(place: str) -> Iterator[_Case]:
    """Yield a case of each problem of a benchmark of exact truth."""
    benchmark = benchmark_named(place)
    problems = len({name.rpartition("-")[0] for name in benchmark.examples(1, 0).names})
    examples = benchmark.examples(INPUTS * problems, 0)
    rows = np.array([name.rpartition("-")[0] for name in examples.names])
    truth: dict[str, np.ndarray] = {}

    def scores(problem: str) -> dict[str, float]:
        if not truth:
            found = evaluate(place, settings=benchmark.settings(num_imgs=INPUTS * problems, random_networks=0))
            (group,) = (each for each in found.parts[0].input_scores if each.where["metric"] == "distance")
            truth.update({name: np.asarray(group.values[name]) for name in benchmark.methods})
        return {name: float(1 - np.nanmean(values[rows == problem])) for name, values in truth.items()}

    for problem in dict.fromkeys(rows):
        yield (
            f"{place} {problem}",
            lambda problem=problem: scores(problem),
            lambda methods, chosen=rows == problem: choose(
                benchmark.network, examples.inputs[chosen], examples.targets[chosen], methods=methods, background=0
            ),
            None,
        )


def svea_cases() -> Iterator[_Case]:
    """Yield a case of each network of SVEA."""
    signals = mnist1d.load().test.signals[:INPUTS, :, None]
    methods = [name for name in benchmark_named("svea").methods if name in attribution.METHODS and name != "rise"]
    for name in SVEA:
        path = str(ROOT / "saved_models" / "svea" / name)
        yield (
            f"svea {name}",
            lambda path=path: _column(
                evaluate("svea", methods, SveaSettings(model=path, random_networks=0), metrics=["roe_test"]), methods
            ),
            lambda chosen, path=path: choose(path, signals, methods=chosen),
            None,
        )


def bim_cases() -> Iterator[_Case]:
    """Yield a case of each pair of networks of BIM: the model contrast score, and a choice for the network of objects.

    Methods have BIM's settings in both.
    """
    for seed in range(5):
        folder = str(ROOT / "saved_models" / "bim" / (f"seed{seed}" if seed else ""))
        settings = BimSettings(num_imgs=INPUTS, models_dir=folder, random_networks=0)
        yield (
            f"bim seed{seed}",
            lambda settings=settings: _column(evaluate("bim", BIM_METHODS, settings, metrics=["mcs"]), BIM_METHODS),
            lambda methods, folder=folder: choose(
                f"{folder}/obj", _bim_images()[0], methods={name: method_named(name) for name in methods}
            ),
            lambda methods, folder=folder: _masses(
                attribution.load_model(f"{folder}/obj"), *_bim_images(), {name: method_named(name) for name in methods}
            ),
        )


def clevr_xai_cases() -> Iterator[_Case]:
    """Yield a case of each Relation Network: mass on the object of simple questions, and a choice for the image.

    Methods have the benchmark's settings in both, with fewer steps and samples.
    """
    for name in CLEVR_XAI:
        path = f"saved_models/clevr_xai/{name}"
        settings = ClevrXaiSettings(
            model=str(ROOT / path), num_questions=INPUTS, steps=STEPS, samples=STEPS, controls=(), random_networks=0
        )
        where = {"metric": "mass", "pooling": HEADING["mass"], "subset": "all", "ground_truth": "single_object"}
        yield (
            f"clevr_xai {name}",
            lambda settings=settings, where=where: _column(
                evaluate("clevr_xai", CLEVR_XAI_METHODS, settings), CLEVR_XAI_METHODS, **where
            ),
            lambda methods, settings=settings: _chosen_for_questions(settings, methods),
            lambda methods, settings=settings: _masses_of_questions(settings, methods),
        )


def _chosen_for_questions(settings: ClevrXaiSettings, methods: Sequence[str]) -> Any:
    """Return the choice for the first questions that ``clevr_xai`` draws."""
    network = Answering(settings.model)
    dataset = Dataset("simple", settings.data_dir, network.size)
    questions = next(dataset.batches(IMAGES, draw_rows(len(dataset), IMAGES, settings.seed)))
    given = method_settings(methods, settings.steps, settings.samples)
    return choose(
        network.model, network.inputs(questions.images, questions.questions), network.targets(questions.answers),
        methods={
            name: dataclasses.replace(method, function=functools.partial(method.function, **values))
            for name, (method, values) in given.items()
        },
    )  # fmt: skip


def _masses_of_questions(settings: ClevrXaiSettings, methods: Sequence[str]) -> dict[str, float]:
    """Return the masses on the object of IMAGES questions that are not among those of the truth."""
    network = Answering(settings.model)
    dataset = Dataset("simple", settings.data_dir, network.size)
    known, more = (draw_rows(len(dataset), count, settings.seed) for count in (INPUTS, INPUTS + IMAGES))
    questions = next(dataset.batches(IMAGES, np.setdiff1d(more, known)))
    return _masses(
        network.model, network.inputs(questions.images, questions.questions), questions.masks["single_object"],
        method_settings(methods, settings.steps, settings.samples), network.targets(questions.answers), "image",
    )  # fmt: skip


def _bim_images() -> tuple[np.ndarray, np.ndarray]:
    """Return the first images that ``bim`` samples of the set ``obj``, (IMAGES, 128, 128, 3), and their boxes."""
    images = load_set(resolve_data_dir(), "obj")
    rows = sample_rows(len(images), IMAGES, 0)
    found = network_inputs(images.images(rows), images.images(rows[:1]).shape[1])
    masks = np.zeros(found.shape[:3], bool)
    for mask, (top, left, bottom, right) in zip(masks, images.boxes[rows], strict=True):
        mask[top:bottom, left:right] = True
    return found, masks


def _masses(
    model: Any, inputs: Any, masks: np.ndarray, methods: Any, targets: np.ndarray | None = None, explained: str = ""
) -> dict[str, float]:
    """Return the mean mass of each method on masks, as the page of ``choose`` shows it."""
    maps = attribution.explain_many(
        methods, model, inputs, targets, explain_input=explained or None, batch_size=4, resize=True
    )
    batch = Batch(inputs, range(len(masks)), targets, explained, {"masks": masks})
    measure = METRIC_REGISTRY["attribution_localisation"].measure
    return {name: float(np.nanmean(measure.compute(found, batch, None))) for name, found in maps.items()}


def _column(results: Any, methods: Sequence[str], **where: str) -> dict[str, float]:
    """Return the value of each method in the one column of results, or in the one with some keys."""
    rows = (row for row in results.rows if row["method"] in methods and "of" not in row)
    return {row["method"]: row["value"] for row in rows if where.items() <= row.items()}


def measured(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the shares of the way from the mean to the best method, means over cases."""
    places = {name: name.split()[0] for name in cases}
    shares: dict[str, dict[str, list[float]]] = {}  # way of choosing -> benchmark -> cases
    for name, place in places.items():
        others = [_ranks(case["truth"]) for other, case in cases.items() if places[other] != place]
        for way, share in _shares(cases[name], others).items():
            shares.setdefault(way, {}).setdefault(place, []).append(share)
    means = {way: {place: float(np.mean(each)) for place, each in found.items()} for way, found in shares.items()}
    return {
        **{way: float(np.mean([*itertools.chain(*shares[way].values())])) for way in ("chosen", "fixed")},
        "by_masks": means.get("masks", {}),
        "by_benchmark": {
            place: {"chosen": share, "fixed": means["fixed"][place]} for place, share in means["chosen"].items()
        },
    }


def _shares(case: Mapping[str, Any], others: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the share of the way by way of choosing, of which one takes what is best in the ranks of ``others``."""
    truth = case["truth"]
    known = {method: [each[method] for each in others if method in each] for method in truth}
    means = {method: np.mean(each) for method, each in known.items() if each}
    taken = {"chosen": case["best"], "fixed": min(means, key=means.__getitem__, default="")}
    if masses := case.get("mass"):
        taken["masks"] = max(masses, key=masses.__getitem__)
    mean, best = np.mean(list(truth.values())), max(truth.values())
    return {way: float((truth.get(method, mean) - mean) / (best - mean)) for way, method in taken.items()}


def _ranks(truth: Mapping[str, float]) -> dict[str, float]:
    """Return the share of methods that are better, and half of those that are equal, by method."""
    ranked = rankdata([-value for value in truth.values()])
    return dict(zip(truth, ((ranked - 1) / max(len(truth) - 1, 1)).tolist(), strict=True))


def _compared(truth: Mapping[str, float], found: Any) -> dict[str, Any]:
    """Return a case: what is true of the methods that a choice has compared, and what it took."""
    best = found.verdict.best
    return {
        "truth": {one.method: truth[one.method] for one in found.verdict.standings},
        "best": best.method if best else None,
        "agreement": {one.method: one.agreement.value for one in found.verdict.standings},
    }


def main() -> None:
    """Measure the cases that are missing."""
    cases = json.loads(WORTH.read_text("utf-8"))["cases"] if WORTH.exists() else {}
    for name, truth, chosen, masses in [
        *svea_cases(),
        *bim_cases(),
        *clevr_xai_cases(),
        *(case for place in EXACT for case in exact_cases(place)),
    ]:
        if name in cases and (not masses or "mass" in cases[name]):
            continue
        if name not in cases:
            scores = truth()
            cases[name] = _compared(scores, chosen(list(scores)))
        if masses:
            cases[name]["mass"] = masses(list(cases[name]["truth"]))
        print_line(f"{name}: {cases[name]['best']}, {measured(cases)['chosen']:.2f}")
        atomic_write(WORTH, json.dumps({**measured(cases), "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
