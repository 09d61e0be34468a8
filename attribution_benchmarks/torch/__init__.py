"""Methods written in PyTorch, scored on the same networks and inputs as all others.

Such a method is a function ``NAME(model, inputs, targets)`` that returns a tensor of the inputs' shape:

model
    A ``torch.nn.Module`` in evaluation mode that computes the scores of the explained network (``networks``);
    ``model.logits`` computes them before a softmax. Of a question or a sequence it knows the words.
inputs
    ``(N, channels, positions...)`` float32, as PyTorch has them; ``(N, tokens, width)`` embeddings of sequences.
targets
    ``(N,)`` int64: classes to explain.

A function with a fourth parameter, ``words``, gets the words of questions and sequences, ``(N, words)`` int64, and
calls ``model(inputs, words)``; ``words`` is None where there are none. Any other function explains one question at a
time. A function with the attribute ``is_random = True`` gets one input at a time, each with its own seed.

On command lines it is written ``torch:my_method.py:NAME``, in Python ``attribution_benchmarks.torch.method(NAME)``.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, installation
from attribution.methods.queries import ModelQueries
from attribution.methods.registry import Method, as_method, name_of
from attribution.plugins import imported

if TYPE_CHECKING:
    import torch

# Importing Triton after TensorFlow ends the process, and PyTorch imports it where it finds it.
sys.modules.setdefault("triton", None)
PREFIX = "torch:"


def method(function: str | Callable[..., Any]) -> Method:
    """Return a function of a PyTorch network as a method.

    Parameters
    ----------
    function
        A function of ``(model, inputs, targets)``, or its place: ``"my_method.py:NAME"`` or ``"module:NAME"``.

    Raises
    ------
    BadInput
        If PyTorch is not installed, or there is no such function, or it takes other arguments.
    """
    if importlib.util.find_spec("torch") is None:
        raise BadInput(f"a method in PyTorch needs torch, which is not installed: {installation('torch')}")
    name = function if isinstance(function, str) else name_of(function)
    if isinstance(function, str):
        function = imported(function.removeprefix(PREFIX), "method")
    takes_words = False
    try:
        signature = inspect.signature(function)
        takes_words = "words" in signature.parameters
        signature.bind(None, None, None, **({"words": None} if takes_words else {}))
    except TypeError as error:
        raise BadInput(f"method '{name}' cannot be called as NAME(model, inputs, targets): {error}") from error
    except ValueError:  # written in C, without a signature to look at
        pass
    explained: Any = functools.partial(_explained, function, takes_words)
    if hasattr(function, "family"):
        explained.family = function.family
    return as_method(name, explained)


def _explained(function: Callable[..., Any], takes_words: bool, queries: ModelQueries) -> np.ndarray:
    """Return the maps of a batch by a user's function, channels last."""
    import torch

    from attribution_benchmarks.torch import twins

    twin, inputs, words = twins.of(queries)
    targets = torch.from_numpy(queries.targets.astype(np.int64))
    is_random = getattr(function, "is_random", False)
    alone = is_random or (words is not None and not takes_words)
    rows = [slice(row, row + 1) for row in range(len(queries))] if alone else [slice(None)]
    found = []
    with torch.random.fork_rng(devices=[]):
        for row in rows:
            seed = queries.generator(row.start, "torch").integers(2**62) if is_random else queries.seed
            torch.manual_seed(int(seed))
            model, given = copy.deepcopy(twin), {}  # hooks stay with it
            if takes_words:
                given = {"words": None if words is None else words[row].clone()}
            elif words is not None:
                model.forward = functools.partial(_with_words, model.forward, words[row])
            if twin.logits.has_products:
                model.register_forward_pre_hook(twins.refuse_rules)
            maps = function(model, inputs[row].clone(), targets[row].clone(), **given)
            found.append(torch.as_tensor(maps).detach().cpu())
    return _channels_last(torch.cat(found), inputs, twin.logits.channels_first)


def _with_words(forward: Callable[..., torch.Tensor], words: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """Return the scores of inputs with the words of one question or sequence."""
    return forward(inputs, words.expand(len(inputs), -1))


def _channels_last(maps: torch.Tensor, inputs: torch.Tensor, channels_first: bool) -> np.ndarray:
    """Return maps with their channels last; those of one channel for inputs of several have no axis of channels."""
    if channels_first and maps.ndim == inputs.ndim > 2:
        if maps.shape[1] == 1 and inputs.shape[1] != 1:
            maps = maps[:, 0]
        else:
            maps = maps.movedim(1, -1)
    return np.ascontiguousarray(maps.numpy())
