"""The released data set's layout, in small files of the same format."""

import itertools
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from attribution_benchmarks.parts import funnybirds
from attribution_benchmarks.stats.coalitions import coalitions

CLASSES = [
    [0, 0, 0, 0, 0],
    [0, 0, 1, 1, 1],
    [1, 1, 1, 0, 0],
    [1, 1, 0, 1, 1],
]  # variants of beak, eye, foot, tail, wing
SIDE = 12


def save(path, rgb):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])).save(path)


def picture(kept, gone=None):
    """Return an image whose red is the number of a set of parts, and whose green is that of the missing object."""
    found = np.zeros((SIDE, SIDE, 3), np.uint8)
    found[..., 0] = sum(1 << number for number, here in enumerate(kept) if here)
    found[..., 1] = 0 if gone is None else gone + 1
    return found


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("funnybirds")
    classes = [
        {"class_idx": number, "parts": dict(zip(funnybirds.PARTS, variants, strict=True))}
        for number, variants in enumerate(CLASSES)
    ]
    (folder / "classes.json").write_text(json.dumps(classes))
    (folder / "parts.json").write_text(json.dumps({part: [{}, {}] for part in funnybirds.PARTS}))
    rows = [{"class_idx": 0, "bg_objects": "1,4"}, {"class_idx": 2, "bg_objects": "7"}]
    (folder / "dataset_test.json").write_text(json.dumps(rows))
    for number, (label, objects) in enumerate(((0, 2), (2, 1))):
        name = f"{label}/{number:06d}"
        save(folder / "test" / f"{name}.png", picture([True] * 5))
        part_map = np.zeros((SIDE, SIDE, 3), np.uint8)
        colors = [color for each in funnybirds.COLORS.values() for color in each]
        for place, color in enumerate(colors):
            part_map[0, place] = color
        for each in range(objects):
            part_map[5, each] = (204, 204, 204 + each)
        save(folder / "test_part_map" / f"{name}.png", part_map)
        place = folder / "test_interventions" / name
        for kept in itertools.product((False, True), repeat=5):
            save(place / f"{'_'.join(['body', *itertools.compress(funnybirds.PARTS, kept)])}.png", picture(kept))
        for each in range(objects):
            save(place / "background_interventions" / f"{each}.png", picture([True] * 5, each))
    return folder


def test_images_masks_and_classes_are_read(data_dir):
    found = funnybirds.examples(10, 0, str(data_dir))
    assert list(found.names) == ["0/000000", "2/000001"] and found.targets.tolist() == [0, 2]
    np.testing.assert_allclose(found.inputs[..., 0], 31 / 255)
    regions = found.truth["regions"]
    assert regions.shape == (2, 7, SIDE, SIDE)
    assert regions.sum(axis=(2, 3)).tolist() == [[1, 2, 2, 1, 2, 1, 1], [1, 2, 2, 1, 2, 1, 0]]
    assert found.truth["there"].tolist() == [[True, True], [True, False]]
    assert len(funnybirds.examples(1, 0, str(data_dir)).inputs) == 1


def test_sufficient_sets_and_classes_that_share_parts(data_dir):
    truth = funnybirds.examples(10, 0, str(data_dir)).truth
    sets = coalitions(5)[truth["sufficient"][0]]
    assert {tuple(np.flatnonzero(each)) for each in sets} == {
        (0, 2),
        (1, 2),
        (0, 3),
        (1, 3),
        (2, 3),
        (0, 4),
        (1, 4),
        (2, 4),
    }
    assert truth["pair"].tolist() == [[1, 2], [0, 3]]
    assert truth["pair_parts"][0].tolist() == [[True, True, False, False, False], [False, False, False, True, True]]


def test_interventions_are_in_the_order_of_coalitions(data_dir):
    data = funnybirds.examples(10, 0, str(data_dir))
    first, second = funnybirds.interventions(data, str(data_dir))
    assert first.shape == (34, SIDE, SIDE, 3) and second.shape == (33, SIDE, SIDE, 3)
    np.testing.assert_allclose(first[:32, 0, 0, 0] * 255, np.arange(32), atol=1e-4)
    np.testing.assert_allclose(first[32:, 0, 0, 1] * 255, [1, 2], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dataset_test.json", "[]", "lists no images"),
        ("dataset_test.json", '[{"bg": 1}]', "no integer 'class_idx'"),
        ("classes.json", '[{"class_idx": 0, "parts": {"beak": 1}}]', "no variant of each of beak"),
        ("classes.json", "{}", "is not a JSON list"),
        ("dataset_test.json", '[{"class_idx": 4}]', "classes that are not in"),
    ],
)
def test_damaged_files_are_refused(data_dir, tmp_path, name, content, message):
    for file in ("classes.json", "dataset_test.json"):
        (tmp_path / file).write_text((data_dir / file).read_text())
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput, match=message):
        funnybirds.examples(10, 0, str(tmp_path))


def test_an_image_of_another_size_is_named(data_dir, tmp_path):
    shutil.copytree(data_dir, tmp_path, dirs_exist_ok=True)
    save(tmp_path / "test_part_map" / "2" / "000001.png", np.zeros((SIDE, SIDE + 1, 3), np.uint8))
    with pytest.raises(BadInput, match=r"000001.png has the shape \(12, 13, 3\), others \(12, 12, 3\)"):
        funnybirds.examples(10, 0, str(tmp_path))


def test_a_missing_folder_or_image_is_named(data_dir, tmp_path):
    with pytest.raises(BadInput, match="--data_dir is the folder"):
        funnybirds.examples(10, 0, str(tmp_path))
    for file in ("classes.json", "dataset_test.json"):
        (tmp_path / file).write_text((data_dir / file).read_text())
    with pytest.raises(BadInput, match="is missing or not an image"):
        funnybirds.examples(10, 0, str(tmp_path))
