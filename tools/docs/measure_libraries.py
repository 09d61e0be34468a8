"""Score methods under the definitions of several libraries: docs/library_scores.json and a section of docs/results.md.

    python tools/docs/measure_libraries.py

A cell is ``METHOD@LIBRARY``, or a method of this project with its defaults. Only methods with at least two definitions
are scored. The scores of each input are kept, so that a stopped run resumes and new presets are added.

``y = μ + method + definition (within a method) + network + method x network + rest`` is a table of cells and networks;
the components of variance come from its mean squares (analysis of variance of nested classes, unequal numbers of
definitions), negative ones are 0. Intervals are of a bootstrap over networks and, within each, over inputs.

Cost: 40 CPU minutes.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

import attribution  # noqa: E402
from attribution.errors import BadInput, print_line  # noqa: E402
from attribution.files import atomic_write  # noqa: E402
from attribution.methods.libraries import ABSENT, MARK, libraries  # noqa: E402

SCORES = ROOT / "docs" / "library_scores.json"
OWN = "attribution"  # this project's definition
COSTLY = {"expected_gradients", "kernel_shap", "shapley_sampling", "rise", "lime", "xrai", "blur_ig", "occlusion"}
COMPONENTS = ("method", "library", "network", "method x network", "rest")
PLACES = {  # metric, title, whether costly methods are scored
    "svea": ("roe_test", "SVEA, ROE", True),
    "exact": ("distance", "Exact truth, 1 - distance", True),
    "bim": ("mcs", "BIM, MCS", False),
    "clevr_xai": ("mass", "CLEVR-XAI, mass", False),
}
_NETWORKS = {
    "exact": ("linear",),  # one network, whose problems take the networks' place
    "svea": ("baseline", *(f"baseline_seed{seed}" for seed in range(1, 5))),
    "bim": (".", *(f"seed{seed}" for seed in range(1, 5))),
    "clevr_xai": ("relation_network", "relation_network_seed1", "relation_network_seed2"),
}
Scores = Mapping[str, Mapping[str, Sequence[float]]]  # network -> cell -> (N,) values


def cells() -> list[str]:
    """Return all cells of methods with two definitions or more, ``METHOD@attribution`` for this project's."""
    names = [
        f"{name}{MARK}{library.name}"
        for library in libraries().values()
        for name, preset in library.presets.items()
        if preset.status != ABSENT and preset.of == name  # not a variant with a name of its own
    ]
    methods = {name.partition(MARK)[0] for name in names}
    return sorted([*names, *(f"{name}{MARK}{OWN}" for name in methods)])


def _settings(place: str, network: str) -> Any:
    """Return the settings that score one network of a benchmark."""
    from bim.settings import Settings as Bim
    from clevr_xai.settings import Settings as Clevr
    from svea.settings import Settings as Svea

    folder = ROOT / "saved_models" / place / network
    if place == "svea":
        return Svea(model=str(folder), random_networks=0)
    if place == "bim":
        members = () if network == "." else tuple(f"{name}={folder / name}" for name in ("obj", "scene"))
        return Bim(models=members, random_networks=0, num_imgs=6, controls=False, compare="")
    return Clevr(model=str(folder), random_networks=0, num_questions=6, controls=(), control_methods=())


def _evaluated(place: str, network: str, chosen: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Return the values of the inputs by network and cell; the problems of exact truth are networks."""
    from attribution_benchmarks import evaluate
    from attribution_benchmarks.core.registry import benchmark_named

    methods = {one.replace(MARK, "_in_"): attribution.resolve_method(one.removesuffix(f"{MARK}{OWN}")) for one in chosen}
    is_exact = place == "exact"
    exact = benchmark_named(place).settings(num_imgs=160, random_networks=0) if is_exact else None
    settings = exact or _settings(place, network)
    metric = PLACES[place][0]
    found = evaluate(place, methods, settings, metrics=[metric], progress=lambda step: None)
    group = next(one for one in found.parts[0].input_scores if _is_wanted(one.where, metric))
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell, name in zip(chosen, methods, strict=True):
        for label, value in zip(group.inputs, group.by_network(name).mean(axis=1), strict=True):
            if np.isfinite(value):
                where = label.rpartition("-")[0] if is_exact else network
                values[where][cell].append(round(float(1 - value if is_exact else value), 4))
    return values


def _is_wanted(where: Mapping[str, str], metric: str) -> bool:
    return where["metric"] == metric and where.get("pooling", "l2-norm,sq") == "l2-norm,sq"


def _scored(place: str, network: str, chosen: Sequence[str]) -> tuple[list[dict[str, dict]], dict[str, str]]:
    """Return values as ``_evaluated``, and why cells have none: a refused one stops none of the rest."""
    try:
        return [_evaluated(place, network, chosen)], {}
    except BadInput as error:
        if len(chosen) == 1:
            return [], {chosen[0]: " ".join(str(error).split())[:160]}
    middle = len(chosen) // 2
    first, second = (_scored(place, network, part) for part in (chosen[:middle], chosen[middle:]))
    return first[0] + second[0], first[1] | second[1]


def measure(places: Sequence[str]) -> None:
    """Score what is missing, and write it after every dozen of cells."""
    record = json.loads(SCORES.read_text("utf-8")) if SCORES.exists() else {"scores": {}, "refused": {}}
    for place in places:
        for network in _NETWORKS[place]:
            of_place = record["scores"].setdefault(place, {})
            refused = record["refused"].setdefault(place, {})
            done = set(of_place.get(network, ())) | set(refused)
            costly = set() if PLACES[place][2] else COSTLY
            chosen = [one for one in cells() if one not in done and one.partition(MARK)[0] not in costly]
            for start in range(0, len(chosen), 12):
                found, reasons = _scored(place, network, chosen[start : start + 12])
                for where, columns in (item for part in found for item in part.items()):
                    of_place.setdefault(where, {}).update(columns)
                refused.update(reasons)
                print_line(f"{place} {network}: {start + 12} of {len(chosen)} cells, {len(refused)} refused")
                atomic_write(SCORES, json.dumps(record) + "\n")


def main() -> None:
    """Score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", default=",".join(PLACES))
    measure(parser.parse_args().places.split(","))


if __name__ == "__main__":
    main()
