"""Inputs from files come as they are seen, at the model's size, in the order of their names."""

import contextlib
import json
import os
import re
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from attribution import preprocessing, reading
from attribution.errors import BadInput
from attribution.preprocessing import PREPROCESSINGS

PIXELS = np.random.default_rng(6).integers(0, 256, (12, 20, 3)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    for name in ("b.png", "a.png"):
        Image.fromarray(PIXELS).save(tmp_path / name)
    np.save(tmp_path / "c.npy", PIXELS)
    (tmp_path / "notes.txt").write_text("no input")
    return tmp_path


def test_folders_give_their_inputs_in_order(folder):
    assert [path.name for path in preprocessing.find_files([folder])] == ["a.png", "b.png", "c.npy"]
    assert [path.name for path in preprocessing.find_files([folder / "b.png", folder], 2)] == ["b.png", "a.png"]
    without = (folder / "a.png").resolve()
    assert [path.name for path in preprocessing.find_files([folder], without=without)] == ["b.png", "c.npy"]


def test_a_picture_of_the_models_size_is_not_touched(folder):
    for shape in ((12, 20, 3), (None, None, 3), (None, None, None)):
        found = preprocessing.read_pictures([folder / "a.png"], shape)
        np.testing.assert_array_equal(found, PIXELS[np.newaxis])


def test_others_are_cut_or_squashed(folder):
    cut = preprocessing.read_pictures([folder / "a.png"], (12, 12, 3))
    np.testing.assert_array_equal(cut[0], PIXELS[:, 4:16])
    squashed = preprocessing.read_pictures([folder / "a.png"], (12, 12, 3), "squash")
    assert squashed.shape == (1, 12, 12, 3) and not np.array_equal(squashed, cut)


def test_pictures_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees to the right
    Image.fromarray(PIXELS).save(tmp_path / "turned.png", exif=exif)
    found = preprocessing.read_pictures([tmp_path / "turned.png"], (None, None, 3))
    np.testing.assert_array_equal(found[0], np.rot90(PIXELS, -1))


RAMP = np.linspace(0, 65535, 8 * 40).astype(np.uint16).reshape(8, 40)


def written(path, kind):
    """Write the ramp in another type; return the path."""
    eight = np.rint(RAMP / 257).astype(np.uint8)
    if kind.startswith("16 bits"):
        channels = {"grey": 1, "RGB": 3, "RGBA": 4}[kind.split()[-1]]
        stored = np.dstack([RAMP, RAMP, RAMP, np.full_like(RAMP, 65535)])[..., :channels]
        assert cv2.imwrite(str(path), stored)
    elif kind == "float":
        Image.fromarray((RAMP / 65535).astype(np.float32)).save(path)
    elif kind == "P":
        Image.fromarray(eight).convert("RGB").quantize(256).save(path)
    else:
        Image.fromarray(eight).convert(kind).save(path)
    return path


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(
    ("suffix", "kind", "tolerance"),
    [
        *((suffix, kind, 1 / 255) for suffix in ("png", "tif") for kind in ("L", "RGB", "RGBA", "LA")),
        ("png", "P", 1 / 255),
        ("tif", "CMYK", 1 / 255),
        *((suffix, f"16 bits {kind}", 1 / 65535) for suffix in ("png", "tif") for kind in ("grey", "RGB", "RGBA")),
        ("tif", "float", 1 / 65535),
    ],
)
def test_a_ramp_is_the_same_in_every_type(suffix, kind, tolerance, channels, tmp_path):
    path = written(tmp_path / f"ramp.{suffix}", kind)
    values = PREPROCESSINGS["0..1"].apply(preprocessing.read_pictures([path], (8, 40, channels)))
    assert values.shape == (1, 8, 40, channels) and values.dtype == np.float32
    for channel in range(min(channels, 3)):
        np.testing.assert_allclose(values[0, ..., channel], RAMP / 65535, atol=tolerance)
    if channels == 4:
        np.testing.assert_array_equal(values[..., 3], 1)


def test_black_and_white_pictures_are_read(tmp_path):
    Image.fromarray(RAMP > 30000).save(tmp_path / "two.png")
    found = preprocessing.read_pictures([tmp_path / "two.png"], (8, 40, 1))
    np.testing.assert_array_equal(found[0, ..., 0], np.where(RAMP > 30000, 255, 0))


@pytest.mark.parametrize("fit", preprocessing.RESIZE_MODES)
@pytest.mark.parametrize("kind", ["16 bits grey", "16 bits RGB", "16 bits RGBA", "float"])
def test_deep_pictures_are_fitted_as_shallow_ones(kind, fit, tmp_path):
    deep = preprocessing.read_pictures([written(tmp_path / "deep.tif", kind)], (8, 11, 4), fit)
    shallow = preprocessing.read_pictures([written(tmp_path / "shallow.png", "RGBA")], (8, 11, 4), fit)
    np.testing.assert_allclose(deep, shallow, atol=1.01)
    assert np.abs(np.diff(deep[0, 0, :, 0])).max() > 0


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_pictures_are_turned_as_shallow_ones(orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    grey = (np.arange(8 * 32).reshape(8, 32) % 251).astype(np.uint16)
    Image.fromarray(grey.astype(np.uint8)).save(tmp_path / "shallow.png", exif=exif)
    Image.fromarray(grey * 257).save(tmp_path / "deep.png", exif=exif)
    deep, shallow = (
        preprocessing.read_pictures([tmp_path / f"{name}.png"], (None, None, 1)) for name in ("deep", "shallow")
    )
    np.testing.assert_allclose(deep, shallow, atol=1e-4)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (RAMP.astype(np.float32), r"range from 0 to 6\.554e\+04; \[0, 1\] is needed"),
        (np.full((8, 8), -0.5, np.float32), "range from -0.5 to -0.5"),
        (np.array([[0, np.nan]], np.float32), "is needed"),
        (RAMP.astype(np.int32), "signed samples of 32 bits"),
    ],
    ids=["above", "below", "NaN", "int32"],
)
def test_samples_of_unknown_range_are_refused(stored, message, tmp_path):
    Image.fromarray(stored).save(tmp_path / "x.tif")
    with pytest.raises(BadInput, match=message):
        preprocessing.read_pictures([tmp_path / "x.tif"], (None, None, 3))


