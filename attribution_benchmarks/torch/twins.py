"""PyTorch twins of SavedModels: a network of ``networks`` with a file's variables, compared with the file's scores."""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from attribution.errors import BadInput
from attribution.methods.queries import ModelQueries
from attribution_benchmarks.torch import networks

TOLERANCE = 1e-4  # largest difference of scores, relative to the largest score
ARCHITECTURES: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (  # with their arguments
    *((network, {}) for network in (networks.svea, networks.bim, networks.parts, networks.exact, networks.hand_set)),
    *((network, {}) for network in (networks.tetrominoes, networks.checked, networks.RelationNetwork)),
    *((network, {}) for network in (networks.CrossAttention, networks.VisionTransformer)),
    *((network, {}) for network in (networks.Lstm, networks.Cnn)),
    (networks.checked, {"images": True}),
    (networks.parts, {"residual": True}),
    (networks.Transformer, {"normalized": True, "rotary": False, "cls": True}),
    (networks.Transformer, {"normalized": True, "rotary": True, "cls": False}),
    (networks.Transformer, {"normalized": False, "rotary": False, "cls": False}),
)
_EMBEDDING = (26, 32)  # of sequences, before what is explained
_TWINS: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()  # by file, by score
_SCALE = {"weight": "gamma", "bias": "beta"}
_NAMES: dict[type, dict[str, str]] = {  # of parameters in PyTorch and Keras that have the same shape
    nn.BatchNorm2d: {**_SCALE, "running_mean": "moving_mean", "running_var": "moving_variance"},
    nn.LayerNorm: _SCALE,
    nn.Embedding: {"weight": "embeddings"},
    networks.Transformer: {"positions": "variable"},
    networks.VisionTransformer: {"positions": "table"},
}
_NUMBERED = re.compile(r"(?:conv1d|conv2d|dense|batch_normalization|layer_normalization)_(\d+)/")


def of(queries: ModelQueries) -> tuple[Any, torch.Tensor, torch.Tensor | None]:
    """Return the PyTorch twin of the explained network, the inputs, and the words of questions or sequences.

    The inputs are in PyTorch's layout, float32; the words are ``(N, L)`` int64, or None where there are none.

    Raises
    ------
    BadInput
        If there is no twin, or its scores of the batch differ.
    """
    twin = built(queries.model)
    inputs = np.moveaxis(queries.inputs, -1, 1) if twin.logits.channels_first else queries.inputs
    given = [torch.from_numpy(np.array(inputs, np.float32))]
    given += [torch.from_numpy(array.astype(np.int64)) for array in queries.feed.values() if array.dtype.kind in "iu"]
    try:
        with torch.no_grad():
            scores = twin(*given).numpy()
    except (RuntimeError, TypeError) as error:
        raise BadInput(
            f"the PyTorch twin {twin.code} takes no inputs of shape {queries.inputs.shape[1:]}: {error}"
        ) from error
    difference, largest = np.abs(scores - queries.scores).max(), np.abs(queries.scores).max()
    if not difference <= TOLERANCE * largest:
        raise BadInput(
            f"the PyTorch twin {twin.code} does not compute the scores of '{queries.model.path}': they differ by "
            f"{difference:.1e} of {largest:.1e}; it is not used"
        )
    return twin, given[0], given[1] if len(given) > 1 else None


def built(model: Any) -> Any:
    """Return a model's twin, built once, with its ``code``; raise ``BadInput`` if there is none."""
    known = _TWINS.setdefault(getattr(model, "source", model), {})  # a model's views are many
    if model.score not in known:
        variables = _variables(model)
        for architecture, arguments in ARCHITECTURES:
            with torch.random.fork_rng(devices=[]):
                network: Any = architecture(**arguments)
            if _filled(network, list(variables)):
                given = ", ".join(f"{name}={value}" for name, value in arguments.items())
                code = f"network.{architecture.__name__}({given})"
                if model.score == "probabilities":
                    code, network = f"network.Probabilities({code})", networks.Probabilities(network)
                network.code = code
                known[model.score] = network.eval()
                break
        else:
            raise BadInput(
                f"no PyTorch twin of this network; '{model.path}' is none of the bundled networks of svea, bim, "
                "clevr_xai, parts, sequences, exact, xai_units and xai_tris"
            )
    return known[model.score]


