"""Read untrusted files: no code execution, bounded memory, one-line errors.

A file must be a regular one (a pipe would block), may not decompress without bound, and names in it may not lead out of
the data's directory.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pathlib
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput
from attribution.files import reason

if TYPE_CHECKING:
    from PIL import Image

_LARGEST_JSON = 2 << 30  # bytes; COCO's annotations have 0.45 GB
_LARGEST_CSV = 1 << 28  # bytes
_LARGEST_ARCHIVE = 4 << 30  # bytes of an .npz file, decompressed
_LARGEST_PICTURE = 1 << 28  # bytes
_OTHER_DATA = b"".join(
    bytes(range(254, 0, -1)) + bytes([0xFF, 0xD0 + number]) for number in range(8)
)  # with JPEG's restarts
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
_DAMAGED = (
    EOFError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    RuntimeError,
    tokenize.TokenError,  # from an array's header, which NumPy reads as Python
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
)
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes; no other decompressor runs


@contextmanager
def opened(path: str | os.PathLike[str], what: str = "file") -> Iterator[IO[bytes]]:
    """Open a regular file to read, and turn errors of the block into one line.

    Parameters
    ----------
    path
        The file.
    what
        Its expected content, for the message: "JSON file", "image", ...

    Raises
    ------
    BadInput
        If it is missing, not a regular file, or cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path} is not a regular file; expected a readable {what}")
        with open(path, "rb") as file:
            yield file
    except BadInput:
        raise
    except FileNotFoundError as error:
        raise BadInput(f"no {path}: No such file or directory") from error
    except RecursionError as error:
        raise BadInput(f"{path} is not a readable {what}: it is nested too deeply") from error
    except MemoryError as error:
        raise BadInput(f"{path} is not a readable {what}: it needs more memory than available") from error
    except _DAMAGED as error:
        message = reason(error) if isinstance(error, OSError) else str(error)
        if "pickle" in message:  # NumPy recommends what may run code
            message = "it holds Python objects, or NumPy did not write it"
        raise BadInput(f"{path} is not a readable {what}: {message or type(error).__name__}") from error


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file in UTF-8, decompressed if its name ends in ``.gz``.

    Raises
    ------
    BadInput
        If it cannot be read, is nested too deeply, or is too large.
    """
    with opened(path, "JSON file") as file:
        source = gzip.GzipFile(fileobj=file) if pathlib.Path(path).suffix == ".gz" else file
        data = bytearray()
        while part := source.read(1 << 20):  # one large read would allocate its size at once
            data += part
            if len(data) > _LARGEST_JSON:
                raise ValueError(f"it has more than {_LARGEST_JSON >> 30} GiB")
        return json.loads(data.decode("utf-8"))


def _read_at_most(file: IO[bytes], limit: int) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit >> 20} MiB")
    return data


def read_csv(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Return the cells of a CSV file in UTF-8 by the names in its first line.

    Raises
    ------
    BadInput
        If it cannot be read, is too large, names a column twice, or has lines of different lengths.
    """
    with opened(path, "CSV file") as file:
        data = _read_at_most(file, _LARGEST_CSV)
        text = io.StringIO(data.decode("utf-8-sig"), newline="")  # splitlines() would also split at other characters
        lines = [line for line in csv.reader(text, strict=True, skipinitialspace=True) if line]
        if len(lines) < 2:
            raise ValueError("a line of names and at least one row are needed")
        names = [name.strip() for name in lines[0]]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        for number, line in enumerate(lines, start=1):
            if len(line) != len(names):
                raise ValueError(f"line {number} has {len(line)} cells for {len(names)} columns")
        return dict(zip(names, map(list, zip(*lines[1:], strict=True)), strict=True))


