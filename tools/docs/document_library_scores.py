"""Write the section on libraries of docs/results.md, and docs/pictures/libraries.png, from docs/library_scores.json.

    python -m tools.docs.document_library_scores

Intervals are percentiles of a bootstrap over networks (at least two different ones) and, within each, over inputs.

Cost: 1 CPU minute.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution import METHODS
from attribution.methods.libraries import MARK, libraries
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.stats.variance_components import COMPONENTS, variance_components
from tools.docs.measure_libraries import OWN, SCORES, cells
from tools.docs.page_parts import ROOT, replace_parts

PAGE, PICTURE = ROOT / "docs" / "results.md", ROOT / "docs" / "pictures" / "libraries.png"
TITLES = {
    "svea": "SVEA, confidence left in the window",
    "exact": "Exact truth, 1 - distance",
    "bim": "BIM, MCS",
    "clevr_xai": "CLEVR-XAI, mass accuracy",
}
RESAMPLES = 1000
CLAIMS = (  # (better, worse, a publication that has this order for other networks, data or measures)
    ("smoothgrad", "gradient", "Smilkov et al. 2017"),
    ("vargrad", "smoothgrad", "Adebayo et al. 2018"),
    ("integrated_gradients", "gradient", "Sundararajan, Taly and Yan 2017"),
    ("integrated_gradients", "gradient_x_input", "Sundararajan, Taly and Yan 2017"),
    ("expected_gradients", "integrated_gradients", "Erion et al. 2021"),
    ("guided_integrated_gradients", "integrated_gradients", "Kapishnikov et al. 2021"),
    ("blur_ig", "integrated_gradients", "Xu, Venugopalan and Sundararajan 2020"),
    ("guided_grad_cam", "guided_backprop", "Selvaraju et al. 2017"),
    ("grad_cam_plus_plus", "grad_cam", "Chattopadhay et al. 2018"),
    ("score_cam", "grad_cam", "Wang et al. 2020"),
    ("xgrad_cam", "grad_cam", "Fu et al. 2020"),
    ("ablation_cam", "grad_cam", "Desai and Ramaswamy 2020"),
    ("eigen_cam", "grad_cam", "Muhammad and Yeasin 2020"),
    ("layer_cam", "grad_cam", "Jiang et al. 2021"),
    ("full_grad", "grad_cam", "Srinivas and Fleuret 2019"),
)


class Table:
    """The scores of one benchmark that are complete: cells of methods with two definitions, on all networks."""

    def __init__(self, scores: Mapping[str, Mapping[str, Sequence[float]]]):
        self.networks = list(scores)
        lengths = {name: max(map(len, columns.values())) for name, columns in scores.items()}
        common = [
            cell
            for cell in scores[self.networks[0]]
            if all(len(scores[name].get(cell, ())) == lengths[name] for name in self.networks)
        ]
        methods = [_method(cell) for cell in common]
        self.cells = [cell for cell in common if methods.count(_method(cell)) > 1]
        self.methods = list(map(_method, self.cells))
        self.values = [np.array([scores[name][cell] for cell in self.cells]) for name in self.networks]

    def means(self) -> np.ndarray:
        """Return the mean scores, (cells, networks)."""
        return np.stack([values.mean(axis=1) for values in self.values], axis=1)

    def distinct(self) -> list[int]:
        """Return the places of cells with other scores than all earlier cells of their method, where two are left."""
        rows = zip(self.methods, np.concatenate(self.values, axis=1), strict=True)
        first: dict[Any, int] = {}
        for place, (method, scores) in enumerate(rows):
            first.setdefault((method, scores.tobytes()), place)
        methods = [self.methods[place] for place in first.values()]
        return [place for place in first.values() if methods.count(self.methods[place]) > 1]

    def resampled(self) -> Iterator[np.ndarray]:
        """Yield the means of bootstrap samples."""
        generator = np.random.default_rng(0)
        for _ in range(RESAMPLES):
            chosen = generator.integers(0, len(self.values), len(self.values))
            while len(set(chosen)) < 2:
                chosen = generator.integers(0, len(self.values), len(self.values))
            columns = []
            for place in chosen:
                inputs = self.values[place].shape[1]
                columns.append(self.values[place][:, generator.integers(0, inputs, inputs)].mean(axis=1))
            yield np.stack(columns, axis=1)


def _method(cell: str) -> str:
    return cell.partition(MARK)[0]


def _library(cell: str) -> str:
    return cell.partition(MARK)[2]


def shares(means: np.ndarray, methods: Sequence[str]) -> np.ndarray:
    """Return the components of variance in percent of their sum."""
    found = variance_components(means, methods)
    return 100 * found / found.sum()


def flips(table: Table, samples: np.ndarray) -> dict[tuple[str, str], dict[str, tuple[float, float, float]]]:
    """Return the difference of two methods by library, with its interval, where the library changes its sign.

    A pair counts if in one library the interval is above 0, and in another below. ``samples`` are the means of all
    networks in each bootstrap sample, (samples, cells).
    """
    mean, found = table.means().mean(axis=1), {}
    for pair in itertools.combinations(sorted(set(table.methods)), 2):
        by_library = {
            library: (float(mean[first] - mean[second]), *_interval(samples, first, second))
            for library, first, second in _defined(table, pair)
        }
        if any(low > 0 for _, low, _ in by_library.values()) and any(high < 0 for *_, high in by_library.values()):
            found[pair] = by_library
    return found


def _defined(table: Table, pair: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield each library that defines two methods, and the places of its cells."""
    for library in [OWN, *libraries()]:
        cells = [f"{name}{MARK}{library}" for name in pair]
        if set(cells) <= set(table.cells):
            yield library, *map(table.cells.index, cells)


