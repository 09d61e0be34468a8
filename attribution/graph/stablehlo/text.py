"""Read a StableHLO module, as TensorFlow prints it, into operations.

TensorFlow's wheel has no Python binding for such modules. It can print one as text, with all calls inlined, and this
reads that text: one operation a line, regions in braces, types after the last colon.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

MOST_NESTED = 40  # regions within regions

_TYPES = {
    "f64": tf.float64, "f32": tf.float32, "f16": tf.float16, "bf16": tf.bfloat16, "i1": tf.bool,
    "i8": tf.int8, "i16": tf.int16, "i32": tf.int32, "i64": tf.int64,
    "ui8": tf.uint8, "ui16": tf.uint16, "ui32": tf.uint32, "ui64": tf.uint64,
}  # fmt: skip
_LINE = re.compile(r"(?:(?P<results>%[\w, %:]+?) = )?(?P<kind>\"[\w.]+\"|[\w.]+)(?P<rest>.*)", re.DOTALL)
_NAME = re.compile(r"%\w+(?:#\d+)?")
_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(\w+(?:<\w+>)?)>")
_LOCATION = re.compile(r"#(loc\d*) = loc\((.*)\)")
_TRAILING = re.compile(r" loc\((#loc\d*|\"[^\"]*\"|unknown)\)")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_BLOCK = re.compile(r"\^bb\d+\((.*)\):")


class Unreadable(ValueError):
    """The text is of a form that this module does not know; the message says which."""


@dataclasses.dataclass(frozen=True)
class Type:
    """A tensor's sizes, ``None`` where they are open, and its type."""

    sizes: tuple[Any, ...]
    dtype: tf.DType


@dataclasses.dataclass
class Region:
    """A function's body, or that of a loop or a reduction: names of its arguments, and operations."""

    arguments: list[str]
    operations: list[Operation] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Operation:
    """An operation.

    Attributes
    ----------
    kind
        Such as ``"stablehlo.add"``.
    results, operands
        Names of values, such as ``"%3"`` or ``"%12#7"``.
    text
        What the line says between the kind and the types, from which the properties read attributes.
    types
        Of the results.
    regions
        Of a loop, a reduction, a sort.
    scope
        The name that its maker gave the place in the program, such as ``"functional/conv2d/add"``.
    """

    kind: str
    results: list[str]
    operands: list[str]
    text: str
    types: list[Type]
    regions: list[Region]
    scope: str = ""

    @property
    def name(self) -> str:
        """The kind without its dialect, such as ``"add"``."""
        return self.kind.partition(".")[2]

    @property
    def direction(self) -> str:
        """Of a comparison, such as ``"LT"``."""
        return self.text.split(",")[0].split()[0]

    @property
    def slices(self) -> list[slice]:
        """Of a slice: the part of each axis."""
        inside = self.text.partition("[")[2].rpartition("]")[0]
        return [slice(*(int(number) for number in part.split(":"))) for part in inside.split(",") if part.strip()]

    def integers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an attribute that is a list of integers, or one integer, flat."""
        found = re.search(rf"\b{name} = (?:array<i64(?:: )?|dense<)?(\[[-\d, \[\]]*\]|[-\d, ]*)", self.text)
        return _integers(found[1]) if found else default

    def pairs(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return an attribute such as ``contracting_dims = [1] x [0]``."""
        found = re.search(rf"\b{name} = \[([\d, ]*)\] x \[([\d, ]*)\]", self.text)
        return (_integers(found[1]), _integers(found[2])) if found else ((), ())


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"-?\d+", text))


def read(text: str) -> tuple[list[Type], Region]:
    """Return the types of the arguments of a module's ``main`` and its body.

    Raises
    ------
    Unreadable
        If the text has another form.
    """
    scopes = _Scopes(text)
    lines = iter([line.strip() for line in text.splitlines() if not line.startswith("#")])
    for line in lines:
        if line.startswith("func.func") and "@main(" in line:
            arguments = _signature(line)
            body = _region(lines, [name for name, _ in arguments], scopes, 0)
            return [kind for _, kind in arguments], body
    raise Unreadable("no function main")


def array(text: str, kind: Type) -> np.ndarray:
    """Return a constant that is written as ``dense<...>``.

    Raises
    ------
    Unreadable
        If it is written otherwise, or its shape is open.
    """
    found = re.search(r"dense<(.*)>", text, re.DOTALL)
    if not found or None in kind.sizes:
        raise Unreadable(f"a constant written as {text[:40]}")
    content, dtype = found[1], kind.dtype.as_numpy_dtype
    if content.startswith('"0x'):
        data = bytes.fromhex(content[3:-1])
        values = np.frombuffer(data, np.uint8).astype(bool) if dtype is np.bool_ else np.frombuffer(data, dtype)
    else:
        values = np.array([_number(word, kind.dtype) for word in re.findall(r"[^\s,\[\]]+", content)]).astype(dtype)
    return np.broadcast_to(values[0], kind.sizes) if values.size == 1 else values.reshape(kind.sizes)


