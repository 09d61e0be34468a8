"""Write docs/methods.md and docs/metrics.md from the registries of methods and metrics, and their templates.

    python -m tools.docs.document_registries

The retest reliability is that of docs/which_metric.json, see ``document_which_metric.py``; the cards are those of
``measure_cards.py``.

Cost: seconds.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping

import numpy as np

from attribution.files import atomic_write
from attribution.methods.method import Method
from attribution.methods.registry import METHODS
from attribution_benchmarks import metrics
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.exact.measure_card import CHANGES
from attribution_benchmarks.exact.meta_evaluation import retest
from attribution_benchmarks.metrics.cards import CHANGED, MIRRORED, SAME, UNDEFINED, Card, cards
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from tools.docs.page_parts import ROOT

RELIABILITY = ROOT / "docs" / "which_metric.json"
EXAMPLE = "python -m bim.metrics --methods=gradient,grad_cam --metrics=roc_auc,insertion_deletion --num_imgs=4"
HEAD = ROOT / "tools" / "docs" / "methods_head.md"  # its lines "{methods of: a family, another}" become tables
_AS_GOOD = {"random": "random", "zero": "zeros", "smoothed": "smoothed", "absolute": "unsigned"}
METRICS_TEMPLATE = ROOT / "tools" / "docs" / "metrics_template.md"  # "{metrics of: a module, another}" are sheets


def main() -> None:
    """Write the pages."""
    measured = json.loads(RELIABILITY.read_text(encoding="utf-8"))["metrics"]
    for name, text in (("methods", methods_page()), ("metrics", metrics_page(measured))):
        atomic_write(ROOT / "docs" / f"{name}.md", text)


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
        "Cost per input": method.card.cost,
        "Randomness": method.card.randomness,
        "Known weaknesses": method.card.weaknesses,
        "Source": method.card.citation,
    }
    lines = [f"- **{label}:** {text}\n" for label, text in facts.items() if text]
    summary = inspect.getdoc(method.function).split("\n\n")[0].replace("\n", " ")
    return "".join([f"\n## {method.name}\n\n{summary}\n\n", *lines])


def metrics_page(measured: Mapping[str, Mapping]) -> str:
    """Return the whole page as Markdown, with the retest reliability of metrics from the meta-evaluation."""
    header = ["name", "metric", "better", "range", "cost", "retest"]
    text = METRICS_TEMPLATE.read_text("utf-8")
    for name, value in {
        "example": EXAMPLE,
        "table": _table(header, [_row(metric, measured) for metric in METRIC_REGISTRY.values()]),
        "invariances": _invariances(),
        "values": _values(),
    }.items():
        text = text.replace(f"{{{name}}}", value)
    return re.sub(r"^{metrics of: (.+)}$", _sheets, text, flags=re.MULTILINE)


def _row(metric: Metric, measured: Mapping[str, Mapping]) -> list[str]:
    again = retest(measured[metric.name]) if metric.name in measured else ""
    return [f"[`{metric.name}`](#{metric.name})", metric.title, metric.better, _range(metric), metric.cost, again]


def _shown_cards() -> dict[str, Card]:
    """Return the cards by name, each once: three benchmarks share the metrics of ``exact``."""
    return {name: card for name, card in cards().items() if not name.startswith(("xai_units:", "xai_tris:"))}


def _linked(name: str) -> str:
    return f"[`{name}`](#{name})" if name in METRIC_REGISTRY else f"`{name}`"


def _invariances() -> str:
    signs = {SAME: "=", MIRRORED: "±", CHANGED: "", UNDEFINED: "none"}
    header = ["metric", "+ c", "· c", "· -c", "order of magnitudes kept", "order kept", "absolute", "positive part",
              "moved", "equal values"]  # fmt: skip
    rows = [
        [
            _linked(name),
            *(signs[card.changes[change]] + "*" * (change in card.undefined) for change in CHANGES),
            card.ties,
        ]
        for name, card in _shown_cards().items()
    ]
    return _table(header, rows)


def _values() -> str:
    header = ["metric", "exact", "random", "constant", "zeros", *(f"{kind} as good" for kind in _AS_GOOD.values()),
              "removed get", "random numbers", "passes, images", "vectors", "maps"]  # fmt: skip
    return _table(header, [_of_values(name, card) for name, card in _shown_cards().items()])


def _of_values(name: str, card: Card) -> list[str]:
    ends = [card.ranges[kind] for kind in ("exact", "random", "constant", "zero")]
    good = [f"{100 * card.as_good[kind]:.0f} %" if kind in card.as_good else "" for kind in _AS_GOOD]
    shared = "†" if card.shared else ""
    passes = [f"{card.passes[kind]:g}{shared}" if card.passes.get(kind) else "" for kind in ("images", "vectors")]
    return [
        _linked(name), *("" if each is None else f"{each[0]:.2g} to {each[1]:.2g}" for each in ends), *good,
        card.removed, f"{100 * card.noise:.0f} %" if card.noise else "", *passes,
        f"{card.explanations:g}" if card.explanations else "",
    ]  # fmt: skip


def _sheets(line: re.Match[str]) -> str:
    """Return the sheets of the metrics of some modules."""
    modules = (getattr(metrics, name) for name in line[1].split(", "))
    return "\n\n".join(_sheet(metric) for module in modules for metric in module.METRICS)


def _table(header: list[str], body: list[list[str]]) -> str:
    return markdown_table(header, body).rstrip("\n")


def _range(metric: Metric) -> str:
    low, high = metric.bounds
    if np.isinf(low):
        return f"up to {high:g}"
    return f"{low:g} upwards" if np.isinf(high) else f"{low:g} to {high:g}"


def _sheet(metric: Metric) -> str:
    card = cards()[metric.name]
    return f"""<a id="{metric.name}"></a>

### {metric.title}, `{metric.name}`

{metric.about}

- **Source.** {metric.source}
- **Range.** {_range(metric)}; {metric.better} is better
- **Cost.** {metric.cost}
- **A random map gets** {metric.chance}
- **Limitations.** {metric.criticism}
- **Card.** {card.phrase[0].upper()}{card.phrase[1:]}. {" ".join(card.cautions())}"""


if __name__ == "__main__":
    main()
