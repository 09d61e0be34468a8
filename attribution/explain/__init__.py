"""``explain``: a method, a model and inputs in, maps out, block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np

from attribution.deprecation import renamed_arguments
from attribution.errors import BadInput
from attribution.explain.user_methods import BrokenContract, called
from attribution.methods import resizing
from attribution.methods.completeness import Residuals
from attribution.methods.method import Method
from attribution.methods.protocols import Inputs, ScoredModel
from attribution.methods.queries import BatchPosition, ModelQueries, RequiredQueries
from attribution.methods.resolve import resolve_method
from attribution.model.input_validation import checked_targets

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Options(TypedDict, total=False):
    """The keyword arguments of ``explain_many``."""

    explain_input: str | None
    batch_size: int
    seed: int
    keys: Sequence[Any] | None
    progress: bool
    resize: bool


@overload
def explain(
    method: Any,
    model: ScoredModel,
    inputs: Inputs,
    targets: Any = ...,
    *,
    return_residuals: Literal[True],
    **options: Any,
) -> tuple[np.ndarray, Residuals | None]: ...
@overload
def explain(method: Any, model: ScoredModel, inputs: Inputs, targets: Any = ..., **options: Any) -> np.ndarray: ...
@renamed_arguments(wrt="explain_input")
def explain(
    method: Any,
    model: ScoredModel,
    inputs: Inputs,
    targets: Any = None,
    *,
    explain_input: str | None = None,
    batch_size: int = 32,
    seed: int = 0,
    keys: Sequence | None = None,
    progress: bool = False,
    resize: bool | None = None,
    return_residuals: bool = False,
    **overrides: Any,
) -> np.ndarray | tuple[np.ndarray, Residuals | None]:
    """Explain a model's scores for some inputs.

    Parameters
    ----------
    method : str or Method or callable
        A name of the registry, ``module:function``, a ``Method``, or a function of one's own that takes
        ``attribution.methods.queries.ModelQueries`` and returns one map per input.
    model : attribution.model.model.Model
        From ``load_model``; it decides whether logits or probabilities are explained.
    inputs
        ``(N, ...)`` array for a model with one input, or a mapping from input name to array.
    targets
        ``(N,)`` int, or one int for all; ``None`` explains each input's predicted class.
    explain_input
        Name of the input to explain, where the model has several of floating point; or of a tensor of floating point
        behind an input, such as an embedding's layer, whose values are explained then. By default a model with a
        single input of whole numbers is explained at the first such tensor behind it.
    batch_size
        Rows in one pass. Passes are filled across inputs and samples; memory grows with this alone.
    seed
        Of all that is drawn at random.
    keys
        N names or indices from which the random numbers of each input derive; by default 0 to N - 1. Give names
        where an input should keep its numbers whatever else is explained with it.
    progress
        Whether to show a progress bar on standard error.
    resize
        ``True``: a map of a layer's resolution, whatever method made it, is resized bilinearly to the input's.
        ``False``: class activation maps keep their layer's resolution. ``None``: each method as it does by default.
    return_residuals
        Whether to return also by how much each map's sum misses what it must be, such as f(x) - f(baseline). It takes
        at most a forward pass at the input and one at each baseline or reference.
    **overrides
        Parameters of the method in place of its defaults.

    Returns
    -------
    maps : np.ndarray
        Float32, ``(N, ...)``: of the input's shape for gradient-like and relevance methods, without the
        channel axis for class activation maps and perturbation methods.
    residuals : attribution.methods.completeness.Residuals or None
        With ``return_residuals``; ``None`` where the method has no law on its sum.

    Raises
    ------
    BadInput
        If anything given does not fit; the message says what would.
    """
    resolved = _resolve(method)
    if resize is not None and "resize" in resolved.defaults:
        overrides["resize"] = resize
    maps, residuals = _explained(
        {resolved.name: (resolved, overrides)},
        model, inputs, targets, explain_input, batch_size, seed, keys, progress, bool(resize), return_residuals,
    )  # fmt: skip
    return (maps[resolved.name], residuals.get(resolved.name)) if return_residuals else maps[resolved.name]


@overload
def explain_many(
    methods: Any,
    model: ScoredModel,
    inputs: Inputs,
    targets: Any = ...,
    *,
    return_residuals: Literal[True],
    **options: Unpack[_Options],
) -> tuple[dict[str, np.ndarray], dict[str, Residuals]]: ...
@overload
def explain_many(
    methods: Any, model: ScoredModel, inputs: Inputs, targets: Any = ..., **options: Unpack[_Options]
) -> dict[str, np.ndarray]: ...
@renamed_arguments(wrt="explain_input")
def explain_many(
    methods: Any,
    model: ScoredModel,
    inputs: Inputs,
    targets: Any = None,
    *,
    explain_input: str | None = None,
    batch_size: int = 32,
    seed: int = 0,
    keys: Sequence | None = None,
    progress: bool = False,
    resize: bool = False,
    return_residuals: bool = False,
) -> dict[str, np.ndarray] | tuple[dict[str, np.ndarray], dict[str, Residuals]]:
    """Explain with several methods without repeating a pass that two of them need.

    One backward pass serves the gradient and every class activation map, one set of noisy gradients
    SmoothGrad and VarGrad, one set of masked inputs Score-CAM and SISE.

    Parameters
    ----------
    methods
        Methods as ``explain`` takes them; or a mapping from any label to a method or to a pair of a method and
        its overrides.
    model, inputs, targets, explain_input, batch_size, seed, keys, progress
        See ``explain``.
    resize
        Whether maps of another resolution than the input's are resized to it, bilinearly.
    return_residuals
        See ``explain``.

    Returns
    -------
    maps : dict[str, np.ndarray]
        Name or label to maps, in the order given; the same bytes as ``explain`` gives one by one.
    residuals : dict[str, attribution.methods.completeness.Residuals]
        With ``return_residuals``: name or label to residuals, of the methods that have a law on their sum.
    """
    found = _explained(
        methods, model, inputs, targets, explain_input, batch_size, seed, keys, progress, resize, return_residuals
    )
    return found if return_residuals else found[0]


def _explained(
    methods, model, inputs, targets, explain_input, batch_size, seed, keys, progress, resize, with_residuals
):
    """Return maps and residuals, the latter empty unless wanted; parameters as in ``explain_many``."""
    chosen = with_parameters(methods)
    feed = model.feed(inputs)
    explained = None
    if hasattr(model, "explaining"):
        explained = model.explaining(feed, explain_input, batch_size)
        model, feed, explain_input = explained.model, explained.feed, explained.explain_input
    else:  # what is served is explained as it is
        explain_input = model.explained_input(explain_input)
    turned = explained is not None and explained.channels_first
    total = len(feed[explain_input])
    if targets is not None:
        targets = checked_targets(targets, total, model.num_classes)
    keys = range(total) if keys is None else keys
    if len(keys) != total:
        raise BadInput(f"{len(keys)} keys were given for {total} inputs")
    parts = {label: [] for label, (method, _) in chosen.items() if with_residuals and method.sum_law}
    maps = block_by_block(
        chosen, model, feed, targets, explain_input, batch_size, seed, keys, progress, resize, turned, parts
    )
    residuals = {label: Residuals.joined(some) for label, some in parts.items()}
    if explained is not None:
        maps = {label: explained.as_given(array) for label, array in maps.items()}
    return maps, residuals


def block_by_block(
    chosen: Mapping[str, tuple[Method, dict]],
    model: ScoredModel,
    feed: Mapping[str, np.ndarray],
    targets: Any,
    explain_input: str,
    batch_size: int,
    seed: int,
    keys: Sequence,
    progress: bool,
    resize: bool = False,
    channels_first: bool = False,
    residuals: Mapping[str, list] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    """Return the maps of methods with all their parameters; see ``explain_many``, which checks what is given here.

    The residuals of each block are added to the lists of ``residuals``, by label.
    """
    needs = RequiredQueries()
    for method, parameters in chosen.values():
        needs |= method.required_queries(parameters)

    total = len(feed[explain_input])
    block = model.batch_size(batch_size)
    maps: dict[str, np.ndarray] = {}
    for start in _blocks(total, block, progress):
        rows = slice(start, start + block)
        passes = ModelQueries(
            model,
            {name: array[rows] if array.ndim else array for name, array in feed.items()},
            explain_input,
            None if targets is None else targets[rows],
            block,
            seed,
            keys[rows],
            needs,
            BatchPosition(rows, total, channels_first),
        )
        for label, (method, parameters) in chosen.items():
            result = _checked(method, called(method, passes, parameters), passes)
            if resize and result.ndim < passes.inputs.ndim:
                result = resizing.resize(result, passes.inputs.shape[1:-1])
            if label not in maps:
                maps[label] = np.empty((total, *result.shape[1:]), np.float32)
            maps[label][rows] = result
            if label in residuals:
                residuals[label].append(method.sum_law.residuals(passes, parameters, maps[label][rows]))
    if not total:
        shape = feed[explain_input].shape
        maps = {
            label: np.empty(shape[:-1] if method.drops_channels and len(shape) > 2 else shape, np.float32)
            for label, (method, _) in chosen.items()
        }
    return maps


def _resolve(method) -> Method:
    if isinstance(method, Method):
        return method
    if callable(method):
        return Method(name=method.__name__, title=method.__name__.replace("_", " "), function=method)
    return resolve_method(method)


def with_parameters(methods: Any) -> dict[str, tuple[Method, dict]]:
    """Return label -> (method, parameters with defaults) of methods as ``explain_many`` takes them."""
    if not isinstance(methods, Mapping):
        resolved = [_resolve(method) for method in methods]
        methods = {method.name: method for method in resolved}
    chosen = {}
    for label, entry in methods.items():
        method, overrides = entry if isinstance(entry, Sequence) and not isinstance(entry, str) else (entry, {})
        method = _resolve(method)
        chosen[label] = method, method.parameters(overrides)
    return chosen


def _blocks(total, block, progress):
    starts = range(0, total, block)
    if progress:
        from tqdm import tqdm

        return tqdm(starts, unit="batch")
    return starts


def _checked(method: Method, maps, passes: ModelQueries) -> np.ndarray:
    """Return a method's result as float32 if it is what a method must return."""
    maps = np.asarray(maps)
    with_channels = passes.inputs.shape
    # A class activation map may have its layer's resolution, hence only the number of axes is fixed.
    fits = maps.shape == with_channels or (maps.ndim == len(with_channels) - 1 and maps.shape[:1] == with_channels[:1])
    if not fits or maps.dtype.kind not in "fiub":
        raise BrokenContract(
            f"method '{method.name}' returned {maps.dtype} of shape {maps.shape}; numbers of shape {with_channels} "
            f"or {with_channels[:-1]} are needed, one map per input"
        )
    with np.errstate(over="ignore"):
        single = maps.astype(np.float32)
    if not np.isfinite(single).all():
        row = int(np.argmin(np.isfinite(single.reshape(len(single), -1)).all(axis=1)))
        wrong = "values too large for float32" if np.isfinite(maps[row]).all() else "NaN or infinite values"
        raise BrokenContract(f"method '{method.name}' returned {wrong} for input {passes.keys[row]}")
    return single
