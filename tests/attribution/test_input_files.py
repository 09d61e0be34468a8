"""Inputs from files come as they are seen, at the model's size, in the order of their names."""

import json

import numpy as np
import pytest
from PIL import Image

from attribution import input_files
from attribution_benchmarks.command_line import BadInput

PIXELS = np.random.default_rng(6).integers(0, 256, (12, 20, 3)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    for name in ("b.png", "a.png"):
        Image.fromarray(PIXELS).save(tmp_path / name)
    np.save(tmp_path / "c.npy", PIXELS)
    (tmp_path / "notes.txt").write_text("no input")
    return tmp_path


def test_folders_give_their_inputs_in_order(folder):
    assert [path.name for path in input_files.find_files([folder])] == ["a.png", "b.png", "c.npy"]
    assert [path.name for path in input_files.find_files([folder / "b.png", folder], 2)] == ["b.png", "a.png"]
    without = (folder / "a.png").resolve()
    assert [path.name for path in input_files.find_files([folder], without=without)] == ["b.png", "c.npy"]


def test_a_picture_of_the_models_size_is_not_touched(folder):
    for shape in ((12, 20, 3), (None, None, 3), (None, None, None)):
        found = input_files.read_pictures([folder / "a.png"], shape)
        np.testing.assert_array_equal(found, PIXELS[np.newaxis])


def test_others_are_cut_or_squashed(folder):
    cut = input_files.read_pictures([folder / "a.png"], (12, 12, 3))
    np.testing.assert_array_equal(cut[0], PIXELS[:, 4:16])
    squashed = input_files.read_pictures([folder / "a.png"], (12, 12, 3), "squash")
    assert squashed.shape == (1, 12, 12, 3) and not np.array_equal(squashed, cut)


def test_grey_models_see_grey(folder):
    assert input_files.read_pictures([folder / "a.png"], (12, 20, 1)).shape == (1, 12, 20, 1)


def test_pictures_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees to the right
    Image.fromarray(PIXELS).save(tmp_path / "turned.png", exif=exif)
    found = input_files.read_pictures([tmp_path / "turned.png"], (None, None, 3))
    np.testing.assert_array_equal(found[0], np.rot90(PIXELS, -1))


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
    found = input_files.read_array(tmp_path / "x.npy", shape)
    assert found.shape == expected and found.ravel().tolist() == list(range(np.prod(stored)))


def test_names_of_classes_come_line_by_line_or_as_json(tmp_path):
    (tmp_path / "names.txt").write_text("cat\n dog\n")
    (tmp_path / "list.json").write_text(json.dumps(["cat", "dog"]))
    (tmp_path / "index.json").write_text(json.dumps({"0": ["n01", "cat"], "1": ["n02", "dog"]}))
    for name in ("names.txt", "list.json", "index.json"):
        assert input_files.read_class_names(tmp_path / name) == ["cat", "dog"]


def test_what_is_no_input_is_refused(folder):
    (folder / "empty").mkdir()
    (folder / "broken.png").write_bytes(b"no picture")
    np.save(folder / "texts.npy", np.array(["a"]))
    (folder / "broken.json").write_text('{"1": "cat"}')
    refused = [
        (lambda: input_files.find_files([folder / "d.png"]), "does not exist; a picture"),
        (lambda: input_files.find_files([folder / "notes.txt"]), "is no input; files end in '.png'"),
        (lambda: input_files.find_files([folder / "empty"]), "there is no picture"),
        (lambda: input_files.find_files([]), "no input was named"),
        (lambda: input_files.read_pictures([folder / "broken.png"], (8, 8, 3)), "cannot be read as a picture"),
        (lambda: input_files.read_pictures([folder / "a.png"], (20, 1)), r"of shape \(20, 1\), which pictures are not"),
        (lambda: input_files.read_pictures([folder / "a.png"], (8, 8, 5)), "which pictures are not"),
        (lambda: input_files.read_array(folder / "texts.npy", (1,)), "holds no array of numbers"),
        (
            lambda: input_files.read_array(folder / "c.npy", (8, 8, 3)),
            r"has shape \(12, 20, 3\); the model takes \(8, 8",
        ),
        (lambda: input_files.read_array(folder / "notes.txt", (8,)), "cannot be read as an array"),
        (lambda: input_files.read_class_names(folder / "broken.json"), "no JSON list of names"),
        (lambda: input_files.read_class_names(folder / "none.txt"), "cannot be read as names"),
    ]
    for read, message in refused:
        with pytest.raises(BadInput, match=message):
            read()
