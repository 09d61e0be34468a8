"""Reading the release's layout, however it was unpacked, and naming the file that is wrong."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from clevr_xai import layout, masks
from clevr_xai.data import Dataset

COLORS = [(230, 25, 75), (60, 180, 75), (255, 225, 25)]


def node(kind, output, *inputs):
    return {"type": kind, "inputs": list(inputs), "value_inputs": [], "_output": output}


def question(number, image, program, answer):
    return {
        "split": "unique", "image_filename": image, "image_index": 0, "question": f"Question {number}?",
        "program": program, "answer": answer, "template_filename": "x.json", "question_family_index": 0,
        "question_index": number,
    }  # fmt: skip


ONE = [node("scene", [0, 1, 2]), node("filter_color", [1], 0), node("unique", 1, 1), node("query_size", "large", 2)]
NONE = [node("scene", [0, 1, 2]), node("filter_color", [], 0), node("count", 0, 1)]
TWO = [node("scene", [0, 1, 2]), node("filter_color", [0, 2], 0), node("exist", True, 1)]


@pytest.fixture
def release(tmp_path, write_json):
    """Two images of three blobs, questions of both kinds, and the .npy files, as in the release."""
    home, pictures = tmp_path / "data" / "CLEVR-XAI_v1.0", tmp_path / "data" / "CLEVR-XAI_v1.0_images_masks"
    rng = np.random.default_rng(0)
    entries, indices = [], {}
    for number in range(2):
        name = f"CLEVR_unique_{number:06d}.png"
        index = np.full((320, 480), -1)
        for blob in range(3):
            y, x = rng.integers(0, 250), rng.integers(0, 400)
            index[y : y + 50, x : x + 60] = blob
        indices[name] = index
        for folder in ("images", "masks"):
            (pictures / folder).mkdir(parents=True, exist_ok=True)
        # The release's images may have an alpha channel.
        Image.fromarray(rng.integers(0, 256, (320, 480, 4), np.uint8)).save(pictures / "images" / name)
        palette = np.array([*COLORS, masks.BACKGROUND], np.uint8)
        Image.fromarray(palette[index]).save(pictures / "masks" / name)
        objects = [{"mask_color": [masks.linear(part) for part in color]} for color in COLORS]
        entries.append({"image_filename": name, "mask_filename": name, "objects": objects})
    write_json(home / layout.SCENES, {"info": {}, "scenes": entries})
    first, second = indices
    asked = {
        "simple": [question(0, first, ONE, "large"), question(1, second, ONE, "large")],
        "complex": [question(5, first, ONE, "large"), question(6, first, NONE, 0), question(8, second, TWO, True)],
    }
    for kind, items in asked.items():
        write_json(home / layout.QUESTIONS.format(kind=kind), {"info": {}, "questions": items})
        for name in masks.GROUND_TRUTHS[kind]:
            folder = home / layout.GROUND_TRUTH.format(kind=kind, ground_truth=name)
            for item in items:
                objects = masks.ground_truth_objects(item["program"], name, 3)
                if objects:
                    folder.mkdir(exist_ok=True)
                    mask = masks.resize(np.isin(indices[item["image_filename"]], objects))
                    np.save(folder / f"{item['question_index']}.npy", mask)
    return home


def everything(data):
    (batch,) = data.batches(100)
    return batch


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_both_ways_of_unpacking_give_the_same(kind, release, tmp_path):
    merged = tmp_path / "merged"
    shutil.copytree(release, merged)
    shutil.copytree(release.parent / "CLEVR-XAI_v1.0_images_masks", merged, dirs_exist_ok=True)
    batches = [everything(Dataset(kind, where)) for where in (release.parent, release, merged)]
    for batch in batches[1:]:
        np.testing.assert_array_equal(batch.images, batches[0].images)
        assert (batch.questions, batch.answers) == (batches[0].questions, batches[0].answers)
        for name in masks.GROUND_TRUTHS[kind]:
            np.testing.assert_array_equal(batch.masks[name], batches[0].masks[name])


def test_what_a_batch_holds(release):
    batch = everything(Dataset("complex", release.parent))
    assert batch.images.shape == (3, 128, 128, 3) and batch.images.dtype == np.uint8
    assert batch.answers == ["large", "0", "yes"]
    assert batch.available["unique"].tolist() == [True, False, False]
    assert batch.available["union"].tolist() == [True, False, True]
    assert batch.available["all_objects"].all()
    assert batch.masks["union"].shape == (3, 128, 128) and batch.masks["union"].dtype == bool
    assert not batch.masks["unique"][1:].any()
    picture = Image.open(release.parent / "CLEVR-XAI_v1.0_images_masks/images/CLEVR_unique_000000.png")
    expected = picture.convert("RGB").resize((128, 128), Image.BILINEAR)
    np.testing.assert_array_equal(batch.images[0], np.asarray(expected))


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_masks_from_files_and_from_mask_images_are_the_same(kind, release):
    stored = everything(Dataset(kind, release))
    for folder in release.glob("ground_truth_*"):
        shutil.rmtree(folder)
    derived = everything(Dataset(kind, release))
    for name in masks.GROUND_TRUTHS[kind]:
        np.testing.assert_array_equal(stored.masks[name], derived.masks[name])
        np.testing.assert_array_equal(stored.available[name], derived.available[name])


def test_stored_masks_are_read_as_they_are(release):
    """A file that differs from the mask image wins: it is the release's word."""
    file = release / "ground_truth_simple_questions_single_object" / "1.npy"
    other = np.zeros((128, 128), bool)
    other[3, 4] = True
    np.save(file, other)
    found, available = Dataset("simple", release).masks("single_object", [1])
    np.testing.assert_array_equal(found[0], other)
    assert available.all()


