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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from attribution.errors import BadInput
from attribution.file_io.paths import reason

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

MOST_JSON = 2 << 30  # bytes; COCO's own annotations have 0.45 GB
MOST_ARRAY = 4 << 30  # bytes of one file of arrays
MOST_PIXELS = 100_000_000  # of one picture
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
_EIGHT_BITS, _SIXTEEN_BITS, _FLOAT = "8 bits", "16 bits", "floating point"
_ORIENTATION = 0x0112  # of EXIF
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


def read_picture(path: str | os.PathLike) -> Image.Image:
    """Return a picture as 8-bit RGB; deeper ones are scaled and rounded, see ``read_pixels``.

    Raises
    ------
    BadInput
        As ``read_pixels``.
    """
    import numpy as np
    from PIL import Image

    pixels = read_pixels(path)
    return Image.fromarray(pixels if pixels.dtype == np.uint8 else np.rint(pixels).astype(np.uint8))


def read_pixels(
    path: str | os.PathLike, mode: str = "RGB", upright: bool = False, most_pixels: int = MOST_PIXELS
) -> np.ndarray:
    """Return the pixels of a picture, scaled by the range of the file's type.

    Parameters
    ----------
    path
        A BMP, GIF, JPEG, PNG, TIFF or WebP file. The size in its header is checked before it is decoded.
    mode
        ``"L"``, ``"RGB"`` or ``"RGBA"``: the channels wanted. Grey is repeated, an alpha channel that is not wanted
        is dropped, a missing one is opaque.
    upright
        Whether to apply the orientation that a camera wrote into the file. In TIFF it is always applied: there the
        tag says how rows and columns are stored, and Pillow and OpenCV turn the picture while they decode it.
    most_pixels
        Larger pictures are refused.

    Returns
    -------
    np.ndarray
        ``(H, W, C)`` in [0, 255]. uint8 for up to 8 bits per sample. float32 for 16 bits, whose 65,535 becomes 255, and
        for grey floating-point TIFF, whose range [0, 1] becomes [0, 255].

    Raises
    ------
    BadInput
        If the file cannot be read, is cut off, has too many pixels, or samples whose range is not known: signed or
        32-bit integers, floating point outside [0, 1].
    """
    import numpy as np
    from PIL import ImageOps

    with opened(path, "image") as file:
        picture = _opened_picture(file, most_pixels)
        depth = _depth(picture)
        orientation = picture.getexif().get(_ORIENTATION) if upright and picture.format != "TIFF" else None
        picture.load()
        if depth == _SIXTEEN_BITS:  # Pillow keeps 8 of the 16 bits of a colour
            file.seek(0)
            return _in_mode(_sixteen_bits(file.read(), orientation, picture.info.get("transparency")), mode)
        if upright:
            picture = ImageOps.exif_transpose(picture)
        if depth == _FLOAT:
            return _in_mode(_unit_range(np.asarray(picture)) * 255, mode)
        pixels = np.asarray(picture.convert(mode))
        return pixels if pixels.ndim == 3 else pixels[..., np.newaxis]


def _opened_picture(file: IO[bytes], most_pixels: int) -> Image.Image:
    """Return a picture of which the header is read."""
    import warnings

    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            picture = Image.open(file, formats=_FORMATS)
    except Image.DecompressionBombError as error:
        raise ValueError(f"it has more pixels than {most_pixels:,}") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"not a {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]} file that is supported") from error
    if picture.width * picture.height > most_pixels:
        raise ValueError(f"{picture.width} x {picture.height} pixels are more than {most_pixels:,}")
    if picture.format == "TIFF":
        _check_tiff_data(picture.tag_v2, os.fstat(file.fileno()).st_size)
    return picture


