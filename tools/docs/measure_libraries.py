"""Score methods under the definitions of several libraries: docs/library_scores.json.

    python -m tools.docs.measure_libraries

A cell is ``METHOD@LIBRARY``, or a method of this project with its defaults. Only methods with at least two definitions
are scored. The scores of each input are kept, so that a stopped run resumes and new presets are added.
``document_library_scores.py`` makes tables and a picture of them.

Cost: 10 CPU minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Container, Sequence

import numpy as np

import attribution
from attribution.errors import BadInput, print_line
from attribution.files import atomic_write
from attribution.methods.libraries import MARK, libraries
from tools.docs.page_parts import ROOT

SCORES = ROOT / "docs" / "library_scores.json"
OWN = "attribution"  # this project's definition
COSTLY = {  # not scored on images
    "expected_gradients", "kernel_shap", "shapley_sampling", "rise", "lime", "xrai", "blur_ig", "occlusion",
    "guided_integrated_gradients", "full_grad", "ablation_cam",
}  # fmt: skip
INPUTS = {"svea": 100, "exact": 160, "bim": 8, "clevr_xai": 4}
_POOLING = "l2-norm,sq"
_NETWORKS = {
    "svea": ("baseline", "baseline_seed1", "baseline_seed2"),
    "exact": ("linear",),  # one network, whose problems take the networks' place
    "clevr_xai": ("relation_network", "relation_network_seed1", "relation_network_seed2"),
    "bim": (".", "seed1", "seed2"),
}


def cells() -> list[str]:
    """Return all cells of methods with two definitions or more, ``METHOD@attribution`` for this project's."""
    names = [
        f"{name}{MARK}{library.name}"
        for library in libraries().values()
        for name, preset in library.presets.items()
        if preset.is_usable and preset.of == name  # not a variant with a name of its own
    ]
    methods = {name.partition(MARK)[0] for name in names}
    return sorted([*names, *(f"{name}{MARK}{OWN}" for name in methods)])


@dataclasses.dataclass(frozen=True)
class Case:
    """A network and inputs on which cells are scored.

    Attributes
    ----------
    networks
        (N,) names of the networks in the analysis; of exact truth, of the problems.
    score
        ``score(maps_of)``, with the maps of a cell for a model, inputs and targets, to (N,) numbers; more is better.
    """

    networks: Sequence[str]
    score: Callable[[Callable[..., np.ndarray]], np.ndarray]


def svea_case(network: str) -> Case:
    """Return the probability that is left when all but the window of a map is 0, relative to the whole signal's."""
    from svea import metrics, mnist1d

    signals = mnist1d.load().test.signals[: INPUTS["svea"], :, None]
    model = attribution.load_model(ROOT / "saved_models" / "svea" / network, score="probabilities")
    whole = model.scores(signals)
    targets = whole.argmax(axis=1)

    def score(maps_of: Callable[..., np.ndarray]) -> np.ndarray:
        kept = metrics.keep_windows(signals[..., 0], metrics.region_of_explanation(maps_of(model, signals, targets)))
        rows = np.arange(len(targets))
        return 1 - metrics.confidence_drop(whole[rows, targets], model.scores(kept[..., None])[rows, targets])

    return Case([network] * len(signals), score)


def exact_case(_: str) -> Case:
    """Return 1 - distance to the exact Shapley values at the map's best scale."""
    from attribution_benchmarks.core.registry import benchmark_named
    from attribution_benchmarks.exact.metrics import distance, shapley_values_of_network

    benchmark = benchmark_named("exact")
    examples, model = benchmark.examples(INPUTS["exact"], 0), attribution.load_model(benchmark.network)
    truth = shapley_values_of_network(examples.inputs, examples.targets, model.scores)

    def score(maps_of: Callable[..., np.ndarray]) -> np.ndarray:
        maps = maps_of(model, examples.inputs, examples.targets)
        if maps.shape != examples.inputs.shape:
            raise BadInput(f"maps of {maps.shape[1:]} for inputs of {examples.inputs.shape[1:]}")
        return 1 - distance(maps.astype(float), truth)

    return Case([name.rpartition("-")[0] for name in examples.names], score)


