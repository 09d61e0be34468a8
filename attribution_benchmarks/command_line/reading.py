"""Read what others wrote: nothing in it is run, its size is known before memory is taken, damage is one line.

A file that is shared may be cut off, or made to do harm. So it must be an ordinary file (a pipe would be waited for
without end), a header may not promise more than the file holds, what is compressed may not grow without bound, and a
name in it may not lead out of the data's directory.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from attribution_benchmarks.command_line.errors import BadInput
from attribution_benchmarks.command_line.files import reason

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

MOST_JSON = 2 << 30  # bytes; COCO's own annotations have 0.45 GB
MOST_ARRAY = 4 << 30  # bytes of one file of arrays
MOST_PIXELS = 100_000_000  # of one picture
_DAMAGED = (EOFError, OSError, ValueError, TypeError, KeyError, SyntaxError, zipfile.BadZipFile, zlib.error)


@contextmanager
def opened(path: str | os.PathLike, what: str = "file") -> Iterator[IO[bytes]]:
    """Open an ordinary file to read; everything that is wrong with it inside the block is one line that names it.

    Parameters
    ----------
    path
        The file.
    what
        What it should be, for the message: "JSON file", "image", ...

    Raises
    ------
    BadInput
        If it is missing, no ordinary file, or cannot be read as what it should be.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path} is no ordinary file; expected a readable {what}")
        with open(path, "rb") as file:
            yield file
    except BadInput:
        raise
    except FileNotFoundError as error:
        raise BadInput(f"no {path}: No such file or directory") from error
    except RecursionError as error:
        raise BadInput(f"{path} is not a readable {what}: it is nested too deeply") from error
    except MemoryError as error:
        raise BadInput(f"{path} is not a readable {what}: it asks for more memory than there is") from error
    except _DAMAGED as error:
        said = reason(error) if isinstance(error, OSError) else str(error)
        raise BadInput(f"{path} is not a readable {what}: {said or type(error).__name__}") from error


def read_json(path: str | os.PathLike) -> Any:
    """Return the content of a JSON file in UTF-8, decompressed where its name ends in ``.gz``.

    Raises
    ------
    BadInput
        If it cannot be read, is nested too deeply, or is too large.
    """
    with opened(path, "JSON file") as file:
        source = gzip.GzipFile(fileobj=file) if pathlib.Path(path).suffix == ".gz" else file
        data = bytearray()
        while part := source.read(1 << 20):  # a file object makes room for all that it is asked for
            data += part
            if len(data) > MOST_JSON:
                raise ValueError(f"it has more than {MOST_JSON >> 30} GiB")
        return json.loads(data.decode("utf-8"))


def read_array(path: str | os.PathLike) -> np.ndarray:
    """Return the array of an ``.npy`` file that holds plain numbers.

    Raises
    ------
    BadInput
        If it is no such file, holds Python objects, or its header promises more than the file holds.
    """
    with opened(path, "array") as file:
        return _array(file, os.fstat(file.fileno()).st_size)


def read_arrays(path: str | os.PathLike, most: int = MOST_ARRAY) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file by name, as ``read_array`` does.

    Parameters
    ----------
    path
        The file.
    most
        Bytes that it may have once it is decompressed.
    """
    with opened(path, "archive of arrays") as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > most:
            raise ValueError(f"it has more than {most:,} bytes")
        found = {}
        for member in members:
            with archive.open(member) as stream:
                found[member.filename.removesuffix(".npy")] = _array(stream, member.file_size)
        return found


def _array(file: IO[bytes], size: int) -> np.ndarray:
    """Return the array of a stream of so many bytes."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format {version[0]}.{version[1]} of NumPy's files is none of 1.0 and 2.0")
    shape, by_column, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which may run code; only numbers are read")
    promised = dtype.itemsize
    for length in shape:
        promised *= length
    if promised > size or any(length < 0 for length in shape):
        raise ValueError(f"its header promises {dtype} of shape {shape}, the file has {size:,} bytes")
    data = file.read(promised)
    if len(data) < promised:
        raise EOFError("it is cut off")
    array = np.frombuffer(data, dtype).copy() if promised else np.empty(0, dtype)
    return array.reshape(shape, order="F" if by_column else "C")


def read_picture(path: str | os.PathLike, most_pixels: int = MOST_PIXELS) -> Image.Image:
    """Return a picture, decoded; its size is looked at before.

    Raises
    ------
    BadInput
        If it cannot be read, is cut off, or has too many pixels.
    """
    import warnings

    from PIL import Image

    with opened(path, "image") as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                picture = Image.open(file)
                if picture.width * picture.height > most_pixels:
                    raise ValueError(f"{picture.width} x {picture.height} pixels are more than {most_pixels:,}")
                picture.load()
        except Image.DecompressionBombError as error:
            raise ValueError(f"it has more pixels than {most_pixels:,}") from error
        return picture


def inside(directory: str | os.PathLike, name: object, source: str | os.PathLike) -> pathlib.Path:
    """Return the path of a file that data name, which must lie in the data's directory.

    Parameters
    ----------
    directory
        Where the file lies.
    name
        What the data say: a name, or a path relative to the directory.
    source
        The file that says so, for the message.

    Raises
    ------
    BadInput
        If it is no name, or leads out of the directory.
    """
    if (
        not isinstance(name, str)
        or name in ("", ".")
        or "\0" in name
        or "\\" in name
        or os.path.isabs(name)
        or ".." in pathlib.PurePosixPath(name).parts
    ):
        raise BadInput(f"{source} names {name!r}, which is no file in {directory}")
    return pathlib.Path(directory) / name
