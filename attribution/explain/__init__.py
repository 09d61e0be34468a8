"""Explain a model's scores by one or several methods, batch by batch."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import numbers
import operator
import os
import pathlib
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from attribution.batching import Inputs, checked_targets
from attribution.errors import BadInput, MissedSum, described, listed
from attribution.methods import resizing
from attribution.methods.queries import BatchPosition, ModelQueries, NotFiniteVariant, RequiredQueries, read_only
from attribution.methods.registry import METHODS, Method, Residuals, resolve_method, with_parameters
from attribution.plugins import user_code

_STARTS = {
    "baseline": "baseline (a number is a constant picture)",
    "references": "reference",
    "max_sigma": "blurred input",
}
_TOP = pathlib.Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_TOP / name}{os.sep}" for name in ("attribution", "attribution_benchmarks"))  # directories of code
_Chosen = dict[str, tuple[Method, dict[str, Any]]]


class BrokenContract(BadInput):
    """A method returned an invalid map, or raised an exception other than ``BadInput``."""


def explain(
    method: Any,
    model: Any,
    inputs: Inputs,
    targets: Any = None,
    *,
    target: Any = None,
    explain_input: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    keys: Sequence[Any] | None = None,
    progress: bool = False,
    resize: bool | None = None,
    return_residuals: bool = False,
    **overrides: Any,
) -> Any:
    """Explain a model's scores for some inputs.

    Parameters
    ----------
    method : str or Method or callable
        A name of the registry; such a name as a library defines it, ``"gradient@xplique"`` (docs/libraries.md);
        ``module:function``; a ``Method``; or a function that takes
        ``attribution.methods.queries.ModelQueries`` and returns one map per input.
    model : attribution.model.model.Model
        From ``load_model``, which decides whether logits or probabilities are explained; or a path or a live Keras
        model, which ``load_model`` loads for this call.
    inputs
        ``(N, ...)`` array for a model with one input, or a mapping from input name to array.
    targets
        ``(N,)`` int, or one int for all; ``None`` explains each input's predicted class.
    target
        The same by the name that captum has for it; give one of both.
    explain_input
        Name of the input to explain, where the model has several of floating point; or of a floating-point tensor
        behind an input, such as an embedding layer, whose values are explained then. By default a model with a single
        integer input is explained at the first such tensor behind it. Several names separated by commas, or ``"all"``
        for every input of floating point, are explained together: methods see them as one vector ``(N, values)`` in
        the order given, other inputs stay as they are. ``baseline`` and ``references`` may then be mappings from name
        to value.
    batch_size
        Rows in one pass; by default 1 to 2048, by the size of the network. Passes are filled across inputs and
        samples; memory grows with this alone. Maps do not depend on it but for rounding.
    seed
        Seed of all random numbers.
    keys
        N names or indices from which the random numbers of each input derive; by default 0 to N - 1. With names an
        input has the same numbers whatever is explained with it.
    progress
        Whether to show a progress bar on standard error.
    resize
        ``True``: maps at the resolution of a layer are resized bilinearly to the input's. ``False``: class activation
        maps keep their layer's resolution. ``None``: the default of each method. Maps of a layer whose positions are no
        axes of the input, such as a spectrogram's frames and bins, always keep its resolution.
    return_residuals
        Whether to return also the difference between the sum of each map and its expected value, such as
        f(x) - f(baseline). It takes at most a forward pass at the input and one at each baseline or reference. Of
        inputs explained together the sum is over all of them. Without it, methods whose passes give both scores
        (Integrated Gradients, Blur IG, DeepLIFT) warn in one line where the sum misses by more than 5 %.
    **overrides
        Parameters of the method in place of its defaults.

    Returns
    -------
    maps : np.ndarray
        Float32, ``(N, ...)``: of the input's shape for gradient-like and relevance methods, without the
        channel axis for class activation maps and perturbation methods; see ``attribution.methods.cam`` for layers with
        other axes than the input. Of inputs explained together: a dict from name
        to maps of that input's shape.
    residuals : attribution.methods.registry.Residuals or None
        With ``return_residuals``; ``None`` where no law fixes the sum of the method's maps.

    Raises
    ------
    BadInput
        If an argument is invalid; the message says what is expected.
    """
    if target is not None and targets is not None:
        raise BadInput("give targets= or target=, not both: they are the same")
    targets = target if targets is None else targets
    resolved = resolve_method(method)
    if resize is not None and "resize" in resolved.defaults:
        overrides["resize"] = resize
    found = explain_many(
        {resolved.name: (resolved, overrides)},
        model, inputs, targets, explain_input=explain_input, batch_size=batch_size, seed=seed, keys=keys,
        progress=progress, resize=False if resize is None else resize, return_residuals=return_residuals,
    )  # fmt: skip
    if not return_residuals:
        return found[resolved.name]
    maps, residuals = found
    return maps[resolved.name], residuals.get(resolved.name)


def explain_many(
    methods: Any,
    model: Any,
    inputs: Inputs,
    targets: Any = None,
    *,
    explain_input: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    keys: Sequence[Any] | None = None,
    progress: bool = False,
    resize: bool = False,
    return_residuals: bool = False,
) -> Any:
    """Explain with several methods without repeating a pass that two of them need.

    One backward pass serves the gradient and every class activation map, one set of noisy gradients
    SmoothGrad and VarGrad, one set of masked inputs Score-CAM and SISE.

    Parameters
    ----------
    methods
        Methods as ``explain`` takes them; or a mapping from any label to a method or to a pair of a method and
        its overrides.
    model, inputs, targets, explain_input, batch_size, seed, keys, progress, return_residuals
        See ``explain``.
    resize
        Whether maps of another resolution than the input's are resized to it, bilinearly.

    Returns
    -------
    maps : dict[str, np.ndarray]
        Name or label to maps, in the order given; the same bytes as ``explain`` gives one by one.
    residuals : dict[str, attribution.methods.registry.Residuals]
        With ``return_residuals``: name or label to residuals, of the methods whose sum a law fixes.
    """
    chosen = with_parameters(methods)
    if not isinstance(resize, bool | np.bool_):
        raise BadInput(f"resize must be True or False, not {resize!r}")
    if not hasattr(model, "feed"):  # a path or a live network
        from attribution.loading import load_model  # few calls need it

        model = load_model(model)
    feed, is_view = model.feed(inputs), hasattr(model, "at")
    if is_view:
        model = model.at(explain_input, like=feed)
        feed, name = model.feed_of(feed, batch_size), model.input
        chosen = _for_inputs(chosen, model.joined(feed))
    else:  # a served model
        name = model.explained_input(explain_input)
    total = len(feed[name])
    if targets is not None:
        targets = checked_targets(targets, total, model.num_classes)
    keys = _keys(keys, seed, total)
    queries = (method.required_queries(parameters) for method, parameters in chosen.values())
    required = functools.reduce(operator.or_, queries, RequiredQueries())
    size, channels_first = model.batch_size(batch_size), is_view and model.channels_first

    def batch_from(start: int) -> tuple[slice, ModelQueries]:
        rows = slice(start, start + size)
        batch = {name: array[rows] if array.ndim else array for name, array in feed.items()}
        position = BatchPosition(rows, total, channels_first)
        given = None if targets is None else targets[rows]
        return rows, ModelQueries(model, batch, name, given, size, seed, keys[rows], required, position)

    starts: Iterable[int] = range(0, total, size)
    if progress:
        import tqdm

        starts = tqdm.tqdm(starts, unit="batch")  # even a bar that is not shown opens a semaphore of the system
    maps, residuals = _run(chosen, map(batch_from, starts), feed[name].shape, resize, return_residuals)
    if is_view:
        maps = {label: model.as_given(array, feed) for label, array in maps.items()}
    if return_residuals:
        return maps, residuals
    for label, residual in residuals.items():
        law = chosen[label][0].sum_law
        if law and (warning := residual.warning(label, law)):
            warnings.warn(f"{warning}; return_residuals=True returns the differences", MissedSum, stacklevel=3)
    return maps


def _keys(keys: Any, seed: Any, total: int) -> Sequence[Any]:
    """Return what the random numbers of each input derive from, besides the seed."""
    if not isinstance(seed, numbers.Integral) or isinstance(seed, bool):
        raise BadInput(f"seed must be a whole number, not {seed!r}")
    if keys is None:
        return range(total)
    has_order = isinstance(keys, Iterable) and not isinstance(keys, str | bytes | Set | Mapping)
    listed_keys = list(keys) if has_order else []
    if len(listed_keys) != total:
        raise BadInput(f"keys must be a list of {total} names or numbers in the order of the inputs")
    for key in listed_keys:
        if not isinstance(key, str) and " at 0x" in str(key):  # an address, other numbers in every process
            raise BadInput(f"keys must be names or numbers, not of type {type(key).__name__}")
    return listed_keys


def _for_inputs(chosen: _Chosen, joined: Any) -> _Chosen:
    """Return methods with their parameters for inputs that are explained together; refuse methods of one input."""
    if joined is None:
        return chosen
    refused = [label for label, (method, _) in chosen.items() if method.needs_positions]
    if refused:
        allowed = [name for name, method in METHODS.items() if not method.needs_positions]
        raise BadInput(
            f"{listed(refused)} cannot explain several inputs together, because their maps lie on the positions of one "
            f"input; explain each alone, or choose of {listed(allowed)}"
        )
    return {
        label: (method, {name: joined.parameter(name, value) for name, value in given.items()})
        for label, (method, given) in chosen.items()
    }


def _run(
    chosen: _Chosen, batches: Iterable[tuple[slice, ModelQueries]], shape: Sequence[int], resize: bool, requested: bool
) -> tuple[dict[str, np.ndarray], dict[str, Residuals]]:
    """Return the maps of all batches of inputs of some shape, and the residuals that are requested or take no pass."""
    maps: dict[str, np.ndarray] = {}
    parts: dict[str, list[Residuals]] = {label: [] for label, (method, given) in chosen.items() if method.law(given)}
    for rows, queries in batches:
        for label, (method, parameters) in chosen.items():
            own = copy.copy(queries)  # attributes that a method sets are its own
            result = _checked(method, _called(method, own, parameters), own)
            if resize and "resize" not in method.defaults and result.ndim < own.inputs.ndim:
                result = resizing.resize(result, own.inputs.shape[1:-1])
            if label not in maps:
                maps[label] = np.empty((shape[0], *result.shape[1:]), np.float32)
            maps[label][rows] = result
            law = method.law(parameters)
            if law and own.ends is not None:
                parts[label].append(Residuals.of(maps[label][rows], *own.ends))
            elif law and requested:
                parts[label].append(law.residuals(own, parameters, maps[label][rows]))
    if not shape[0]:
        for label, (method, _) in chosen.items():
            maps[label] = np.empty(shape[:-1] if method.drops_channels and len(shape) > 2 else shape, np.float32)
    return maps, {label: Residuals.joined(some) for label, some in parts.items()}


def _called(method: Method, queries: ModelQueries, parameters: Mapping[str, Any]) -> Any:
    """Return the result of a method.

    Raises ``BrokenContract`` if a custom method raises anything but ``BadInput``; the exception is its cause. Other
    exceptions of a method of this project are raised unchanged.
    """
    given = {name: read_only(one) if type(one) is np.ndarray else one for name, one in parameters.items()}
    try:
        with user_code() if method.card is None else contextlib.nullcontext():
            return method.function(queries, **given)
    except NotFiniteVariant as error:
        start = next(filter(parameters.__contains__, _STARTS), None)
        if start is None:
            raise
        raise NotFiniteVariant(f"at the {_STARTS[start]} or on the path from it; choose another {start}=") from error
    except (BadInput, KeyboardInterrupt):
        raise
    except BaseException as error:
        if method.card is not None:
            raise
        raise BrokenContract(f"method '{method.name}' failed{_failure(error)}") from error


def _failure(error: BaseException) -> str:
    """Return at which line of a method an exception was raised, what it says, and what may help."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # below ``_called``; none of a function written in C
    frames = list(itertools.dropwhile(lambda frame: frame.filename.startswith(_OURS), frames)) or frames
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    where = f" at {frames[0].filename}, line {lines[-1]}" if lines else ""
    words = described(error)
    is_write = "read-only" in words or "WRITEABLE" in words
    return f"{where}: {words}" + "; all methods share the inputs: copy what you change" * is_write


