"""Shortened, reordered and contradictory sets: what belongs to an image is found by its name, or it is refused."""

import numpy as np
import pytest

from attribution.errors import BadInput
from bim import data
from bim.data import load_masks
from bim.layout import save_masks


@pytest.mark.parametrize(
    ("set_name", "rows"),
    [
        ("obj", slice(100)),
        ("obj", slice(None, None, -1)),
        ("scene_only", slice(0, None, 3)),
        ("scene3", slice(None, None, -1)),
        ("dog_bedroom", slice(-1, None)),
    ],
)
def test_masks_boxes_and_labels_follow_their_image(copied, sets, set_name, rows):
    whole = data.load_set(sets, set_name)
    for name in ("val.txt", "val_loc.txt"):
        lines = (copied / set_name / name).read_text().splitlines(keepends=True)
        (copied / set_name / name).write_text("".join(lines[rows]))
    part = data.load_set(str(copied), set_name)
    assert 0 < len(part) <= len(whole)
    for row, name in enumerate(part.names):
        there = whole.names.index(name)
        assert part.labels[row] == whole.labels[there] and part.boxes[row].tolist() == whole.boxes[there].tolist()
        assert part.digest([row]) == whole.digest([there])
        if part.boxes[row].any():
            np.testing.assert_array_equal(part.mask(row), whole.mask(there))


def test_masks_in_another_order_are_found_by_their_names(copied, sets):
    found = dict(reversed(load_masks(str(copied / "obj")).items()))
    save_masks(str(copied / "obj" / "val_mask.npz"), found.values(), list(found))
    whole, part = data.load_set(sets, "obj"), data.load_set(str(copied), "obj")
    for row in range(0, len(whole), 7):
        np.testing.assert_array_equal(part.mask(row), whole.mask(row))


def test_too_few_masks_are_refused(copied):
    found = load_masks(str(copied / "obj"))
    save_masks(str(copied / "obj" / "val_mask.npz"), list(found.values())[:10], list(found)[:10])
    last = data.load_set(str(copied), "obj")
    with pytest.raises(BadInput, match=f"has 10 masks, none is for {last.names[-1]}"):
        last.mask(len(last) - 1)


def test_an_empty_mask_is_refused(copied):
    found = load_masks(str(copied / "obj"))
    save_masks(str(copied / "obj" / "val_mask.npz"), [mask & False for mask in found.values()], list(found))
    with pytest.raises(BadInput, match=r"the mask for .* is empty"):
        data.load_set(str(copied), "obj").mask(0)


@pytest.mark.parametrize(
    ("set_name", "box"),
    [("obj", "0,0,0,0"), ("scene", "0,0,0,0"), ("scene_only", "0,0,0,0"), ("dog_bedroom", "0,0,0,0"),
     ("bamboo_forest", "0,0,0,0"), ("obj", "5,5,5,9"), ("scene_only", "3,7,9,7")],
)  # fmt: skip
def test_an_empty_box_is_refused_where_every_image_has_an_object(copied, set_name, box):
    file = copied / set_name / "val_loc.txt"
    name = file.read_text().split()[0]
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(f"{name} {box}\n" + "".join(lines[1:]))
    with pytest.raises(BadInput, match=f"the box of {name} is empty"):
        data.load_set(str(copied), set_name)


def test_two_sets_that_contradict_each_other_are_refused(copied):
    obj, scene = (data.load_set(str(copied), name) for name in ("obj", "scene"))
    rows = range(len(obj))
    data.check_same_objects(obj, rows, scene, rows)
    (copied / "obj" / "val_loc.txt").write_text("".join(f"{name} 1,2,30,40\n" for name in obj.names))
    other = data.load_set(str(copied), "obj")
    with pytest.raises(BadInput, match=f"{obj.names[0]} has another box in .*obj than in "):
        data.check_same_objects(other, rows, scene, rows)
    found = load_masks(str(copied / "scene"))
    save_masks(str(copied / "scene" / "val_mask.npz"), [~mask for mask in found.values()], list(found))
    other = data.load_set(str(copied), "scene")
    with pytest.raises(BadInput, match=f"{obj.names[0]} has another mask in .*obj than in .*scene"):
        data.check_same_objects(obj, rows, other, rows)


@pytest.mark.parametrize("name", ["../../secret.jpg", "/etc/passwd", "a/../../b.jpg"])
def test_names_do_not_leave_the_set(copied, name):
    folder = copied / "dog_bedroom"
    for file, value in (("val.txt", "1"), ("val_loc.txt", "1,1,9,9")):
        (folder / file).write_text(f"{name} {value}\n")
    with pytest.raises(BadInput, match="which is not a file in"):
        data.load_set(str(copied), "dog_bedroom")


def test_files_that_are_no_images_are_refused_in_training(copied):
    folder = copied / "obj" / "train" / "dog"
    before = data.load_train(str(copied), "obj")[0].shape
    (folder / ".dog-bedroom-0000.jpg.77-0a.unfinished").write_bytes(b"half")  # of a killed run
    assert data.load_train(str(copied), "obj")[0].shape == before
    (folder / "notes.part").write_text("x")
    with pytest.raises(BadInput, match=r"notes\.part is not an image"):
        data.load_train(str(copied), "obj")
