"""Explain the transformers of ``networks.py`` by LXT; see ``run_cells.py``.

``lxt.explicit`` has functions with a rule for their backward pass, ``lxt.efficient`` changes gradients, which are then
multiplied by the input.
"""

import functools
import sys
import unittest.mock

# The parts on torchvision's networks are not needed, and torchvision often does not fit a PyTorch without CUDA.
sys.modules |= {name: unittest.mock.Mock() for name in ("lxt.efficient.models", "zennit.torchvision")}

import lxt.efficient.patches as efficient  # noqa: E402
import lxt.explicit.functional as explicit  # noqa: E402
import lxt.explicit.rules as rules  # noqa: E402
import run_cells  # noqa: E402
import torch  # noqa: E402
from lxt.efficient.rules import divide_gradient, identity_rule_implicit, stop_gradient  # noqa: E402
from torch.nn import functional  # noqa: E402


def _scaled(query):
    return query * query.shape[-1] ** -0.5


class Explicit:
    """Operations with their rule."""

    linear, product, add, multiply = explicit.linear_epsilon, explicit.matmul, explicit.add2, explicit.mul2
    softmax = functools.partial(explicit.softmax, dim=-1)
    activation = staticmethod(rules.identity)

    @staticmethod
    def attend(query, key, value):
        """Return query, key and value; a division of the query alone would divide its relevance."""
        return explicit.mul2(query, query.shape[-1] ** -0.5), key, value

    @staticmethod
    def mean(x):
        """Return the mean over tokens."""
        return explicit.mean(x, 1, False)

    @staticmethod
    def norm(x, weight, bias):
        """Return the normalized tokens."""
        return explicit.layer_norm(x, weight, bias, 1e-3)

    @staticmethod
    def maps(x, start):
        """Return the relevance of the input, which is its gradient."""
        return torch.autograd.grad(start, x, start.detach())[0]


class Efficient(Explicit):
    """Operations whose gradient times the input is their relevance."""

    linear, product, add = functional.linear, torch.matmul, torch.add
    softmax = functools.partial(torch.softmax, dim=-1)
    activation = staticmethod(identity_rule_implicit)

    @staticmethod
    def attend(query, key, value):
        """Return query, key and value with the factors of ``patch_attention``."""
        return divide_gradient(_scaled(query), 4), divide_gradient(key, 4), divide_gradient(value, 2)

    @staticmethod
    def multiply(gate, value):
        """Return the product of a gate and a value, as ``gated_mlp_forward``."""
        return divide_gradient(gate * value, 2)

    @staticmethod
    def mean(x):
        """Return the mean over tokens."""
        return x.mean(1)

    @staticmethod
    def norm(x, weight, bias):
        """Return the normalized tokens, by ``layer_norm_forward``."""
        layer = torch.nn.LayerNorm(x.shape[-1], eps=1e-3)
        layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
        return efficient.layer_norm_forward(layer, x)

    @staticmethod
    def maps(x, start):
        """Return the input times its gradient."""
        return x * torch.autograd.grad(start.sum(), x)[0]


class Conservative(Efficient):
    """Operations of CP-LRP: nothing passes a softmax or a gate."""

    @staticmethod
    def attend(query, key, value):
        """Return query, key and value, as ``cp_wrap_attention_forward``."""
        return stop_gradient(_scaled(query)), stop_gradient(key), value

    @staticmethod
    def multiply(gate, value):
        """Return the product of a gate and a value, as ``cp_gated_mlp_forward``."""
        return stop_gradient(gate) * value


def cells_of(file):
    """Return the cells of a transformer; of other networks none."""
    x, targets = torch.from_numpy(file["x"]), torch.from_numpy(file["targets"])
    if x.ndim != 3:
        return {}

    def run(operations):
        given = x.clone().requires_grad_()
        return operations.maps(given, _scores(operations, file, given)[range(len(x)), targets]).detach().numpy()

    cells = {"lrp_attn": Efficient, "lrp_attn_explicit": Explicit, "lrp_cp": Conservative}
    known = {f"{name}@lxt": functools.partial(run, operations) for name, operations in cells.items()}
    return {"scores": lambda: _scores(Explicit, file, x).numpy()} | known


def _scores(operations, file, x):
    """Return the scores of tokens (N, T, C), whose gradients have the rules of some operations."""
    kinds, taken = run_cells.layers_and_weights(file)

    def linear(x):
        kernel, bias = map(torch.from_numpy, taken(2))
        return operations.linear(x, kernel.T, bias)

    def attention(x):
        query, key, value = operations.attend(*linear(x).chunk(3, -1))
        shares = operations.softmax(operations.product(query, key.transpose(1, 2)))
        return operations.add(x, linear(operations.product(shares, value)))

    def gates(x):
        gate, value = linear(x).chunk(2, -1)
        return operations.add(x, linear(operations.multiply(operations.activation(functional.silu, gate), value)))

    applied = {
        "attention": attention,
        "gates": gates,
        "dense": linear,
        "layer_norm": lambda x: operations.norm(x, *map(torch.from_numpy, taken(2))),
        "gelu": lambda x: operations.activation(functional.gelu, x),
        "relu": lambda x: operations.activation(functional.relu, x),
        "mean": operations.mean,
    }
    for kind in kinds:
        x = applied[kind](x)
    return x


if __name__ == "__main__":
    run_cells.main(cells_of, ["lxt"])
