"""Compare the order of methods by masks, in docs/results.md, with their order by exact truth in the benchmark "parts".

    python -m attribution_benchmarks.parts.evaluate --methods=gradient,grad_cam --output=parts.json
    python tools/docs/order_by_masks.py --scores=parts.json

Prints Kendall's tau for each column of the results with each measure of the parts, and the tau that 95 % of all orders
of as many methods do not exceed, over the methods that both have. Several files, such as of several networks, are
averaged.

Cost: seconds.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

import numpy as np
from absl import flags

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP))

from attribution import METHODS, cli  # noqa: E402
from attribution.errors import print_text  # noqa: E402
from attribution_benchmarks.core.tables import number, text_table  # noqa: E402
from attribution_benchmarks.stats.correlation import agreement_by_chance, kendall_tau  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_list("scores", None, "results of attribution_benchmarks.parts.evaluate, .json", flag_values=FLAGS)
flags.DEFINE_string("results", str(TOP / "docs" / "results.md"), "page with the table of methods", flag_values=FLAGS)
flags.mark_flag_as_required("scores", flag_values=FLAGS)

MEASURES = ("shapley_correlation", "shapley_correlation_dilated", "top_part", "mean_score")
_LESS = ("Drop",)  # columns in which less is better


def by_masks(page: str) -> dict[str, dict[str, float]]:
    """Return column -> method -> score of the table of methods, larger is better."""
    table = re.search(r"<!-- method: .*?-->\n\n(.*?)\n\n", page, re.DOTALL)[1].splitlines()
    header, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    names = {method.title: name for name, method in METHODS.items()}
    found: dict[str, dict[str, float]] = {title: {} for title in header[1:]}
    for title, *cells in lines:
        for column, cell in zip(header[1:], cells, strict=True):
            if title in names and (figure := re.match(r"-?[\d.]+", cell)):
                sign = -1 if column.startswith(_LESS) else 1
                found[column][names[title]] = sign * float(figure[0])
    return found


def by_truth(documents: list[dict]) -> dict[str, dict[str, float]]:
    """Return measure -> method -> mean score over documents."""
    found = {}
    for measure in MEASURES:
        each = [
            {r["method"]: r["value"] for r in document["rows"] if r["metric"] == measure and r["value"] is not None}
            for document in documents
        ]
        common = set.intersection(*map(set, each)) & set(METHODS)
        found[measure] = {name: float(np.mean([one[name] for one in each])) for name in common}
    return found


def agreement(first: dict[str, float], second: dict[str, float]) -> tuple[float, float, int]:
    """Return Kendall's tau of the common methods, its level by chance, and the number of methods."""
    common = sorted(first.keys() & second.keys())
    tau = kendall_tau([first[name] for name in common], [second[name] for name in common])
    return tau, agreement_by_chance(len(common)).tau, len(common)


def main(flag_values: flags.FlagValues) -> None:
    """Print the table."""
    masks = by_masks(pathlib.Path(flag_values.results).read_text())
    truth = by_truth([json.loads(pathlib.Path(path).read_text()) for path in flag_values.scores])
    body = []
    for column, scores in masks.items():
        found = [agreement(scores, truth[measure]) for measure in MEASURES]
        body.append([column, str(found[0][2]), number(found[0][1]), *(number(tau) for tau, _, _ in found)])
    print_text(text_table(["column", "methods", "by chance", *MEASURES], body))


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
