"""The code that a function reaches: name by name, from definition to definition, through the imports of its files.

A definition reaches the functions, classes and constants that it names, and those reach others. What a file does when
it is imported is reached with any of its definitions; a function that nothing reached names is not. Where a name
cannot be told apart from the rest of its module (``import *``, a module handed on as a value, ``globals()``), the
whole module is reached. What is reached through an object alone is not seen, ``model.scores`` of an argument, unless
the type of the argument is written there: name the object's class as well.
"""

from __future__ import annotations

import builtins
import functools
import pathlib
import sysconfig
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attribution.source_file import Import, SourceFile, Use

HOUSE = pathlib.Path(__file__).resolve().parent.parent  # where this package lies beside those it is installed with
_EFFECTS = ""  # the name under which a file's effects are reached
_LIBRARIES = {
    pathlib.Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")
}

Part = tuple[SourceFile, str]  # a file and the name of one of its definitions


class Reached(NamedTuple):
    """What one definition reaches.

    Attributes
    ----------
    bound
        What its names stand for: of ``regions.SIZE``, ``["package.regions:SIZE"]``.
    targets
        The definitions reached.
    libraries
        The top-level modules outside that are imported on the way.
    """

    bound: dict[str, list[str]]
    targets: list[Part]
    libraries: set[str]


class ReachedCode:
    """What is reached from some definitions.

    Attributes
    ----------
    parts : dict[Part, dict[str, list[str]]]
        Each definition reached, with what its names stand for, see ``Reached``.
    libraries : set[str]
        The top-level modules outside that are imported on the way.
    """

    def __init__(self, tree: SourceTree, roots: Iterable[Part]):
        self._tree = tree
        self.parts: dict[Part, dict[str, list[str]]] = {}
        self.libraries: set[str] = set()
        waiting = list(roots)
        while waiting:
            part = waiting.pop()
            if part in self.parts:
                continue
            reached = tree.reached(part)
            self.parts[part] = reached.bound
            self.libraries |= reached.libraries
            waiting += reached.targets

    def texts(self) -> Iterator[str]:
        """Yield each definition reached, as text, in an order that does not depend on where it stands in its file."""
        for (file, name), uses in sorted(self.parts.items(), key=lambda item: (item[0][0].name, item[0][1])):
            bound = [f"{use} = {', '.join(targets)}" for use, targets in sorted(uses.items()) if targets]
            yield "\n".join([f"{file.name}:{name}", self._tree.text(file, name), *bound])


class _Resolver:
    """Finds what the names in a file stand for, and which libraries are imported on the way."""

    def __init__(self, tree: SourceTree, file: SourceFile):
        self._tree, self._file = tree, file
        self.libraries: set[str] = set()

    def resolved(self, use: Use) -> Iterator[Part | str]:
        """Yield what a use stands for: definitions, and names of what comes from outside."""
        if isinstance(use.name, Import):
            yield from self._imported(self._file, use.name, list(use.attributes))
        else:
            yield from self._named(self._file, use.name, list(use.attributes))

    def _named(self, file: SourceFile, name: str, attributes: list[str]) -> Iterator[Part | str]:
        if name in file.definitions:
            yield file, name
        if name in file.imports:
            yield from self._imported(file, file.imports[name], attributes)
        elif name not in file.definitions and not hasattr(builtins, name) and not _is_dunder(name):
            for module in file.stars:
                yield from self._imported(file, Import(module), [])
            yield from self._tree.whole(file)

    def _imported(self, importer: SourceFile, target: Import, attributes: list[str]) -> Iterator[Part | str]:
        names = [*([target.attribute] if target.attribute else []), *attributes]
        module, file = target.module, self._tree.find(target.module, importer)
        while names:
            if file is not None and (names[0] in file.definitions or names[0] in file.imports):
                break
            longer = f"{module}.{names[0]}"
            below = self._tree.find(longer, importer) if file is None or file.is_package else None
            if below is None and not self._tree.is_folder(longer, importer):
                break
            module, file, names = longer, below, names[1:]
        if file is None:
            self.libraries.add(target.module.split(".")[0])
            yield str(target)
        elif not names:  # the module itself is handed on
            yield from self._tree.whole(file)
        elif _is_dunder(names[0]):
            yield file, _EFFECTS
        else:
            yield from self._named(file, names[0], names[1:])


