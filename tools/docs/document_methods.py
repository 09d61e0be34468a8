"""Write docs/methods.md from the method cards of the registry.

python tools/docs/document_methods.py

Cost: under 1 CPU second.
"""

import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.methods.method import Method  # noqa: E402
from attribution.methods.registry import METHODS  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "methods.md"), "file to write", flag_values=FLAGS)

HEAD = """# Attribution methods

Generated from `attribution/methods/registry.py` by `python tools/docs/document_methods.py`; do not edit.

F is a forward pass of the model, G a forward and backward pass down to the input (about 2.6 F). Every method explains
the score for which the model was loaded (`load_model(..., score="logits" or "probabilities")`) of the target class, by
default the predicted one.

Methods named after a library are that library's code, for comparison; their weaknesses list the differences from the
methods that they are named after.

Shapley sampling, KernelSHAP and LIME keep or remove groups of positions, and so do occlusion and RISE where `groups` is
given. `groups="features"` makes every position a group; `"patches"`, patches of an eighth of each axis;
`"superpixels"`, SLIC's segments of an image; an array of whole numbers of the positions' shape, one for each input or
the same for all, one group of equal numbers. `groups=None` is, for the first three, every feature of a vector, and
patches in signals and images. With `groups=np.array([0, 1, 1, 1, 2])` the three columns of a one-hot code are explained
as one feature: `attribution.explain("kernel_shap", model, table, groups=...)`. The first three divide a group's value
evenly among its positions; occlusion and RISE give it to each of them.

"Sum of a map" is the required sum of a map's values, where the method has such a law. The residual is the actual sum
minus that; relative to |f(x) - f(baseline)|, but at least 0.01 % of the greater of the two scores, or to the logit for
LRP. With `maps, residuals = attribution.explain(..., return_residuals=True)` it is `residuals.absolute` and
`residuals.relative`; `residuals` is `None` where a method has no law. `python -m attribution.explain` prints the
relative residual and warns above 5 %. Integrated Gradients miss the sum with too few points. LRP misses it by design
where biases take relevance: positive ones under z+, all under ε, none under z^B. So do ε, sums of negative values under
z+ and, in a network with several inputs, those that are not explained. The residual is then the part of the logit that
the map does not explain. Under ε, without biases, it is rounding error.

| name | method | cost |
|---|---|---|
"""


def page() -> str:
    """Return the method cards of all methods as a Markdown page."""
    rows = [
        f"| [`{name}`](#{name.replace('.', '')}) | {method.title} | {method.card.cost} |\n"
        for name, method in METHODS.items()
    ]
    return HEAD + "".join([*rows, *map(section, METHODS.values())])


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
