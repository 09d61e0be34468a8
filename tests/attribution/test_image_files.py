"""Inputs from files come as they are seen, at the model's size, in the order of their names."""

import contextlib
import json
import re
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from attribution import inputs, reading
from attribution.errors import BadInput

PIXELS = np.random.default_rng(6).integers(0, 256, (12, 20, 3)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    for name in ("b.png", "a.png"):
        Image.fromarray(PIXELS).save(tmp_path / name)
    np.save(tmp_path / "c.npy", PIXELS)
    (tmp_path / "notes.txt").write_text("no input")
    return tmp_path


def test_folders_give_their_inputs_in_order(folder):
    assert [path.name for path in inputs.find_files([folder])] == ["a.png", "b.png", "c.npy"]
    assert [path.name for path in inputs.find_files([folder / "b.png", folder])][:2] == ["b.png", "a.png"]


def test_a_picture_of_the_models_size_is_not_touched(folder):
    for shape in ((12, 20, 3), (None, None, 3), (None, None, None)):
        found = inputs.read_pictures([folder / "a.png"], shape)
        np.testing.assert_array_equal(found, PIXELS[np.newaxis])


def test_others_are_cut(folder):
    cut = inputs.read_pictures([folder / "a.png"], (12, 12, 3))
    np.testing.assert_array_equal(cut[0], PIXELS[:, 4:16])


def test_pictures_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees to the right
    Image.fromarray(PIXELS).save(tmp_path / "turned.png", exif=exif)
    found = inputs.read_pictures([tmp_path / "turned.png"], (None, None, 3))
    np.testing.assert_array_equal(found[0], np.rot90(PIXELS, -1))


RAMP = np.arange(256, dtype=np.uint8).reshape(8, 32)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("kind", ["L", "RGB", "RGBA", "LA", "P"])
def test_a_ramp_is_the_same_in_every_type(kind, channels, tmp_path):
    picture = Image.fromarray(RAMP)
    picture = picture.convert("RGB").quantize(256) if kind == "P" else picture.convert(kind)
    picture.save(tmp_path / "ramp.png")
    found = inputs.read_pictures([tmp_path / "ramp.png"], (8, 32, channels))
    assert found.shape == (1, 8, 32, channels) and found.dtype == np.uint8
    for channel in range(min(channels, 3)):
        np.testing.assert_allclose(found[0, ..., channel].astype(int), RAMP, atol=1)
    if channels == 4:
        assert (found[..., 3] == 255).all()


def test_black_and_white_pictures_are_read(tmp_path):
    Image.fromarray(RAMP > 100).save(tmp_path / "two.png")
    found = inputs.read_pictures([tmp_path / "two.png"], (8, 32, 1))
    np.testing.assert_array_equal(found[0, ..., 0], np.where(RAMP > 100, 255, 0))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_samples_of_more_than_8_bits_are_refused(channels, tmp_path):
    """Pillow would clip them, or drop their last bits."""
    deep = np.repeat(RAMP[..., np.newaxis].astype(np.uint16) * 257, channels, axis=-1)
    assert cv2.imwrite(str(tmp_path / "x.png"), deep)
    with pytest.raises(BadInput, match=r"not of 8 bits; save it with 8 bits"):
        inputs.read_pictures([tmp_path / "x.png"], (None, None, 3))


@pytest.mark.parametrize(
    ("stored", "shape", "expected"),
    [
        ((20,), (20, 1), (1, 20, 1)),
        ((20, 1), (20, 1), (1, 20, 1)),
        ((5, 20), (20, 1), (5, 20, 1)),
        ((5, 20, 2), (20, 2), (5, 20, 2)),
        ((8, 9, 3), (None, None, 3), (1, 8, 9, 3)),
        ((4, 8, 9, 3), (8, 9, 3), (4, 8, 9, 3)),
        ((6,), (None,), (1, 6)),
    ],
)
def test_arrays_come_with_or_without_the_axes_of_inputs_and_of_one_channel(stored, shape, expected, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(np.prod(stored)).reshape(stored))
    found = inputs.read_rows(tmp_path / "x.npy", shape)
    assert found.shape == expected and found.ravel().tolist() == list(range(np.prod(stored)))


@pytest.mark.parametrize("shape", [(), (5,), (None,), (6, 5, 1)])
@pytest.mark.parametrize(
    "stored",
    [np.array(3.0), np.array("a"), np.zeros((0, 5)), np.zeros((1, 1, 1, 6, 5, 1)), np.zeros(5, complex),
     np.array([None]), np.zeros((6, 0, 1)), np.ones(5, ">f4"), np.ones((5, 2), order="F"), np.ones(5, bool)],
)  # fmt: skip
def test_any_array_of_a_file_is_rows_of_inputs_or_refused(stored, shape, tmp_path):
    np.save(tmp_path / "x.npy", stored, allow_pickle=True)
    try:
        found = inputs.read_rows(tmp_path / "x.npy", shape)
    except BadInput as error:
        assert "x.npy" in str(error)
    else:
        assert len(found) and found.dtype.kind in "fb" and found.ravel().tolist() == stored.ravel().tolist()
        assert len(found.shape) == 1 + len(shape)
    np.savez(tmp_path / "x.npz", a=stored if stored.dtype != object else 0)
    with contextlib.suppress(BadInput):
        found = inputs.read_table(tmp_path / "x.npz", {"a": (shape, np.float32)})[0]["a"]
        assert len(found) and len(found.shape) == 1 + len(shape)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("a,b,y\n1,2,0\n", (2,), "has 3 columns, 'a', 'b', 'y'; the model takes 2: one for each feature"),
        ("a,b\n1,2\n", (2, 2, 3), "has no column for 'input_layer_1'; the model's inputs are 'input_layer_1', "),
    ],
)
def test_a_table_that_does_not_fit_names_the_columns_that_are_too_many(tmp_path, text, shape, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(BadInput, match=re.escape(message)):
        inputs.read_table(tmp_path / "x.csv", {"input_layer_1": (shape, np.float32)})


def test_names_of_classes_come_line_by_line_or_as_json(tmp_path):
    (tmp_path / "names.txt").write_text("cat\n dog\n")
    (tmp_path / "list.json").write_text(json.dumps(["cat", "dog"]))
    (tmp_path / "index.json").write_text(json.dumps({"0": ["n01", "cat"], "1": ["n02", "dog"]}))
    for name in ("names.txt", "list.json", "index.json"):
        assert inputs.read_class_names(tmp_path / name) == ["cat", "dog"]


def test_what_is_no_input_is_refused(folder):
    (folder / "empty").mkdir()
    (folder / "broken.png").write_bytes(b"no picture")
    np.save(folder / "texts.npy", np.array(["a"]))
    (folder / "broken.json").write_text('{"1": "cat"}')
    refused = [
        (lambda: inputs.find_files([folder / "d.png"]), "does not exist; a picture"),
        (lambda: inputs.find_files([folder / "notes.txt"]), "is not an input file; names end in '.png'"),
        (lambda: inputs.find_files([folder / "empty"]), "there is no picture"),
        (lambda: inputs.find_files([]), "no input was named"),
        (lambda: inputs.read_pictures([folder / "broken.png"], (8, 8, 3)), "is not a readable image"),
        (
            lambda: inputs.read_pictures([folder / "a.png"], (20, 1)),
            r"of shape \(20, 1\), which pictures are not",
        ),
        (lambda: inputs.read_pictures([folder / "a.png"], (8, 8, 5)), "which pictures are not"),
        (
            lambda: inputs.read_rows(folder / "texts.npy", (1,)),
            "it holds <U1, not real numbers",
        ),
        (
            lambda: inputs.read_rows(folder / "c.npy", (8, 8, 3)),
            r"has shape \(12, 20, 3\); the model takes \(8, 8",
        ),
        (lambda: inputs.read_rows(folder / "notes.txt", (8,)), "is not a readable array"),
        (lambda: inputs.read_class_names(folder / "broken.json"), "not a JSON list of names"),
        (lambda: inputs.read_class_names(folder / "none.txt"), "No such file or directory"),
    ]
    for read, message in refused:
        with pytest.raises(BadInput, match=message):
            read()


def png(pixels, bits, color, interlaced):
    """Return the parts of a PNG file of samples ``(H, W, C)`` and its rows, by which its data can be cut."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = []
    for x, y, right, down in passes if interlaced else [(0, 0, 1, 1)]:
        samples = pixels[y::down, x::right]
        digits = (samples[..., np.newaxis] >> np.arange(bits)[::-1]) & 1
        packed = np.packbits(digits.reshape(*samples.shape[:1], -1).astype(np.uint8), axis=1)
        rows += [b"\0" + row.tobytes() for row in packed if samples.size]
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], bits, color, 0, 0, interlaced)
    palette = [(b"PLTE", bytes(range(1, 3 * 2**bits + 1)))] if color == 3 else []
    return [(b"IHDR", header), *palette], rows


def put_together(parts, rows):
    chunks = [*parts, (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b"")]
    sums = [struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + check for (name, data), check in zip(chunks, sums, strict=True)
    )


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(
    ("bits", "color", "channels"),
    [(1, 0, 1), (8, 0, 1), (8, 2, 3), (8, 4, 2), (8, 6, 4), (4, 3, 1)],
)
def test_a_png_whose_data_end_between_rows_is_refused(bits, color, channels, interlaced, tmp_path):
    """Pillow reads it and leaves the missing rows black; the rows' last samples are all ones, black in no file."""
    samples = np.random.default_rng(0).integers(0, 2**bits, (9, 10, channels))
    samples[-3:] = 2**bits - 1
    parts, rows = png(samples, bits, color, interlaced)
    path = tmp_path / "picture.png"
    path.write_bytes(put_together(parts, rows))
    assert reading.read_pixels(path).shape == (9, 10, 3)
    for kept in (1, len(rows) // 2, len(rows) - 1):
        path.write_bytes(put_together(parts, rows[:kept]))
        with pytest.raises(BadInput, match="cut off"):
            reading.read_pixels(path)


@pytest.mark.parametrize("options", [{}, {"restart_marker_blocks": 1}])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_with_its_end_before_the_last_pixel_is_refused(mode, options, tmp_path):
    """libjpeg fills the rest with gray, and Pillow does not report it."""
    path = tmp_path / "picture.jpg"
    Image.fromarray(PIXELS).convert(mode).save(path, **options)
    content = path.read_bytes()
    for trailing in (b"", b"\0more", content):
        path.write_bytes(content + trailing)
        assert reading.read_pixels(path).shape == PIXELS.shape
    start = content.rfind(b"\xff\xda") + 14
    marked = [place + 1 for place in range(start, len(content) - 9) if content[place] == 0xFF]
    cuts = [start + int(share * (len(content) - start)) for share in (0.1, 0.5, 0.9)]
    for cut in cuts + marked[: len(marked) // 2 : 5]:
        path.write_bytes(content[:cut] + b"\xff\xd9")
        with pytest.raises(BadInput, match="cut off"):
            reading.read_pixels(path)


def test_a_progressive_jpeg_cut_in_its_last_scan_is_refused(tmp_path):
    path = tmp_path / "picture.jpg"
    Image.fromarray(PIXELS).save(path, progressive=True, quality=95)
    content = path.read_bytes()
    assert reading.read_pixels(path).shape == PIXELS.shape
    path.write_bytes(content[: (content.rfind(b"\xff\xda") + len(content)) // 2] + b"\xff\xd9")
    with pytest.raises(BadInput, match="cut off"):
        reading.read_pixels(path)
