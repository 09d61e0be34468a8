"""PyTorch's side of ``oracles.py``: the same networks from the same weights, explained by zennit, captum or a formula.

Run by ``oracles.py`` in an environment of its own, with the folder of weights as its argument. Maps go back with
channels last.
"""

from __future__ import annotations

import pathlib
import sys
import types as modules

# zennit's part on torchvision's networks is not needed, and torchvision often does not fit a PyTorch without CUDA.
sys.modules["zennit.torchvision"] = modules.ModuleType("zennit.torchvision")

import captum.attr  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import zennit.attribution  # noqa: E402
import zennit.composites  # noqa: E402
import zennit.core  # noqa: E402
import zennit.rules  # noqa: E402
import zennit.types  # noqa: E402
from captum._utils.models.linear_model import SkLearnLinearRegression  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from zennit.canonizers import SequentialMergeBatchNorm  # noqa: E402
from zennit.layer import Sum  # noqa: E402

EPSILON = 1e-3


class Residual(nn.Module):
    """Two ways that end in one sum."""

    def __init__(self, main, shortcut):
        super().__init__()
        self.shortcut, self.main, self.sum = shortcut, main, Sum()

    def forward(self, x):
        return self.sum(torch.stack([self.main(x), self.shortcut(x)], dim=-1))


def convolution(weights, padding=0):
    """Take a convolution and its batch normalization from the weights, in Keras' order."""
    kernel, bias = (torch.from_numpy(weights.pop(0)) for _ in range(2))
    layer = nn.Conv2d(kernel.shape[2], kernel.shape[3], kernel.shape[0], padding=padding)
    layer.weight.data, layer.bias.data = kernel.permute(3, 2, 0, 1).contiguous(), bias
    return layer


def normalization(weights):
    """Take a batch normalization from the weights."""
    layer = nn.BatchNorm2d(len(weights[0]), eps=0)
    layer.weight.data, layer.bias.data, layer.running_mean, layer.running_var = (
        torch.from_numpy(weights.pop(0)) for _ in range(4)
    )
    # Keras' ε belongs to the variance: zennit leaves a layer's own ε in force after it has merged the layer, with a
    # variance of 1, which would scale by 1 / sqrt(1.001).
    layer.running_var += 1e-3
    return layer


def dense(weights):
    """Take a dense layer from the weights."""
    kernel, bias = (torch.from_numpy(weights.pop(0)) for _ in range(2))
    layer = nn.Linear(*kernel.shape)
    layer.weight.data, layer.bias.data = kernel.T.contiguous(), bias
    return layer


def mlp(weights):
    """Return the multi-layer perceptron."""
    return nn.Sequential(dense(weights), nn.ReLU(), dense(weights), nn.ReLU(), dense(weights))


def linear(weights):
    """Return one dense layer."""
    return nn.Sequential(dense(weights))


def table(weights):
    """Return the perceptron of a table's five columns."""
    return nn.Sequential(dense(weights), nn.Tanh(), dense(weights))


def cnn(weights):
    """Return the network of two convolutions with batch normalization."""
    first = [convolution(weights), normalization(weights), nn.ReLU(), nn.MaxPool2d(2)]
    second = [convolution(weights), normalization(weights), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.AdaptiveAvgPool2d(1), nn.Flatten(), dense(weights))


def residual(weights):
    """Return the network with one residual block."""
    stem = [convolution(weights), normalization(weights), nn.ReLU()]
    first = [convolution(weights, 1), normalization(weights), nn.ReLU()]
    # Keras lists layers by their depth: both last convolutions, then both last normalizations.
    main, shortcut = convolution(weights, 1), convolution(weights)
    block = Residual(
        nn.Sequential(*first, main, normalization(weights)), nn.Sequential(shortcut, normalization(weights))
    )
    return nn.Sequential(*stem, block, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), dense(weights))


def one_hot(scores, target):
    """Return ones at the target."""
    return torch.nn.functional.one_hot(torch.full((len(scores),), target), scores.shape[1]).float()


def by_zennit(network, x, target, composite, start=None):
    """Return the relevance of a composite, or of a map from kinds of layers to rules."""
    if isinstance(composite, list):
        composite = zennit.composites.LayerMapComposite(composite, canonizers=[SequentialMergeBatchNorm()])

    def output(scores):
        return one_hot(scores, target) * (scores.detach() if start is None else start)

    with zennit.attribution.Gradient(network, composite) as attributor:
        return attributor(x.clone(), output)[1]


