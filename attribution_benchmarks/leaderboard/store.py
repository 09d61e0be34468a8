"""Scores on disk: appended as they are computed, found again by what they were computed from.

A store is a directory. Each series of scores has one file of JSON lines: the first line is its key (model
fingerprint, data fingerprint, method, parameters, seed: whatever the scores depend on), each further line
the record of one input. The file's name is a hash of the key, so a changed model or parameter finds no old
scores. A process that is killed leaves at most half a line, which is cut off when the series is opened again;
one that continues in the same order writes the same bytes as one that was never interrupted. Processes that
append to one series wait for each other, and what another has written meanwhile is not written again: two that
compute the same end with the bytes of one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.command_line.locks import lock
from attribution_benchmarks.leaderboard.places import Places

_AT_ONCE = 256  # records that are parsed together; bounds the memory


class ScoreStore:
    """A directory of series.

    Parameters
    ----------
    directory
        Made when the first score is written; None keeps scores in memory alone.
    """

    def __init__(self, directory: str | None):
        self.directory = directory
        self._in_memory: dict[str, Series] = {}
        self._numbers: dict[str, int] = {}  # of the inputs of all series

    def series(self, **key: Any) -> Series:
        """Return the series of scores with a key.

        Parameters
        ----------
        **key
            All that the scores depend on, apart from the input: strings, numbers, lists and mappings of them.

        Raises
        ------
        BadInput
            If the key cannot be written as JSON, or the file of that name belongs to another key.
        """
        found = Series(self.directory, key, self._numbers)
        # What is in memory alone would be lost with the first who asked for it.
        return found if found.path else self._in_memory.setdefault(found.name, found)

    def manifest(self) -> list[dict]:
        """Return the key and the number of scores of every series, sorted by file name."""
        if self.directory is None or not os.path.isdir(self.directory):
            return []
        found = []
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".jsonl"):
                with open(os.path.join(self.directory, name), "rb") as file:
                    lines = _whole_lines(file.read())
                if lines:
                    found.append({"file": name, "scores": len(lines) - 1, "key": _key(name, lines[0])})
        return found


class Series:
    """Scores of inputs under one key; a mapping from input to record that can only grow.

    Attributes
    ----------
    key : dict
        What the scores depend on.
    name : str
        A hash of the key.
    path : str or None
        The file; None for scores that are kept in memory alone.
    """

    def __init__(self, directory: str | None, key: Mapping, numbers: dict[str, int]):
        try:
            self._header = json.dumps(key, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadInput(f"the key of a series must be plain JSON: {error}") from error
        self.key = json.loads(self._header)
        self.name = hashlib.sha256(self._header.encode()).hexdigest()[:24]
        self.path = None if directory is None else os.path.join(directory, f"{self.name}.jsonl")
        self._seen = 0  # bytes of the file whose records are known
        # Input -> its record or, where there is a file, where its line begins: memory does not hold what disks do.
        self._records: dict[str, Any] = {}
        self._places = Places(numbers)
        if self.path is not None:
            self._read()

    @property
    def _kept(self) -> Places | dict[str, Any]:
        return self._records if self.path is None else self._places

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __getitem__(self, name: str):
        return next(self.records([name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return those of the inputs that have no record, in their order."""
        return [name for name in names if name not in self._kept]

    def records(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the records of inputs, in the order of the names.

        Raises
        ------
        KeyError
            If an input has none.
        BadInput
            If the file is no longer what it was.
        """
        if self.path is None:
            yield from (self._records[name] for name in names)
            return
        waiting = iter(names)
        try:
            with open(self.path, "rb") as file:
                while some := list(itertools.islice(waiting, _AT_ONCE)):
                    yield from self._records_of(file, some)
        except OSError as error:
            raise BadInput(f"cannot read scores from {self.path}: {error.strerror}; choose another folder") from error

    def _records_of(self, file: BinaryIO, names: list[str]) -> list[Any]:
        lines, end = [], None
        for place in map(self._places.__getitem__, names):
            if place != end:
                file.seek(place)
            lines.append(file.readline())
            end = place + len(lines[-1])
        try:
            found = _parsed(lines)
            if [name for name, _ in found] == names:
                return [record for _, record in found]
        except (TypeError, ValueError):
            pass
        raise BadInput(f"{self.path} was changed meanwhile; remove the file to compute anew")

    def append(self, records: Mapping[str, object]) -> None:
        """Write records of inputs, in their order; an input that has one keeps it.

        Parameters
        ----------
        records
            Input name to a record of plain JSON values without NaN.
        """
        fresh = {name: record for name, record in records.items() if name not in self._kept}
        if not fresh:
            return
        lines = {
            name: json.dumps([name, record], sort_keys=True, allow_nan=False) + "\n" for name, record in fresh.items()
        }
        if self.path is not None:
            self._write(lines)
            return
        # Through JSON, so that a record is the same whether it was kept in memory or in a file.
        self._records.update((name, json.loads(line)[1]) for name, line in lines.items())

    def _write(self, lines: Mapping[str, str]) -> None:
        """Append lines by input to the file, below the key if it is new, but for inputs another process has written."""
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path, "ab+") as file:
                lock(file)
                end = os.fstat(file.fileno()).st_size
                if end != self._seen:  # else the file, which may be long, need not be read again
                    written = _cut_half_line(file)
                    end = len(written)
                    if end > self._seen:
                        self._take(written)
                content = b"" if end else f"{self._header}\n".encode()
                places = {}
                for name, line in lines.items():
                    if name not in self._kept:
                        places[name] = end + len(content)
                        content += line.encode()
                file.write(content)
                file.flush()
                self._seen = end + len(content)
                os.fsync(file.fileno())
                for name, place in places.items():
                    self._places.add(name, place)
        except OSError as error:
            raise BadInput(f"cannot write scores to {self.path}: {error.strerror}; choose another folder") from error

    def _read(self) -> None:
        """Take up what the file holds."""
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise BadInput(f"cannot read scores from {self.path}: {error.strerror}; choose another folder") from error
        self._seen = content.rfind(b"\n") + 1
        self._take(content)

    def _take(self, content: bytes) -> None:
        """Take up where the records of a file's content are; the first of an input counts."""
        lines = _whole_lines(content)
        if not lines:  # killed while the first line was written; the next append cuts it off
            return
        if lines[0] != self._header.encode():
            raise BadInput(f"{self.path} holds scores of another key; remove it or choose another directory")
        place = len(lines[0]) + 1
        for start in range(1, len(lines), _AT_ONCE):
            some = lines[start : start + _AT_ONCE]
            try:
                found = _parsed(some)
            except (TypeError, ValueError) as error:
                number = next(start + place for place, line in enumerate(some) if not _is_record(line))
                raise BadInput(f"{self.path}, line {number + 1} is damaged; remove the file to compute anew") from error
            for line, (name, _) in zip(some, found, strict=True):
                self._places.add(name, place)
                place += len(line) + 1


def _parsed(lines: list[bytes]) -> list[tuple[str, Any]]:
    """Return the names and records of lines, which are parsed at once: one by one takes five times as long.

    Raises
    ------
    TypeError, ValueError
        If a line holds anything else.
    """
    try:
        found = [(name, record) for name, record in json.loads(b"[" + b",".join(lines) + b"]")]
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if len(found) != len(lines) or not all(isinstance(name, str) for name, _ in found):
        raise ValueError("not a name and a record a line")
    return found


def _key(name: str, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}, line 1 is damaged; remove the file to compute its scores again") from error


def _is_record(line: bytes) -> bool:
    try:
        return bool(_parsed([line]))
    except (TypeError, ValueError):
        return False


def _cut_half_line(file) -> bytes:
    """Drop what a killed process wrote after the last whole line; return what is left."""
    file.seek(0)
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if whole != len(content):
        file.truncate(whole)
    return content[:whole]


def _whole_lines(content: bytes) -> list[bytes]:
    """Return the lines that end in a line break."""
    return content.split(b"\n")[:-1]
