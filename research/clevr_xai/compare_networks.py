"""Put the tables of several networks side by side, with the agreement of their orders of methods.

    E="python -m clevr_xai.evaluate --pooling=all --controls=uniform,edge_detector"
    $E --output=first.json --input_scores=first.scores.json
    $E --output=second.json --input_scores=second.scores.json --model=saved_models/clevr_xai/relation_network_seed1
    python -m research.clevr_xai.compare_networks --tables=first.json,second.json --output=networks.md

Next to each table lie its input scores, with .scores.json for .json. Tables of several sets of questions or methods may
be named together. Nothing is computed with a network.

Cost: 10 CPU seconds for the committed page.
"""

from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_text
from attribution.reading import read_json
from attribution_benchmarks.core import input_scores, tables
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.stats import correlation, statistics
from clevr_xai import table
from clevr_xai.methods import BASELINES
from clevr_xai.metrics import ACCURACIES, HEADING, POOLINGS
from clevr_xai.table import TRUTH_TITLES, titled

DRAWS = 1000  # of images, for the intervals of tau
FIRST_SUBSET, POSTER_SUBSETS = "all", {"all": "all questions", "confident": "softmax > 0.99999"}

_HEAD = """# CLEVR-XAI under several networks

Relevance mass accuracy (pooling l2-norm,sq) and relevance rank accuracy (max-norm), made by
`python -m research.clevr_xai.compare_networks` from the tables of the commands below. The numbers of a network are of
the questions that it answers correctly. Kendall's tau of two networks is over the questions that both answer correctly.
The poster has one row of Integrated Gradients and does not say where its path begins: each of ours is compared with it.
"""

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, output="")
flags.DEFINE_list("tables", [], "files of clevr_xai.evaluate --output, .json, separated by commas", flag_values=FLAGS)


class Scored(NamedTuple):
    """The scores of one network: rows of its table, manifest, and scores of every question by metric and mask."""

    network: str
    rows: Sequence[Mapping]
    manifest: Mapping
    inputs: Mapping[tuple[str, str], InputScores]

    def row(self, truth: str, metric: str, method: str, subset: str = FIRST_SUBSET, pooling: str = "") -> Mapping:
        """Return one row, empty where the table has none; the pooling is the metric's of the heading when empty."""
        wanted = (truth, metric, method, subset, pooling or HEADING[metric])
        keys = ("ground_truth", "metric", "method", "subset", "pooling")
        return next((row for row in self.rows if tuple(map(row.get, keys)) == wanted), {})


def main(flag_values: flags.FlagValues) -> None:
    """Read the tables, compare, print, save."""
    tables.check_output(flag_values.output, (".md",))
    found: dict[tuple, list[Scored]] = {}
    for path in flag_values.tables:
        one = read(path)
        found.setdefault((one.rows[0]["questions"], *_names(one)), []).append(one)
    if not found or min(map(len, found.values())) < 2:
        raise BadInput("--tables needs the tables of two networks or more for each kind of questions and their methods")
    sections = [section for group in found.values() for section in compare(group)]
    text = "\n".join([_HEAD, *sections])
    print_text(text)
    if flag_values.output:
        manifest = {"networks": [one.manifest for group in found.values() for one in group]}
        tables.save(flag_values.output, [], manifest, text, text)
        print_text(f"table: {flag_values.output}", file=sys.stderr)


def read(path: str) -> Scored:
    """Read the table of one network with its input scores; raise ``BadInput`` for a file of something else."""
    document = read_json(path)
    groups = input_scores.load(pathlib.Path(path).with_suffix(".scores.json"))
    try:
        rows = [row for row in document["rows"] if row["metric"] in ACCURACIES and "of" not in row]
        (network,) = document["manifest"]["models"]
        inputs = {(group.where["metric"], group.where["ground_truth"]): group for group in groups}
        found = Scored(network, rows, document["manifest"], inputs)
        if rows and document["benchmark"] == "clevr_xai":
            return found
    except (KeyError, TypeError, ValueError):
        pass
    raise BadInput(f"{path} is not a table of clevr_xai.evaluate about one network; write it with --output=FILE.json")


def compare(networks: Sequence[Scored]) -> Iterator[str]:
    """Yield the sections of the same questions and methods under several networks, as Markdown."""
    first = networks[0]
    kind = first.rows[0]["questions"]
    truths = list(dict.fromkeys(row["ground_truth"] for row in first.rows))
    yield f"## {kind.capitalize()} questions, {len(_names(first, 'method'))} methods\n"
    for number, one in enumerate(networks, start=1):
        row = one.rows[0]
        correct = row["n"] + row["undefined"] + row["without_mask"]
        yield (
            f"- Network {number}: `{one.network}`, {correct} of {correct + row['answered_wrongly']} questions answered "
            f"correctly.\n  `{one.manifest['command']}`"
        )
    yield ""
    for truth in truths:
        yield f"### Ground truth {TRUTH_TITLES[truth]}\n"
        for subset, title in POSTER_SUBSETS.items():
            if subset == FIRST_SUBSET or table.poster_figure("gradient", "mass", kind, truth, subset):
                counts = " and ".join(str(one.row(truth, "mass", "uniform", subset).get("n", 0)) for one in networks)
                yield f"Mean with its 95 % interval over images, {title} ({counts} questions).\n"
                yield _means(networks, truth, subset)
        yield "Kendall's tau of the orders of the methods, with its 95 % interval over images.\n"
        yield _agreement(kind, networks, truth)
    yield f"### Poolings, ground truth {TRUTH_TITLES[truths[0]]}\n\nMeans of network 1.\n"
    for metric in ACCURACIES:
        yield _by_pooling(first, truths[0], metric)


