"""Explain the networks of ``networks.py`` by PyTorch's libraries, with the weights that ``networks.write`` wrote.

``torch_maps.py FOLDER TARGET`` writes ``TARGET/NAME.npz`` with the scores and maps of each network, channels last, and
``TARGET/record.json`` with errors and versions. Of a random cell there are ``REPEATS`` maps of each input in a row.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import pathlib
import sys
import types as modules
import warnings

# zennit's part on torchvision's networks is not needed, and torchvision often does not fit a PyTorch without CUDA.
sys.modules["zennit.torchvision"] = modules.ModuleType("zennit.torchvision")

import captum.attr as captum  # noqa: E402
import numpy as np  # noqa: E402
import pytorch_grad_cam as grad_cam  # noqa: E402
import shap  # noqa: E402
import torch  # noqa: E402
import zennit.attribution as zennit  # noqa: E402
import zennit.composites as composites  # noqa: E402
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget  # noqa: E402
from torch import nn  # noqa: E402

REPEATS = 200  # of a random cell
PACKAGES = ("captum", "zennit", "grad-cam", "shap", "torch", "numpy")


class Network(nn.Sequential):
    """Layers in a row, flattened before the dense ones without a module, for which captum's LRP has no rule."""

    def forward(self, x):
        """Return the scores."""
        for layer in self:
            x = layer(x.flatten(1) if isinstance(layer, nn.Linear) else x)
        return x


def network_of(file):
    """Return the network in PyTorch, and its last ReLU before the head (``None`` without convolutions)."""
    weights = [torch.from_numpy(file[key]) for key in sorted(file.files) if key.startswith("weight_")]
    layers, kinds, last = [], json.loads(str(file["layers"])), None
    for before, kind in zip([None, *kinds], kinds, strict=False):
        if kind in ("flatten", "global"):
            last = layers[-1]
        if kind == "dense":
            layers.append(_dense(weights, before == "flatten"))
        elif kind != "flatten":  # the network flattens without a module
            layers.append(_LAYERS[kind](weights))
    return Network(*layers).eval(), last


def _dense(weights, of_flat):
    kernel, bias = weights.pop(0), weights.pop(0)
    if of_flat:  # Keras flattens with channels last
        side = round((kernel.shape[0] / 8) ** 0.5)
        kernel = kernel.reshape(side, side, 8, -1).permute(2, 0, 1, 3).flatten(0, 2)
    return _filled(nn.Linear(*kernel.shape), weight=kernel.T, bias=bias)


def _convolution(weights):
    kernel, bias = weights.pop(0), weights.pop(0)
    side, _, channels, filters = kernel.shape
    return _filled(nn.Conv2d(channels, filters, side), weight=kernel.permute(3, 2, 0, 1), bias=bias)


def _normalization(weights):
    values = {name: weights.pop(0) for name in ("weight", "bias", "running_mean", "running_var")}
    return _filled(nn.BatchNorm2d(len(values["bias"]), eps=1e-3), **values)


def _filled(layer, **values):
    for name, value in values.items():
        getattr(layer, name).data = value.contiguous()
    return layer


_LAYERS = {
    "conv": _convolution,
    "norm": _normalization,
    "relu": lambda _: nn.ReLU(),
    "max": lambda _: nn.MaxPool2d(2),
    "average": lambda _: nn.AvgPool2d(2),
    "global": lambda _: nn.AdaptiveAvgPool2d(1),
}


def captum_cells(network, layer, x, targets, references):
    """Return captum's cells as functions."""
    saliency, images = captum.Saliency(network), x.ndim == 4
    many, of_many = x.repeat_interleave(REPEATS, 0), targets.repeat_interleave(REPEATS)
    positions = torch.arange(x[0, 0].numel() if images else x.shape[1]).reshape(1, *(x.shape[2:] if images else (-1,)))

    def noisy(kind):
        return captum.NoiseTunnel(saliency).attribute(many, nt_type=kind, target=of_many)

    def plain(kind, *arguments):
        return lambda: kind(network, *arguments).attribute(x, target=targets)

    def kernel():  # one input at a time, which captum's distributions need
        method = captum.KernelShap(network)
        return torch.cat([method.attribute(row[None], target=int(t)) for row, t in zip(many, of_many, strict=True)])

    def permutations():  # all inputs of a call share them
        method = captum.ShapleyValueSampling(network)
        return torch.stack([method.attribute(x, target=targets) for _ in range(REPEATS)], 1).flatten(0, 1)

    cells = {
        "gradient": plain(captum.Saliency),
        "gradient_x_input": plain(captum.InputXGradient),
        "integrated_gradients": plain(captum.IntegratedGradients),
        "smoothgrad": lambda: noisy("smoothgrad"),
        "smoothgrad_squared": lambda: noisy("smoothgrad_sq"),
        "vargrad": lambda: noisy("vargrad"),
        "expected_gradients": lambda: captum.GradientShap(network).attribute(many, references, target=of_many),
        "guided_backprop": plain(captum.GuidedBackprop),
        "deconvnet": plain(captum.Deconvolution),
        "lrp_epsilon": plain(captum.LRP),
        "deeplift": plain(captum.DeepLift),
        "occlusion": lambda: captum.Occlusion(network).attribute(x, (3, 4, 4) if images else (2,), target=targets),
        "feature_ablation": lambda: captum.FeatureAblation(network).attribute(
            x, target=targets, feature_mask=positions if not images else positions[None].expand(1, x.shape[1], -1, -1)
        ),
    }
    if images:
        cells["grad_cam"] = lambda: captum.LayerGradCam(network, layer).attribute(x, targets)
        cells["guided_grad_cam"] = plain(captum.GuidedGradCam, layer)
    else:
        cells["shapley_sampling"] = permutations
        cells["kernel_shap"] = kernel
    return {f"{name}@captum": cell for name, cell in cells.items()}