def bim_case(network: str) -> Case:
    """Return what the object is given by the network that knows it, less what it is given by the other (MCS)."""
    from bim.classifiers import classifier_at, input_side, network_inputs
    from bim.dataset import load_set, resolve_data_dir
    from bim.scores import object_attribution, place_mask, two_dimensional

    chosen, data = [], resolve_data_dir("")
    for name in ("obj", "scene"):
        images = load_set(data, name)
        model = classifier_at(str(ROOT / "saved_models" / "bim" / network / name))
        pictures = network_inputs(images.images(range(2 * INPUTS["bim"])), input_side(model))
        is_right = model.scores(pictures).argmax(axis=1) == images.labels[: len(pictures)]
        chosen.append((model, pictures, images.labels[: len(pictures)], is_right))
    rows = np.flatnonzero(chosen[0][3] & chosen[1][3])[: INPUTS["bim"]]
    masks = np.stack([place_mask(images.mask(row), images.boxes[row], chosen[0][1].shape[1]) for row in rows])

    def score(maps_of: Callable[..., np.ndarray]) -> np.ndarray:
        found = [maps_of(model, pictures[rows], labels[rows]) for model, pictures, labels, _ in chosen]
        with_object, without = (object_attribution(two_dimensional(maps)[0], masks) for maps in found)
        return with_object - without

    return Case([network] * len(rows), score)


def clevr_case(network: str) -> Case:
    """Return the share of the squared relevance on the object that a question is about (mass accuracy)."""
    from clevr_xai.answering import Answering, Questions
    from clevr_xai.dataset import Dataset
    from clevr_xai.evaluation import draw_rows
    from clevr_xai.metrics import pool, relevance_mass_accuracy

    answering = Answering(ROOT / "saved_models" / "clevr_xai" / network)
    dataset = Dataset("simple", "", answering.size)
    questions = Questions(dataset, draw_rows(len(dataset), INPUTS["clevr_xai"], 0), answering)
    batch = next(iter(questions.batches(INPUTS["clevr_xai"]))).load()

    def score(maps_of: Callable[..., np.ndarray]) -> np.ndarray:
        maps = maps_of(answering.model, batch.inputs, batch.targets, explain_input="image")
        return relevance_mass_accuracy(pool(maps, [_POOLING])[_POOLING], batch.masks["single_object"])

    return Case([network] * len(batch), score)


def _maps_of(cell: str) -> Callable[..., np.ndarray]:
    """Return the function that explains by a cell, at the input's size."""
    method = attribution.resolve_method(cell.removesuffix(f"{MARK}{OWN}"))
    resize = True if "resize" in method.defaults else None
    return lambda *case, **options: attribution.explain(method, *case, batch_size=64, resize=resize, **options)


def measure(places: Sequence[str]) -> None:
    """Score what is missing, and write it after every cell."""
    record = json.loads(SCORES.read_text("utf-8")) if SCORES.exists() else {"scores": {}, "refused": {}}
    for place, network in ((each, network) for each in places for network in _NETWORKS[each]):
        of_place, refused = (record[kind].setdefault(place, {}) for kind in ("scores", "refused"))
        chosen = _missing(place, {*of_place.get(network, ()), *refused})
        case = _CASES[place](network) if chosen else None
        for cell in chosen:
            try:
                values = case.score(_maps_of(cell))
            except BadInput as error:
                refused[cell] = " ".join(str(error).split())[:160]
            else:
                _add(of_place, cell, case.networks, values)
            atomic_write(SCORES, json.dumps(record) + "\n")
        print_line(f"{place} {network}: {len(chosen)} cells, {len(refused)} refused")


def _missing(place: str, done: Container[str]) -> list[str]:
    """Return the cells to score on a benchmark."""
    costly = COSTLY if place in ("bim", "clevr_xai") else ()
    return [cell for cell in cells() if cell not in done and cell.partition(MARK)[0] not in costly]


def _add(of_place: dict[str, dict], cell: str, networks: Sequence[str], values: np.ndarray) -> None:
    """Add the finite scores of a cell on each network."""
    for network in dict.fromkeys(networks):
        rows = np.asarray(networks) == network
        found = [round(float(value), 4) for value in values[rows] if np.isfinite(value)]
        of_place.setdefault(network, {})[cell] = found


_CASES = {"svea": svea_case, "exact": exact_case, "bim": bim_case, "clevr_xai": clevr_case}


def main() -> None:
    """Score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", default=",".join(_CASES))
    measure(parser.parse_args().places.split(","))


if __name__ == "__main__":
    main()
