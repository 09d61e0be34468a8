"""The page of all methods, from their fact sheets."""

from __future__ import annotations

import inspect

from attribution.methods import METHODS


def page() -> str:
    """Return the fact sheets of all methods as a Markdown page (docs/methods.md)."""
    lines = [
        "# Attribution methods",
        "",
        "Generated from `attribution/methods.py` by `python scripts/document_methods.py`; do not edit.",
        "",
        "F is a forward pass of the model, G a forward and backward pass down to the input (about 2.6 F). Every method",
        'explains the score the model was loaded for (`load_model(..., score="logits" or "probabilities")`) of the',
        "target class, by default the predicted one.",
        "",
        "Methods named after a library are that library's code, for comparison; how they differ from the method they",
        "are named after stands under their weaknesses.",
        "",
        "| name | method | cost |",
        "|---|---|---|",
        *(
            f"| [`{name}`](#{name.replace('.', '')}) | {method.title} | {method.facts.cost} |"
            for name, method in METHODS.items()
        ),
    ]
    for name, method in METHODS.items():
        defaults = ", ".join(f"`{key}={value!r}`" for key, value in method.defaults.items()) or "none"
        lines += [
            "",
            f"## {name}",
            "",
            inspect.getdoc(method.function).split("\n\n")[0].replace("\n", " "),
            "",
            f"- **Parameters:** {defaults}",
            f"- **Needs:** {method.facts.needs}",
            f"- **Cost per input:** {method.facts.cost}",
            f"- **Randomness:** {method.facts.randomness}",
            f"- **Known weaknesses:** {method.facts.weaknesses}",
            f"- **Source:** {method.facts.citation}",
        ]
    return "\n".join(lines) + "\n"
