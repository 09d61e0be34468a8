"""Sets and sources that were damaged: one line, and nothing lost or half-written."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from bim import classifiers, construct, data, delta_patch, layout
from bim.data import load_masks


def test_labels_boxes_and_names_must_make_sense(copied):
    folder = copied / "dog_bedroom"
    labels, boxes = (folder / "val.txt").read_text(), (folder / "val_loc.txt").read_text()
    first = labels.split()[0]
    for file, text, message in (
        ("val.txt", labels.replace(" 1\n", " 10\n", 1), "label 10 of"),
        ("val.txt", labels + labels, "names an image twice"),
        ("val.txt", "\udcff\udcfe\n", "expected lines"),
        ("val_loc.txt", boxes.replace(boxes.split()[1], "0,0,129,5", 1), "does not lie in 128"),
        ("val_loc.txt", boxes.replace(boxes.split()[1], "9,0,3,5", 1), f"the box of {first}"),
    ):
        (folder / "val.txt").write_text(labels)
        (folder / "val_loc.txt").write_text(boxes)
        (folder / file).write_text(text, errors="surrogateescape")
        with pytest.raises(BadInput, match=message):
            data.load_set(str(copied), "dog_bedroom")


def test_pictures_that_are_gone_or_of_another_size(copied):
    images = data.load_set(str(copied), "dog_bedroom")
    os.remove(images.path(0))
    for read in (images.digest, images.images):
        with pytest.raises(BadInput, match="No such file"):
            read([0])
    Image.fromarray(np.zeros((64, 32, 3), np.uint8)).save(images.path(0))
    with pytest.raises(BadInput, match="32 x 64 pixels"):
        images.images([0])


@pytest.mark.parametrize("length", [0, 60, 200])
def test_a_truncated_mask_file(copied, length):
    path = copied / "obj" / "val_mask.npz"
    os.truncate(path, length)
    with pytest.raises(BadInput, match=r"val_mask\.npz is damaged"):
        load_masks(str(copied / "obj"))


@pytest.mark.parametrize("text", ['{"images": [', "{}", "[]", '{"categories": [{"name": "dog", "id": 1}]}'])
def test_a_damaged_annotation_file(tmp_path, text):
    (tmp_path / "instances.json").write_text(text)
    with pytest.raises(BadInput, match=r"instances\.json"):
        construct.coco_cutouts(str(tmp_path / "instances.json"), str(tmp_path), 1)


def test_a_damaged_source_picture(corpora, tmp_path):
    coco = os.path.join(corpora, "coco")
    (entry,) = construct.coco_cutouts(
        os.path.join(coco, "annotations", "instances_train2017.json"), os.path.join(coco, "train2017"), 1
    )["dog"]
    path = tmp_path / "dog.jpg"
    shutil.copy(entry["path"], path)
    os.truncate(path, 300)
    for read in (lambda: construct.load_cutout({**entry, "path": str(path)}), lambda: construct.load_scene(str(path))):
        with pytest.raises(BadInput, match=r"dog\.jpg is not a readable image"):
            read()
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(path)
    with pytest.raises(BadInput, match="pixels of its annotation"):
        construct.load_cutout({**entry, "path": str(path)})


def test_other_parameters_are_refused_before_anything_is_drawn(tmp_path):
    construct.begin(str(tmp_path), 1, 2, seed=0)
    before = (tmp_path / "construction.json").read_bytes()
    with pytest.raises(BadInput, match="another --data_dir"):
        construct.begin(str(tmp_path), 1, 2, seed=1)
    assert (tmp_path / "construction.json").read_bytes() == before and not layout.completeness(str(tmp_path))
    (tmp_path / "construction.json").write_text("{")
    with pytest.raises(BadInput, match=r"construction\.json is not a readable JSON file"):
        construct.begin(str(tmp_path), 1, 2, seed=0)


def test_stopped_patches_leave_those_of_before(copied, tiny_models, monkeypatch):
    model = classifiers.load_classifier(tiny_models, "scene_only")
    delta_patch.construct(str(copied), model, steps=2)
    folder = copied / "bamboo_forest_patch"
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    save_masks = delta_patch.save_masks

    def stopped(*arguments):
        save_masks(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(delta_patch, "save_masks", stopped)
    with pytest.raises(KeyboardInterrupt):
        delta_patch.construct(str(copied), model, steps=3, step_size=9.0)
    assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not [name for name in os.listdir(copied) if "part" in name or "unfinished" in name]


def test_patches_need_a_file_that_gives_logits(tiny_models):
    model = classifiers.load_classifier(tiny_models, "scene_only")
    logits = delta_patch.logit_function(model)
    delta_patch.check_gives_logits(model, logits)
    with pytest.raises(BadInput, match="does not give logits"):
        delta_patch.check_gives_logits(model, lambda inputs: np.asarray(logits(inputs)) + 0.5)


def test_a_damaged_record_of_patches(tmp_path):
    for text in ("{", "[]", json.dumps({"model": "x"})):
        (tmp_path / delta_patch.RECORD).write_text(text)
        with pytest.raises(BadInput, match=r"patches\.json is damaged"):
            delta_patch.read_record(str(tmp_path))


def test_ten_classes_and_square_images_are_needed(tmp_path):
    from bim import models

    for width, classes, message in ((32, 9, "has 9 classes"), (16, 10, "takes inputs of shape")):
        import keras

        image = keras.Input((32, width, 3))
        x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(image))
        path = str(tmp_path / str(classes))
        keras.Model(image, keras.layers.Dense(classes)(x)).export(path, verbose=False)
        with pytest.raises(BadInput, match=message):
            classifiers.classifier_at(path)
    assert models.NUM_CLASSES == len(layout.SCENES)
