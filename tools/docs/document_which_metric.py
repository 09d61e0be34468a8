"""Write docs/which_metric.md from docs/which_metric.json and which_metric_template.md.

    python -m attribution_benchmarks.exact.meta_evaluation --inputs=7 --quantus_inputs=2 --output_dir=meta
    cp meta/which_metric.json docs/ && cp meta/which_metric.png docs/pictures/
    python tools/docs/document_which_metric.py

Cost: seconds; the first command 21 CPU minutes on one core.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from attribution.files import atomic_write  # noqa: E402
from attribution_benchmarks.core.tables import markdown_table  # noqa: E402
from attribution_benchmarks.exact.definition import METHODS  # noqa: E402
from attribution_benchmarks.exact.known_networks import GRADES, KINDS  # noqa: E402
from attribution_benchmarks.exact.meta_evaluation import CONTROLS, QUANTUS, shown, table  # noqa: E402
from attribution_benchmarks.stats import correlation, statistics  # noqa: E402

_WITHIN = 3  # rank of a metric that is named first
FIGURES = ROOT / "docs" / "which_metric.json"
TEMPLATE = ROOT / "tools" / "docs" / "which_metric_template.md"


def main() -> None:
    """Write the page."""
    atomic_write(ROOT / "docs" / "which_metric.md", page(json.loads(FIGURES.read_text(encoding="utf-8"))))


def page(record: Mapping) -> str:
    """Return the page as Markdown."""
    groups = record["groups"]
    images, vectors = groups["images"], groups["vectors"]
    counts = [rows["distance"]["correlation"][3:] for rows in groups.values()]
    sets = "faithfulness_correlation"
    return TEMPLATE.read_text(encoding="utf-8").format(
        best=" and ".join(f"`{name}`" for name in best(groups)),
        within=_WITHIN,
        inputs=sum(count for count, _ in counts),
        networks=sum(count for _, count in counts),
        kinds=len(KINDS),
        kinds_about="; ".join(KINDS.values()),
        grades=len(GRADES),
        maps=1 + len(KINDS) * len(GRADES),
        methods=len(METHODS),
        images={name: cells(row) for name, row in images.items()},
        vectors={name: cells(row) for name, row in vectors.items()},
        above_curves=shown(difference(images, sets, "insertion_deletion")),
        above_road=shown(difference(images, sets, "insertion_deletion_road")),
        above_deletion=shown(difference(images, "sensitivity_n", "deletion")),
        above_randomisation=shown(difference(vectors, "sparseness", "randomisation")),
        images_table="\n".join(table(images)),
        vectors_table="\n".join(table(vectors)),
        quantus_inputs=record["quantus_inputs"],
        quantus=beside(groups),
        transfer_images=f"{transfer(images):.2f}",
        transfer_vectors=f"{transfer(vectors):.2f}",
        command="python -m attribution_benchmarks.exact.meta_evaluation "
        f"--inputs={record['inputs_per_network']} --quantus_inputs={record['quantus_inputs']} --output_dir=meta",
    )


def cells(row: Mapping) -> dict[str, str]:
    """Return the figures of a metric as the text shows them."""
    estimates = ("correlation", "methods", "retest", "difference")
    return {key: shown(row.get(key)) for key in estimates} | {
        "passes": f"{row['passes']:.0f}",
        "truth": f"{100 * row['truth']:.0f}",
    }


def best(groups: Mapping[str, Mapping[str, Mapping]]) -> list[str]:
    """Return the metrics whose rank is at most ``_WITHIN`` in every group, the one of the best worst rank first."""
    ranks: dict[str, list[int]] = {}
    for rows in groups.values():
        for name, row in rows.items():
            ranks.setdefault(name, []).append(row["rank"][0] if "rank" in row else len(rows))
    worst = {name: max(of_groups) for name, of_groups in ranks.items() if len(of_groups) == len(groups)}
    return sorted((name for name in worst if worst[name] <= _WITHIN), key=worst.__getitem__)


def beside(groups: Mapping[str, Mapping[str, Mapping]]) -> str:
    """Return the Markdown table of Quantus's metrics and of the nearest ones here."""
    body = []
    for group, rows in groups.items():
        for row in (rows[name] for name in QUANTUS if name in rows):
            figures = (shown(row[key]) for key in ("of_quantus", "of_ours", "difference"))
            body.append([group, f"`{row['called']}`", f"`{row['ours']}`", *figures])
    return markdown_table(["networks", "Quantus", "ours", "Quantus", "ours", "Quantus - ours"], body).rstrip("\n")


def transfer(rows: Mapping[str, Mapping]) -> float:
    """Return the rank correlation, over metrics, of the correlations on corrupted maps and on maps of methods."""
    names = [name for name in rows if name not in CONTROLS and rows[name]["methods"]]
    return float(correlation.spearman(*([rows[name][key][0] for name in names] for key in ("correlation", "methods"))))


def difference(rows: Mapping[str, Mapping], first: str, second: str) -> tuple[float, float, float]:
    """Return the mean difference of two metrics' correlations over networks, with its 95 % interval."""
    one, other = rows[first]["by_network"], rows[second]["by_network"]
    shared = [name for name in one if name in other]
    return statistics.mean_interval(np.array([one[name] - other[name] for name in shared]))[:3]


if __name__ == "__main__":
    main()
