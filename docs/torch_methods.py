"""Methods of captum, zennit, grad-cam and LXT as functions of a network, inputs and classes; see ``pytorch.md``.

    attribution-benchmarks svea --methods=torch:docs/torch_methods.py:captum_integrated_gradients

scores the first of them. A file needs no more than one such function.
"""

import functools
import itertools

import torch
from torch import nn


def captum_integrated_gradients(model, inputs, targets):
    """Take captum's defaults: 50 points of a Gauss-Legendre quadrature, from 0."""
    from captum.attr import IntegratedGradients

    return IntegratedGradients(model).attribute(inputs, target=targets)


def captum_gradient_shap(model, inputs, targets):
    """Draw 50 samples between 0 and the input."""
    from captum.attr import GradientShap

    return GradientShap(model).attribute(inputs, torch.zeros_like(inputs), n_samples=50, target=targets)


captum_gradient_shap.is_random = True


def captum_deeplift(model, inputs, targets):
    """Explain the logits, from 0."""
    from captum.attr import DeepLift

    return DeepLift(model.logits).attribute(inputs, target=targets)


def captum_guided_backprop(model, inputs, targets):
    """Explain the scores."""
    from captum.attr import GuidedBackprop

    return GuidedBackprop(model).attribute(inputs, target=targets)


def captum_occlusion(model, inputs, targets):
    """Cover an eighth of each axis at a time."""
    from captum.attr import Occlusion

    window = (inputs.shape[1], *(-(-size // 8) for size in inputs.shape[2:]))
    return Occlusion(model).attribute(inputs, window, strides=window, target=targets)


def relevance(composite, model, inputs, targets):
    """Return the relevance of the logits by rules of zennit."""
    from zennit.attribution import Gradient

    with Gradient(model.logits, composite) as attributor:
        return attributor(inputs, lambda scores: torch.eye(scores.shape[1])[targets])[1]


def zennit_epsilon_plus(model, inputs, targets):
    """Take z+ in convolutions, ε in dense layers."""
    from zennit.composites import EpsilonPlus

    return relevance(EpsilonPlus(), model, inputs, targets)


def zennit_epsilon_plus_flat(model, inputs, targets):
    """Take z+ in convolutions, ε in dense layers, and equal shares in the first layer."""
    from zennit.composites import EpsilonPlusFlat

    return relevance(EpsilonPlusFlat(), model, inputs, targets)


def zennit_epsilon_alpha2_beta1(model, inputs, targets):
    """Take α2β1 in convolutions, ε in dense layers."""
    from zennit.composites import EpsilonAlpha2Beta1

    return relevance(EpsilonAlpha2Beta1(), model, inputs, targets)


def activation_map(cam, model, inputs, targets):
    """Return the map of the last ReLU before a dense layer by a class of grad-cam; images only."""
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    convolutional = itertools.takewhile(lambda module: not isinstance(module, nn.Linear), model.modules())
    last = [module for module in convolutional if isinstance(module, nn.ReLU)][-1]
    with cam(model, [last]) as found:
        return torch.from_numpy(found(inputs, [ClassifierOutputTarget(target) for target in targets.tolist()]))


def grad_cam(model, inputs, targets):
    """Return Grad-CAM."""
    from pytorch_grad_cam import GradCAM

    return activation_map(GradCAM, model, inputs, targets)


def grad_cam_plus_plus(model, inputs, targets):
    """Return Grad-CAM++."""
    from pytorch_grad_cam import GradCAMPlusPlus

    return activation_map(GradCAMPlusPlus, model, inputs, targets)


def xgrad_cam(model, inputs, targets):
    """Return XGrad-CAM."""
    from pytorch_grad_cam import XGradCAM

    return activation_map(XGradCAM, model, inputs, targets)


def lxt_attn_lrp(model, inputs, targets):
    """Return AttnLRP: of a product each factor gets half, and the divisor of a normalization nothing."""
    from lxt.efficient.patches import layer_norm_forward
    from lxt.efficient.rules import divide_gradient

    def share(module, arguments, output, parts):
        return divide_gradient(output, parts)

    for name, module in model.named_modules():
        parts = {"queries": 4, "keys": 4, "values": 2}.get(name.rpartition(".")[2])
        if parts:
            module.register_forward_hook(functools.partial(share, parts=parts))
        elif isinstance(module, nn.LayerNorm):
            module.forward = functools.partial(layer_norm_forward, module)
    inputs.requires_grad_()
    scores = model(inputs).gather(1, targets[:, None])
    return torch.autograd.grad(scores.sum(), inputs)[0] * inputs


def noisy_gradient(model, inputs, targets):
    """Return the mean gradient at ten noisy copies of one input."""
    inputs = (inputs + 0.1 * torch.randn(10, *inputs.shape[1:])).requires_grad_()
    scores = model(inputs)[:, targets]
    return torch.autograd.grad(scores.sum(), inputs)[0].mean(dim=0, keepdim=True)


noisy_gradient.is_random = True