def _variables(model: Any) -> list[tuple[str, np.ndarray]]:
    """Return the names, without their layers', and values of a file's variables, in the order of their layers.

    Keras numbers layers in the order of their definition; a file has them in the order of their use.
    """
    loaded = model.load_file() if hasattr(model, "load_file") else None  # its variables live no longer than it
    found = {variable.ref(): variable for variable in loaded.signatures["serving_default"].variables} if loaded else {}
    ordered = sorted(found.values(), key=lambda each: [int(number) for number in _NUMBERED.findall(each.name)] or [0])
    return [(re.sub(r"(_\d+)?:0$", "", each.name).rpartition("/")[2], _without_heads(each)) for each in ordered]


def _without_heads(variable: Any) -> np.ndarray:
    """Return a variable's values; those of attention without Keras's axis of heads."""
    values = variable.numpy()
    if re.search(r"attention/(query|key|value)/", variable.name):
        return values.reshape(*values.shape[:-2], -1)
    return values.reshape(-1, values.shape[-1]) if "attention_output/kernel" in variable.name else values


def _filled(network: nn.Module, variables: list[tuple[str, np.ndarray]]) -> bool:
    """Give a network the values of variables, and return whether it is theirs: all fit, and none is left."""

    def take(name: str, *shape: int) -> torch.Tensor:
        for place, (known, values) in enumerate(variables):
            if values.shape == shape and known in (name, "Variable"):
                return torch.from_numpy(variables.pop(place)[1].copy())
        raise LookupError(name)

    channels, last = 1, None
    try:
        with torch.no_grad():
            for module in network.modules():
                if isinstance(module, (nn.Conv1d, nn.Conv2d)):
                    channels = module.out_channels
                for name, values in _values_of(module, take, channels if isinstance(last, nn.Flatten) else 1).items():
                    getattr(module, name).copy_(values)
                last = module
    except LookupError:
        return False
    left = [values.shape for _, values in variables]
    return left == ([] if network.channels_first else [_EMBEDDING])


def _values_of(module: nn.Module, take: Callable[..., torch.Tensor], channels: int) -> dict[str, torch.Tensor]:
    """Return the values of a module's own parameters; ``channels`` are those of the values that a module flattened."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Linear)):
        return _of_kernel(module, take, channels)
    if isinstance(module, nn.LSTM):
        return _of_lstm(module, take)
    names = {name: known for name, known in _NAMES.get(type(module), {}).items() if getattr(module, name) is not None}
    return {name: take(known, *getattr(module, name).shape) for name, known in names.items()}


def _of_kernel(module: Any, take: Callable[..., torch.Tensor], channels: int) -> dict[str, torch.Tensor]:
    """Return the values of a layer; log-odds become minus and plus half of them, the logits of two classes."""
    outputs, inputs, *positions = module.weight.shape
    try:
        kernel, doubled = take("kernel", *positions, inputs, outputs), False
    except LookupError:
        kernel, doubled = take("kernel", *positions, inputs, outputs // 2), True
    values = [kernel, *([] if module.bias is None else [take("bias", outputs // 2 if doubled else outputs)])]
    if doubled:
        values = [torch.stack([-each / 2, each / 2], dim=-1).flatten(-2) for each in values]
    if channels > 1:
        values[0] = values[0].unflatten(0, (-1, channels)).transpose(0, 1).flatten(0, 1)  # Keras has channels last
    values[0] = values[0].movedim((-1, -2), (0, 1))
    return dict(zip(("weight", "bias"), values, strict=False))


def _of_lstm(module: nn.LSTM, take: Callable[..., torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the values of an LSTM of Keras, or of the Relation Network's, which adds 1 to its forget gates."""
    gates = 4 * module.hidden_size
    kernel, recurrent = take("kernel", module.input_size, gates), take("recurrent_kernel", module.hidden_size, gates)
    bias, other = take("bias", gates), torch.zeros(gates)
    with contextlib.suppress(LookupError):
        other = take("recurrent_bias", gates)
        other[module.hidden_size : 2 * module.hidden_size] += 1
    return {"weight_ih_l0": kernel.T, "weight_hh_l0": recurrent.T, "bias_ih_l0": bias, "bias_hh_l0": other}


def refuse_rules(model: nn.Module, _: Any) -> None:
    """Refuse hooks of captum's DeepLIFT and of zennit, before a pass through a network that they do not know."""
    hooks = [
        hook for each in model.modules() for hook in (*each._forward_pre_hooks.values(), *each._forward_hooks.values())
    ]
    if any(getattr(hook, "__module__", "").startswith(("captum.attr._core.deep_lift", "zennit.")) for hook in hooks):
        raise BadInput(
            "captum's DeepLIFT and the rules of zennit do not know the products of activations in attention and LSTMs, "
            "so their maps of this network have no meaning; use gradients or occlusion, or this package's deeplift or "
            "lrp_attn"
        )
