"""Files on any file system that Apache Beam knows: paths, and gs://, s3://, hdfs:// by its own clients."""

from __future__ import annotations

import importlib
import logging
import os
import secrets

from attribution.errors import BadInput
from attribution.file_io.files import UNFINISHED, atomic_write


def is_elsewhere(path: str | os.PathLike) -> bool:
    """Tell whether a path is an address such as ``gs://bucket/folder``."""
    return "://" in os.fspath(path)


def check_beam(what: str = "--runner=beam") -> None:
    """Import Apache Beam, without what it says of clients of clouds that are not installed.

    Parameters
    ----------
    what
        Needs it.

    Raises
    ------
    BadInput
        If it is not installed.
    """
    logging.disable(logging.WARNING)
    try:
        importlib.import_module("apache_beam")
    except ImportError as error:
        raise BadInput(f"{what} needs Apache Beam: pip install 'attribution-benchmarks[beam]'") from error
    finally:
        logging.disable(logging.NOTSET)


def there(directory: str) -> set[str]:
    """Return the names of the files in a directory; none where it is missing."""
    from apache_beam.io.filesystems import FileSystems

    (found,) = FileSystems.match([join(directory, "*")])
    return {os.path.basename(entry.path) for entry in found.metadata_list}


def remove(directory: str, names: list[str]) -> None:
    """Remove files."""
    from apache_beam.io.filesystems import FileSystems

    if names:
        FileSystems.delete([join(directory, name) for name in names])


def join(directory: str, name: str) -> str:
    """Return the path of a file in a directory of any file system."""
    from apache_beam.io.filesystems import FileSystems

    return str(FileSystems.join(directory, name))


def get(path: str) -> bytes | None:
    """Return what a file of any file system holds; None where there is none."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read())


def put(path: str, content: bytes) -> None:
    """Write a file of any file system, whole or not at all."""
    from apache_beam.io.filesystem import BeamIOError, CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    scheme = FileSystems.get_scheme(path)
    if scheme is None:
        atomic_write(path, content)
        return
    renamed = scheme == "hdfs"  # an object store writes a file in one step
    directory, name = FileSystems.split(path)
    first = join(directory, f".{name}.{secrets.token_hex(6)}{UNFINISHED}") if renamed else path
    with FileSystems.create(first, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(content)
    if renamed:
        try:
            FileSystems.rename([first], [path])
        except BeamIOError:
            FileSystems.delete([first])
            if not FileSystems.exists(path):  # HDFS does not rename to an existing file, which has the same content
                raise
