"""Write docs/which_metric.md from docs/which_metric.json, which_metric_other_seeds.json and which_metric_template.md.

    python -m attribution_benchmarks.exact.meta_evaluation --quantus_networks=3 --output_dir=meta
    python -m attribution_benchmarks.exact.meta_evaluation --seed=1 --networks=3 --inputs=1 --output_dir=other_seeds
    cp meta/which_metric.json docs/ && cp meta/which_metric.png docs/pictures/
    cp other_seeds/which_metric.json docs/which_metric_other_seeds.json
    python -m tools.docs.document_which_metric

A statement on the page is a comparison that is evaluated on the figures of both runs. One that holds for every truth
and every error, in both, is a finding; what others depend on is printed.

Cost: seconds; the first command about 20 CPU minutes on one core, the second a few.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attribution.files import atomic_write
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.exact.definition import METHODS
from attribution_benchmarks.exact.known_networks import GRADES, KINDS
from attribution_benchmarks.exact.meta_evaluation import (
    CELLS,
    CONTROLS,
    ERRORS,
    QUANTUS,
    SPLITS,
    TRUTHS,
    agreements,
    by_error,
    compared,
    estimate,
    ranked,
    ranks,
    shown,
    table,
    verdicts,
)
from attribution_benchmarks.exact.sampled_networks import GENERATORS, generator_of
from attribution_benchmarks.metrics.cards import SAME, cards
from attribution_benchmarks.stats import correlation
from tools.docs.page_parts import ROOT

RECORDS = tuple(ROOT / "docs" / f"which_metric{part}.json" for part in ("", "_other_seeds"))
TEMPLATE = ROOT / "tools" / "docs" / "which_metric_template.md"
_NAMED = 3  # metrics of the summary
FAMILIES = {
    "correlations over random sets": ("sensitivity_n", "faithfulness_correlation", "mu_fidelity"),
    "curves of removal": ("insertion", "deletion", "insertion_deletion", "selectivity", "irof", "sufficiency"),
    "curves with blur": ("insertion_blur", "deletion_blur", "insertion_deletion_blur"),
    "curves with ROAD's imputation": ("insertion_road", "deletion_road", "insertion_deletion_road"),
    "curves with the mean color": ("insertion", "deletion", "insertion_deletion"),
    "overlaps with a mask of the evidence": (
        "pointing_game", "roc_auc", "average_precision", "iou_at_area", "attribution_localisation",
        "top_k_intersection", "focus",
    ),
    "sparseness and complexity": ("sparseness", "complexity", "effective_complexity"),
    "stability under noise": ("max_sensitivity", "avg_sensitivity", "local_lipschitz"),
    "checks with random weights": ("randomisation", "randomisation_ssim", "randomisation_independent"),
}  # fmt: skip
_BLACK, _MEAN = "quantus:FaithfulnessCorrelation", "quantus:FaithfulnessCorrelation?perturb_baseline=mean"
STATEMENTS = (  # the first is above the second; a family, a metric, or "chance", which is 0
    ("correlations over random sets", "curves of removal"),
    ("infidelity", "correlations over random sets"),
    ("infidelity", "curves of removal"),
    ("correlations over random sets", "overlaps with a mask of the evidence"),
    ("curves of removal", "overlaps with a mask of the evidence"),
    ("curves with the mean color", "curves with blur"),
    ("curves with the mean color", "curves with ROAD's imputation"),
    ("curves of removal", "completeness"),
    ("completeness", "sparseness and complexity"),
    ("overlaps with a mask of the evidence", "sparseness and complexity"),
    ("curves of removal", "sparseness and complexity"),
    ("curves of removal", "checks with random weights"),
    ("curves of removal", "stability under noise"),
    ("curves of removal", "monotonicity"),
    ("sparseness and complexity", "checks with random weights"),
    ("sparseness and complexity", "stability under noise"),
    ("sparseness and complexity", "chance"),
    ("checks with random weights", "chance"),
    ("chance", "stability under noise"),
    ("monotonicity", "chance"),
    (_MEAN, _BLACK),
)


class Statement(NamedTuple):
    """A comparison of two families on one run."""

    first: str
    second: str
    verdicts: np.ndarray  # (cells,) 1, -1 or 0
    means: np.ndarray  # (cells,) of the differences over networks; NaN where it was not measured
    generators: int  # of which the mean difference is above 0
    of: int

    @property
    def holds(self) -> bool:
        """Return whether the first is above the second by every truth and error that was measured."""
        return bool((self.verdicts[np.isfinite(self.means)] > 0).all())


def main() -> None:
    """Write the page."""
    atomic_write(ROOT / "docs" / "which_metric.md", page(*records()))


def records() -> list[dict[str, Any]]:
    """Return the record of the run, and that of the run with other seeds."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS]


