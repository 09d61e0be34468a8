"""Which methods are variants of one idea: they rank side by side, and near-duplicates would look like agreement.

A family is what shares its signal: what a layer's channels show, the gradient at the input and its averages, the
gradient times the input along a path, relevance passed back by rules, gradients through changed ReLUs, scores of masked
inputs. The test of Kendall's W counts a family once.
"""

from __future__ import annotations

FAMILIES = {
    "class activation": ("grad_cam", "grad_cam_plus_plus", "xgrad_cam", "score_cam", "sise"),
    "gradient": ("gradient", "smoothgrad", "vargrad"),
    "path": (
        "gradient_x_input",
        "integrated_gradients",
        "integrated_gradients_gray",
        "integrated_gradients_median",
    ),
    "relevance": ("lrp", "excitation_backprop"),
    "changed ReLU": ("guided_backprop", "guided_grad_cam", "deconvnet"),
    "masks": ("rise", "occlusion"),
}


def family(method: str) -> str:
    """Return a method's family; the method itself where it has none, as a user's own has.

    Another library's version (``library.method``), a smoothed one (``method_smoothgrad``) and one with a rule
    (``lrp_epsilon``) are of the same family.
    """
    if ":" in method:
        return method
    name = method.rpartition(".")[2].removesuffix("_smoothgrad")
    name = "lrp" if name.startswith("lrp_") else name
    return next((title for title, members in FAMILIES.items() if name in members), method)
