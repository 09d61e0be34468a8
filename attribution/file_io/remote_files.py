"""A command's models, data and results on file systems elsewhere, such as gs://: it works on copies of them.

Models and data are fetched once a machine, into the cache, and are found there again while what is elsewhere stays the
same. Files of results are written when they are complete. Stores of scores only grow: two copies are merged.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator

from absl import flags

from attribution.errors import BadInput
from attribution.file_io.directories import held, whole_directory
from attribution.file_io.file_systems import check_beam, get, is_elsewhere, join, put
from attribution.file_io.files import cache_directory, make_directory
from attribution.file_io.reading import inside

FETCHED, RESULTS, STORE = ("model", "models", "models_dir", "data_dir"), ("output", "input_scores"), "scores_dir"
SCORES = "scores.sqlite"  # in a store of scores; see core.store
_AT_ONCE = 16  # files under way

_origins: dict[str, str] = {}  # copy -> where it is from


def origin(path: str | os.PathLike) -> str:
    """Return where a copy is from; any other path as it is."""
    return _origins.get(os.fspath(path), os.fspath(path))


def written(flag: flags.Flag) -> str:
    """Return a flag with its value as on a command line, with the addresses that the user gave."""
    text = flag.serialize()
    for copy, address in _origins.items():
        text = text.replace(copy, address)
    return text


@contextlib.contextmanager
def brought(flag_values: flags.FlagValues) -> Iterator[None]:
    """Let the flags of a command that scores name copies meanwhile, and put what it writes where it belongs.

    Raises
    ------
    BadInput
        If a place cannot be read or written, or is none of those that may be elsewhere.
    """
    if STORE not in flag_values or "runner" not in flag_values:
        yield
        return
    with contextlib.ExitStack() as ending:
        for name in (*RESULTS, STORE):
            address = flag_values[name].value if name in flag_values else ""
            if address and is_elsewhere(address):
                _check(name, address)
                bring = _result if name in RESULTS else _store
                with _reached(name, address):
                    flag_values[name].value = ending.enter_context(bring(name, address))
                ending.callback(setattr, flag_values[name], "value", address)
        before = bring_inputs(flag_values)
        for name, value in before.items():
            ending.callback(setattr, flag_values[name], "value", value)
        yield


def bring_inputs(flag_values: flags.FlagValues) -> dict[str, str | list[str]]:
    """Fetch models and data, and let the flags name the copies; return the values before."""
    before = {}
    for name in FETCHED:
        value = flag_values[name].value if name in flag_values else ""
        given = value if isinstance(value, list) else [value or ""]
        if any(map(is_elsewhere, given)):
            address = ",".join(given)
            _check(name, address)
            with _reached(name, address):
                copies = [_with_copy(entry) if is_elsewhere(entry) else entry for entry in given]
            before[name] = value
            flag_values[name].value = copies if isinstance(value, list) else copies[0]
    return before


def _check(name: str, address: str) -> None:
    if "hdfs://" in address:  # Beam's client does not tell folders from files there, nor replace a file in one step
        raise BadInput(f"--{name}={address}: hdfs:// is for --blocks_dir alone; mount it, or name gs:// or s3://")
    check_beam(f"--{name}={address}")


def _with_copy(entry: str) -> str:
    """Return an address as the path of a copy; a name before it, as in ``first=gs://bucket/model``, stays."""
    name, mark, address = entry.partition("=")
    if mark and not is_elsewhere(name):
        return f"{name}={fetched(address)}"
    return fetched(entry)


def fetched(address: str) -> str:
    """Return the path of a copy of a directory, made once while sizes and times of its files stay the same.

    Raises
    ------
    BadInput
        If there are no files, or one did not come whole.
    """
    from apache_beam.io.filesystems import FileSystems

    address = address.rstrip("/")
    (found,) = FileSystems.match([f"{address}/**"])
    files = sorted((entry.path, entry.size_in_bytes, entry.last_updated_in_seconds) for entry in found.metadata_list)
    files = [entry for entry in files if not entry[0].endswith("/")]  # what stands for a folder in some stores
    if not files:
        raise BadInput("there are no files; name a directory")
    above = cache_directory("fetched") / hashlib.sha256(repr([address, files]).encode()).hexdigest()[:24]
    copy = above / address.rpartition("/")[2]
    with held(above, "a copy"):
        if not copy.exists():
            with whole_directory(copy) as place, concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
                # A store of objects takes any name, such as one with dots that lead out of the copy.
                paths = [inside(place, path[len(address) + 1 :], address) for path, _, _ in files]
                list(pool.map(_fetch, [path for path, _, _ in files], paths))
                for path, (source, size, _) in zip(paths, files, strict=True):
                    if path.stat().st_size != size:
                        raise BadInput(f"{source} did not come whole; give the command again")
    _origins[str(copy)] = address
    return str(copy)


def _fetch(address: str, path: pathlib.Path) -> None:
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileSystems.open(address, compression_type=CompressionTypes.UNCOMPRESSED) as source, open(path, "wb") as file:
        shutil.copyfileobj(source, file)


@contextlib.contextmanager
def _result(name: str, address: str) -> Iterator[str]:
    """Yield the path of a file that is put elsewhere at the end, if it was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, address.rpartition("/")[2])
        yield str(path)
        if path.exists():
            with _reached(name, address):
                put(address, path.read_bytes())


@contextlib.contextmanager
def _store(name: str, address: str) -> Iterator[str]:
    """Yield a copy of a store of scores; what has grown in it is put at the end, even of a run that failed."""
    address = address.rstrip("/")
    copy = make_directory(cache_directory("stores") / hashlib.sha256(address.encode()).hexdigest()[:24])
    _origins[str(copy)] = address
    database, there = copy / SCORES, join(address, SCORES)
    _merge(get(there), database)
    try:
        yield str(copy)
    finally:
        with _reached(name, address), tempfile.TemporaryDirectory() as folder:
            if database.exists():
                _merge(get(there), database)  # another run may have put more meanwhile
                whole = os.path.join(folder, SCORES)
                with contextlib.closing(sqlite3.connect(database)) as connection:
                    connection.execute("VACUUM INTO ?", (whole,))
                put(there, pathlib.Path(whole).read_bytes())


def _merge(content: bytes | None, database: pathlib.Path) -> None:
    """Add the rows of a database, given as the bytes of its file, to another one that has the same tables or none."""
    if content is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder, SCORES)
        other.write_bytes(content)
        with contextlib.closing(sqlite3.connect(database, timeout=60, isolation_level=None)) as connection:
            connection.execute("ATTACH DATABASE ? AS other", (str(other),))
            for table, definition in connection.execute(
                "SELECT name, sql FROM other.sqlite_master WHERE type = 'table'"
            ).fetchall():
                connection.execute(definition.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
                connection.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM other.{table}")


@contextlib.contextmanager
def _reached(name: str, address: str) -> Iterator[None]:
    """Say in one line what Beam or a client of a cloud says of a place."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"--{name}={address}: {error}") from error
    except Exception as error:  # each client has errors of its own
        said = " ".join(str(error).split())[:300]
        raise BadInput(f"--{name}={address} cannot be used ({said}); name another place, or mount this one") from error