@pytest.mark.parametrize(("tag", "before", "after"), [(258, 16, 12), (262, 1, 0)], ids=["12 bits", "white is zero"])
def test_tiff_in_other_layouts_is_refused(tag, before, after, tmp_path):
    Image.fromarray(RAMP).save(tmp_path / "x.tif")
    entries = [struct.pack("<HHIHH", tag, 3, 1, value, 0) for value in (before, after)]
    content = (tmp_path / "x.tif").read_bytes()
    assert content.count(entries[0]) == 1
    (tmp_path / "x.tif").write_bytes(content.replace(*entries))
    with pytest.raises(BadInput, match=r"unsigned samples of 1. bits in this layout is not supported"):
        preprocessing.read_pictures([tmp_path / "x.tif"], (8, 40, 1))


@pytest.mark.parametrize("grey", [True, False])
def test_a_transparent_sample_of_a_png_is_transparent(grey, tmp_path):
    content = written(tmp_path / "x.png", f"16 bits {'grey' if grey else 'RGB'}").read_bytes()
    transparent = int(RAMP[3, 7])
    chunk = b"tRNS" + struct.pack(">H", transparent) * (1 if grey else 3)
    chunk = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    start = content.index(b"IDAT") - 4
    (tmp_path / "x.png").write_bytes(content[:start] + chunk + content[start:])
    found = reading.read_pixels(tmp_path / "x.png", "RGBA")
    np.testing.assert_array_equal(found[..., 3], np.where(RAMP == transparent, 0, 255))
    for mode in ("RGBA", "RGB", "L"):
        found = reading.read_pixels(tmp_path / "x.png", mode)
        colors = found[..., :3]
        assert found.shape == (8, 40, len(mode))
        np.testing.assert_allclose(colors, np.broadcast_to(RAMP[..., np.newaxis] / 257, colors.shape), atol=1e-3)


