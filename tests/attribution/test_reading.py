"""Untrusted files: nothing blocks, no code runs, sizes are limited, names stay in their directory."""

import gzip
import io
import os
import pathlib
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from attribution import reading
from attribution.errors import BadInput


def npy(header):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def png(width, height):
    """Return a PNG file of a size, without pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def archive(path, content, method=zipfile.ZIP_STORED, name="a.npy"):
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr(name, content)
    return path


def array_bytes(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


READERS = {
    "file.json": reading.read_json,
    "file.json.gz": reading.read_json,
    "file.npy": reading.read_array,
    "file.npz": reading.read_arrays,
    "file.png": reading.read_pixels,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_is_refused(name, kind, tmp_path):
    path = tmp_path / name
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    with pytest.raises(BadInput, match="is not a regular file"):
        READERS[name](path)


def test_deep_nesting_is_refused(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(BadInput, match="it is nested too deeply"):
        reading.read_json(tmp_path / "deep.json")


def test_sizes_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_LARGEST_JSON", 1 << 20)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"[" + b" " * (3 << 20) + b"]"))
    with pytest.raises(BadInput, match="it has more than"):
        reading.read_json(tmp_path / "bomb.json.gz")
    bomb = archive(tmp_path / "bomb.npz", array_bytes(np.zeros(1 << 18)), zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 10_000 and reading.read_arrays(bomb)["a"].size == 1 << 18
    with pytest.raises(BadInput, match="it has more than 1,000,000 bytes"):
        reading.read_arrays(bomb, 1_000_000)
    (tmp_path / "bomb.png").write_bytes(png(10_000, 10_000))
    with pytest.raises(BadInput, match="exceeds limit of"):
        reading.read_pixels(tmp_path / "bomb.png")


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def test_no_code_runs(tmp_path):
    content = array_bytes(np.array([Attack(tmp_path / "target")], object), allow_pickle=True)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(BadInput, match="it holds Python objects, or NumPy did not"):
        reading.read_array(tmp_path / "a.npy")
    with pytest.raises(BadInput, match="it holds Python objects, or NumPy did not"):
        reading.read_arrays(archive(tmp_path / "a.npz", content))
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_decompressors_do_not_run(method, tmp_path):
    path = archive(tmp_path / "a.npz", array_bytes(np.zeros(3)), method)
    with pytest.raises(BadInput, match="compressed in a way that NumPy does not write"):
        reading.read_arrays(path)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(BadInput, match="a member is not an array"):
        reading.read_arrays(archive(tmp_path / "a.npz", b"text"))
    with pytest.raises(BadInput, match="is not a readable array: it is an archive of arrays"):
        reading.read_array(archive(tmp_path / "several.npy", array_bytes(np.zeros(3))))
    (tmp_path / "text.npy").write_text("words")
    with pytest.raises(BadInput, match=r"text\.npy is not a readable array: it holds Python objects, or NumPy did not"):
        reading.read_array(tmp_path / "text.npy")
    (tmp_path / "like.npy").write_bytes(b"PK\x03\x04" + bytes(60))
    with pytest.raises(BadInput, match="is not a readable array: File is not a zip file"):
        reading.read_array(tmp_path / "like.npy")
    Image.new("L", (3, 3)).save(tmp_path / "x.ppm")
    (tmp_path / "x.ppm").rename(tmp_path / "x.png")
    with pytest.raises(BadInput, match="not a BMP, GIF, JPEG, PNG or WEBP file"):
        reading.read_pixels(tmp_path / "x.png")


def test_damaged_members_and_headers_are_refused(tmp_path):
    path = archive(tmp_path / "a.npz", array_bytes(np.arange(900)), zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    content[60:90] = b"\xff" * 30
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"a\.npz is not a readable archive of arrays: Error -3"):
        reading.read_arrays(path)
    (tmp_path / "b.npy").write_bytes(npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (3L,\n"))
    with pytest.raises(BadInput, match=r"b\.npy is not a readable array"):
        reading.read_array(tmp_path / "b.npy")


@pytest.mark.parametrize("name", ["/etc/passwd", "a/../../b", "a\\..\\b", "a\0.png", "", 7])
def test_names_that_lead_out_of_their_directory_are_refused(name, tmp_path):
    with pytest.raises(BadInput, match="which is not a file in") as caught:
        reading.inside(tmp_path, name, "list.json")
    assert str(caught.value).startswith("list.json names ") and str(caught.value).isprintable()


def test_names_of_files_below_are_taken(tmp_path):
    assert reading.inside(tmp_path, "a/..b/c.png", "list.json") == tmp_path / "a" / "..b" / "c.png"
