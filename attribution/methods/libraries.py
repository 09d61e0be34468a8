"""Methods with the definition of another library: ``integrated_gradients@captum``.

Libraries give one name to different functions. A preset says what a pinned version of a library computes under a name,
in values of the parameters of this project's methods and in named steps after them; nothing of the library is run. The
presets are data: ``presets/LIBRARY.toml``. docs/libraries.md is generated from them, and tests compare each with the
library itself.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attribution.errors import BadInput, listed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MARK = "@"  # between the name of a method and that of a library
EXACT, DISTRIBUTION, OPEN, ABSENT = "exact", "in distribution", "not reproduced", "does not run"
_FOLDER = pathlib.Path(__file__).with_name("presets")


@dataclasses.dataclass(frozen=True)
class Library:
    """A library whose definitions can be used.

    Attributes
    ----------
    name
        As typed after ``@``.
    title, package, version
        As its authors write it, as ``pip`` takes it, and the version that was run.
    framework
        ``"TensorFlow"``, where tests run the library; otherwise what it needs in an environment of its own.
    presets
        Name of a method to preset.
    """

    name: str
    title: str
    package: str
    version: str
    framework: str
    presets: Mapping[str, Preset]


@dataclasses.dataclass(frozen=True)
class Preset:
    """The definition of a method in a library.

    Attributes
    ----------
    call
        How the library is called, as ``IntegratedGradients(f).attribute(x, target=t)``.
    definition
        What it computes when it is run.
    differs
        What changes for a reader who believes the name; empty if it is this project's method with other defaults.
    defaults
        The library's defaults, in its own words.
    values
        Range, sign and units of its maps.
    status
        ``"exact"`` (equal to 1e-5 of a map's maximum; random methods with the same random numbers),
        ``"in distribution"``, ``"not reproduced"``, or ``"does not run"``. The last two cannot be used.
    evidence
        Tolerance and conditions of the comparison, why there is none, or the library's error in words.
    of
        Method of the registry that computes it; by default that of the same name.
    parameters
        Values of its parameters that are other than the default.
    after
        Names of steps after it, in their order; see ``attribution.methods.map_steps``.
    """

    call: str
    definition: str
    values: str
    status: str = EXACT
    defaults: str = ""
    differs: str = ""
    evidence: str = ""
    of: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    after: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether this project computes it."""
        return self.status in (EXACT, DISTRIBUTION)


@functools.cache
def libraries() -> Mapping[str, Library]:
    """Return all libraries by name, in the order of the alphabet."""
    return read_libraries(_FOLDER)


def read_libraries(folder: pathlib.Path) -> Mapping[str, Library]:
    """Return the libraries of a folder by name, one a file, in the order of the alphabet."""
    return MappingProxyType({path.stem: _read(path) for path in sorted(folder.glob("*.toml"))})


def read_toml(path: pathlib.Path) -> dict[str, Any]:
    """Return the content of a TOML file of this project."""
    return tomllib.loads(path.read_text("utf-8"))


def _read(path: pathlib.Path) -> Library:
    content = read_toml(path)
    common, presets = content.pop("each", {}), {}
    for name, own in content.pop("method").items():
        entry = {"of": name, **common, **own}
        presets[name] = Preset(**entry | {"after": tuple(entry.get("after", ()))})
    return Library(path.stem, **content, presets=MappingProxyType(presets))


def is_preset(name: str) -> bool:
    """Return whether a name has the form ``method@library``; custom methods have a colon."""
    return MARK in name and ":" not in name


def found_preset(name: str, known: Mapping[str, Library]) -> tuple[Library, Preset]:
    """Return the library and the preset of ``method@library``, or of ``metric@library``.

    Raises
    ------
    BadInput
        If there is no such library, the library has no such preset, or it could not be run or is not reproduced.
    """
    method, _, library_name = name.partition(MARK)
    having = [
        f"{method}{MARK}{one.name}" for one in known.values() if method in one.presets and one.presets[method].is_usable
    ]
    if library_name not in known:
        hint = f"'{method}' exists as {listed(having)}" if having else f"the libraries are {listed(known)}"
        raise BadInput(f"no library '{library_name}'; {hint}")
    library = known[library_name]
    preset = library.presets.get(method)
    if preset is None:
        usable = [name for name, one in library.presets.items() if one.is_usable]
        hint = f"the libraries with '{method}' are {listed(having)}" if having else f"it has {listed(usable)}"
        raise BadInput(f"{library.title} {library.version} has no '{method}'; {hint}")
    if not preset.is_usable:
        why = "could not be run" if preset.status == ABSENT else f"computes a '{method}' that is not reproduced here"
        raise BadInput(f"'{name}' is not defined: {library.title} {library.version} {why}. {preset.evidence}")
    return library, preset