def _by_pooling(one: Scored, truth: str, metric: str) -> str:
    body = [
        [titled({"method": name}), *(_number(one.row(truth, metric, name, pooling=each)) for each in POOLINGS)]
        for name in _names(one)
    ]
    return tables.markdown_table([metric, *POOLINGS], body)


def _names(one: Scored, kind: str = "") -> list[str]:
    """Return the methods and controls of a table in its order, or only those of one kind."""
    return list(dict.fromkeys(row["method"] for row in one.rows if kind in ("", row["kind"])))


def _means(networks: Sequence[Scored], truth: str, subset: str) -> str:
    """Return the table of means by both metrics under each network, next to the poster's."""
    header = ["method", *(f"{metric} {number + 1}" for metric in ACCURACIES for number in range(len(networks)))]
    body, poster = [], {}
    for name in _names(networks[0]):
        cells = [_number(one.row(truth, metric, name, subset), True) for metric in ACCURACIES for one in networks]
        published = networks[0].row(truth, table.POSTER["metric"], name, subset).get("paper")
        poster[name] = "–" if published is None else f"{published:.2f}"
        body.append([titled({"method": name}), *cells])
    if set(poster.values()) != {"–"}:
        header.append("poster, mass")
        body = [[*line, cell] for line, cell in zip(body, poster.values(), strict=True)]
    return tables.markdown_table(header, body)


def _number(row: Mapping, interval: bool = False) -> str:
    """Return a row's mean as a cell, with its interval if wanted."""
    if row.get("value") is None:
        return "–"
    return f"{row['value']:.2f}" + (f" ({row['low']:.2f}–{row['high']:.2f})" if interval else "")


def _agreement(kind: str, networks: Sequence[Scored], truth: str) -> str:
    """Return the table of Kendall's tau between networks, and of each with the poster, once for each path of it."""
    numbered = list(enumerate(networks, start=1))
    body = [
        [accuracy.title, f"networks {first} and {second}", *_of_two(one, other, metric, truth)]
        for metric, accuracy in ACCURACIES.items()
        for (first, one), (second, other) in itertools.combinations(numbered, 2)
    ]
    title = ACCURACIES[table.POSTER["metric"]].title
    body += [
        [title, f"network {number} and poster, {titled({'method': path})}", *cells]
        for number, one in numbered
        for path, cells in _of_poster(one, kind, truth)
    ]
    return tables.markdown_table(["metric", "orders", "methods", "tau"], body)


def _of_two(one: Scored, other: Scored, metric: str, truth: str) -> tuple[str, str]:
    """Return how many methods two networks have in common, and the tau of their orders."""
    names = [name for name in _names(one, "method") if name in _names(other, "method")]
    stacked = input_scores.stack([one.inputs[metric, truth], other.inputs[metric, truth]])
    values = np.stack([stacked.by_network(name) for name in names])  # (methods, questions, 2)
    both = np.isfinite(values).all(axis=(0, 2))
    return str(len(names)), _tau(*values[:, both].transpose(2, 1, 0), images=np.array(stacked.clusters)[both])


def _of_poster(one: Scored, kind: str, truth: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each path that may be the poster's, with the number of methods and the tau; none without three methods."""
    figures = {
        name: table.poster_figure(name, table.POSTER["metric"], kind, truth, FIRST_SUBSET)
        for name in _names(one, "method")
    }
    known = {name: figure.mean for name, figure in figures.items() if figure}
    for path in sorted({*BASELINES} & {*known}):
        names = [name for name in known if name not in BASELINES or name == path]
        group = one.inputs[table.POSTER["metric"], truth]
        values = np.stack([group.by_network(name)[:, 0] for name in names], axis=1)
        yield (
            path,
            (str(len(names)), _tau(values, np.array([[known[name] for name in names]]), np.array(group.clusters))),
        )


def _tau(first: np.ndarray, second: np.ndarray, images: np.ndarray) -> str:
    """Return Kendall's tau of two orders of methods by mean, with its interval over draws of images.

    Parameters
    ----------
    first, second
        (questions, methods) scores of the same questions; ``second`` may be one line of published means.
    images
        (questions,) which image a question is about.
    """
    count = first.shape[1]
    scores = np.concatenate([first, np.broadcast_to(second, (len(first), count))], axis=1)
    drawn = statistics.bootstrap_means(scores, images, DRAWS)
    value = correlation.kendall_tau(first.mean(axis=0), second.mean(axis=0))
    taus = [correlation.kendall_tau(draw[:count], draw[count:]) for draw in drawn]
    low, high = np.percentile(taus, [2.5, 97.5])
    return f"{value:.2f} ({min(low, value):.2f} to {max(high, value):.2f})"


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
