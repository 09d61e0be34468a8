"""Write docs/methods.md from the method cards of the registry.

python tools/docs/document_methods.py

Cost: under 1 CPU second.
"""

import inspect
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.methods.method import Method  # noqa: E402
from attribution.methods.registry import METHODS  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "methods.md"), "file to write", flag_values=FLAGS)

HEAD = ROOT / "tools" / "docs" / "methods_head.md"  # its lines "{methods of: a family, another}" become tables


def page() -> str:
    """Return the methods grouped by idea, and the method cards, as a Markdown page."""
    ordered: list[Method] = []

    def table(line: re.Match[str]) -> str:
        methods = [method for method in METHODS.values() if method.family in line[1].split(", ")]
        ordered.extend(methods)
        rows = [f"| [`{one.name}`](#{one.name.replace('.', '')}) | {one.title} | {one.card.cost} |" for one in methods]
        return "\n".join(["| name | method | cost |", "|---|---|---|", *rows])

    head = re.sub(r"^{methods of: (.+)}$", table, HEAD.read_text("utf-8"), flags=re.MULTILINE)
    if len(ordered) < len(METHODS):
        raise ValueError(f"{HEAD.name} lacks the families of {sorted(set(METHODS) - {one.name for one in ordered})}")
    return "".join([head, *map(section, ordered)])


def section(method: Method) -> str:
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


def main(values):
    """Write the page."""
    pathlib.Path(values.output).write_text(page())


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