def test_batches_cover_the_rows_in_order(release):
    data = Dataset("complex", release)
    assert [batch.rows.tolist() for batch in data.batches(2)] == [[0, 1], [2]]
    (chosen,) = data.batches(8, rows=[2, 0], ground_truths=["union"])
    assert chosen.questions == ["Question 8?", "Question 5?"] and list(chosen.masks) == ["union"]
    np.testing.assert_array_equal(chosen.images, everything(data).images[[2, 0]])


def test_another_size_is_made_from_the_mask_images(release):
    batch = everything(Dataset("simple", release, size=64))
    assert batch.images.shape == (2, 64, 64, 3) and batch.masks["single_object"].shape == (2, 64, 64)
    shutil.rmtree(release.parent / "CLEVR-XAI_v1.0_images_masks" / "masks")
    assert len(Dataset("simple", release)) == 2  # the files are enough for 128 pixels
    with pytest.raises(BadInput, match="masks of 64 pixels are made from mask images"):
        Dataset("simple", release, size=64)


def change_json(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


SIMPLE = "ground_truth_simple_questions_single_object"
PICTURES = "../CLEVR-XAI_v1.0_images_masks"
QUESTIONS = layout.QUESTIONS.format(kind="simple")


def changed(name, change):
    return lambda home: change_json(home / name, change)


def in_question(row, **values):
    return changed(QUESTIONS, lambda content: content["questions"][row].update(values))


SPOILED = {
    "no scenes": (lambda home: (home / layout.SCENES).unlink(), "no CLEVR-XAI_scenes.json in"),
    "no images": (lambda home: shutil.rmtree(home / PICTURES / "images"), "no images in"),
    "no masks": (
        lambda home: (shutil.rmtree(home / PICTURES / "masks"), shutil.rmtree(home / SIMPLE)),
        f"neither {SIMPLE} nor masks in",
    ),
    "wrong json": (lambda home: (home / layout.SCENES).write_text("[]"), "scenes.json holds no list 'scenes'"),
    "missing mask": (lambda home: (home / SIMPLE / "1.npy").unlink(), r"single_object/1.npy, though the question's"),
    "not an array": (lambda home: (home / SIMPLE / "1.npy").write_text("x"), "1.npy is not a readable array"),
    "wrong shape": (
        lambda home: np.save(home / SIMPLE / "1.npy", np.zeros((64, 64), bool)),
        r"1.npy holds bool of shape \(64, 64\); expected bool of \(128, 128\)",
    ),
    "wrong type": (lambda home: np.save(home / SIMPLE / "1.npy", np.zeros((128, 128))), "1.npy holds float64 of shape"),
    "missing image": (
        lambda home: (home / PICTURES / "images" / "CLEVR_unique_000001.png").unlink(),
        "no .*CLEVR_unique_000001.png",
    ),
    "unknown image": (
        changed(layout.SCENES, lambda content: content["scenes"].pop()),
        "question 1 is about CLEVR_unique_000001.png, which CLEVR-XAI_scenes.json does not hold",
    ),
    "same number twice": (in_question(1, question_index=0), "question_index occurs twice"),
    "no outputs": (
        in_question(1, program=[{"type": "scene", "inputs": []}]), "program of question 1 .*lacks '_output'"
    ),
    "another scene": (
        changed(layout.SCENES, lambda content: content["scenes"][0].update(objects=[])),
        "question 0 about CLEVR_unique_000000.png: node 1",
    ),
    "unknown answer": (in_question(0, answer="pink"), "question 0: 'pink' is no answer of CLEVR"),
    "same image twice": (
        changed(layout.SCENES, lambda content: content["scenes"].append(content["scenes"][0])),
        "scenes.json: some image_filename occurs twice",
    ),
    "a list in place of a name": (
        in_question(0, image_filename=[1]), r"entry 0 of 'questions' holds \[1\] as 'image_filename'"
    ),
    "a word in place of a number": (
        in_question(0, question_index="first"), "question_index 'first' is not a whole number"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_what_is_wrong_is_said_in_one_line_that_names_the_file(case, release):
    change, message = SPOILED[case]
    change(release)
    with pytest.raises(BadInput, match=message) as error:
        everything(Dataset("simple", release))
    assert "\n" not in str(error.value)


def test_a_mask_image_of_other_colours_is_refused(release):
    change_json(
        release / layout.SCENES, lambda content: content["scenes"][0]["objects"][1].update(mask_color=[0.8, 0.0, 0.07])
    )
    for folder in release.glob("ground_truth_*"):
        shutil.rmtree(folder)
    data = Dataset("simple", release)
    with pytest.raises(BadInput, match=r"masks/CLEVR_unique_000000.png does not fit the scene's mask colours"):
        everything(data)


def test_unknown_names_are_refused(release, tmp_path):
    with pytest.raises(BadInput, match="no questions 'hard'; these exist: 'simple', 'complex'"):
        Dataset("hard", release)
    with pytest.raises(BadInput, match="no directory"):
        Dataset("simple", tmp_path / "nowhere")
