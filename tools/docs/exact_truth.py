"""Write the tables of docs/results.md about parts and sequences, and compare their order of methods with that by masks.

    python -m tools.docs.exact_truth --measure
    python -m tools.docs.exact_truth

The first command scores all methods on every trained network of both benchmarks into docs/exact_truth.json. Both write
the tables from this file and from the table of methods in docs/results.md.

Cost: half a CPU hour with --measure, seconds without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

import attribution_benchmarks
from attribution import METHODS, cli
from attribution.files import atomic_write
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.core.tables import markdown_table, number
from attribution_benchmarks.exact import sequences
from attribution_benchmarks.parts import definition as parts
from attribution_benchmarks.report.reproduce import titles
from attribution_benchmarks.stats.correlation import agreement_by_chance, kendall_tau
from tools.docs.document_margins import cells
from tools.docs.page_parts import ROOT, replace_parts

FLAGS = flags.FlagValues()
flags.DEFINE_bool("measure", False, "score all methods first", flag_values=FLAGS)
flags.DEFINE_string("scores_dir", None, "directory to store scores in; in memory if missing", flag_values=FLAGS)

SCORES, RESULTS = ROOT / "docs" / "exact_truth.json", ROOT / "docs" / "results.md"
COMPARED = ("vargrad", "excitation_backprop", "xgrad_cam", "sise")  # in the table of methods, and not costly
IMAGES, TEXTS = 100, 60
OF_PARTS = {  # metric -> heading
    "shapley_correlation": "correlation", "shapley_correlation_dilated": "dilated", "top_part": "top part",
    "share_outside": "outside", "completeness": "completeness", "correctness": "correctness",
    "contrastivity": "contrastivity", "mean_score": "mean score", "tuning": "tuning",
}  # fmt: skip
RANGED = ("shapley_correlation", "top_part", "completeness", "mean_score")  # whose ranges over networks are printed
ORDERED = ("shapley_correlation", "shapley_correlation_dilated", "top_part", "mean_score")  # compared with masks
LESS = ("Drop %",)  # columns in which less is better
NO_MASKS = ("ROE %", "Drop %", "Incr. %")  # columns of SVEA
Scores = Mapping[str, Mapping[str, float | None]]  # metric -> method or control -> score


def measured(scores_dir: str | None) -> dict[str, dict[str, Scores]]:
    """Return benchmark -> network -> scores; the distance is that of the network's own sequences."""
    of_parts, of_sequences = {}, {}
    for path in parts.networks():
        settings = parts.Settings(num_imgs=IMAGES, model=str(path))
        found = attribution_benchmarks.evaluate(
            parts.BENCHMARK, [*parts.METHODS, *COMPARED], settings, store=scores_dir
        )
        of_parts[path.name] = chosen(found.rows, OF_PARTS)
    for folder in sequences.folders():
        settings = ExampleSettings(num_imgs=TEXTS, model=str(folder), random_networks=0)
        found = attribution_benchmarks.evaluate(sequences.BENCHMARK, None, settings, store=scores_dir)
        of_sequences[folder.name] = chosen(found.rows, ["distance"])
    return {"parts": of_parts, "sequences": of_sequences}


def chosen(rows: Iterable[Mapping], metrics: Iterable[str]) -> dict[str, dict[str, float | None]]:
    """Return metric -> method or control -> score with six digits, of the rows of an evaluation."""
    found: dict[str, dict[str, float | None]] = {metric: {} for metric in metrics}
    for row in rows:
        if row["metric"] in found and "of" not in row:
            value = row["value"]
            found[row["metric"]][row["method"]] = None if value is None or np.isnan(value) else round(value, 6)
    return found


def over_networks(networks: Iterable[Scores], metric: str) -> dict[str, np.ndarray]:
    """Return the scores of each method and control on all networks, (networks,), where all have one."""
    each = [scores[metric] for scores in networks]
    found = {name: np.array([scores.get(name) for scores in each], float) for name in each[0]}
    return {name: values for name, values in found.items() if np.isfinite(values).all()}


def cell(values: np.ndarray | None, ranged: bool) -> str:
    """Return the mean, and on request the range; a dash for no values."""
    if values is None:
        return "–"
    return f"{number(values.mean())}{f' ({number(values.min())} to {number(values.max())})' if ranged else ''}"


def parts_table(networks: Mapping[str, Scores]) -> str:
    """Return the scores of maps on the parts, means over networks, by the mean correlation."""
    columns = {metric: over_networks(networks.values(), metric) for metric in OF_PARTS}
    first, names = columns["shapley_correlation"], titles([parts.BENCHMARK])
    body = [
        [names[name], *(cell(column.get(name), metric in RANGED) for metric, column in columns.items())]
        for name in sorted(first, key=lambda name: -first[name].mean())
    ]
    return markdown_table(["map", *OF_PARTS.values()], body)


