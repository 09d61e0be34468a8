"""Construction: layout, seeds, and the traps of COCO."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from bim import construct, data, layout
from bim.data import load_masks


def tree(directory):
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = file.read()
    return found


def test_the_sets_have_the_authors_layout(sets):
    names = {f"{o}-{s}-{i:04d}.jpg" for o in layout.OBJECTS for s in layout.SCENES for i in (900, 901)}
    for set_name in ("obj", "scene", "scene_only"):
        assert set(os.listdir(os.path.join(sets, set_name, "val"))) == names
        found = data.load_set(sets, set_name)
        assert set(found.names) == names and list(found.names) == sorted(found.names)
        position, classes = (0, layout.OBJECTS) if set_name == "obj" else (1, layout.SCENES)
        assert [classes[label] for label in found.labels] == [name.split("-")[position] for name in found.names]
        assert len(load_masks(os.path.join(sets, set_name))) == 20
        for name in classes:
            train = os.listdir(os.path.join(sets, set_name, "train", name))
            assert len(train) == 10 and all(file.endswith("-0000.jpg") for file in train)
    assert len(data.load_set(sets, "dog_bedroom")) == len(data.load_set(sets, "bamboo_forest")) == 2
    assert set(data.load_set(sets, "dog_bedroom").labels) == {layout.SCENES.index("bedroom")}


def test_scene_only_holds_each_scene_under_ten_names(sets):
    for scene in layout.SCENES[::4]:
        contents = set()
        for name in layout.OBJECTS:
            with open(os.path.join(sets, "scene_only", "val", f"{name}-{scene}-0900.jpg"), "rb") as file:
                contents.add(file.read())
        assert len(contents) == 1


def test_outside_the_box_an_image_is_its_scene(sets):
    scene, only = data.load_set(sets, "scene"), data.load_set(sets, "scene_only")
    for row in range(0, 200, 23):
        row0, col0, row1, col1 = scene.boxes[row]
        first, second = scene.images([row])[0].astype(int), only.images([row])[0].astype(int)
        far = np.ones((128, 128), bool)
        far[max(0, row0 - 16) : row1 + 16, max(0, col0 - 16) : col1 + 16] = False  # JPEG works in blocks of 16
        assert not np.abs(first - second)[far].any()
        assert np.abs(first - second)[row0:row1, col0:col1].mean() > 5


@pytest.mark.parametrize("number", range(1, 11))
def test_contrast_sets_hold_the_dog_in_as_many_scenes(sets, number):
    found = data.load_set(sets, f"scene{number}")
    with_dog = {label for label, box in zip(found.labels, found.boxes, strict=True) if box.any()}
    assert len(with_dog) == number and layout.SCENES.index("bedroom") in with_dog
    assert len(found) == 20


def test_tcav_images_show_no_bedroom_and_no_dog_in_the_counterparts(sets):
    folders = os.listdir(os.path.join(sets, "tcav"))
    assert sorted(folders) == ["dog_scene", *(f"random_{number}" for number in range(10))]
    for folder in folders:
        names = os.listdir(os.path.join(sets, "tcav", folder))
        assert names and not any("bedroom" in name for name in names)
        assert {name.startswith("dog-") for name in names} == {folder == "dog_scene"}


def test_size_and_place_follow_from_the_name():
    box = construct.placement("dog-bedroom-0901", (40, 100), 128, 0)
    assert box == construct.placement("dog-bedroom-0901", (40, 100), 128, 0)
    assert box != construct.placement("dog-bedroom-0902", (40, 100), 128, 0)
    assert box != construct.placement("dog-bedroom-0901", (40, 100), 128, 1)


def test_sizes_and_places_have_the_papers_range():
    boxes = np.array([construct.placement(f"x-{i}", (100, 50), 128, 0) for i in range(3000)])
    heights, widths = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert heights.min() == int(128 / math.sqrt(3)) == 73 and heights.max() == int(128 / math.sqrt(2)) - 1 == 89
    assert np.abs(widths - heights / 2).max() <= 0.5
    assert boxes.min() == 0 and boxes[:, 2:].max() == 128
    # Each of the 17 sizes is as likely: 3000 / 17 with a standard deviation of 13.
    assert np.abs(np.bincount(heights)[73:] - 3000 / 17).max() < 5 * 13
    free = boxes[:, 0] / (128 - heights)
    assert abs(free.mean() - 0.5) < 5 * math.sqrt(1 / 12 / 3000)


def test_pasting_keeps_the_scene_outside_and_the_object_inside():
    scene = np.full((20, 20, 3), 10, np.uint8)
    image = np.full((6, 6, 3), 200, np.uint8)
    mask = np.zeros((6, 6), bool)
    mask[:, :3] = True
    image[~mask] = 77  # what surrounded the object must not shine through
    result = construct.paste(scene, image, mask, (4, 5, 16, 17))
    assert (result[:, :5] == 10).all() and (result[4:16, 13:] == 10).all()
    assert (result[4:16, 5:9] == 200).all()
    assert set(np.unique(result[4:16, 9:13])) <= set(range(10, 201))
    assert (scene == 10).all()


def test_an_interrupted_construction_continues_to_the_same_bytes(construct_sets, sets, tmp_path):
    again = construct_sets(tmp_path / "again")
    assert tree(again) == tree(sets)
    os.remove(os.path.join(again, "construction.json"))
    for set_name in ("obj", "scene_only"):
        for name in os.listdir(os.path.join(again, set_name, "val"))[:30]:
            os.remove(os.path.join(again, set_name, "val", name))
    os.remove(os.path.join(again, "scene", "val.txt"))
    construct_sets(again)
    assert tree(again) == tree(sets)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """All files of sets of drawings that were constructed as a whole."""
    directory = tmp_path_factory.mktemp("drawn")
    construct.construct_drawn(str(directory), num_train=0, num_val=2)
    return tree(directory)


def test_only_the_images_that_are_read_are_drawn_with_the_bytes_of_a_whole_construction(drawn, tmp_path):
    construct.list_drawn(str(tmp_path), 2)
    assert json.loads((tmp_path / layout.RECORD).read_text())["complete"] == layout.LISTED
    assert not list(tmp_path.rglob("*.jpg"))
    scenes = data.load_set(str(tmp_path), "scene")
    read, names = scenes.images([3, 150]), [scenes.names[row] for row in (3, 150)]
    found = {path.relative_to(tmp_path) for path in tmp_path.glob("*/val/*.jpg")}
    assert found == {pathlib.Path(name, "val", file) for name in ("obj", "scene") for file in names}
    for name in [*layout.CONTRAST_SETS, "dog_bedroom", "bamboo_forest", "scene", "obj", "scene_only"]:
        images = data.load_set(str(tmp_path), name)
        images.digest(range(len(images)))
    for folder in ("tcav/dog_scene", "tcav/random_0", "tcav/random_9"):
        assert len(data.read_images(str(tmp_path), folder, data.image_names(str(tmp_path), folder))) == 18 + 82 * (
            folder != "tcav/dog_scene"
        )
    whole = {path: content for path, content in drawn.items() if not re.match("tcav/random_[1-8]", path)}
    assert {**tree(tmp_path), layout.RECORD: whole[layout.RECORD]} == whole
    np.testing.assert_array_equal(scenes.images([3, 150]), read)


def test_stopped_drawing_is_finished_by_two_processes_at_once(drawn, tmp_path, monkeypatch):
    saved, room = construct.save_picture, iter(range(30))
    monkeypatch.setattr(construct, "save_picture", lambda *picture: saved(*picture) if next(room) < 29 else 1 / 0)
    construct.list_drawn(str(tmp_path), 2)
    with pytest.raises(ZeroDivisionError):
        data.load_set(str(tmp_path), "obj").images(range(0, 200, 3))
    os.remove(tmp_path / layout.RECORD)  # as if the lists were not complete either
    (tmp_path / "obj" / "val.txt").write_text("")
    program = (
        "import sys; from bim import construct, data; construct.list_drawn(sys.argv[1], 2); "
        "data.load_set(sys.argv[1], 'obj').images(range(0, 200, 2))"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    found = tree(tmp_path)
    assert {f"obj/val/{name}" for name in data.load_set(str(tmp_path), "obj").names[::2]} <= set(found)
    assert all(content == drawn[path] for path, content in found.items() if path != layout.RECORD)


def test_too_few_sources_are_named(construct_sets, tmp_path):
    with pytest.raises(BadInput, match="7 images of 'backpack' are needed"):
        construct_sets(tmp_path / "x", num_val=6)


def fixture_coco(tmp_path, categories):
    """Write a corpus with one image of each class, and one with two stop signs and a crowd."""
    images, annotations = [], []
    for number, name in enumerate(layout.OBJECTS, start=1):
        images.append({"id": number, "file_name": f"{number}.jpg", "height": 40, "width": 50})
        Image.fromarray(np.full((40, 50, 3), 9 * number, np.uint8)).save(tmp_path / f"{number}.jpg")
        shapes = [(2, 3, 10, 10)] if name != "stop_sign" else [(1, 1, 4, 4), (20, 10, 12, 20)]
        for x, y, w, h in shapes:
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": number, "category_id": number, "area": w * h,
                    "bbox": [x, y, w, h], "iscrowd": 0,
                    "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]],
                }
            )  # fmt: skip
    crowd = {"size": [40, 50], "counts": [0, 2000]}
    annotations.append(
        {"id": 99, "image_id": 7, "category_id": 7, "area": 2000, "bbox": [0, 0, 50, 40], "iscrowd": 1,
         "segmentation": crowd}
    )  # fmt: skip
    path = tmp_path / "instances.json"
    path.write_text(
        json.dumps(
            {
                "images": images,
                "annotations": annotations,
                "categories": [{"id": i, "name": name} for i, name in enumerate(categories, start=1)],
            }
        )
    )
    return str(path)


def test_the_stop_sign_is_found_under_cocos_name_and_its_largest_instance_taken(tmp_path):
    path = fixture_coco(tmp_path, [layout.coco_name(name) for name in layout.OBJECTS])
    found = construct.coco_cutouts(path, str(tmp_path), 1)
    (entry,) = found["stop_sign"]
    assert entry["path"].endswith("7.jpg")
    image, mask = construct.load_cutout(entry)
    assert mask.shape == (20, 12) and mask.all() and abs(int(image.mean()) - 63) <= 1


def test_a_category_that_is_missing_is_never_every_image(tmp_path):
    path = fixture_coco(tmp_path, list(layout.OBJECTS))  # stop_sign instead of "stop sign"
    with pytest.raises(BadInput, match="no category 'stop sign'"):
        construct.coco_cutouts(path, str(tmp_path), 1)


def test_missing_corpora_are_named(tmp_path):
    with pytest.raises(BadInput, match=r"no .*none\.json"):
        construct.coco_cutouts(str(tmp_path / "none.json"), str(tmp_path), 1)
    with pytest.raises(BadInput, match="no scene 'bamboo_forest'"):
        construct.scene_files(str(tmp_path), 1)
