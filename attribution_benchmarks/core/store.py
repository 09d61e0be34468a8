"""Scores in one SQLite database per directory, keyed by everything they depend on.

Each series of scores has a key: fingerprints of model and data, method, parameters, seed. A changed key finds no old
scores. A series has one record per input, each with a checksum, so a damaged record raises an error and never gives
another number. A killed process loses only the batch that it was writing. Several processes may write to one store; the
first record of an input counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attribution.errors import BadInput
from attribution.files import is_special

FILE = "scores.sqlite"
_BATCH_SIZE = 256  # records in one query; bounds the memory
_LOCK_TIMEOUT = 600  # seconds to wait for other processes that write
_TABLES = """
CREATE TABLE IF NOT EXISTS series (name TEXT PRIMARY KEY, key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    series TEXT NOT NULL, input TEXT NOT NULL, record TEXT NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (series, input)
);
"""


class ScoreStore:
    """A directory of series, created when the first score is written; None keeps scores in memory only."""

    def __init__(self, directory: str | os.PathLike[str] | None):
        self.directory = None if directory is None else os.fspath(directory)
        self.path = None if self.directory is None else os.path.join(self.directory, FILE)
        self._database: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    def series(self, **key: Any) -> Series:
        """Return the series with a key, plain JSON (else ``BadInput``): all that scores depend on except the input."""
        return Series(self, key)

    def contents(self) -> dict[str, dict[str, Any]]:
        """Return the key of each series, as JSON, to its records by input."""
        every = {}
        for name, header in self.query("SELECT name, key FROM series ORDER BY name"):
            if name != _name(header):
                raise self.damaged("the key of a series")
            series = self.series(**json.loads(header))
            every[header] = dict(zip(series, series.records(series), strict=True))
        return every

    def query(self, statement: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query, none if nothing was written yet; ``BadInput`` if it cannot be read."""
        with self._errors("cannot read scores from", "remove the file to compute again"), self._lock:
            if self.path is not None and self._database is None and not os.path.lexists(self.path):
                return []
            return self._open().execute(statement, tuple(values)).fetchall()

    def insert(self, series: Series, records: Mapping[str, str]) -> None:
        """Write records, as JSON, of inputs that have none, in one transaction; raise ``BadInput`` if that fails."""
        rows = [(series.name, json.dumps(name), line, series.checksum(name, line)) for name, line in records.items()]
        with self._errors("cannot write scores to", "make room"), self._lock:
            if self.directory is not None:
                os.makedirs(self.directory, exist_ok=True)
            with self._open() as database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT OR IGNORE INTO series VALUES (?, ?)", (series.name, series.header))
                database.executemany("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the database, so that SQLite writes its log into it; the next query opens it again."""
        with self._errors("cannot write scores to", "make room"), self._lock:
            if self._database is not None and self.path is not None:
                self._database.close()
                self._database = None

    def damaged(self, part: str) -> BadInput:
        """Return the error for a damaged part of the store."""
        return BadInput(f"{part} in {self.path} is damaged; remove the file to compute again")

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            for ending in ("", "-journal", "-wal", "-shm"):
                if self.path and is_special(f"{self.path}{ending}"):
                    raise OSError(f"{FILE}{ending} is not a regular file")  # SQLite would wait for a pipe
            database = sqlite3.connect(
                self.path or ":memory:", timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            _write_ahead(database)
            database.execute("PRAGMA synchronous = NORMAL")  # a power failure may lose a batch, never damage one
            database.executescript(_TABLES)
            self._database = database
        return self._database

    @contextmanager
    def _errors(self, problem: str, remedy: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise BadInput(f"{problem} {self.path}: {reason}; {remedy}, or name another folder") from error


class Series:
    """Scores of inputs under one key; an append-only mapping from input to record.

    ``header`` and ``name`` are the key as JSON, and its hash; ``path`` is the store's file, None for scores in memory.
    """

    def __init__(self, store: ScoreStore, key: Mapping[str, Any]):
        try:
            self.header = json.dumps(key, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadInput(f"the key of a series must be plain JSON: {error}") from error
        self.key = json.loads(self.header)
        self.name = _name(self.header)
        self.path = store.path
        self._store = store

    def __len__(self) -> int:
        rows = self._store.query("SELECT COUNT(*) FROM records WHERE series = ?", (self.name,))
        return int(rows[0][0]) if rows else 0

    def __contains__(self, name: str) -> bool:
        return not self.missing([name])

    def __getitem__(self, name: str) -> Any:
        return next(self.records([name]))

    def __iter__(self) -> Iterator[str]:
        rows = self._store.query("SELECT input FROM records WHERE series = ? ORDER BY rowid", (self.name,))
        try:
            return iter([json.loads(name) for (name,) in rows])
        except (TypeError, ValueError) as error:
            raise self._store.damaged("the name of an input") from error

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the inputs without a record, in their order."""
        return [name for batch, rows in self._rows(names) for name in batch if name not in rows]

    def records(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the records of inputs in the order of the names; ``BadInput`` if one is damaged or there is none."""
        for batch, rows in self._rows(names):
            for name in batch:
                line, checksum = rows.get(name, ("", None))
                if checksum != self.checksum(name, line):
                    raise self._store.damaged(f"the score of {name!r}")
                yield json.loads(line)

    def append(self, records: Mapping[str, object]) -> None:
        """Write records of inputs, plain JSON without NaN; an input that has one keeps it."""
        lines = {name: json.dumps(record, sort_keys=True, allow_nan=False) for name, record in records.items()}
        if lines:
            self._store.insert(self, lines)

    def checksum(self, name: str, line: str) -> bytes:
        """Return the checksum of an input's record."""
        content = f"{self.name}\n{name}\n{line}".encode(errors="surrogatepass")
        return hashlib.blake2b(content, digest_size=8).digest()

    def _rows(self, names: Iterable[str]) -> Iterator[tuple[list[str], dict[str, tuple[Any, Any]]]]:
        """Yield batches of inputs, with record and checksum of those that have a record."""
        every = list(names)
        for start in range(0, len(every), _BATCH_SIZE):
            batch = every[start : start + _BATCH_SIZE]
            inputs = {json.dumps(name): name for name in batch}  # any text can be stored as JSON
            rows = self._store.query(
                "SELECT input, record, checksum FROM records WHERE series = ? AND input IN "
                f"({','.join('?' * len(inputs))})",
                (self.name, *inputs),
            )
            yield batch, {inputs[name]: (line, checksum) for name, line, checksum in rows if name in inputs}


def _name(header: Any) -> str:
    """Return the name of the series with a key in JSON."""
    return hashlib.sha256(str(header).encode(errors="surrogatepass")).hexdigest()[:24]


def _write_ahead(database: sqlite3.Connection) -> None:
    """Switch to a write-ahead log; SQLite does not wait for another process that does so with a new file."""
    for left in reversed(range(200)):
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not left:
                raise
        time.sleep(0.05)