def composites_of(epsilon):
    """Return zennit's composites, or maps from kinds of layers to rules, by name."""
    rules, types = zennit.rules, zennit.types
    pass_on = [(types.Activation, rules.Pass()), (Sum, rules.Norm()), (types.AvgPool, rules.Norm())]
    same_epsilon = [(types.Activation, rules.Pass()), *((kind, rules.Norm(epsilon)) for kind in (Sum, types.AvgPool))]
    plus, gamma = rules.ZPlus(stabilizer=1e-6), rules.Gamma(0.25)
    excitation = rules.ZPlus(stabilizer=1e-9, zero_params="bias")
    return {
        "epsilon": [*same_epsilon, (types.Linear, rules.Epsilon(epsilon))],
        "epsilon_plus": [*pass_on, (types.Convolution, plus), (nn.Linear, rules.Epsilon(1e-6))],
        "z_plus": [*pass_on, (types.Linear, plus)],
        "gamma": [*pass_on, (types.Linear, gamma)],
        "excitation": [*pass_on, (types.Linear, excitation)],
        "epsilon_plus_flat": zennit.composites.EpsilonPlusFlat(canonizers=[SequentialMergeBatchNorm()]),
    }


def explained_by_libraries(network, x, target, epsilon):
    """Return captum's and zennit's maps."""
    maps = {
        "gradient": captum.attr.Saliency(network).attribute(x, target, abs=False),
        "gradient_x_input": captum.attr.InputXGradient(network).attribute(x, target),
        **{
            name: by_zennit(network, x, target, composite, 1.0 if name == "excitation" else None)
            for name, composite in composites_of(epsilon).items()
        },
        "guided_backprop": captum.attr.GuidedBackprop(network).attribute(x, target),
        "deconvnet": captum.attr.Deconvolution(network).attribute(x, target),
    }
    if x.ndim == 4:
        ends = {"low": torch.zeros_like(x), "high": torch.ones_like(x)}
        box = zennit.composites.EpsilonGammaBox(**ends, canonizers=[SequentialMergeBatchNorm()])
        maps["epsilon_gamma_box"] = by_zennit(network, x, target, box)
        maps["full_grad"] = full_grad(network, x, target)
        patches = torch.arange(12) // 4
        groups = (3 * patches[:, None] + patches).expand(1, 3, 12, 12)
        maps["ablation"] = captum.attr.FeatureAblation(network).attribute(x, target=target, feature_mask=groups)[:, 0]
    return maps


def full_grad(network, x, target):
    """Return FullGrad's map by the formula of the paper, with the rescaling of the authors' code."""
    found = [(x.clone().requires_grad_(), None)]

    def note(layer, _, output):
        bias = layer.bias
        if isinstance(layer, nn.BatchNorm2d):
            bias = bias - layer.running_mean * layer.weight / torch.sqrt(layer.running_var + layer.eps)
        found.append((output, bias[:, None, None]))

    kinds = (nn.Conv2d, nn.BatchNorm2d)
    handles = [layer.register_forward_hook(note) for layer in network.modules() if isinstance(layer, kinds)]
    score = network(found[0][0])[:, target].sum()
    for handle in handles:
        handle.remove()
    gradients = torch.autograd.grad(score, [values for values, _ in found])
    total = torch.zeros(len(x), *x.shape[2:])
    for gradient, (values, bias) in zip(gradients, found, strict=True):
        size = (gradient * (values if bias is None else bias)).abs()
        low, high = size.amin((1, 2, 3), keepdim=True), size.amax((1, 2, 3), keepdim=True)
        total += functional.interpolate((size - low) / (high - low), x.shape[2:], mode="bilinear").sum(1)
    return total


def explained_by_scores(network, x, target):
    """Return captum's maps of a table: Shapley values by all orders, and samples that suffice for a linear network."""
    attr, words = captum.attr, torch.tensor([[0, 0, 1, 2, 3]])
    maps = {"shapley": attr.ShapleyValues(network).attribute(x, target=target)}
    shared = attr.ShapleyValues(network).attribute(x, target=target, feature_mask=words)
    maps["shapley_of_groups"] = shared / torch.tensor([2, 2, 1, 1, 1])  # there each feature has its group's value
    maps["ablation"] = attr.FeatureAblation(network).attribute(x, target=target, feature_mask=words)
    if len(network) == 1:
        maps["sampling"] = attr.ShapleyValueSampling(network).attribute(x, target=target, n_samples=5)
        # captum's distributions need a row at a time.
        lime = attr.Lime(network, SkLearnLinearRegression())
        for name, method in (("kernel_shap", attr.KernelShap(network)), ("lime", lime)):
            maps[name] = torch.cat([method.attribute(row[None], target=target, n_samples=200) for row in x])
    return maps