def sequences_table(networks: Mapping[str, Scores]) -> str:
    """Return the distance to the exact values by architecture, means over training seeds."""
    columns = {
        name: over_networks([one for key, one in networks.items() if key.partition("_seed")[0] == name], "distance")
        for name in sequences.NETWORKS
    }
    names = titles([sequences.BENCHMARK])
    first = columns["transformer"]
    body = [
        [names[name], *(cell(column.get(name), False) for column in columns.values())]
        for name in sorted(first, key=lambda name: first[name].mean())
    ]
    return markdown_table(["method", *(metric.title for metric in sequences.BY_NETWORK)], body)


def by_masks(page: str) -> dict[str, dict[str, float]]:
    """Return column -> method -> score of the table of methods, larger is better; the methods that all columns have."""
    names = {method.title: name for name, method in METHODS.items()}
    found: dict[str, dict[str, float]] = {}
    for (title, column), text in cells(page, "method").items():
        if title in names:
            score = float(re.match(r"-?[\d.]+", text)[0])
            found.setdefault(column, {})[names[title]] = -score if column in LESS else score
    common = set.intersection(*map(set, found.values()))
    return {column: {name: scores[name] for name in sorted(common)} for column, scores in found.items()}


class Tau(NamedTuple):
    """Kendall's tau of two orders, the tau that 95 % of all orders of as many methods are within, and their number."""

    value: float
    chance: float
    methods: int


class Order(NamedTuple):
    """Agreement of a column with the means of ``ORDERED``, with the correlation on each network, and with sequences."""

    column: str
    parts: list[Tau]
    single: list[float]
    texts: Tau


def tau(first: Mapping[str, float], second: Mapping[str, float]) -> Tau:
    """Return the agreement of two orders of the methods that both have."""
    common = sorted(first.keys() & second.keys())
    value = kendall_tau([first[name] for name in common], [second[name] for name in common])
    return Tau(value, agreement_by_chance(len(common)).tau, len(common))


def orders(found: Mapping[str, Mapping[str, Scores]], page: str) -> list[Order]:
    """Return how each column of the table of methods agrees with exact truth."""
    networks = list(found["parts"].values())
    means = [{name: values.mean() for name, values in over_networks(networks, metric).items()} for metric in ORDERED]
    transformers = [scores for name, scores in found["sequences"].items() if name.startswith("transformer")]
    of_texts = {name: -values.mean() for name, values in over_networks(transformers, "distance").items()}
    return [
        Order(
            column,
            [tau(scores, mean) for mean in means],
            [tau(scores, network["shapley_correlation"]).value for network in networks],
            tau(scores, of_texts),
        )
        for column, scores in by_masks(page).items()
    ]


def order_table(found: Sequence[Order]) -> str:
    """Return Kendall's tau of columns with measures of the parts, and with the distance of the sequences."""
    parts_methods, texts_methods = found[0].parts[0].methods, found[0].texts.methods
    head = ["column", *(OF_PARTS[name] for name in ORDERED), "single networks", f"sequences ({texts_methods} methods)"]
    body = [
        [one.column, *(number(each.value) for each in one.parts), _range(one.single), number(one.texts.value)]
        for one in found
    ]
    chance = number(found[0].parts[0].chance)
    body.append([f"by chance ({parts_methods} methods)", *[chance] * (len(head) - 2), number(found[0].texts.chance)])
    return markdown_table(head, body)


def answer(found: Sequence[Order], networks: int) -> str:
    """Return whether the order by masks is that by exact truth, with the figures of the parts."""
    by_mask, others = ([one for one in found if (one.column in NO_MASKS) == without] for without in (False, True))
    methods, chance = by_mask[0].parts[0].methods, by_mask[0].parts[0].chance
    means, alone = _taus(by_mask)
    beyond = sum(abs(tau) > chance for tau in alone)
    of_mean, of_single = map(_range, _taus(others))
    return (
        f"{'Not' if max(means) <= chance else 'In part'} in these data. With the mean correlation over {networks} "
        f"networks, Kendall's tau is {_range(means)} for the columns of BIM and CLEVR-XAI; 95 % of all orders of "
        f"{methods} methods are within {number(chance)}. On single networks it is {_range(alone)}, beyond "
        f"{number(chance)} in {beyond} of {len(alone)} cases. For SVEA, which measures whether a region is sufficient "
        f"and uses no mask, it is {of_mean} with the mean and {of_single} on single networks."
    )


def _taus(found: Sequence[Order]) -> tuple[list[float], list[float]]:
    """Return the taus with the mean correlation, and those on single networks."""
    return [one.parts[0].value for one in found], [tau for one in found for tau in one.single]


def _range(values: Sequence[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"


def written(found: Mapping[str, Mapping[str, Scores]], page: str) -> dict[str, str]:
    """Return the parts of docs/results.md."""
    compared = orders(found, page)
    return {
        "parts": parts_table(found["parts"]),
        "sequences": sequences_table(found["sequences"]),
        "order by masks": f"{answer(compared, len(found['parts']))}\n\n{order_table(compared)}",
    }


def main(flag_values: flags.FlagValues) -> None:
    """Score the methods on request, and write the tables."""
    if flag_values.measure:
        atomic_write(SCORES, json.dumps(measured(flag_values.scores_dir), indent=1) + "\n")
    replace_parts(RESULTS, written(json.loads(SCORES.read_text("utf-8")), RESULTS.read_text("utf-8")))


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
