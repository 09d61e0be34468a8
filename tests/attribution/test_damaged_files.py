"""Valid files of every format, damaged at random: each is read or refused in one line."""

import gzip
import io
import json
import random
import warnings
import zipfile

import cv2
import numpy as np
import pytest
from PIL import Image

from attribution import reading
from attribution.errors import BadInput
from attribution.files import atomic_write

DRAWS = 60  # of each file
EXTREMES = [b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x80", b"'" * 4, b"[" * 400]


def pictures():
    """Return pictures by a name that begins with their suffix."""
    generator, found = np.random.default_rng(0), {}

    def add(name, picture, **options):
        stream = io.BytesIO()
        picture.save(stream, name.split()[0].upper(), **options)
        found[name] = stream.getvalue()

    color = Image.fromarray(generator.integers(0, 255, (12, 9, 3), np.uint8))
    turned = Image.Exif()
    turned[0x112] = 6
    for kind in ("bmp", "gif", "jpeg", "png", "tiff", "webp"):
        add(f"{kind} grey", color.convert("L"))
        add(f"{kind} color", color)
    add("png alpha", color.convert("RGBA"))
    add("png palette", color.convert("P"), exif=turned)
    add("jpeg turned", color, exif=turned)
    add("tiff float", Image.fromarray(generator.random((12, 9)).astype(np.float32)))
    add("tiff fax", color.convert("1"), compression="group4")
    for compression in ("tiff_lzw", "jpeg", "tiff_adobe_deflate"):
        add(f"tiff {compression}", color, compression=compression)
    for kind in ("png", "tiff"):
        deep = generator.integers(0, 65535, (12, 9, 3)).astype(np.uint16)
        found[f"{kind} 16 bits"] = cv2.imencode(f".{kind}", deep)[1].tobytes()
    return found


def arrays():
    def npy(array):
        stream = io.BytesIO()
        np.save(stream, array)
        return stream.getvalue()

    kinds = [np.zeros((4, 3)), np.arange(9), np.zeros(3, [("a", "f4"), ("b", "i8")]), np.array(["ab", "c"])]
    return {f"npy {number}": npy(kind) for number, kind in enumerate(kinds)}


def archives():
    found = {}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            archive.writestr("a.npy", arrays()["npy 0"])
            archive.writestr("b.npy", arrays()["npy 3"] * 9)
        found[f"npz {method}"] = stream.getvalue()
    return found


def documents():
    text = json.dumps({"a": [1, 2.5, {"b": None}], "ü": "\ud800"}).encode()
    return {"json plain": text, "json.gz packed": gzip.compress(text)}


def damaged(content, draw):
    """Return content with flipped bits, an extreme number, or a part cut off, taken out or put in."""
    content, place = bytearray(content), draw.randrange(len(content))
    how = draw.random()
    if how < 0.4:
        for _ in range(draw.choice((1, 1, 2, 5, 20))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif how < 0.6:
        content[place : place + 4] = draw.choice(EXTREMES)
    elif how < 0.75:
        del content[place:]
    elif how < 0.85:
        del content[place : place + draw.randrange(1, 20)]
    elif how < 0.95:
        content[place:place] = draw.randbytes(draw.randrange(1, 9))
    else:
        content = b""
    return bytes(content)


FORMATS = {
    "pictures": (pictures, lambda path: reading.read_pixels(path, "RGBA", upright=True)),
    "arrays": (arrays, reading.read_array),
    "archives": (archives, reading.read_arrays),
    "documents": (documents, reading.read_json),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_file_is_read_or_refused_in_one_line(kind, tmp_path):
    make, read = FORMATS[kind]
    for name, content in make().items():
        path, refused = tmp_path / f"file.{name.split()[0]}", 0
        atomic_write(path, content)
        read(path)
        for number in range(DRAWS):
            path.write_bytes(damaged(content, random.Random(f"{name}/{number}")))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # Pillow's, of metadata that it skips
                    read(path)
            except BadInput as error:
                refused += 1
                assert str(error).startswith(str(path)) and str(error).isprintable()
        assert 0 < refused <= DRAWS, name