def _interval(samples: np.ndarray, first: int, second: int) -> tuple[float, float]:
    """Return the interval of the difference of two cells."""
    low, high = np.percentile(samples[:, first] - samples[:, second], [2.5, 97.5])
    return float(low), float(high)


def _title(name: str) -> str:
    return METHODS[name].title


def _name(library: str) -> str:
    return "this project" if library == OWN else libraries()[library].title


def _variance_rows(tables: Mapping[str, Table], samples: Mapping[str, np.ndarray]) -> list[list[str]]:
    rows = []
    for place, table in tables.items():
        spread, once = (_shares(table, samples[place], one) for one in (range(len(table.cells)), table.distinct()))
        sizes = [str(len(set(table.methods))), str(len(table.cells)), str(len(table.networks))]
        rows.append([TITLES[place], *sizes, *spread, *once[:2]])
    return rows


def _shares(table: Table, samples: np.ndarray, places: Sequence[int]) -> list[str]:
    """Return the shares of variance of some cells, with their intervals."""
    methods = [table.methods[place] for place in places]
    point, *drawn = (shares(means[places], methods) for means in (table.means(), *samples))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return [f"{value:.0f} ({least:.0f}–{most:.0f})" for value, least, most in zip(point, low, high, strict=True)]


def _flip_rows(found: Mapping[str, Mapping]) -> list[list[str]]:
    rows = []
    for place, pairs in found.items():
        for (first, second), by_library in pairs.items():
            ordered = sorted(by_library.items(), key=lambda item: -item[1][0])
            ends = [f"{_name(name)} {value:+.2f} ({low:+.2f} to {high:+.2f})"
                    for name, (value, low, high) in (ordered[0], ordered[-1])]  # fmt: skip
            rows.append([TITLES[place], f"{_title(first)} - {_title(second)}", *ends])
    return rows


def verdicts(table: Table, samples: np.ndarray, better: str, worse: str) -> dict[str, list[tuple[str, str]]]:
    """Return the pairs of definitions of two methods by what their difference is: above 0, below, or open."""
    found: dict[str, list[tuple[str, str]]] = {"above": [], "below": [], "open": []}
    places = ([place for place, name in enumerate(table.methods) if name == wanted] for wanted in (better, worse))
    for first, second in itertools.product(*places):
        low, high = _interval(samples, first, second)
        sign = "above" if low > 0 else "below" if high < 0 else "open"
        found[sign].append((_library(table.cells[first]), _library(table.cells[second])))
    return found


def _claim_part(tables: Mapping[str, Table], samples: Mapping[str, np.ndarray]) -> str:
    """Return a table of the published orders that are found and reversed, and the number of cases."""
    rows, cases = [], 0
    for (better, worse, source), (place, table) in itertools.product(CLAIMS, tables.items()):
        found = verdicts(table, samples[place].mean(axis=2), better, worse)
        cases += any(found.values())
        if found["above"] and found["below"]:
            examples = [", ".join(map(_name, found[sign][0])) for sign in ("above", "below")]
            counts = [str(len(found[sign])) for sign in ("above", "below", "open")]
            rows.append([f"{_title(better)} above {_title(worse)}", source, TITLES[place], *counts, *examples])
    of = "for the definitions of the first and of the second in"
    head = ["order", "published by", "scores", "found", "reversed", "open", f"found {of}", f"reversed {of}"]
    return f"{len(rows)} of {cases} cases are found and reversed:\n\n{markdown_table(head, rows)}"


