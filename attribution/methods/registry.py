"""The registry: what an attribution method is, and all of them by name.

A method is a function with a name, default parameters, a method card, and the law of its maps' sums. The law is the sum
that a map's values must have (``Residuals`` say by how much they miss it, captum's convergence delta). Integrated
Gradients and DeepLIFT distribute f(x) - f(b), the difference of the target's scores at the input and at a baseline; LRP
distributes the logit, Excitation Backprop a probability of 1.

A new method is one function and one table in ``registry.toml``. Every command line and docs/methods.md read this table.
This module imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.metadata
import inspect
import numbers
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from attribution.errors import BadInput, installation, listed, shortened
from attribution.methods import (
    cam,
    deeplift,
    gradients,
    libraries,
    lrp,
    map_steps,
    modified_relu,
    perturbation,
    third_party,
)
from attribution.methods.gradients import as_references, blur, start_of
from attribution.methods.queries import ModelQueries, RequiredQueries
from attribution.plugins import imported

# Smallest scale, as a share of the scores: float32 scores give a smaller difference to one digit or none.
_LEAST = 1e-4

MUCH = 0.05  # relative difference of a map's sum above which users are warned

Parameters = Mapping[str, Any]
Ends = Callable[[ModelQueries, Parameters], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class SumLaw:
    """Required sum of a method's map.

    Attributes
    ----------
    formula
        That sum, as printed.
    ends
        Function from queries and the method's parameters to two arrays ``(N,)``; the sum must be their difference.
    cause
        Why a map may miss it, and what helps.
    """

    formula: str
    ends: Ends
    cause: str

    def residuals(self, queries: ModelQueries, parameters: Parameters, maps: np.ndarray) -> Residuals:
        """Return the residuals of a batch of maps ``(N, ...)``, by at most a forward pass at input and baseline."""
        return Residuals.of(maps, *self.ends(queries, parameters))


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Differences between the sums of N maps and their required sums.

    Attributes
    ----------
    sums, expected : np.ndarray
        ``(N,)`` float64: actual and required sums.
    scale : np.ndarray
        ``(N,)`` float64: |expected|, but at least 0.01 % of the greater of |f(x)| and |f(b)|.
    """

    sums: np.ndarray
    expected: np.ndarray
    scale: np.ndarray

    @property
    def absolute(self) -> np.ndarray:
        """``(N,)`` float64: sums - expected."""
        absolute: np.ndarray = self.sums - self.expected
        return absolute

    @property
    def relative(self) -> np.ndarray:
        """``(N,)`` float64, at least 0: |absolute| / scale; NaN where the scale is 0."""
        missed = np.abs(self.absolute)
        relative: np.ndarray = np.full(missed.shape, np.nan)
        np.divide(missed, self.scale, out=relative, where=self.scale != 0)
        return relative

    @classmethod
    def of(cls, maps: np.ndarray, at_input: np.ndarray, at_baseline: np.ndarray) -> Residuals:
        """Return the residuals of maps ``(N, ...)`` whose sums must be the difference of two scores, ``(N,)`` each."""
        at_input, at_baseline = (np.asarray(end, np.float64) for end in (at_input, at_baseline))
        expected, greater = at_input - at_baseline, np.maximum(np.abs(at_input), np.abs(at_baseline))
        sums = maps.reshape(len(maps), -1).sum(axis=1, dtype=np.float64)
        return cls(sums, expected, np.maximum(np.abs(expected), _LEAST * greater))

    def warning(self, label: str, law: SumLaw) -> str:
        """Return a line on maps whose sums miss the required ones by more than ``MUCH``; empty if none does."""
        shares = self.relative[np.isfinite(self.relative)]
        missed = int((shares > MUCH).sum())
        often = f" on {missed} of {len(shares)} inputs" if len(shares) > 1 else ""
        return f"{label} misses {law.formula} by more than {100 * MUCH:.0f} %{often}: {law.cause}" if missed else ""

    @classmethod
    def joined(cls, parts: Sequence[Residuals]) -> Residuals:
        """Return the residuals of several batches as one."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in names))


def _score_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    start = np.broadcast_to(start_of(queries, parameters["baseline"]), queries.inputs.shape)
    return queries.target_scores, _mean_scores(queries, start[np.newaxis])


def _logit_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return _score_difference(queries.of_logits(), parameters)


def _expected_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    references = as_references(queries.channels_last(parameters["references"]), queries.inputs.shape)
    return queries.target_scores, _mean_scores(queries, references[:, np.newaxis])


def _blur_difference(queries: ModelQueries, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return queries.target_scores, _mean_scores(queries, blur(queries.inputs, parameters["max_sigma"])[np.newaxis])


def _logit(queries: ModelQueries, _: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return queries.of_logits().target_scores, np.zeros(len(queries))


def _one(queries: ModelQueries, _: Parameters) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(len(queries)), np.zeros(len(queries))


def _mean_scores(queries: ModelQueries, starts: np.ndarray) -> np.ndarray:
    """Return the mean of the targets' scores over starting points ``(K, N or 1, ...)`` that broadcast to the inputs."""
    mean = np.zeros(len(queries))

    def start(number: int, rows: np.ndarray) -> Any:
        return np.broadcast_to(starts[number], queries.inputs.shape)[rows]

    for _, rows, scores in queries.variant_scores(len(starts), start):
        mean[rows] += scores
    mean /= len(starts)
    return mean


