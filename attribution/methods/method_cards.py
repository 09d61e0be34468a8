"""The page of all methods, from their method cards."""

from __future__ import annotations

import inspect

from attribution.methods.registry import METHODS


def page() -> str:
    """Return the method cards of all methods as a Markdown page (docs/methods.md)."""
    lines = [
        "# Attribution methods",
        "",
        "Generated from `attribution/methods/registry.py` by `python tools/docs/document_methods.py`; do not edit.",
        "",
        "F is a forward pass of the model, G a forward and backward pass down to the input (about 2.6 F). Every method",
        'explains the score the model was loaded for (`load_model(..., score="logits" or "probabilities")`) of the',
        "target class, by default the predicted one.",
        "",
        "Methods named after a library are that library's code, for comparison; how they differ from the method they",
        "are named after stands under their weaknesses.",
        "",
        "A sheet says what a map must add up to, where the method has such a law. The residual is the sum minus that;",
        "relative to |f(x) - f(baseline)|, but at least 0.01 % of the greater of the two scores, or to the logit for",
        "LRP. With `maps, residuals = attribution.explain(..., return_residuals=True)` it is `residuals.absolute` and",
        "`residuals.relative`; `residuals` is `None` where a method has no law. `python -m attribution.explain` prints",
        "the relative one and warns above 5 %. Integrated Gradients miss the sum with too few points. LRP misses it by",
        "design where biases take relevance: positive ones under z+, all under ε, none under z^B. So do ε itself, sums",
        "of negative values under z+ and, in a network with several inputs, those that are not explained. The residual",
        "is then the part of the logit that the map does not explain. Under ε, without biases, it is rounding.",
        "",
        "| name | method | cost |",
        "|---|---|---|",
        *(
            f"| [`{name}`](#{name.replace('.', '')}) | {method.title} | {method.card.cost} |"
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
            *([f"- **Sum of a map:** {method.sum_law.formula}"] if method.sum_law else []),
            f"- **Needs:** {method.card.requirements}",
            f"- **Cost per input:** {method.card.cost}",
            f"- **Randomness:** {method.card.randomness}",
            f"- **Known weaknesses:** {method.card.weaknesses}",
            f"- **Source:** {method.card.citation}",
        ]
    return "\n".join(lines) + "\n"
