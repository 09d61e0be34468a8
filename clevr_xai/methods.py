"""The eleven methods of CLEVR-XAI with the settings of its paper."""

from __future__ import annotations

from collections.abc import Sequence

from attribution import METHODS, Method, resolve_method
from attribution.gradients import MEDIAN
from attribution_benchmarks.command_line import BadInput, listed

STEPS = 300  # of Integrated Gradients' path
SAMPLES = 300  # of SmoothGrad and VarGrad
NOISE = 0.05  # of SmoothGrad and VarGrad, as a share of max - min
BASELINES = {"black": 0.0, "gray": 0.5, "median": MEDIAN}  # of Integrated Gradients; the authors' is not known
BATCH_NORMS = ("pass", "fold")

TITLES = {  # as the paper calls them, in the order of its table
    "lrp_clevr_xai": "LRP",
    "excitation_backprop": "Excitation Backprop",
    "integrated_gradients": "Integrated Gradients",
    "guided_backprop": "Guided Backprop",
    "guided_grad_cam": "Guided Grad-CAM",
    "smoothgrad": "SmoothGrad",
    "vargrad": "VarGrad",
    "gradient": "Gradient",
    "gradient_x_input": "Gradient x Input",
    "deconvnet": "Deconvnet",
    "grad_cam": "Grad-CAM",
}
# They ask for hundreds of gradients; their controls would cost as much again.
COSTLY = ("integrated_gradients", "smoothgrad", "vargrad")


def settings(
    names: Sequence[str],
    steps: int = STEPS,
    samples: int = SAMPLES,
    noise: float = NOISE,
    batch_norm: str = "pass",
    cam_layer: str = "",
    baseline: str = "black",
) -> dict[str, tuple[Method, dict]]:
    """Return methods with their parameters.

    Parameters
    ----------
    names
        Of the registry, or ``module:function``.
    steps
        Of Integrated Gradients: intervals of the path to the image, one less than its gradients.
    samples, noise
        Of SmoothGrad and VarGrad.
    batch_norm
        "pass" or "fold", for LRP and Excitation Backprop; see ``attribution.lrp.Composite``.
    cam_layer
        Layer of Grad-CAM and Guided Grad-CAM; the last convolution's ReLU when empty.
    baseline
        Where the path of Integrated Gradients begins: "black", "gray" (0.5), or "median", the image's own median
        colour.

    Returns
    -------
    dict
        Name -> (method, overrides), in the order given.

    Raises
    ------
    BadInput
        For a name that is no method, and for methods that need a live network.
    """
    if batch_norm not in BATCH_NORMS:
        raise BadInput(f"no batch_norm {batch_norm!r}; choose one of {listed(BATCH_NORMS)}")
    if baseline not in BASELINES:
        raise BadInput(f"no baseline {baseline!r}; choose one of {listed(BASELINES)}")
    layer = {"layer": cam_layer} if cam_layer else {}
    overrides = {
        "lrp_clevr_xai": {"batch_norm": batch_norm},
        "excitation_backprop": {"batch_norm": batch_norm},
        "integrated_gradients": {"points": steps + 1, "baseline": BASELINES[baseline]},
        "smoothgrad": {"samples": samples, "noise": noise},
        "vargrad": {"samples": samples, "noise": noise},
        "grad_cam": layer,
        "guided_grad_cam": layer,
    }
    chosen = {name: (resolve_method(name), overrides.get(name, {})) for name in dict.fromkeys(names)}
    peers = [name for name, (method, _) in chosen.items() if method.library]
    if peers:
        raise BadInput(f"method '{peers[0]}' needs a live Keras network of one input; a Relation Network has two")
    return chosen


def title(name: str) -> str:
    """Return what a method is called in a table; a user's own method keeps its name."""
    return TITLES.get(name) or (METHODS[name].title if name in METHODS else name)