def _checked(method: Method, maps: Any, queries: ModelQueries) -> np.ndarray:
    """Return a method's result as float32; refuse an invalid one."""
    with_channels, given = queries.inputs.shape, type(maps).__name__
    needed = f"numbers of shape {with_channels} or {with_channels[:-1]} are needed, one map per input"
    if isinstance(maps, np.ma.MaskedArray):
        raise BrokenContract(f"method '{method.name}' returned a masked array; return a value for every position")
    try:
        maps = np.asarray(maps)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # lists of different lengths, or an object that cannot be converted
        raise BrokenContract(f"method '{method.name}' returned a {given} that is no array; {needed}") from error
    # A class activation map may have its layer's resolution, hence only the number of axes is fixed; not even that if
    # the layer's positions are no axes of the input.
    has_rows = maps.shape[:1] == with_channels[:1]
    any_axes = method.query == "layer gradient" and maps.ndim > 1
    fits = maps.shape == with_channels or (has_rows and (any_axes or maps.ndim == len(with_channels) - 1))
    if not fits or maps.dtype.kind not in "fiub":
        what = f"{maps.dtype} of shape {maps.shape}" if maps.ndim or given == "ndarray" else f"a {given}"
        raise BrokenContract(f"method '{method.name}' returned {what}; {needed}")
    with np.errstate(over="ignore"):
        single: np.ndarray = maps.astype(np.float32)
    if not np.isfinite(single).all():
        row = int(np.argmin(np.isfinite(single.reshape(len(single), -1)).all(axis=1)))
        wrong = "values too large for float32" if np.isfinite(maps[row]).all() else "NaN or infinite values"
        raise BrokenContract(f"method '{method.name}' returned {wrong} for input {queries.keys[row]}")
    return single
