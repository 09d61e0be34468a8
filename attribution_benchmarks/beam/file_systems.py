"""Files on any file system that Apache Beam supports: paths, and gs://, s3://, hdfs:// by its own clients."""

from __future__ import annotations

import os
import secrets

from attribution.file_io.files import UNFINISHED, atomic_write


def names_in(directory: str) -> set[str]:
    """Return the names of the files in a directory; an empty set if it is missing."""
    from apache_beam.io.filesystems import FileSystems

    (found,) = FileSystems.match([join(directory, "*")])
    return {os.path.basename(entry.path) for entry in found.metadata_list}


def remove(directory: str, names: list[str]) -> None:
    """Remove files of a directory."""
    from apache_beam.io.filesystems import FileSystems

    if names:
        FileSystems.delete([join(directory, name) for name in names])


def join(directory: str, name: str) -> str:
    """Return the path of a file in a directory."""
    from apache_beam.io.filesystems import FileSystems

    return str(FileSystems.join(directory, name))


def read(path: str) -> bytes | None:
    """Return the content of a file; None if it is missing."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read())


def write(path: str, content: bytes) -> None:
    """Write a file completely or not at all."""
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