_PATH = "f(x) - f(baseline)"
_JUMP = "or the score jumps on it, as near an all-zero input"
_BASELINE = "(choose another by baseline=0.5)"
_STEPS = "the path has too few steps (choose more by steps=N)"
_POINTS = "the path has too few points (choose more by points=N)"
_SAMPLES = "the mean has too few samples (choose more by samples=N)"
LAWS = {  # the cause of "logit" differs between methods, as registry.toml says
    "points": SumLaw(_PATH, _score_difference, f"{_POINTS}, {_JUMP} {_BASELINE}"),
    "steps": SumLaw(_PATH, _score_difference, f"{_STEPS}, {_JUMP} {_BASELINE}"),
    "samples": SumLaw("f(x) - mean f(references)", _expected_difference, _SAMPLES),
    "chords": SumLaw(
        _PATH,
        _logit_difference,
        "large contributions cancel, as where a product has huge values at the baseline; choose another baseline",
    ),
    "construction": SumLaw(_PATH, _score_difference, "float32 scores cancel"),
    "blur": SumLaw("f(x) - f(blurred x)", _blur_difference, f"{_STEPS}, {_JUMP}"),
    "logit": SumLaw("the logit", _logit, ""),
    "one": SumLaw("1", _one, "steps end where a unit has no positive input"),
}
DETERMINISTIC = "None: same input, same map."
ARRAYS = ("baseline", "references")  # parameters that may be arrays
# Names of captum to those of ``explain``, and of methods that have them.
_HERE = {"target": "targets", "internal_batch_size": "batch_size", "return_convergence_delta": "return_residuals"}
_HERE_IN_METHODS = {
    "baselines": ("baseline", "references"), "n_steps": ("points", "steps"), "n_samples": ("samples", "masks"),
    "nt_samples": ("samples",), "stdevs": ("noise",), "feature_mask": ("groups",), "strides": ("stride",),
    "sliding_window_shapes": ("patch",),
}  # fmt: skip
# Type of a default to the types of a value, the largest one, and words for both.
_KINDS: dict[type, tuple[Any, float, str]] = {
    bool: ((bool, np.bool_), 1, "true or false"),
    int: (numbers.Integral, 10**7, "a whole number of at most 10,000,000"),
    float: (numbers.Real, 1e30, "a number of at most 1e30"),
}


@dataclasses.dataclass(frozen=True)
class MethodCard:
    """Facts about a method for its users, after the dimensions of Sokol and Flach (2020).

    Attributes
    ----------
    citation
        Publication.
    requirements
        Properties that the model must have.
    cost
        What an input takes; a gradient is a forward and a backward pass, about 2.6 forward passes.
    randomness
        Random quantities and their seed.
    weaknesses
        Known limits.
    """

    citation: str
    requirements: str
    cost: str
    randomness: str
    weaknesses: str