def _pair_part(tables: Mapping[str, Table], samples: Mapping[str, np.ndarray]) -> str:
    """Return how many pairs of methods change their order, which, and the greatest ranges of one method."""
    counts, ranges, found = [], [], {}
    for place, table in tables.items():
        drawn, methods = samples[place].mean(axis=2), sorted(set(table.methods))
        found[place] = flips(table, drawn)
        pairs = list(itertools.combinations(methods, 2))
        either = [verdicts(table, drawn, *pair) for pair in pairs]
        free = sum(bool(one["above"] and one["below"]) for one in either)
        counts.append([TITLES[place], str(len(pairs)), str(len(found[place])), str(free)])
        mean = table.means().mean(axis=1)
        spread = {name: np.ptp(mean[np.array(table.methods) == name]) for name in methods}
        widest = sorted(spread, key=lambda name: -spread[name])[:3]
        ranges.append(f"{TITLES[place]}: " + ", ".join(f"{_title(name)} {spread[name]:.2f}" for name in widest))
    head = ["scores", "pairs", "change with the library, the same for both", "change with the definition of either"]
    return (
        f"{markdown_table(head, counts)}\n\nThe greatest differences between definitions of one method: "
        f"{'; '.join(ranges)}.\n\nThese change with the library:\n\n"
        + markdown_table(["scores", "difference", "largest in", "smallest in"], _flip_rows(found))
    )


def picture(tables: Mapping[str, Table]) -> None:
    """Draw every definition's mean score, a line for each method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(tables), figsize=(4.2 * len(tables), 6.4), layout="constrained")
    for axis, (place, table) in zip(np.atleast_1d(axes), tables.items(), strict=True):
        _draw(axis, table)
        axis.set_title(TITLES[place], fontsize=9)
    shown = {_library(cell) for table in tables.values() for cell in table.cells}
    handles = [pyplot.Line2D([], [], label=_name(name), **mark) for name, mark in _markers().items() if name in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    figure.savefig(PICTURE, dpi=90)


def _draw(axis: Any, table: Table) -> None:
    """Draw the mean scores of one benchmark."""
    markers, mean = _markers(), dict(zip(table.cells, table.means().mean(axis=1), strict=True))
    methods = sorted(sorted(set(table.methods)), key=lambda name: mean.get(f"{name}{MARK}{OWN}", 0))
    for height, method in enumerate(methods):
        values = {_library(cell): value for cell, value in mean.items() if _method(cell) == method}
        axis.plot([min(values.values()), max(values.values())], [height] * 2, color="0.8", linewidth=5, zorder=0)
        for library in sorted(values, key=OWN.__eq__):  # this project's last
            size = {"markersize": 8} if library == OWN else {"markersize": 5, "alpha": 0.8}
            axis.plot(values[library], height, **markers[library], **size)
    axis.set_yticks(range(len(methods)), [_title(name) for name in methods], fontsize=7)
    axis.grid(axis="x", alpha=0.3)


def _markers() -> dict[str, dict[str, str]]:
    """Return the marker of each library, triangles where colors repeat; this project's is hollow, above others."""
    own = {"marker": "D", "color": "black", "fillstyle": "none", "linestyle": ""}
    others = {
        name: {"marker": "o^"[at > 9], "color": f"C{at}", "linestyle": ""} for at, name in enumerate(libraries(), 1)
    }
    return {OWN: own, **others}


def measured_tables() -> dict[str, Table]:
    """Return the stored scores of each benchmark under the definitions that there are."""
    record, defined = json.loads(SCORES.read_text("utf-8"))["scores"], set(cells())
    for columns in itertools.chain.from_iterable(of_place.values() for of_place in record.values()):
        for cell in columns.keys() - defined:  # no longer a definition
            del columns[cell]
    return {place: Table(record[place]) for place in TITLES if len(record.get(place, ())) > 1}


def main() -> None:
    """Write both."""
    tables = measured_tables()
    samples = {place: np.array(list(table.resampled())) for place, table in tables.items()}
    head = ["scores", "methods", "definitions", "networks", *(f"{name} %" for name in COMPONENTS)]
    head += [f"{name} %, equal ones once" for name in COMPONENTS[:2]]
    replace_parts(
        PAGE,
        {
            "library variance": markdown_table(head, _variance_rows(tables, samples)),
            "library pairs": _pair_part(tables, samples),
            "library claims": _claim_part(tables, samples),
        },
    )
    picture(tables)


if __name__ == "__main__":
    main()
