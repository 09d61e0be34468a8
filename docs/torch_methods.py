"""Methods of captum, zennit, grad-cam and LXT, and one of our own, as functions of a network, inputs and classes.

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
    """Explain the logits by a composite of zennit."""
    from zennit import attribution, composites

    with attribution.Gradient(model.logits, getattr(composites, composite)()) as attributor:
        return attributor(inputs, lambda scores: torch.eye(scores.shape[1])[targets])[1]


zennit_epsilon_plus = functools.partial(relevance, "EpsilonPlus")
zennit_epsilon_plus_flat = functools.partial(relevance, "EpsilonPlusFlat")
zennit_epsilon_alpha2_beta1 = functools.partial(relevance, "EpsilonAlpha2Beta1")


def activation_map(cam, model, inputs, targets):
    """Return the map of the last ReLU before a dense layer by a class of grad-cam; images only."""
    import pytorch_grad_cam
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    convolutional = itertools.takewhile(lambda module: not isinstance(module, nn.Linear), model.modules())
    last = [module for module in convolutional if isinstance(module, nn.ReLU)][-1]
    with getattr(pytorch_grad_cam, cam)(model, [last]) as found:
        return torch.from_numpy(found(inputs, [ClassifierOutputTarget(target) for target in targets.tolist()]))


grad_cam = functools.partial(activation_map, "GradCAM")
grad_cam_plus_plus = functools.partial(activation_map, "GradCAMPlusPlus")
xgrad_cam = functools.partial(activation_map, "XGradCAM")


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
