"""Score the methods on BIM's vision transformers, and write the table of docs/results.md and vision_transformers.csv.

    python -m tools.docs.document_transformers --scores_dir=scores

The intervals are over images and pairs of networks. A stopped run goes on where it was.

Cost: about three CPU minutes a pair.
"""

from __future__ import annotations

import csv
import dataclasses

from absl import flags

from attribution import cli
from attribution_benchmarks import evaluate
from attribution_benchmarks.core.scores import Scores, stack
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.stats.statistics import mean_interval
from bim.definition import TRANSFORMER
from tools.docs.page_parts import ROOT, replace_parts

LABELS = {"mcs": "MCS", "idr": "IDR"}
REFERENCES = {  # what all methods are compared with
    "the middle layer": "grad_cam_block2",
    "the last layer": "grad_cam_last_norm",
    "a gradient": "gradient",
}
FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_string("scores_dir", "scores", "directory to keep scores in", flag_values=FLAGS)
flags.DEFINE_integer("num_imgs", 60, "images of each set", 1, flag_values=FLAGS)
flags.DEFINE_integer("random_networks", 1, "networks of random weights for each network", 0, flag_values=FLAGS)


def scored(num_imgs: int, random_networks: int, seed: int, store: str) -> Scores:
    """Return the scores of all pairs, one group a metric."""
    own, *_ = TRANSFORMER.report_tasks(False, seed)
    parts = [
        evaluate(
            TRANSFORMER,
            settings=dataclasses.replace(settings, num_imgs=num_imgs, random_networks=random_networks),
            metrics=[*LABELS],
            store=store,
        )
        for settings in (own.settings, *own.networks)
    ]
    groups = [stack(groups) for groups in zip(*(part.groups for part in parts), strict=True)]
    return dataclasses.replace(parts[0], groups=groups)


def main(flag_values: flags.FlagValues) -> None:
    """Score, and write the files."""
    found = scored(flag_values.num_imgs, flag_values.random_networks, flag_values.seed, flag_values.scores_dir)
    rows, cells = [], {}
    for group in found.groups:
        metric, name_of = group.where["metric"], {source.name: source for source in group.sources}
        for name in group.values:
            estimate = mean_interval(group.by_network(name), clusters=group.clusters)
            numbers = [f"{number:.3f}" for number in estimate[:3]]
            rows.append([metric, found.titles[name], "", *numbers])
            if not (name_of[name].method and name_of[name].control):
                cells.setdefault(found.titles[name], {})[metric] = "{} ({} to {})".format(*numbers)
    for reference in REFERENCES.values():
        for row in found.compare(reference).to_dict("records"):
            numbers = [f"{row[key]:.3f}" for key in ("difference", "low", "high")]
            rows.append([row["metric"], found.titles[row["method"]], found.titles[reference], *numbers])
    with open(ROOT / "docs" / "vision_transformers.csv", "w", newline="", encoding="utf-8") as file:
        header = ["metric", "method", "minus", "value", "low", "high"]
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    body = [[title, *(of.get(metric, "–") for metric in LABELS)] for title, of in cells.items()]
    table = markdown_table(["method", *LABELS.values()], body)
    replace_parts(ROOT / "docs" / "results.md", {"vision transformers": table})


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