class SourceTree:
    """The files of a house, and of users' own folders, each read once.

    Parameters
    ----------
    house
        Folder of the packages whose imports are followed. Where other packages are installed beside them, only
        those of this distribution are.
    """

    def __init__(self, house: pathlib.Path = HOUSE):
        self.house = house
        self._packages = _packages_of_the_distribution(house)
        self._files: dict[object, SourceFile] = {}
        self.uses = functools.cache(self._uses)
        self.text = functools.cache(self._text)
        self.in_house = functools.cache(self._in_house)  # asked for tens of thousands of times
        self._reached_in_house = functools.cache(self._reached)  # many results depend on the same code

    def reached(self, part: Part) -> Reached:
        """Return what a definition reaches; it is followed once, but for a user's own, which may change meanwhile."""
        return self._reached_in_house(part) if _root(part[0]) == self.house else self._reached(part)

    def _reached(self, part: Part) -> Reached:
        file, resolver = part[0], _Resolver(self, part[0])
        code, types = self.uses(*part)
        found = {use: list(resolver.resolved(use)) for use in code | types}
        bound: dict[str, list[str]] = {}
        for use in code:  # a name that is imported and assigned is two uses of one text; a set has no order
            text, names = str(use), _names(found[use])
            bound[text] = sorted({*bound[text], *names}) if text in bound else names
        targets = [target for each in found.values() for target in each if isinstance(target, tuple)]
        return Reached(bound, [*dict.fromkeys([*targets, *self.imported_with(file)])], resolver.libraries)

    def file_at(self, path: pathlib.Path) -> SourceFile | None:
        """Return a file of the house or of a user's own; None of one that belongs to a library."""
        path = path.resolve()
        if path.is_relative_to(self.house):
            relative = path.relative_to(self.house).with_suffix("")
            if self._packages is None or relative.parts[0] in self._packages:
                return self._read(path, self.house)
        root = path.parent
        while (root / "__init__.py").is_file():
            root = root.parent
        return None if any(path.is_relative_to(library) for library in _LIBRARIES) else self._read(path, root)

    def find(self, module: str, importer: SourceFile | None = None) -> SourceFile | None:
        """Return the file of a module of the house, or of one beside the file that imports it; None of a library's."""
        beside = None if importer is None or (root := _root(importer)) == self.house else self._below(root, module)
        return beside or self.in_house(module)

    def _in_house(self, module: str) -> SourceFile | None:
        return self._below(self.house, module) if self._is_ours(module) else None

    def _below(self, root: pathlib.Path, module: str) -> SourceFile | None:
        place = root.joinpath(*module.split("."))
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file():
                return self._read(path, root)
        return None

    def is_folder(self, module: str, importer: SourceFile | None = None) -> bool:
        """Return whether a module is a folder that may hold modules of the house or of a user's own."""
        roots = {self.house} if importer is None else {_root(importer), self.house}
        places = (root.joinpath(*module.split(".")) for root in roots if root != self.house or self._is_ours(module))
        return any(place.is_dir() for place in places)

    def _is_ours(self, module: str) -> bool:
        return self._packages is None or module.split(".")[0] in self._packages

    def whole(self, file: SourceFile) -> list[Part]:
        """Return all parts of a file; of a package, what it offers from its modules too."""
        parts = [(file, name) for name in (*file.definitions, _EFFECTS)]
        if file.is_package:
            parts.append((file, "*"))
        return parts

    def imported_with(self, file: SourceFile) -> list[Part]:
        """Return what happens when a file is imported: its effects, and those of the packages that it lies in."""
        packages = file.name.split(".")
        above = [self.find(".".join(packages[:depth]), file) for depth in range(1, len(packages))]
        return [(each, _EFFECTS) for each in (file, *filter(None, above))]

    def _read(self, path: pathlib.Path, root: pathlib.Path) -> SourceFile:
        key = path if root == self.house else (path, path.stat().st_mtime_ns, path.stat().st_size)
        if key not in self._files:  # a user's own file may change while a notebook or a test goes on
            relative = path.relative_to(root).with_suffix("")
            parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
            self._files[key] = SourceFile(".".join(parts), path)
        return self._files[key]

    def _uses(self, file: SourceFile, name: str) -> tuple[set[Use], set[Use]]:
        if name == "*":
            return {Use(imported) for imported in file.imports}, set()
        return file.uses(self._statements(file, name))

    def _text(self, file: SourceFile, name: str) -> str:
        return file.text(self._statements(file, name))

    @staticmethod
    def _statements(file: SourceFile, name: str):
        return file.effects if name == _EFFECTS else file.definitions.get(name, [])


def _packages_of_the_distribution(house: pathlib.Path) -> set[str] | None:
    """Return the packages installed with this one; None where only they lie in the folder, in a checkout."""
    record = next(house.glob("attribution_benchmarks-*.dist-info/RECORD"), None)
    return {line.split("/")[0] for line in record.read_text(encoding="utf-8").split("\n")} if record else None


@functools.cache
def _root(file: SourceFile) -> pathlib.Path:
    """Return the folder from which a file's dotted name begins."""
    depth = len(file.name.split(".")) if file.name else 0
    return file.path.parents[depth if file.is_package else depth - 1]


def _names(targets: list[Part | str]) -> list[str]:
    return sorted(target if isinstance(target, str) else f"{target[0].name}:{target[1]}" for target in targets)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