def _check_tiff_data(tags: Mapping[int, Any], size: int) -> None:
    """Raise EOFError if an uncompressed TIFF file of ``size`` bytes does not hold the samples that its header claims.

    Neither Pillow nor OpenCV reports it: missing samples become zero or repeat others.
    """
    if tags.get(259, 1) != 1:  # Compression: the size of the samples is known only after decoding
        return
    needed = tags[256] * tags[257] * tags.get(277, 1) * max(tags.get(258, (1,))) // 8
    offsets = tags.get(273) or tags.get(324, ())  # of strips or tiles
    lengths = tags.get(279) or tags.get(325) or [needed // max(1, len(offsets))] * len(offsets)
    ends = [offset + length for offset, length in zip(offsets, lengths, strict=False)]
    if not needed <= sum(lengths) <= size or len(offsets) != len(lengths) or max(ends, default=0) > size:
        raise EOFError(f"it is cut off: its header promises {needed:,} bytes of samples")


def _depth(picture: Image.Image) -> str:
    """Return what a sample of a picture is, as the file's header says.

    Raises
    ------
    ValueError
        If its range is not known.
    """
    if picture.format == "TIFF":
        return _tiff_depth(picture.tag_v2)
    if picture.format == "PNG" and picture.tile and ";16" in str(picture.tile[0][3]):
        return _SIXTEEN_BITS
    return _EIGHT_BITS


def _tiff_depth(tags: Mapping[int, Any]) -> str:
    bits, kinds = (set(tags.get(tag, (1,))) for tag in (258, 339))  # BitsPerSample, SampleFormat
    photometric, extra = tags.get(262), tags.get(338, (2,))  # PhotometricInterpretation, ExtraSamples
    if max(bits) <= 8 and kinds == {1}:
        return _EIGHT_BITS
    together = tags.get(284, 1) == 1  # PlanarConfiguration: OpenCV scrambles channels that are stored separately
    if bits == {16} and kinds == {1} and photometric in (1, 2) and tuple(extra) == (2,) and together:
        return _SIXTEEN_BITS
    if bits == {32} and kinds == {3} and photometric == 1:
        return _FLOAT
    kind = {1: "unsigned", 2: "signed", 3: "floating-point"}.get(max(kinds), "unknown")
    raise ValueError(
        f"TIFF with {kind} samples of {max(bits)} bits in this layout is not supported; save it as PNG with 8 or 16 "
        "bits, or as grey 32-bit floating-point TIFF in [0, 1]"
    )


def _sixteen_bits(content: bytes, orientation: int | None, transparent: Any) -> np.ndarray:
    """Return a picture of 16 bits per sample as float32 in [0, 255], ``(H, W, C)``.

    It is turned by EXIF's number. ``transparent`` is the sample that a PNG's tRNS chunk makes transparent.
    """
    import cv2
    import numpy as np

    try:
        array = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:  # wider or higher than OpenCV reads
        raise ValueError(f"OpenCV cannot decode its 16-bit samples ({error.err})") from error
    if array is None or array.dtype != np.uint16:
        raise ValueError("OpenCV cannot decode its 16-bit samples")
    array = array.reshape(*array.shape[:2], -1)
    if array.shape[-1] == 1 and transparent is not None:  # OpenCV applies it to colours alone
        opaque = np.where(array == transparent, 0, 65535).astype(np.uint16)
        array = np.concatenate([array, array, array, opaque], axis=-1)
    if array.shape[-1] >= 3:  # blue, green, red
        array = array[..., [2, 1, 0, 3][: array.shape[-1]]]
    if orientation in (5, 6, 7, 8):
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return array.astype(np.float32) / 257


def _unit_range(samples: np.ndarray) -> np.ndarray:
    low, high = samples.min(), samples.max()
    if not (low >= 0 and high <= 1):  # also NaN
        raise ValueError(f"its floating-point samples range from {low:.4g} to {high:.4g}; [0, 1] is needed")
    return samples


def _in_mode(pixels: np.ndarray, mode: str) -> np.ndarray:
    """Return float32 pixels in [0, 255] with the channels of a mode, ``(H, W, C)``."""
    import numpy as np

    pixels = pixels.reshape(*pixels.shape[:2], -1)
    colors, alpha = pixels[..., :3], pixels[..., 3:]
    if mode == "L":
        weights = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R 601, as Pillow
        return colors if colors.shape[-1] == 1 else (colors @ weights)[..., np.newaxis]
    if colors.shape[-1] == 1:
        colors = np.repeat(colors, 3, axis=-1)
    if mode == "RGB":
        return colors
    opaque = np.full((*colors.shape[:2], 1), 255, np.float32)
    return np.concatenate([colors, alpha if alpha.shape[-1] else opaque], axis=-1)


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
