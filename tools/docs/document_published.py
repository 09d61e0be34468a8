"""Write the tables of docs/results.md about networks that attend and pairs that must differ, from the published scores.

    python -m tools.docs.document_published

Each cell is a mean over inputs and networks with its 95 % interval, unless that is a point. Rank correlations compare
the orders of the methods that both columns have.

Cost: seconds.
"""

from __future__ import annotations

import numpy as np

from attribution_benchmarks.core.controls import RANDOM, UNIFORM
from attribution_benchmarks.core.published import bootstrap_means
from attribution_benchmarks.core.scores import InputScores, summarised
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.report import published
from attribution_benchmarks.stats import correlation
from tools.docs.page_parts import ROOT, replace_parts

TABLES = {  # part of the page: set, metric -> heading; the first one sorts
    "vision transformers": ("bim_vit", {"mcs": "MCS", "idr": "IDR", "iir": "IIR"}),
    "cross-attention": ("clevr_xai_attention_simple", {"mass": "mass", "rank": "rank"}),
    "contrast": (
        "clevr_xai_contrast",
        {"cue_mass": "mass on the tile", "target_mass": "mass on the object", "both_signs": "both signs",
         "target_in_reader": "reader"},
    ),
    "words": (
        "clevr_xai_words",
        {"cue_mass": "first word", "target_in_reader": "object's words", "program_in_reader": "program's words"},
    ),
}  # fmt: skip
ORDERS = {  # what is compared: sets and metrics
    "mask (mass of the reader) and contrast on the tile":
        (("clevr_xai_contrast", "target_in_reader"), ("clevr_xai_contrast", "cue_mass")),
    "mass of Relation Networks and of cross-attention":
        (("clevr_xai_simple", "mass"), ("clevr_xai_attention_simple", "mass")),
    "MCS of residual networks and of vision transformers": (("bim", "mcs"), ("bim_vit", "mcs")),
}  # fmt: skip
DRAWS = 2000  # of the bootstrap
SETS = {one.task: one for one in published.sets()}


def group_of(task: str, metric: str) -> InputScores:
    """Return the published values of a metric."""
    return next(group for group in SETS[task].scores.groups if group.where["metric"] == metric)


def table(task: str, headings: dict[str, str]) -> str:
    """Return the means of methods and maps, sorted by the first metric.

    Controls of a method are left out, and a random map where there is a uniform one.
    """
    titles, metrics = SETS[task].scores.titles, {one.name: one for one in SETS[task].definition.metrics}
    cells: dict[str, dict[str, str]] = {}
    for metric in headings:
        rows = [
            row
            for row in summarised(group_of(task, metric), metrics[metric])
            if "of" not in row and not (row["method"] == RANDOM.name and UNIFORM.name in titles)
        ]
        for row in sorted(rows, key=lambda row: -row["value"]):
            value, low, high = (round(row[key], 2) + 0.0 for key in ("value", "low", "high"))  # no minus zero
            text = f"{value:.2f}" + (f" ({low:.2f} to {high:.2f})" if high > low else "")
            cells.setdefault(titles[row["method"]], {})[metric] = text
    body = [[title, *(of.get(metric, "–") for metric in headings)] for title, of in cells.items()]
    return markdown_table(["map", *headings.values()], body)


def order(first: tuple[str, str], second: tuple[str, str]) -> list[str]:
    """Return the number of methods, and Spearman's correlation of their means by two metrics with its interval."""
    groups = [group_of(*one) for one in (first, second)]
    names = [one.name for one in groups[0].sources if one.method and not one.control and one.name in groups[1].values]
    columns = [np.stack([group.by_network(name) for name in names], axis=-1) for group in groups]
    means = [np.nanmean(each, axis=(0, 1)) for each in columns]
    if first[0] == second[0]:  # inputs and networks are drawn together
        drawn = bootstrap_means(np.concatenate(columns, axis=-1), groups[0].clusters, 0, DRAWS)
        draws = [drawn[:, : len(names)], drawn[:, len(names) :]]
    else:
        draws = [
            bootstrap_means(each, group.clusters, seed, DRAWS)
            for seed, (each, group) in enumerate(zip(columns, groups, strict=True))
        ]
    low, high = np.nanquantile(correlation.spearman(*draws), [0.025, 0.975])
    return [str(len(names)), f"{correlation.spearman(*means):.2f} ({low:.2f} to {high:.2f})"]


def main() -> None:
    """Replace the parts of the page."""
    parts = {name: table(*one) for name, one in TABLES.items()}
    rows = [[title, *order(*pair)] for title, pair in ORDERS.items()]
    parts["orders"] = markdown_table(["order by", "methods", "Spearman's correlation"], rows)
    replace_parts(ROOT / "docs" / "results.md", parts)


if __name__ == "__main__":
    main()
