"""Scores on disk, found by what they were computed from.

A store is a directory with one SQLite database. Each series of scores has a key, which holds all that the scores depend
on apart from the input: fingerprints of model and data, method, parameters, seed. It has one record for each input. A
changed key finds no old scores. Each record has a checksum, so a damaged one is an error and never another number. A
process that is killed loses the batch that it was writing, and nothing else. Several processes may write to one store;
the first record of an input counts.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from attribution.errors import BadInput

FILE = "scores.sqlite"
_AT_ONCE = 256  # records in one query; bounds the memory
_PATIENCE = 600  # seconds to wait for other processes that write
_TABLES = """
CREATE TABLE IF NOT EXISTS series (name TEXT PRIMARY KEY, key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    series TEXT NOT NULL, input TEXT NOT NULL, record TEXT NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (series, input)
);
"""


class ScoreStore:
    """A directory of series.

    Parameters
    ----------
    directory
        Made when the first score is written; None keeps scores in memory alone.
    """

    def __init__(self, directory: str | os.PathLike | None):
        self.directory = None if directory is None else os.fspath(directory)
        self.path = None if directory is None else os.path.join(self.directory, FILE)
        self._database: sqlite3.Connection | None = None
        self._one_at_a_time = threading.RLock()

    def series(self, **key: Any) -> Series:
        """Return the series of scores with a key.

        Parameters
        ----------
        **key
            All that the scores depend on, apart from the input: strings, numbers, lists and mappings of them.

        Raises
        ------
        BadInput
            If the key cannot be written as JSON.
        """
        return Series(self, key)

    def contents(self) -> dict[str, dict[str, Any]]:
        """Return everything in the store: the key of each series, as JSON, to its records by input."""
        keys = [json.loads(key) for (key,) in self.query("SELECT key FROM series ORDER BY name", ())]
        every = [self.series(**key) for key in keys]
        return {series.header: dict(zip(series, series.records(series), strict=True)) for series in every}

    def query(self, statement: str, values: Iterable[Any]) -> list[tuple]:
        """Return the rows of a query; none where nothing was written yet.

        Raises
        ------
        BadInput
            If the database is damaged or cannot be read.
        """
        with self._errors("cannot read scores from"), self._one_at_a_time:
            database = self._connection(write=False)
            return database.execute(statement, tuple(values)).fetchall() if database else []

    def insert(self, series: Series, lines: Iterable[tuple[str, str]]) -> None:
        """Write records, as JSON, of inputs that have none, in one transaction.

        Raises
        ------
        BadInput
            If they cannot be written.
        """
        rows = [(series.name, json.dumps(name), line, _checksum(series.name, name, line)) for name, line in lines]
        with self._errors("cannot write scores to"), self._one_at_a_time:
            database = self._connection(write=True)
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT OR IGNORE INTO series VALUES (?, ?)", (series.name, series.header))
                database.executemany("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?)", rows)

    def _connection(self, write: bool) -> sqlite3.Connection | None:
        """Return the open database; None where there is none yet and nothing is to be written."""
        if self._database is None:
            if self.path is None:
                self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                self._database.executescript(_TABLES)
            elif write or os.path.lexists(self.path):
                os.makedirs(self.directory, exist_ok=True)
                database = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
                database.execute("PRAGMA trusted_schema = OFF")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")  # a loss of power may lose a batch, never damage one
                database.executescript(_TABLES)
                if _schema(database) != _expected_schema():
                    raise sqlite3.DatabaseError("it is not a store of scores")
                self._database = database
        return self._database

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else error
            remedy = "make room" if "write" in what else "remove the file to compute again"
            raise BadInput(f"{what} {self.path}: {said}; {remedy}, or name another folder") from error


class Series:
    """Scores of inputs under one key; a mapping from input to record that can only grow.

    Attributes
    ----------
    key : dict
        What the scores depend on.
    name : str
        A hash of the key.
    header : str
        The key as JSON.
    path : str or None
        The store's file; None for scores that are kept in memory alone.
    """

    def __init__(self, store: ScoreStore, key: Mapping):
        try:
            self.header = json.dumps(key, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadInput(f"the key of a series must be plain JSON: {error}") from error
        self.key = json.loads(self.header)
        self.name = hashlib.sha256(self.header.encode()).hexdigest()[:24]
        self.path = store.path
        self._store = store

    def __len__(self) -> int:
        rows = self._store.query("SELECT COUNT(*) FROM records WHERE series = ?", (self.name,))
        return rows[0][0] if rows else 0

    def __contains__(self, name: str) -> bool:
        return not self.missing([name])

    def __getitem__(self, name: str) -> Any:
        return next(self.records([name]))

    def __iter__(self) -> Iterator[str]:
        rows = self._store.query("SELECT input FROM records WHERE series = ? ORDER BY rowid", (self.name,))
        return iter([json.loads(name) for (name,) in rows])

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return those of the inputs that have no record, in their order."""
        found = []
        for some in _batches(names):
            known = self._rows(some)
            found += [name for name in some if name not in known]
        return found

    def records(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the records of inputs, in the order of the names.

        Raises
        ------
        KeyError
            If an input has none.
        BadInput
            If a record is damaged.
        """
        for some in _batches(names):
            found = self._rows(some)
            for name in some:
                line, checksum = found[name]
                if not isinstance(line, str) or checksum != _checksum(self.name, name, line):
                    raise self._damaged(f"the score of {name!r}")
                yield json.loads(line)

    def append(self, records: Mapping[str, object]) -> None:
        """Write records of inputs, in their order; an input that has one keeps it.

        Parameters
        ----------
        records
            Input name to a record of plain JSON values without NaN.
        """
        lines = [(name, json.dumps(record, sort_keys=True, allow_nan=False)) for name, record in records.items()]
        if lines:
            self._store.insert(self, lines)
            if self.missing(records):
                raise self._damaged("the table of records")

    def _rows(self, names: list[str]) -> dict[str, tuple[Any, Any]]:
        """Return record and checksum of those inputs that have a record."""
        inputs = {json.dumps(name): name for name in names}  # any text can be stored so
        marks = ",".join("?" * len(inputs))
        rows = self._store.query(
            f"SELECT input, record, checksum FROM records WHERE series = ? AND input IN ({marks})", (self.name, *inputs)
        )
        if any(name not in inputs for name, _, _ in rows):  # the index does not match the table
            raise self._damaged("an index")
        return {inputs[name]: (line, checksum) for name, line, checksum in rows}

    def _damaged(self, what: str) -> BadInput:
        return BadInput(f"{what} in {self.path} is damaged; remove the file to compute again")


def _schema(database: sqlite3.Connection) -> set[tuple]:
    """Return the tables, indices, views and triggers of a database."""
    return set(database.execute("SELECT type, name, sql FROM sqlite_master"))


@functools.cache
def _expected_schema() -> set[tuple]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_TABLES)
        return _schema(database)


def _checksum(series: str, name: str, line: str) -> bytes:
    return hashlib.blake2b(f"{series}\n{name}\n{line}".encode(errors="surrogatepass"), digest_size=8).digest()


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(names)
    while some := list(itertools.islice(waiting, _AT_ONCE)):
        yield some
