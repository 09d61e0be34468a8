"""Write docs/methods.md and docs/metrics.md from the registries of methods and metrics, and their templates.

    python -m tools.docs.document_registries

docs/metrics.csv has the evaluation cards, which ``measure_cards.py`` measures.

Cost: seconds.
"""

from __future__ import annotations

import csv
import inspect
import io
import re

import numpy as np

from attribution.files import atomic_write
from attribution.methods.registry import DETERMINISTIC, METHODS, Method
from attribution_benchmarks import metrics
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.exact.measure_card import CHANGES
from attribution_benchmarks.metrics.cards import Card, cards
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs.page_parts import ROOT

HEAD = ROOT / "tools" / "docs" / "methods_head.md"  # its lines "{methods of: a family, another}" become tables
METRICS_TEMPLATE = ROOT / "tools" / "docs" / "metrics_template.md"  # "{metrics of: a module, another}" are sheets
BENCHMARKS = ("svea", "bim", "clevr_xai", "exact")  # whose metrics are in the table of cards


def main() -> None:
    """Write the pages and the table of cards."""
    for name, text in (
        ("methods.md", methods_page()), ("metrics.md", metrics_page()), ("metrics.csv", table_of_cards())
    ):  # fmt: skip
        atomic_write(ROOT / "docs" / name, text)


def methods_page() -> str:
    """Return the methods grouped by idea, and the method cards, as a Markdown page."""
    ordered: list[Method] = []

    def table(line: re.Match[str]) -> str:
        methods = [method for method in METHODS.values() if method.family in line[1].split(", ")]
        ordered.extend(methods)
        rows = [[f"[`{one.name}`](#{one.name.replace('.', '')})", one.title, one.card.cost] for one in methods]
        return _table(["name", "method", "cost"], rows)

    head = re.sub(r"^{methods of: (.+)}$", table, HEAD.read_text("utf-8"), flags=re.MULTILINE)
    if len(ordered) < len(METHODS):
        raise ValueError(f"{HEAD.name} lacks the families of {sorted(set(METHODS) - {one.name for one in ordered})}")
    return "".join([head, *map(_section, ordered)])


def _section(method: Method) -> str:
    """Return the section of a method."""
    defaults = ", ".join(f"`{key}={value!r}`" for key, value in method.defaults.items()) or "none"
    facts = {
        "Parameters": defaults,
        "Sum of a map": method.sum_law.formula if method.sum_law else None,
        "Needs": method.card.requirements,
        "Randomness": None if method.card.randomness == DETERMINISTIC else method.card.randomness,
        "Known weaknesses": method.card.weaknesses,
        "Source": method.card.citation,
    }
    lines = [f"- **{label}:** {text}\n" for label, text in facts.items() if text]
    summary = inspect.getdoc(getattr(method.function, "func", method.function)).split("\n\n")[0].replace("\n", " ")
    return "".join([f"\n## {method.name}\n\n{summary}\n\n", *lines])


def metrics_page() -> str:
    """Return the metrics by module, with what each one cannot see, as a Markdown page."""
    rows = [
        [f"[`{one.name}`](#{one.name})", one.title, one.better, _range(one), one.cost, cards()[one.name].phrase]
        for one in METRIC_REGISTRY.values()
    ]
    table = _table(["name", "metric", "better", "range", "cost", "card"], rows)
    text = METRICS_TEMPLATE.read_text("utf-8").replace("{table}", table)
    return re.sub(r"^{metrics of: (.+)}$", _sheets, text, flags=re.MULTILINE)


def _sheets(line: re.Match[str]) -> str:
    """Return the sheets of the metrics of some modules."""
    modules = (getattr(metrics, name) for name in line[1].split(", "))
    return "\n\n".join(_sheet(metric) for module in modules for metric in module.METRICS)


def _sheet(metric: Metric) -> str:
    return f"""<a id="{metric.name}"></a>

### {metric.title}, `{metric.name}`

{metric.about}

- **Chance:** {metric.chance}
- **Limitations:** {metric.criticism}
- **Source:** {metric.source}"""


def _range(metric: Metric) -> str:
    low, high = metric.bounds
    if np.isinf(low):
        return f"up to {high:g}"
    return f"{low:g} upwards" if np.isinf(high) else f"{low:g} to {high:g}"


def table_of_cards() -> str:
    """Return what the cards of metrics have, a row for each, as CSV."""
    shown = {name: card for name, card in cards().items() if name in METRIC_REGISTRY or _benchmark(name) in BENCHMARKS}
    rows = [_of_card(name, card) for name, card in shown.items()]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _benchmark(name: str) -> str:
    return name.partition(":")[0]


def _of_card(name: str, card: Card) -> dict[str, str]:
    """Return the cells of a card by column."""
    return {
        "metric": name,
        "better": card.better,
        "card": card.phrase,
        **{change: card.changes[change] + " *" * (change in card.undefined) for change in CHANGES},
        "do not conclude": " ".join(card.cautions()),
    }


def _table(header: list[str], body: list[list[str]]) -> str:
    return markdown_table(header, body).rstrip("\n")


if __name__ == "__main__":
    main()
