"""Read a StableHLO module, as TensorFlow prints it, into operations.

TensorFlow's wheel has no Python binding for such modules. It can print one as text, with all calls inlined, and this
reads that text: one operation a line, regions in braces, types after the last colon.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.graph.view import Untranslatable

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
    regions: list[Region] = dataclasses.field(default_factory=list)
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
    """Return the types of the arguments of a module's ``main`` and its body."""
    places = _Places(text)
    lines = (line.strip() for line in text.splitlines() if not line.startswith("#"))
    main = next((line for line in lines if line.startswith("func.func") and "@main(" in line), None)
    if main is None:
        raise Untranslatable("no function main")
    arguments = _signature(main)
    body = Region([name for name, _ in arguments])
    opened = [Operation("func.func", [], [], "", [], [body])]  # what the lines are inside of, from the outermost on
    for line, scope in map(places.split, lines):
        inner = opened[-1]
        if line.startswith("}") and not line.endswith("{"):
            opened.pop()
            if not opened:
                return [kind for _, kind in arguments], body
            inner.scope = inner.scope or scope
            inner.types = inner.types or _results(line, inner.results)
        elif line.startswith("}") or line == "cond {":  # or "}, {" or "} do {"
            inner.regions.append(Region(re.findall(r"(%\w+) = %", inner.text)))
        elif block := _BLOCK.match(line):
            if inner.regions[-1].operations:
                raise Untranslatable("a region of several blocks")
            inner.regions[-1].arguments = [name for name, _ in _signature(block[1])]
        elif line:
            operation = _operation(line, scope)
            inner.regions[-1].operations.append(operation)
            if operation.kind.endswith(".while") or line.endswith("{"):
                opened.append(operation)
                operation.regions = [] if operation.kind.endswith(".while") else [Region([])]
        if len(opened) > MOST_NESTED:
            raise Untranslatable(f"more than {MOST_NESTED} regions within each other")
    raise Untranslatable("a region without an end")


def array(text: str, kind: Type) -> np.ndarray:
    """Return a constant that is written as ``dense<...>``."""
    found = re.search(r"dense<(.*)>", text, re.DOTALL)
    if not found or None in kind.sizes:
        raise Untranslatable(f"a constant written as {text[:40]}")
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
        raise Untranslatable(f"the type {text.strip()[:60]}")
    types = []
    for sizes, kind in _TENSOR.findall(text):
        if kind not in _TYPES:
            raise Untranslatable(f"numbers of the type {kind}")
        types.append(Type(tuple(None if size == "?" else int(size) for size in sizes.split("x")[:-1]), _TYPES[kind]))
    return types


def _signature(line: str) -> list[tuple[str, Type]]:
    """Return names and types of a function's or a block's arguments."""
    inside = _TEXT.sub("", line.split("->")[0])
    found = re.findall(r"(%\w+): (tensor<[^>]*>+|[^,)]*)", inside)
    return [(name, _types(kind)[0]) for name, kind in found]


def _operation(line: str, scope: str) -> Operation:
    """Return the operation of a line; the types of one with regions come after these."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise Untranslatable(f"the line {line[:60]}")
    kind, rest = match["kind"].strip('"'), match["rest"]
    name, _, count = (match["results"] or "").strip().partition(":")
    results = [f"{name}#{number}" for number in range(int(count))] if count else name.split(", ") if name else []
    plain = rest if kind.endswith(".constant") else _TEXT.sub('""', rest)
    if kind.endswith(".while"):  # %variable = %operand, ... : types
        text, _, types = plain.partition(" : ")
        return Operation(kind, results, re.findall(r"= (%\w+(?:#\d+)?)", text), text, _types(types), scope=scope)
    text = plain if plain.endswith("{") else plain.rpartition(" : ")[0]
    operands = _NAME.findall(text.partition("<{")[0])
    return Operation(kind, results, operands, text, [] if text == plain else _results(plain, results), scope=scope)


def _results(line: str, results: Sequence[str]) -> list[Type]:
    """Return the types of an operation's results, from the end of its line: all of them, or one for all operands."""
    types = line.rpartition(" : ")[2]
    found = _types(types) if results else []
    return found if "->" in types else found[-1:]


class _Places:
    """The names of places in the program, which follow its text."""

    def __init__(self, text: str) -> None:
        self._known = dict(_LOCATION.findall(text))

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
