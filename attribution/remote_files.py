"""Stage remote models and data in the cache, and copy results back, for settings such as ``--model=gs://bucket/model``.

Directories are copied once while names, sizes and times of their files do not change. Result files are copied when the
command has written them. Stores of scores only grow: the local and the remote copy are merged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from attribution.errors import BadInput, installation
from attribution.files import atomic_directory, cache_directory, is_remote, locked_directory, make_directory
from attribution.reading import inside

INPUTS, RESULTS, STORE = ("model", "models", "models_dir", "data_dir"), ("output", "input_scores"), "scores_dir"
SCORES = "scores.sqlite"  # in a store of scores; see core.store

_addresses: dict[str, str] = {}  # local copy -> address


def origin(path: str | os.PathLike[str]) -> str:
    """Return the address of a local copy; any other path unchanged."""
    return _addresses.get(os.fspath(path), os.fspath(path))


def remember(copy: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Print ``source`` in place of a local copy of it from now on."""
    _addresses[os.fspath(copy)] = os.fspath(source)


def with_addresses(text: str) -> str:
    """Return a text, such as a flag of a command line, with addresses in place of their local copies."""
    for copy, address in _addresses.items():
        text = text.replace(copy, address)
    return text


@contextlib.contextmanager
def staged(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield local copies in place of the remote addresses of a benchmark; copy its results back at the end.

    Parameters
    ----------
    values
        Setting's name, such as those in ``INPUTS``, to its value.

    Yields
    ------
    dict[str, Any]
        The changed settings alone, by name.

    Raises
    ------
    BadInput
        If an address cannot be read or written.
    """
    with contextlib.ExitStack() as stack:
        copies: dict[str, Any] = {}
        for name in (*RESULTS, STORE):
            address = values.get(name) or ""
            if is_remote(address):
                copy_of = _local_store if name == STORE else _local_result
                with _one_line_errors(name, address):
                    copies[name] = stack.enter_context(copy_of(name, address))
        yield copies | staged_inputs(values)


def staged_inputs(values: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return local copies of the models and data that are addresses, by the names of their settings."""
    copies: dict[str, str | list[str]] = {}
    for name in INPUTS:
        value = values.get(name) or ""
        entries = [value] if isinstance(value, str) else list(value)
        if any(map(is_remote, entries)):
            with _one_line_errors(name, ",".join(entries)):
                local = [_stage_entry(entry) if is_remote(entry) else entry for entry in entries]
            copies[name] = local[0] if isinstance(value, str) else local
    return copies


def _stage_entry(entry: str) -> str:
    """Stage an address, which may have a name in front, as in ``first=gs://bucket/model``."""
    name, equals, address = entry.partition("=")
    return f"{name}={stage(address)}" if equals and not is_remote(name) else stage(entry)


def stage(address: str) -> str:
    """Return the path of a local copy of a remote directory.

    Raises
    ------
    BadInput
        If there are no files, or a file was copied incompletely.
    """
    address = address.rstrip("/")
    remote, root = _file_system(address)
    found = remote.find(root, detail=True)
    files = sorted(path for path in found if not path.endswith("/"))  # some stores mark directories by such names
    if not files:
        raise BadInput("there are no files; name a directory")
    state = str([address, *((path, found[path]) for path in files)])  # with size and time
    above = cache_directory("staged") / hashlib.sha256(state.encode()).hexdigest()[:24]
    copy = above / address.rpartition("/")[2]
    with locked_directory(above, "a copy"):
        if not copy.exists():
            with atomic_directory(copy) as unfinished:
                # An object store allows any name, also one with dots that lead out of the directory.
                paths = [inside(unfinished, path[len(root.rstrip("/")) + 1 :], address) for path in files]
                remote.get(files, list(map(str, paths)))
                for path, source in zip(paths, files, strict=True):
                    if path.stat().st_size != found[source]["size"]:
                        raise BadInput(f"{source} was copied incompletely; run the command again")
    remember(copy, address)
    return str(copy)


@contextlib.contextmanager
def _local_result(name: str, address: str) -> Iterator[str]:
    """Yield the path of a local file, which is copied to its address at the end if it was written."""
    remote, target = _file_system(address)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, address.rpartition("/")[2])
        yield str(path)
        if path.exists():
            with _one_line_errors(name, address):
                remote.pipe_file(target, path.read_bytes())


@contextlib.contextmanager
def _local_store(name: str, address: str) -> Iterator[str]:
    """Yield a local copy of a store of scores; its new rows are added to the remote one, also after a failure."""
    remote, root = _file_system(address.rstrip("/"))
    target = f"{root}/{SCORES}"
    copy = make_directory(cache_directory("stores") / hashlib.sha256(address.rstrip("/").encode()).hexdigest()[:24])
    remember(copy, address.rstrip("/"))
    database = copy / SCORES
    _add_rows(remote, target, database)
    try:
        yield str(copy)
    finally:
        with _one_line_errors(name, address), tempfile.TemporaryDirectory() as folder:
            if database.exists():
                _add_rows(remote, target, database)  # of other runs that have ended meanwhile
                merged = pathlib.Path(folder, SCORES)
                with contextlib.closing(sqlite3.connect(database)) as connection:
                    connection.execute("VACUUM INTO ?", (str(merged),))
                remote.pipe_file(target, merged.read_bytes())


def _add_rows(remote: Any, source: str, database: pathlib.Path) -> None:
    """Add the rows of a remote database, if it exists, to a local one with the same tables or none."""
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder, SCORES)
        try:
            other.write_bytes(remote.cat_file(source))
        except FileNotFoundError:
            return
        with contextlib.closing(sqlite3.connect(database, timeout=60, isolation_level=None)) as connection:
            connection.execute("ATTACH DATABASE ? AS other", (str(other),))
            for table, definition in connection.execute(
                "SELECT name, sql FROM other.sqlite_master WHERE type = 'table'"
            ).fetchall():
                connection.execute(definition.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
                connection.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM other.{table}")


def _file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, without cached listings, and the address in its own form."""
    import fsspec

    if address.startswith("hdfs://"):  # copies of it were never tested
        raise BadInput("hdfs:// is for --blocks_dir only; mount it, or name gs:// or s3://")
    remote, path = fsspec.url_to_fs(address)
    remote.invalidate_cache()
    return remote, path


@contextlib.contextmanager
def _one_line_errors(name: str, address: str) -> Iterator[None]:
    """Turn every error of a remote file system into one line that names the flag."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"--{name}={address}: {error}") from error
    except ImportError as error:  # the client of one cloud
        raise BadInput(f"--{name}={address}: {error}: {installation('remote')}") from error
    except Exception as error:  # each client has its own errors
        message = " ".join(str(error).split())[:300]
        raise BadInput(f"--{name}={address} cannot be used ({message}); name another place, or mount it") from error