def page(record: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    both = [(one, statement(other, *names)) for names in STATEMENTS if (one := statement(record, *names))]
    found = [pair for pair in both if all(each is None or each.holds for each in pair)]
    return TEMPLATE.read_text(encoding="utf-8").format(
        networks=len(record["networks"]),
        other_networks=len(other["networks"]),
        generators=markdown_table(["generator", "networks"], [[f"`{name}`", of[0]] for name, of in GENERATORS.items()]),
        generator_count=len(GENERATORS),
        truths="; ".join(f"**{name}**: {about}" for name, about in TRUTHS.items()),
        inputs=record["inputs"],
        other_inputs=other["inputs"],
        kinds=len(KINDS),
        kinds_about="; ".join(KINDS.values()),
        grades=len(GRADES),
        maps=1 + len(KINDS) * len(GRADES),
        methods=len(METHODS),
        cells=len(CELLS),
        short=in_short(record),
        findings="\n".join(f"{number}. {finding(*pair)}" for number, pair in enumerate(found, 1)),
        depends="\n".join(f"- {depends(*pair)}" for pair in both if pair not in found),
        best=best(record),
        halves=halves(record),
        replication=replication(record, other),
        table=table(record),
        quantus=beside(record),
        quantus_networks=max(len(row.get("of_quantus", ())) for row in record["metrics"].values()),
        splits=SPLITS,
        smprt=np.isfinite(agreements(record, ["smprt"])[0, 0]).sum(),
        transfer=f"{transfer(record):.2f}",
        other_transfer=f"{transfer(other):.2f}",
    )  # fmt: skip


def statement(record: Mapping[str, Any], first: str, second: str) -> Statement | None:
    """Return a comparison on a run; None where it lacks the metrics."""
    try:
        differences = _values(record, first) - _values(record, second)
    except KeyError:
        return None
    origin = np.array([generator_of(name) for name in record["networks"]])
    with warnings.catch_warnings(action="ignore"):  # no shared network
        by_generator = np.array([np.nanmean(differences[:, origin == name]) for name in GENERATORS])
        means = np.nanmean(differences, axis=1)
    known = by_generator[np.isfinite(by_generator)]
    return Statement(first, second, verdicts(differences), means, int((known > 0).sum()), len(known))


def _values(record: Mapping[str, Any], name: str) -> np.ndarray:
    """Return the agreement of a family, the mean of its metrics, or of one metric, (cells, networks)."""
    if name == "chance":
        return np.zeros((len(CELLS), len(record["networks"])))
    with warnings.catch_warnings(action="ignore"):  # a network on which none is defined
        return np.asarray(np.nanmean(agreements(record, FAMILIES.get(name, (name,))), axis=0))


def _called(name: str) -> str:
    return name if name in FAMILIES or name == "chance" else f"`{name}`"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _span(values: np.ndarray) -> str:
    return f"{np.nanmin(values) + 0:.2f} to {np.nanmax(values) + 0:.2f}"


def finding(one: Statement, other: Statement | None) -> str:
    """Return a statement that holds for every truth and error, with its differences in both runs."""
    again = f"; with other seeds by {_span(other.means)}" if other else "; not measured with other seeds"
    return (
        f"**{_capital(_called(one.first))} above {_called(one.second)}**, by {_span(one.means)}, "
        f"in {one.generators} of {one.of} generators{again}."
    )


def depends(one: Statement, other: Statement | None) -> str:
    """Return by which truths and errors a statement holds, in both runs."""
    text = f"**{_capital(_called(one.first))} and {_called(one.second)}**: {_where(one)}"
    return f"{text}. With other seeds: {_where(other)}." if other else f"{text}. Not measured with other seeds."


def _where(one: Statement) -> str:
    """Return by which errors and truths the first is above or below."""
    words, known = {1: "above", -1: "below", 0: "undecided"}, np.isfinite(one.means)
    found = {word: (one.verdicts == each) & known for each, word in words.items()}
    parts = [
        f"{word} by " + (_cells(chosen) if (chosen != known).any() else "every truth and error")
        for word, chosen in found.items()
        if chosen.any()
    ]
    return "; ".join(parts)


def _cells(chosen: np.ndarray) -> str:
    """Return the errors of some cells, each with its truths unless all are there."""
    parts = []
    for error in ERRORS:
        truths = [cell[0] for cell, each in zip(CELLS, chosen, strict=True) if each and cell[1] == error]
        parts += [error if len(truths) == len(TRUTHS) else f"{error} ({', '.join(truths)})"] if truths else []
    return ", ".join(parts)


def in_short(record: Mapping[str, Any]) -> str:
    """Return which metric is first by each error, which have the best worst ranks, and what these do not see."""
    names, places = ranked(record["metrics"]), ranks(record)
    everywhere = [name for name in names if np.isfinite(by_error(record, name)).all()]
    means = {name: np.nanmean(by_error(record, name), axis=1) for name in everywhere}
    first = {error: max(everywhere, key=lambda name, at=at: means[name][at]) for at, error in enumerate(ERRORS)}
    chosen = sorted(places, key=lambda name: (places[name].max(), places[name].mean()))[:_NAMED]
    blind = [name for name in chosen if cards()[name].changes.get("offset") == SAME]
    winners = ", ".join(f"`{name}` by {error}" for error, name in first.items())
    text = "By means over truths, "
    several = len(set(first.values())) > 1
    text += (
        "the measure of the error decides which metric is first" if several else "one metric is first by every error"
    )
    text += f": {winners}. "
    text += "The best worst ranks over all truths and errors have " + _listed(
        f"`{name}` ({places[name].min()} to {places[name].max()})" for name in chosen
    )
    return (
        f"{text}. A constant that is added to a map is not seen by {_listed(f'`{each}`' for each in blind) or 'none'}"
        + (" of these, so use `infidelity` or `completeness` with them." if blind else " of these.")
    )


def _listed(names: Iterable[str]) -> str:
    *before, last = [*names] or [""]
    return f"{', '.join(before)} and {last}" if before else last


def best(record: Mapping[str, Any]) -> str:
    """Return the table of the best metric by truth and error, and of those not below it."""
    places, pairs, body = ranks(record), compared(record), []
    for at, cell in enumerate(CELLS):
        leader = min(places, key=lambda name, at=at: places[name][at])
        near = [name for name in sorted(places, key=lambda name, at=at: places[name][at]) if name != leader]
        near = [f"`{name}`" for name in near if pairs[leader, name][at] <= 0]
        body.append([*cell, f"`{leader}`", ", ".join(near)])
    return markdown_table(["truth", "error", "best", "not distinguishable from it"], body)


def halves(record: Mapping[str, Any]) -> str:
    """Return the table of how one half predicts the other."""
    names = {
        "generators": "other generators, the same corruptions",
        "corruptions": "other corruptions, the same generators",
        "both": "other generators and other corruptions",
    }
    body = [[names[split], *(shown(each) for each in row.values())] for split, row in record["halves"].items()]
    return markdown_table(["the other half has", *ERRORS], body)


_Pair = tuple[str, str]  # two metrics, the first above the second


class _Again(NamedTuple):
    """What another run says about the pairs of metrics that are ordered by every truth and error of the first."""

    verdicts: dict[_Pair, np.ndarray]  # (cells,) of the other run
    means: dict[_Pair, np.ndarray]  # (cells,) differences in the other run

    @property
    def kept(self) -> list[_Pair]:
        """Return the pairs that are ordered again."""
        return [pair for pair, found in self.verdicts.items() if (found > 0).all()]

    @property
    def same(self) -> list[_Pair]:
        """Return those with the same direction by every truth and error, but an interval that contains 0."""
        kept = set(self.kept)
        return [pair for pair, means in self.means.items() if (means > 0).all() and pair not in kept]

    @property
    def rest(self) -> list[_Pair]:
        """Return those with the other direction by at least one truth and error."""
        others = {*self.kept, *self.same}
        return [pair for pair in self.means if pair not in others]

    @property
    def contradicted(self) -> dict[_Pair, np.ndarray]:
        """Return those with an interval on the other side of 0, and by which truths and errors, (cells,)."""
        return {pair: found < 0 for pair, found in self.verdicts.items() if (found < 0).any()}


def again(record: Mapping[str, Any], other: Mapping[str, Any]) -> _Again:
    """Return what another run says about the ordered pairs of a run."""
    of_other = compared(other)
    pairs = [pair for pair, found in compared(record).items() if (found > 0).all() and pair in of_other]
    means = {pair: np.nanmean(-np.diff(agreements(other, pair), axis=0)[0], axis=1) for pair in pairs}
    return _Again({pair: of_other[pair] for pair in pairs}, means)


def replication(record: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return which pairs of metrics that are ordered by every truth and error are so in the other run, too."""
    found, (first, second) = again(record, other), (ranks(record), ranks(other))
    shared = [name for name in first if name in second]
    order = correlation.spearman(*([places[name].mean() for name in shared] for places in (first, second)))
    text = (
        f"Of {math.comb(len(first), 2)} pairs of metrics, {len(found.means)} are ordered by every truth and error. "
        f"With other seeds {len(found.kept)} of these are again; {len(found.same)} have the same direction by every "
        f"truth and error, but an interval that contains 0; {len(found.rest)} have the other direction by at least "
        f"one. {len(found.contradicted)} of the latter are contradicted, with an interval on the other side of 0. "
        f"The mean ranks of both runs have a rank correlation of {order:.2f}."
    )
    return "\n".join([text, *_reversed(found)])


def _reversed(found: _Again) -> list[str]:
    """Return the lines on pairs with the other direction by some truth and error."""
    lines = [
        f"- `{a}` above `{b}`: not by {_cells(found.means[a, b] <= 0)}"
        + (f"; contradicted by {_cells(found.contradicted[a, b])}" if (a, b) in found.contradicted else "")
        for a, b in found.rest
    ]
    return ["", "Those with the other direction:", "", *lines] if lines else []


def beside(record: Mapping[str, Any]) -> str:
    """Return the Markdown table of Quantus's metrics and of the nearest ones here."""
    rows, body = record["metrics"], []
    for name in (name for name in QUANTUS if name in rows):
        theirs, ours = (np.array(rows[name][key], np.float64) for key in ("of_quantus", "of_ours"))
        figures = (estimate(theirs), estimate(ours), estimate(theirs - ours, bounds=(-2.0, 2.0)))
        body.append([f"`{name}`", f"`{rows[name]['ours']}`", *map(shown, figures)])
    return markdown_table(["Quantus", "ours", "Quantus", "ours", "Quantus - ours"], body)


def transfer(record: Mapping[str, Any]) -> float:
    """Return the rank correlation, over metrics, of the agreement on corrupted maps and on maps of methods."""
    rows = record["metrics"]
    names: Sequence[str] = [name for name in rows if name not in CONTROLS and name not in QUANTUS]
    of_methods = [np.nanmean(np.array(rows[name]["methods"], np.float64)) for name in names]
    return float(correlation.spearman([np.nanmean(by_error(record, name)[0]) for name in names], of_methods))


if __name__ == "__main__":
    main()