def read_array(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the array of numbers or truth values of an ``.npy`` file.

    Raises
    ------
    BadInput
        If it is not such a file, holds anything else, or is cut off.
    """
    with opened(path, "array") as file:
        array = np.load(file, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive of arrays")
        if array.dtype.kind not in "fiub":
            raise ValueError(f"it holds {array.dtype}, not real numbers")
        return array


def read_arrays(path: str | os.PathLike[str], most: int = _LARGEST_ARCHIVE) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file by name.

    Parameters
    ----------
    path
        The file.
    most
        Largest total size of the decompressed arrays, in bytes.

    Raises
    ------
    BadInput
        As ``read_array``, or if it is too large.
    """
    with opened(path, "archive of arrays") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it is one array")
        if sum(member.file_size for member in archive.zip.infolist()) > most:
            raise ValueError(f"it has more than {most:,} bytes")
        if not all(member.compress_type in _COMPRESSIONS for member in archive.zip.infolist()):
            raise ValueError("a member is compressed in a way that NumPy does not write")
        arrays = dict(archive)
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member is not an array")
        return arrays


def read_pixels(path: str | os.PathLike[str], mode: str = "RGB", upright: bool = False) -> np.ndarray:
    """Return the pixels of a picture.

    Parameters
    ----------
    path
        A BMP, GIF, JPEG, PNG or WebP file. Pillow's limit of pixels is checked before it is decoded.
    mode
        ``"L"``, ``"RGB"`` or ``"RGBA"``. Grey is repeated, an alpha channel is dropped or opaque as needed.
    upright
        Whether to apply the EXIF orientation.

    Returns
    -------
    np.ndarray
        ``(H, W, C)`` uint8.

    Raises
    ------
    BadInput
        If the file cannot be read, is cut off, has too many pixels, or has more than 8 bits per sample.
    """
    from PIL import ImageOps

    with opened(path, "image") as file:
        picture = _opened_picture(file)
        picture.load()
        _check_complete(picture, file)
        if upright:
            picture = ImageOps.exif_transpose(picture)
        pixels = np.asarray(picture.convert(mode))
        return pixels.reshape(*pixels.shape[:2], -1)


def _opened_picture(file: IO[bytes]) -> Image.Image:
    """Return a picture of which only the header is read."""
    import warnings

    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(file, formats=_FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(str(error)) from error
    except UnidentifiedImageError as error:
        raise ValueError(f"not a {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]} file that is supported") from error
    if picture.format == "PNG" and picture.tile and ";16" in str(picture.tile[0][3]):  # Pillow would cut them off
        raise ValueError("its samples are not of 8 bits; save it with 8 bits, or its values as a .npy file")
    return picture


def _check_complete(picture: Image.Image, file: IO[bytes]) -> None:
    """Raise EOFError if the data of a PNG or JPEG file end before its last pixel, which Pillow does not report.

    Pillow leaves such pixels of a PNG as they were, and libjpeg decodes any data before the end marker. So they change
    if the picture is decoded onto another color, or with other data before its end.
    """
    from PIL import Image

    if picture.format not in ("PNG", "JPEG"):
        return
    file.seek(0)
    if picture.format == "PNG":
        again = Image.open(file, formats=["PNG"])
        again.im = Image.new(again.mode, again.size, 255).im
    else:
        content = _read_at_most(file, _LARGEST_PICTURE)
        end = content.find(b"\xff\xd9", content.rfind(b"\xff\xda"))  # of the last scan
        stuffed = b"\0" * content.endswith(b"\xff", 0, end)  # else a byte of 255 begins a marker
        again = Image.open(io.BytesIO(content[:end] + stuffed + _OTHER_DATA + content[end:]), formats=["JPEG"])
    if again.tobytes() != picture.tobytes():
        raise EOFError("it is cut off: its data end before its last pixel")


def inside(directory: str | os.PathLike[str], name: object, source: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path of a file named by data, which must be in the data's directory.

    Parameters
    ----------
    directory
        The directory.
    name
        A name or relative path from the data.
    source
        The file that contains it, for the message.

    Raises
    ------
    BadInput
        If it is not a name, or leads out of the directory.
    """
    if (
        not isinstance(name, str)
        or name in ("", ".")
        or "\0" in name
        or "\\" in name
        or os.path.isabs(name)
        or ".." in name.split("/")
    ):
        raise BadInput(f"{source} names {name!r}, which is not a file in {directory}")
    return pathlib.Path(directory) / name
