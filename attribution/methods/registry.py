"""The registry: every attribution method by name, and the resolution of names.

A new method is one function and one table in ``registry.toml``. Every command line and docs/methods.md read this table.
This module imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attribution.errors import BadInput, listed
from attribution.methods import cam, deeplift, gradients, libraries, lrp, modified_relu, perturbation, third_party
from attribution.methods.method import DETERMINISTIC, LAWS, Method, MethodCard
from attribution.plugins import imported, refuse_file_alone

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
        return libraries.preset_method(name, METHODS)
    if name.startswith("torch:"):
        made: Method = imported("attribution_benchmarks.torch:method", "method")(name)
        return made
    if ":" in name:
        return _custom_method(name, imported(name, "method"))
    refuse_file_alone(name, "method")
    if here := _ELSEWHERE.get(name.lower()):
        raise BadInput(f"no method '{name}'; here it is called '{here}'")
    near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.4)
    hint = f"did you mean {listed(near)}?" if near else f"the methods are {listed(METHODS)}."
    raise BadInput(f"no method '{name}'; {hint} A custom method is written module:function")


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
        return libraries.preset_method(name, METHODS)
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