def write_tiff(path, samples, planar=1, orientation=1, height=None):
    """Write unsigned integers or floats ``(H, W, C)`` as uncompressed TIFF, whose header may claim another height."""
    (rows, columns, channels), kind = samples.shape, samples.dtype
    strips = [samples] if planar == 1 else list(np.moveaxis(samples, -1, 0))
    entries = {
        256: [columns],
        257: [height or rows],
        258: [8 * kind.itemsize] * channels,
        259: [1],  # not compressed
        262: [2 if channels >= 3 else 1],
        273: [1000 + number * strips[0].nbytes for number in range(len(strips))],
        274: [orientation],
        277: [channels],
        278: [height or rows],
        279: [strip.nbytes for strip in strips],
        284: [planar],
        339: [3 if kind.kind == "f" else 1] * channels,
    }
    directory, values = struct.pack("<H", len(entries)), b""
    for tag, numbers in entries.items():
        packed = struct.pack(f"<{len(numbers)}I", *numbers)
        field = packed if len(numbers) == 1 else struct.pack("<I", 500 + len(values))
        values += packed if len(numbers) > 1 else b""
        directory += struct.pack("<HHI", tag, 4, len(numbers)) + field
    header = (b"II" + struct.pack("<HI", 42, 8) + directory).ljust(500, b"\0") + values
    path.write_bytes(header.ljust(1000, b"\0") + b"".join(strip.tobytes() for strip in strips))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_is_turned_once(orientation, channels, tmp_path):
    shallow = PIXELS[..., :channels]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(shallow if channels > 1 else shallow[..., 0]).save(tmp_path / "x.png", exif=exif)
    upright = reading.read_pixels(tmp_path / "x.png", upright=True)
    for samples in (shallow, shallow.astype(np.uint16) * 257, shallow.astype(np.float32) / 255):
        if samples.dtype == np.float32 and channels > 1:
            continue  # only grey is supported
        write_tiff(tmp_path / "x.tif", samples, orientation=orientation)
        for value in (True, False):
            found = reading.read_pixels(tmp_path / "x.tif", upright=value)
            np.testing.assert_allclose(found, upright, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("height", [13, 12_000, 1_000_000])
def test_tiff_with_too_few_samples_is_refused(height, dtype, tmp_path):
    samples = PIXELS[..., :1].astype(dtype) / dtype(255) if dtype == np.float32 else PIXELS[..., :1].astype(dtype)
    write_tiff(tmp_path / "x.tif", samples)
    assert reading.read_pixels(tmp_path / "x.tif").shape == PIXELS.shape
    write_tiff(tmp_path / "x.tif", samples, height=height)
    with (tmp_path / "x.tif").open("ab") as file:
        file.write(bytes(10_000))  # which belong to no strip
    with pytest.raises(BadInput, match="is cut off"):
        reading.read_pixels(tmp_path / "x.tif")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("planar", [1, 2])
def test_cut_off_tiff_is_refused(planar, dtype, tmp_path):
    write_tiff(tmp_path / "x.tif", PIXELS.astype(dtype), planar)
    os.truncate(tmp_path / "x.tif", (tmp_path / "x.tif").stat().st_size - 1)
    with pytest.raises(BadInput, match="is cut off"):
        reading.read_pixels(tmp_path / "x.tif")


@pytest.mark.parametrize("options", [[], [cv2.IMWRITE_TIFF_ROWSPERSTRIP, 5]], ids=["default", "5 rows"])
@pytest.mark.parametrize("compression", [1, 5, 8, 32773])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiff_in_strips_is_read_with_any_compression(dtype, compression, options, tmp_path):
    stored = PIXELS[..., ::-1].astype(dtype) * dtype(np.iinfo(dtype).max // 255)
    path = tmp_path / "x.tif"
    assert cv2.imwrite(str(path), stored, [cv2.IMWRITE_TIFF_COMPRESSION, compression, *options])
    np.testing.assert_allclose(reading.read_pixels(path), PIXELS, atol=1e-4)


def test_tiff_with_separate_channels_is_right_or_refused(tmp_path):
    deep = PIXELS.astype(np.uint16) * 257
    for planar in (1, 2):
        write_tiff(tmp_path / "shallow.tif", PIXELS, planar)
        found = preprocessing.read_pictures([tmp_path / "shallow.tif"], (None, None, 3))
        np.testing.assert_array_equal(found[0], PIXELS)
    write_tiff(tmp_path / "deep.tif", deep, 1)
    found = preprocessing.read_pictures([tmp_path / "deep.tif"], (None, None, 3))
    np.testing.assert_allclose(found[0], PIXELS, atol=1e-4)
    write_tiff(tmp_path / "deep.tif", deep, 2)
    with pytest.raises(BadInput, match="samples of 16 bits in this layout is not supported"):
        preprocessing.read_pictures([tmp_path / "deep.tif"], (None, None, 3))


def test_a_picture_that_cannot_be_decoded_is_refused(tmp_path):
    Image.fromarray(np.zeros((1, 2_000_000), np.uint16)).save(tmp_path / "wide.png")
    with pytest.raises(BadInput, match="cannot decode its 16-bit samples"):
        preprocessing.read_pictures([tmp_path / "wide.png"], (8, 8, 3))


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
    found = preprocessing.read_array(tmp_path / "x.npy", shape)
    assert found.shape == expected and found.ravel().tolist() == list(range(np.prod(stored)))


@pytest.mark.parametrize("shape", [(), (5,), (None,), (6, 5, 1)])
@pytest.mark.parametrize(
    "stored",
    [np.array(3.0), np.array("a"), np.zeros(0), np.zeros((0, 5)), np.zeros((1, 1, 1, 6, 5, 1)), np.zeros(5, complex),
     np.zeros(5, "M8[s]"), np.zeros(5, "V4"), np.zeros(5, [("a", "f4")]), np.array([None]), np.zeros((6, 0, 1)),
     np.ones(5, ">f4"), np.ones((5, 2), order="F"), np.ones(5, bool)],
)  # fmt: skip
def test_any_array_of_a_file_is_rows_of_inputs_or_refused(stored, shape, tmp_path):
    np.save(tmp_path / "x.npy", stored, allow_pickle=True)
    try:
        found = preprocessing.read_array(tmp_path / "x.npy", shape)
    except BadInput as error:
        assert "x.npy" in str(error)
    else:
        assert len(found) and found.dtype.kind in "fb" and found.ravel().tolist() == stored.ravel().tolist()
        assert len(found.shape) == 1 + len(shape)
    np.savez(tmp_path / "x.npz", a=stored if stored.dtype != object else 0)
    with contextlib.suppress(BadInput):
        found = preprocessing.read_table(tmp_path / "x.npz", {"a": (shape, np.float32)})[0]["a"]
        assert len(found) and len(found.shape) == 1 + len(shape)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("a,b,kind\n1,2,cat\n", (2,), "has 3 columns, the model takes 2: remove 'kind'"),
        ("a,b,y\n1,2,0\n", (2,), "has 3 columns, the model takes 2: remove 1, such as a label; the columns are 'a', "),
        ("a\n1\n", (2,), "has 1 column, the model takes 2: one for each feature"),
        ("a,b\n1,2\n", (2, 2, 3), "has 2 columns, the model takes inputs of shape (2, 2, 3); give images"),
    ],
)
def test_a_table_that_does_not_fit_names_the_columns_that_are_too_many(tmp_path, text, shape, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(BadInput, match=re.escape(message)):
        preprocessing.read_table(tmp_path / "x.csv", {"input_layer_1": (shape, np.float32)})


def test_names_of_classes_come_line_by_line_or_as_json(tmp_path):
    (tmp_path / "names.txt").write_text("cat\n dog\n")
    (tmp_path / "list.json").write_text(json.dumps(["cat", "dog"]))
    (tmp_path / "index.json").write_text(json.dumps({"0": ["n01", "cat"], "1": ["n02", "dog"]}))
    for name in ("names.txt", "list.json", "index.json"):
        assert preprocessing.read_class_names(tmp_path / name) == ["cat", "dog"]


def test_what_is_no_input_is_refused(folder):
    (folder / "empty").mkdir()
    (folder / "broken.png").write_bytes(b"no picture")
    np.save(folder / "texts.npy", np.array(["a"]))
    (folder / "broken.json").write_text('{"1": "cat"}')
    refused = [
        (lambda: preprocessing.find_files([folder / "d.png"]), "does not exist; a picture"),
        (lambda: preprocessing.find_files([folder / "notes.txt"]), "is not an input file; names end in '.png'"),
        (lambda: preprocessing.find_files([folder / "empty"]), "there is no picture"),
        (lambda: preprocessing.find_files([]), "no input was named"),
        (lambda: preprocessing.read_pictures([folder / "broken.png"], (8, 8, 3)), "is not a readable image"),
        (
            lambda: preprocessing.read_pictures([folder / "a.png"], (20, 1)),
            r"of shape \(20, 1\), which pictures are not",
        ),
        (lambda: preprocessing.read_pictures([folder / "a.png"], (8, 8, 5)), "which pictures are not"),
        (lambda: preprocessing.read_array(folder / "texts.npy", (1,)), "does not hold an array of numbers"),
        (
            lambda: preprocessing.read_array(folder / "c.npy", (8, 8, 3)),
            r"has shape \(12, 20, 3\); the model takes \(8, 8",
        ),
        (lambda: preprocessing.read_array(folder / "notes.txt", (8,)), "is not a readable array"),
        (lambda: preprocessing.read_class_names(folder / "broken.json"), "not a JSON list of names"),
        (lambda: preprocessing.read_class_names(folder / "none.txt"), "No such file or directory"),
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
    [(1, 0, 1), (2, 0, 1), (8, 0, 1), (16, 0, 1), (8, 2, 3), (16, 2, 3), (8, 4, 2), (8, 6, 4), (1, 3, 1), (4, 3, 1)],
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
        with pytest.raises(BadInput, match=r"cut off|OpenCV cannot decode"):
            reading.read_pixels(path)


@pytest.mark.parametrize("options", [{}, {"quality": 100}, {"subsampling": 0}, {"restart_marker_blocks": 1}])
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