class Transformer(nn.Module):
    """One block of a vision transformer from Keras' weights."""

    def __init__(self, weights):
        super().__init__()
        w = [torch.from_numpy(weight) for weight in weights]
        self.patches, self.first_norm, self.second_norm = w[:2], w[2:4], w[12:14]
        self.query, self.key, self.value, self.mix = w[4:6], w[6:8], w[8:10], w[10:12]
        self.up, self.down, self.last_norm, self.head = w[14:16], w[16:18], w[18:20], w[20:22]

    def double_precision(self):
        """Return this block in float64: what an oracle of cancelling terms needs."""
        for name, value in vars(self).items():
            if isinstance(value, list):
                setattr(self, name, [one.double() for one in value])
        return self

    @staticmethod
    def norm(x, parameters, constant=lambda t: t):
        """Layer normalization whose denominator may be held constant."""
        mean = x.mean(-1, keepdim=True)
        deviation = torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
        return (x - mean) / constant(deviation) * parameters[0] + parameters[1]

    def heads(self, y, parameters):
        """Project tokens to heads, (N, T, 8) -> (N, T, 2, 4)."""
        return torch.einsum("ntd,dhk->nthk", y, parameters[0]) + parameters[1]

    def embed(self, x):
        """Return the tokens of an image with channels last."""
        return functional.conv2d(
            x.permute(0, 3, 1, 2), self.patches[0].permute(3, 2, 0, 1), self.patches[1], stride=4
        ).permute(0, 2, 3, 1).reshape(len(x), 4, 8)  # fmt: skip

    def forward(self, x, constant=lambda t: t):
        """Return the scores."""
        x = self.embed(x)
        y = self.norm(x, self.first_norm, constant)
        query, key, value = (self.heads(y, one) for one in (self.query, self.key, self.value))
        attention = torch.softmax(torch.einsum("nthk,nshk->nhts", query / 2, key), -1)
        mixed = torch.einsum("nhts,nshk->nthk", constant(attention), value)
        x = x + torch.einsum("nthk,hkd->ntd", mixed, self.mix[0]) + self.mix[1]
        y = self.norm(x, self.second_norm, constant) @ self.up[0] + self.up[1]
        y = y * constant(0.5 * (1 + torch.erf(y / 2**0.5)))
        x = x + y @ self.down[0] + self.down[1]
        return self.norm(x, self.last_norm, constant).mean(1) @ self.head[0] + self.head[1]


def explained_by_gradients(network, x, target):
    """Return the transformer's maps."""
    variable = x.clone().requires_grad_()
    score = network(variable, lambda t: t.detach())[:, target].sum()
    return {
        "gradient": captum.attr.Saliency(network).attribute(x, target, abs=False),
        "detached": x * torch.autograd.grad(score, variable)[0],
    }


def channels_last(maps, images):
    """Return maps of images with their channels last; those without channels are left alone."""
    return maps.permute(0, 2, 3, 1) if images and maps.ndim == 4 else maps


def main(folder):
    """Explain each network and write its maps."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for build in (linear, table, mlp, cnn, residual, Transformer):
        name = build.__name__.lower()
        file = np.load(folder / f"{name}.npz")
        weights = [file[key] for key in sorted(file.files) if key.startswith("weight_")]
        x, target = torch.from_numpy(file["x"]), int(file["target"])
        images = x.ndim == 4 and build is not Transformer
        if images:
            x = x.permute(0, 3, 1, 2).contiguous()
        network = build(weights).eval()
        scores = network(x).detach()
        if build is Transformer:
            maps = explained_by_gradients(network.double_precision(), x.double(), target)
        elif build in (linear, table):
            maps = explained_by_scores(network, x, target)
        else:
            maps = explained_by_libraries(network, x, target, 1e-6 if build is residual else EPSILON)
        maps = {key: channels_last(value, images).detach().numpy() for key, value in maps.items()}
        np.savez(folder / f"{name}_oracle.npz", scores=scores.numpy(), **maps)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