@dataclasses.dataclass(frozen=True)
class Method:
    """An attribution method.

    Attributes
    ----------
    name
        As typed on a command line.
    title
        As printed in tables.
    function
        ``function(queries, **parameters)``; see ``attribution.methods.queries``.
    card
        Method card; ``None`` for a custom method.
    library
        The library that implements it; ``None`` for this project. See ``attribution.methods.third_party``.
    query
        ``"input gradient"``, ``"layer gradient"`` or ``"squared gradients"``, if the method uses that query, whose
        passes it can share with other methods.
    is_random
        Whether the seed changes the maps.
    drops_channels
        Whether its maps have no channel axis.
    family
        The signal that it uses, shared by its variants: "class activation" for all that weight a layer's channels.
        ``None`` for a custom method that names none.
    sum_law
        Required sum of a map; ``None`` if the method has no such law. ``law`` is that with given parameters.
    needs_positions
        Whether it explains signals and images only: one input with positions, not several inputs together.
    """

    name: str
    title: str
    function: Callable[..., Any]
    card: MethodCard | None = None
    library: str | None = None
    query: str | None = None
    is_random: bool = False
    drops_channels: bool = False
    family: str | None = None
    sum_law: SumLaw | None = None
    needs_positions: bool = False

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Parameters and their default values, read from the function's signature."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return MappingProxyType({one.name: one.default for one in parameters if one.kind in named})

    def law(self, parameters: Mapping[str, Any]) -> SumLaw | None:
        """Return the required sum of a map with these parameters; ``None`` if they leave it open."""
        is_open = parameters.get("multiply") is False or parameters.get("maxima") == "winner"
        return None if is_open else self.sum_law

    def library_version(self) -> str | None:
        """Return the installed version of the method's library; ``None`` for this project's methods.

        Raises
        ------
        BadInput
            If that library is not installed.
        """
        try:
            return importlib.metadata.version(self.library) if self.library else None
        except importlib.metadata.PackageNotFoundError as error:
            raise BadInput(
                f"method '{self.name}' needs {self.library}, which is not installed: {installation('third-party')}"
            ) from error

    def required_queries(self, parameters: Mapping[str, Any]) -> RequiredQueries:
        """Return the queries of the method with these parameters, as far as passes can be shared."""
        return RequiredQueries(
            self.query == "input gradient",
            frozenset([parameters["layer"]]) if self.query == "layer gradient" else frozenset(),
            self.query == "squared gradients" or bool(parameters.get("squared")),
        )

    def parameters(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults with overrides applied.

        Raises
        ------
        BadInput
            If an override names no parameter, if a parameter without default is missing, or if a parameter of a
            method of this project that is a number by default is not one.
        """
        defaults = self.defaults
        for name in overrides:
            if name not in defaults:
                known = f"its parameters are {listed(defaults)}" if defaults else "it has none"
                same = [one for one in _HERE_IN_METHODS.get(name, ()) if one in defaults]
                here = "".join(f" (here: {one})" for one in [*same, _HERE.get(name)][:1] if one)
                raise BadInput(f"method '{self.name}' has no parameter '{name}'{here}; {known}")
        chosen = {**defaults, **overrides}
        missing = [name for name, value in chosen.items() if value is inspect.Parameter.empty]
        if missing:
            raise BadInput(f"method '{self.name}' needs a value for {listed(missing)}")
        return {name: self._checked(name, value, type(defaults[name])) for name, value in chosen.items()}

    def _checked(self, name: str, value: Any, kind: type) -> Any:
        """Return a parameter's value, a whole number as an int; refuse what is not of the kind of the default."""
        if self.card is None or name in ARRAYS:
            return value
        if name == "layer" and not isinstance(value, (str, type(None))):
            raise BadInput(f"layer must be the name of a layer, not {value!r}")
        if kind not in _KINDS:
            return value
        allowed, largest, words = _KINDS[kind]
        is_bool = isinstance(value, (bool, np.bool_))
        if not isinstance(value, allowed) or is_bool != (kind is bool) or not abs(value) <= largest:
            raise BadInput(f"parameter '{name}' of method '{self.name}' must be {words}, not {shortened(repr(value))}")
        return kind(value)


_MODULES = {
    "gradients": gradients,
    "deeplift": deeplift,
    "modified_relu": modified_relu,
    "lrp": lrp,
    "cam": cam,
    "perturbation": perturbation,
    "third_party": third_party,
}


def _read_methods() -> Iterator[Method]:
    """Yield the methods of ``registry.toml``, each with the function of its name."""
    content = libraries.read_toml(pathlib.Path(__file__).with_suffix(".toml"))
    texts, each = content.pop("texts"), content.pop("each")
    for module, methods in content.items():
        for name, own in methods.items():
            found = (each.get(module, {}) | own).items()
            entry: dict[str, Any] = {
                key: value.format_map(texts) if isinstance(value, str) else value for key, value in found if value
            }
            if module == "third_party":
                entry = _of_library(name, entry)
            law, cause = LAWS.get(entry.pop("law", None)), entry.pop("cause", "")
            card = {"randomness": DETERMINISTIC} | {key: entry.pop(key) for key in _CARD if key in entry}
            yield Method(
                name=name,
                function=getattr(_MODULES[module], name.replace(".", "_")),
                card=MethodCard(**card),
                is_random=card["randomness"] != DETERMINISTIC,
                sum_law=dataclasses.replace(law, cause=cause) if law and not law.cause else law,
                **entry,
            )


def _of_library(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a method that another library computes, which its preset defines."""
    library_name, _, method = name.partition(".")
    library = libraries.libraries()[library_name]
    preset, version = library.presets[method], library.version.rpartition(".")[0]
    return entry | {
        "title": f"{entry['title']} ({library.title})",
        "citation": f"{library.title}, version {version}; `{method}{libraries.MARK}{library_name}` computes the same",
        "weaknesses": f"{preset.definition} {preset.differs}".strip(),
        "library": library.package,
    }


_CARD = [field.name for field in dataclasses.fields(MethodCard)]
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _read_methods()})


# Names that others give to methods of other names.
_ELSEWHERE = {
    "saliency": "gradient",
    "ig": "integrated_gradients",
    "shap": "kernel_shap",
    "feature_ablation": "occlusion",
    "input_x_gradient": "gradient_x_input",
}


def resolve_method(name: Any) -> Method:
    """Return a method of the registry or a custom method.

    Parameters
    ----------
    name
        A name of ``METHODS``, such a name with the definition of a library, as ``integrated_gradients@captum``,
        ``module:function``, or ``path/to/file.py:function``, with ``torch:`` before it for a function of a PyTorch
        network; a ``Method``; or a function.

    Raises
    ------
    BadInput
        If there is no such method (the message lists the nearest names) or its library is not installed.
    """
    if isinstance(name, Method):
        return name
    if callable(name) and not isinstance(name, type):
        return _custom_method(name_of(name), name)
    if not isinstance(name, str):
        raise BadInput(f"a method is of type {type(name).__name__}; give a name, a Method or a function")
    if name in METHODS:
        METHODS[name].library_version()
        return METHODS[name]
    if libraries.is_preset(name):
        return preset_method(name, METHODS)
    if name.startswith("torch:"):
        made: Method = imported("attribution_benchmarks.torch:method", "method")(name)
        return made
    if ":" in name:
        return _custom_method(name, imported(name, "method"))
    if here := _ELSEWHERE.get(name.lower()):
        raise BadInput(f"no method '{name}'; here it is called '{here}'")
    near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.4)
    hint = f"did you mean {listed(near)}?" if near else f"the methods are {listed(METHODS)}."
    raise BadInput(f"no method '{name}'; {hint} A custom method is written module:function or file.py:function")


def with_parameters(methods: Any) -> dict[str, tuple[Method, dict[str, Any]]]:
    """Return label -> (method, parameters with defaults) of methods as ``attribution.explain_many`` takes them."""
    if not isinstance(methods, Iterable):
        raise BadInput(f"methods are of type {type(methods).__name__}; give a list, or a mapping from label to method")
    if not isinstance(methods, Mapping):
        resolved = [resolve_method(method) for method in methods]
        methods = {method.name: method for method in resolved}
    chosen = {}
    for label, entry in methods.items():
        pair = isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2
        method, overrides = entry if pair else (entry, {})
        method = resolve_method(method)
        if not isinstance(overrides, Mapping):
            raise BadInput(f"{label}: parameters are of type {type(overrides).__name__}; give a mapping by name")
        chosen[label] = method, method.parameters(overrides)
    return chosen


def known_method(name: str) -> Method | None:
    """Return a method of the registry, or one as a library defines it; ``None`` for any other name."""
    if name in METHODS or not libraries.is_preset(name):
        return METHODS.get(name)
    try:
        return preset_method(name, METHODS)
    except BadInput:
        return None


def title_of(name: str) -> str:
    """Return what a method is called in tables; a custom method is called as its function."""
    method = known_method(name)
    return method.title if method else name.rpartition(":")[2]


def name_of(method: Method | Callable[..., Any]) -> str:
    """Return what a method is called that was given without a name: as its function."""
    while isinstance(method, functools.partial):
        method = method.func
    return method.name if isinstance(method, Method) else str(getattr(method, "__name__", type(method).__name__))


def as_method(name: str, method: Method | Callable[..., Any]) -> Method:
    """Return a method under a name, or a user's function as one, with its attribute ``family``.

    Raises
    ------
    BadInput
        If it cannot be called with one argument, has the name of a method of the registry, or its family is
        no word.
    """
    if isinstance(method, Method) or not callable(method):
        return resolve_method(method)
    if name in METHODS:
        raise BadInput(f"'{name}': a method has this name; rename the function")
    return _custom_method(name, method)


def _custom_method(name: str, function: Callable[..., Any]) -> Method:
    """Return a user's function as a method."""
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise BadInput(f"method '{name}' cannot be called with one argument, its queries: {error}") from error
    except ValueError:  # written in C, without a signature to look at
        pass
    family = getattr(function, "family", None)
    if not (family is None or (isinstance(family, str) and family)):
        raise BadInput(f"method '{name}': its attribute family is {family!r}; set it to a word, such as 'gradient'")
    return Method(name=name, title=name.rpartition(":")[2], function=function, family=family)


def preset_method(name: str, methods: Mapping[str, Method]) -> Method:
    """Return the method ``method@library`` as a variant of one of ``methods``; raises as ``found_preset``."""
    library, preset = libraries.found_preset(name, libraries.libraries())
    return _variant(name, methods[preset.of], library, preset)


def _variant(name: str, base: Method, library: libraries.Library, preset: libraries.Preset) -> Method:
    card = base.card
    if card is not None:
        citation = f"{library.title} {library.version}, {preset.call}; {card.citation}"
        card = dataclasses.replace(card, citation=citation, weaknesses=f"{preset.differs} {card.weaknesses}".strip())
    return dataclasses.replace(
        base,
        name=name,
        title=f"{base.title} ({library.title})",
        function=PresetFunction(name, base.function, tuple(preset.parameters.items()), preset.after),
        card=card,
        drops_channels=base.drops_channels or any(map(map_steps.drops_channels, preset.after)),
        sum_law=None if preset.after else base.sum_law,
    )


@dataclasses.dataclass(frozen=True)
class PresetFunction:
    """The function of a method with other defaults and with steps after it.

    Attributes
    ----------
    name
        ``method@library``.
    function
        That of the method.
    defaults
        Parameters and their values.
    after
        Names of the steps.
    """

    name: str
    function: Callable[..., Any]
    defaults: tuple[tuple[str, Any], ...]
    after: tuple[str, ...]

    @property
    def __signature__(self) -> inspect.Signature:
        signature, own = inspect.signature(self.function), dict(self.defaults)
        parameters = [one.replace(default=own.get(name, one.default)) for name, one in signature.parameters.items()]
        return signature.replace(parameters=parameters)

    def __call__(self, queries: Any, **parameters: Any) -> Any:
        """Return the maps of a batch."""
        return self.run(self.function, queries, parameters, np)

    def run(self, function: Callable[..., Any], queries: Any, parameters: Mapping[str, Any], xp: Any) -> Any:
        """Return the maps by a function that computes the method, and by a module with the functions of NumPy."""
        given = {**dict(self.defaults), **parameters}
        own = inspect.signature(self.function).parameters.get("resize")
        resize = given.get("resize", own is None or own.default)
        if own is not None and any(map(map_steps.resizes, self.after)):
            given["resize"] = False
        maps = function(queries, **given)
        for name in self.after:
            if resize or not map_steps.resizes(name):
                maps = map_steps.apply(name, maps, queries, xp)
        return maps