def zennit_cells(network, x, targets):
    """Return zennit's cells as functions; relevance starts as in its documentation, as ones at the targets."""
    classes = network(x[:1]).shape[1]

    def run(kind, composite=None, repeats=1, weight=lambda ones: ones, **options):
        ones = torch.eye(classes)[targets.repeat_interleave(repeats)]
        with kind(network, composite, **options) as attributor:
            return attributor(x.repeat_interleave(repeats, 0), weight(ones))[1]

    def relevance(kind, **options):
        return lambda: run(zennit.Gradient, getattr(composites, kind)(**options))

    sides = (4,) * max(x.ndim - 2, 1)
    ends = {"low": torch.zeros_like(x), "high": torch.ones_like(x)}
    cells = {
        "gradient": lambda: run(zennit.Gradient),
        "smoothgrad": lambda: run(zennit.SmoothGrad, repeats=REPEATS),
        "integrated_gradients": lambda: run(zennit.IntegratedGradients),
        "lrp_epsilon_plus": relevance("EpsilonPlus"),
        "lrp_epsilon_alpha2beta1": relevance("EpsilonAlpha2Beta1"),
        "lrp_epsilon_gamma_box": relevance("EpsilonGammaBox", **ends),
        "lrp_epsilon_plus_flat": relevance("EpsilonPlusFlat"),
        "guided_backprop": relevance("GuidedBackprop"),
        "deconvnet": relevance("DeconvNet"),
        "excitation_backprop": relevance("ExcitationBackprop"),
        "occlusion": lambda: run(
            zennit.Occlusion, weight=lambda ones: lambda scores: scores * ones, window=sides, stride=sides
        ),
    }
    return {f"{name}@zennit": cell for name, cell in cells.items()}


_CAMS = {
    "grad_cam": "GradCAM",
    "grad_cam_plus_plus": "GradCAMPlusPlus",
    "xgrad_cam": "XGradCAM",
    "layer_cam": "LayerCAM",
    "hires_cam": "HiResCAM",
    "eigen_cam": "EigenCAM",
    "score_cam": "ScoreCAM",
    "ablation_cam": "AblationCAM",
    "full_grad": "FullGrad",
}


def grad_cam_cells(network, layer, x, targets):
    """Return grad-cam's cells as functions."""
    classes = [ClassifierOutputTarget(int(target)) for target in targets]

    def run(name):
        with getattr(grad_cam, name)(network, [] if name == "FullGrad" else [layer]) as cam:
            return torch.from_numpy(cam(x, classes))

    return {f"{name}@pytorch_grad_cam": lambda kind=kind: run(kind) for name, kind in _CAMS.items()}


def shap_cells(network, x, targets, references):
    """Return shap's cells as functions."""
    rows = range(len(x))

    def at_targets(values):
        return torch.from_numpy(np.stack([values[row, ..., targets[row]] for row in rows]))

    def gradient():
        explainer = shap.GradientExplainer(network, references)
        rounds = [at_targets(explainer.shap_values(x, rseed=seed)) for seed in range(30 if x.ndim == 4 else REPEATS)]
        return torch.stack(rounds, 1).flatten(0, 1)

    def deep():
        return at_targets(shap.DeepExplainer(network, references).shap_values(x, check_additivity=False))

    def kernel():
        def score(rows):
            return network(torch.from_numpy(rows.astype(np.float32))).detach().numpy()

        return at_targets(shap.KernelExplainer(score, references.numpy()).shap_values(x.numpy(), silent=True))

    cells = {"expected_gradients@shap": gradient, "deeplift@shap": deep}
    return cells if x.ndim == 4 else {**cells, "kernel_shap@shap": kernel}


def cells_of(file):
    """Return a network's scores and maps as functions."""
    x, targets, references = (torch.from_numpy(file[name]) for name in ("x", "targets", "references"))
    images = x.ndim == 4
    if images:
        x, references = (values.permute(0, 3, 1, 2).contiguous() for values in (x, references))
    network, layer = network_of(file)
    cells = captum_cells(network, layer, x, targets, references) | zennit_cells(network, x, targets)
    cells |= grad_cam_cells(network, layer, x, targets) if images else {}
    cells |= shap_cells(network, x, targets, references)
    return {name: functools.partial(_run, cell) for name, cell in {"scores": lambda: network(x), **cells}.items()}


def _run(cell):
    """Return the maps of a cell, channels last."""
    torch.manual_seed(0)
    found = cell().detach()
    return (found.movedim(1, -1) if found.ndim == 4 else found).numpy()


def main():
    """Run the cells of every network in a folder."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder, target = map(pathlib.Path, sys.argv[1:3])
    target.mkdir(exist_ok=True)
    errors = {}
    for path in sorted(folder.glob("*.npz")):
        maps = {}
        for name, cell in cells_of(np.load(path)).items():
            np.random.seed(0)  # noqa: NPY002, which libraries read
            try:
                maps[name] = np.asarray(cell())
            except Exception as error:
                errors[f"{path.stem} {name}"] = " ".join(f"{type(error).__name__}: {error}".split())
        np.savez(target / path.name, **maps)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    (target / "record.json").write_text(json.dumps({"versions": versions, "errors": errors}, indent=1))


if __name__ == "__main__":
    main()