def _number(word: str, dtype: tf.DType) -> object:
    """Return a number in decimal or, of floating point, as its bits."""
    if word in ("true", "false"):
        return word == "true"
    if word.startswith("0x") and dtype.is_floating:
        return np.frombuffer(int(word, 16).to_bytes(dtype.size, "little"), dtype.as_numpy_dtype)[0]
    return float(word) if dtype.is_floating else int(word, 0)


def _types(text: str) -> list[Type]:
    """Return the types of the results, from what follows the last colon of a line."""
    text = text.rpartition("->")[2]
    if _TENSOR.sub("", text).strip("(), "):
        raise Unreadable(f"the type {text.strip()[:60]}")
    found = _TENSOR.findall(text)
    return [_type(sizes, kind) for sizes, kind in found]


def _type(sizes: str, kind: str) -> Type:
    if kind not in _TYPES:
        raise Unreadable(f"numbers of the type {kind}")
    return Type(tuple(None if size == "?" else int(size) for size in sizes.split("x")[:-1]), _TYPES[kind])


def _signature(line: str) -> list[tuple[str, Type]]:
    """Return names and types of a function's or a block's arguments."""
    inside = _TEXT.sub("", line.split("->")[0])
    found = re.findall(r"(%\w+): (tensor<[^>]*>+|[^,)]*)", inside)
    return [(name, _types(kind)[0]) for name, kind in found]


def _region(lines: Iterator[str], arguments: list[str], scopes: _Scopes, depth: int) -> Region:
    """Read operations up to the brace that closes their region; the brace's own line is left in ``scopes.closing``."""
    if depth > MOST_NESTED:
        raise Unreadable(f"more than {MOST_NESTED} regions within each other")
    region = Region(arguments)
    for line in lines:
        if line.startswith("}"):
            scopes.closing = line
            return region
        if block := _BLOCK.match(line):
            if region.operations:
                raise Unreadable("a region of several blocks")
            region.arguments = [name for name, _ in _signature(block[1])]
        elif line:
            region.operations.append(_operation(line, lines, scopes, depth))
    raise Unreadable("a region without an end")


def _operation(line: str, lines: Iterator[str], scopes: _Scopes, depth: int) -> Operation:
    line, scope = scopes.split(line)
    match = _LINE.fullmatch(line)
    if match is None:
        raise Unreadable(f"the line {line[:60]}")
    kind, rest = match["kind"].strip('"'), match["rest"]
    plain = rest if kind.endswith(".constant") else _TEXT.sub('""', rest)
    if plain.endswith("{") or kind.endswith(".while"):
        head, types, regions = _with_regions(kind, plain, lines, scopes, depth)
        scope = scope or scopes.split(scopes.closing)[1]
    else:
        (head, _, types), regions = plain.rpartition(" : "), []
    found = _types(types) if match["results"] else []
    if "->" not in types and not kind.endswith(".while"):
        found = found[-1:]
    operands = _NAME.findall(head.partition("<{")[0])
    return Operation(kind, _results(match["results"] or ""), operands, head, found, regions, scope)


def _with_regions(
    kind: str, line: str, lines: Iterator[str], scopes: _Scopes, depth: int
) -> tuple[str, str, list[Region]]:
    """Return the operands and attributes of an operation, its types, and its regions, which are read."""

    def region(names: list[str]) -> Region:
        return _region(lines, names, scopes, depth + 1)

    if kind.endswith(".while"):
        head, _, types = line.partition(" : ")
        head, names = _loop(head)
        next(lines)  # cond {
        return head, types, [region(names), region(names)]
    regions = [region([])]
    while scopes.closing.startswith("}, {"):
        regions.append(region([]))
    return line, scopes.split(scopes.closing)[0].rpartition(" : ")[2], regions


def _loop(head: str) -> tuple[str, list[str]]:
    """Return the part of a loop's line with its operands alone, and the names of its variables inside."""
    pairs = re.findall(r"(%\w+) = (%\w+(?:#\d+)?)", head)
    return ", ".join(operand for _, operand in pairs), [name for name, _ in pairs]


def _results(text: str) -> list[str]:
    name, _, count = text.strip().partition(":")
    if count:
        return [f"{name}#{number}" for number in range(int(count))]
    return name.split(", ") if name else []


class _Scopes:
    """The names of places in the program, which follow its text.

    Attributes
    ----------
    closing
        The line that closed the last region.
    """

    def __init__(self, text: str) -> None:
        self._known = dict(_LOCATION.findall(text))
        self.closing = ""

    def split(self, line: str) -> tuple[str, str]:
        """Return a line without its place, and the name of that place."""
        places = _TRAILING.findall(line)
        return _TRAILING.sub("", line), self._name(places[-1]) if places else ""

    def _name(self, place: str) -> str:
        for _ in range(MOST_NESTED):
            if found := re.search(r'"([^"]*/[^"]*)"(?!:\d)', place):  # with a line's number, it is a file's
                return found[1]
            inner = re.search(r"at #(loc\d*)|#(loc\d*)", place)
            if not inner:
                return ""
            place = self._known.get(inner[1] or inner[2], "")
        return ""
