"""BIM's construction: objects cut out of MSCOCO and pasted on MiniPlaces scenes, in its authors' layout.

Yang and Kim, "Benchmarking Attribution Methods with Relative Feature Importance" (arXiv:1907.09701),
section 3. The i-th object of a class goes on the i-th image of every scene. Unlike the authors' code, the
place and the size of each object follow from a seed and the image's name, and "stop sign" is spelt as COCO
does. Some sets consist of images of others: scene1 to scene10, dog_bedroom, bamboo_forest, and those of TCAV.
"""

from __future__ import annotations

import collections
import glob
import itertools
import json
import math
import os
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
from PIL import Image

from attribution.errors import BadInput
from attribution.files import atomic_write, check_directory, locked_directory
from attribution.reading import inside, read_json
from attribution_benchmarks.beam.parallel_map import ParallelMap, local_map, serial_map
from attribution_benchmarks.beam.workers import available_cores
from bim import layout
from bim.layout import LISTED, RECORD, completeness, is_whole, link, read_image, save_masks
from bim.synthetic.drawings import draw_source, save_picture

CORPORA = "corpora"  # folder of the drawings below that of the sets
MOST_SIDE = 20_000  # pixels of a photograph
TOGETHER = 32  # pictures that a process draws or pastes at a time, each in milliseconds
NO_BOX = (0, 0, 0, 0)
NUM_TCAV_IMAGES = 100
SUBSETS = (*layout.CONTRAST_SETS, "dog_bedroom", "bamboo_forest")
TCAV_FOLDERS = ("dog_scene", *(f"random_{number}" for number in range(10)))


def coco_cutouts(annotation_file: str, image_dir: str, count: int) -> dict[str, list[dict]]:
    """Find the first ``count`` images of each object class and the largest instance in each.

    ``annotation_file`` is COCO's ``instances_train2017.json``, or one of the same form, ``image_dir`` the folder of its
    images. Returns object name -> list of {"path", "segmentation", "height", "width"}, in the order of image numbers.
    Raises ``BadInput`` if the file is missing, or a category is absent or has too few images.
    """
    document, found = read_json(annotation_file), {}
    try:
        images = {image["id"]: image for image in document["images"]}
        numbers = {category["name"]: category["id"] for category in document["categories"]}
        instances: dict = collections.defaultdict(dict)  # category -> image -> instances
        for instance in document["annotations"]:
            if not 0 <= instance["area"] < math.inf:
                raise BadInput(f"{annotation_file}: annotation {instance['id']} has the area {instance['area']}")
            if not instance.get("iscrowd", 0):
                instances[instance["category_id"]].setdefault(instance["image_id"], []).append(instance)
        for name in layout.OBJECTS:
            category = numbers.get(layout.coco_name(name))
            if category is None:  # asking for an unknown name would return every image
                raise BadInput(f"{annotation_file} has no category '{layout.coco_name(name)}'")
            shown = instances[category]
            if len(shown) < count:
                raise BadInput(f"{count} images of '{name}' are needed, {annotation_file} has {len(shown)}")
            largest = (max(shown[image], key=lambda one: (one["area"], -one["id"])) for image in sorted(shown))
            found[name] = [
                _entry(instance, images[instance["image_id"]], image_dir, annotation_file)
                for instance in itertools.islice(largest, count)
            ]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{annotation_file} is not a file of COCO instances: {type(error).__name__} {error}") from error
    return found


def _entry(instance: dict, image: dict, image_dir: str, source: str) -> dict:
    """Return the checked entry of an instance for ``load_cutout``."""
    size = image["height"], image["width"]
    if any(type(length) is not int or not 0 < length <= MOST_SIDE for length in size):
        raise BadInput(f"{source}: image {image['id']} has the height and width {size}; numbers of pixels are needed")
    if not _is_outline(instance["segmentation"], *size):
        raise BadInput(
            f"{source}: annotation {instance['id']} has no outline inside its image; polygons, or lengths of runs, are "
            "needed"
        )
    path = os.path.abspath(inside(image_dir, image["file_name"], source))
    return {"path": path, "segmentation": instance["segmentation"], "height": size[0], "width": size[1]}


def _is_outline(outline, height: int, width: int) -> bool:
    """Return whether an outline is what COCO's decoder may be given, which trusts it blindly.

    That is lists of x, y, x, y, ... inside the image, with a pixel of rounding around it, or an uncompressed run-length
    encoding of a mask of the image: COCO's own files have no compressed ones.
    """
    if isinstance(outline, dict):
        runs = outline.get("counts")
        whole = isinstance(runs, list) and all(type(run) is int and run >= 0 for run in runs)
        return whole and outline.get("size") == [height, width] and sum(runs) == height * width
    limits = (width + 1, height + 1)
    return (
        isinstance(outline, list)
        and bool(outline)
        and all(isinstance(points, list) and len(points) >= 6 and len(points) % 2 == 0 for points in outline)
        and all(
            type(value) in (int, float) and -1 <= value <= limits[place % 2]
            for points in outline
            for place, value in enumerate(points)
        )
    )


def load_cutout(entry: dict) -> tuple[np.ndarray, np.ndarray]:
    """Cut one object out of its photograph.

    Returns the bounding box of the object, (h, w, 3) uint8, and where in it the object is, (h, w) bool.
    """
    mask, box = _cutout_mask(entry)
    image = read_image(entry["path"])
    if image.shape[:2] != (entry["height"], entry["width"]):
        raise BadInput(f"{entry['path']} has not the {entry['width']} x {entry['height']} pixels of its annotation")
    return image[box], mask


def _cutout_mask(entry: dict) -> tuple[np.ndarray, tuple[slice, slice]]:
    """Return the mask of an object, cropped to it, (h, w) bool, and its place in the photograph."""
    from pycocotools import mask as coco_mask

    parts = coco_mask.frPyObjects(entry["segmentation"], entry["height"], entry["width"])
    mask = coco_mask.decode(coco_mask.merge(parts) if isinstance(parts, list) else parts).astype(bool)
    if not mask.any():
        raise BadInput(f"the object of {entry['path']} has an empty outline")
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return mask[box], box


def scene_files(miniplaces_dir: str, count: int) -> dict[str, list[str]]:
    """Find the first ``count`` images of each scene in MiniPlaces' training folders.

    ``miniplaces_dir`` holds ``images/train/b/bedroom`` and so on, or is one of the folders between.
    """
    found = {}
    for scene in layout.SCENES:
        folder = layout.scene_folder(scene)
        choices = [os.path.join(miniplaces_dir, *above, folder) for above in (("images", "train"), ("train",), ())]
        existing = [choice for choice in choices if os.path.isdir(choice)]
        if not existing:
            raise BadInput(f"no scene '{scene}' in MiniPlaces; expected a folder {choices[0]}")
        files = sorted(glob.glob(os.path.join(glob.escape(existing[0]), "*.jpg")))
        if len(files) < count:
            raise BadInput(f"{count} images of '{scene}' are needed, {existing[0]} has {len(files)}")
        found[scene] = [os.path.abspath(file) for file in files[:count]]
    return found


def placement(name: str, shape: tuple[int, int], side: int, seed: int) -> tuple[int, int, int, int]:
    """Sample an object's box on a square scene, from the image's name and the seed alone: row0, col0, row1, col1.

    The longer side of the object becomes U{int(s / sqrt 3) .. int(s / sqrt 2) - 1} for a scene of side s pixels, the
    other keeps the proportion; the place is uniform over where the object fits. ``shape`` is the height and width of
    the cut-out object; the ends of the box are exclusive.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    longest = int(rng.integers(int(side / math.sqrt(3)), int(side / math.sqrt(2))))
    height, width = (max(1, round(length * longest / max(shape))) for length in shape)
    row, column = (int(rng.integers(0, side - length + 1)) for length in (height, width))
    return row, column, row + height, column + width


def paste(scene: np.ndarray, image: np.ndarray, mask: np.ndarray, box) -> np.ndarray:
    """Return a scene with an object resized bilinearly into a box, (H, W, 3) uint8; outside the box it is unchanged.

    The cut-out object is ``image``, (h, w, 3) uint8, where ``mask``, (h, w) bool, is true.
    """
    row0, col0, row1, col1 = box
    cutout = Image.fromarray(np.dstack([image, mask * np.uint8(255)]))  # Pillow weighs colours by the alpha
    placed = np.asarray(cutout.resize((col1 - col0, row1 - row0), Image.Resampling.BILINEAR), np.float32)
    alpha = placed[..., 3:] / 255
    result = scene.copy()
    patch = alpha * placed[..., :3] + (1 - alpha) * scene[row0:row1, col0:col1]
    result[row0:row1, col0:col1] = np.rint(patch).astype(np.uint8)
    return result


def load_scene(path: str) -> np.ndarray:
    """Read a scene as (128, 128, 3) uint8, resizing it where it has another size."""
    image = read_image(path)
    if image.shape[:2] != (layout.IMAGE_SIDE, layout.IMAGE_SIDE):
        picture = Image.fromarray(image)
        image = np.asarray(picture.resize((layout.IMAGE_SIDE, layout.IMAGE_SIDE), Image.Resampling.BILINEAR))
    return image


def construct(
    data_dir: str,
    coco_annotations: str,
    coco_images: str,
    miniplaces_dir: str,
    num_train: int = 900,
    num_val: int = 100,
    seed: int = 0,
    each: ParallelMap = serial_map,
) -> None:
    """Make all BIM sets below ``data_dir``; an interrupted construction continues where it stopped.

    Parameters
    ----------
    data_dir
        Folder to write.
    coco_annotations, coco_images, miniplaces_dir
        The two corpora in their public layouts.
    num_train, num_val
        Training and validation images of each (object, scene) pair, at most 900 and 100: the authors'
        numbers. The sources' first ``num_train`` images are for training, the next for validation.
    seed
        Seed of sizes and places.
    each
        Applies functions to many items.

    Raises
    ------
    BadInput
        If the sources lack something, or ``data_dir`` holds sets made with other parameters.
    """
    cutouts = coco_cutouts(coco_annotations, coco_images, num_train + num_val)
    scenes = scene_files(miniplaces_dir, num_train + num_val)
    with locked_directory(data_dir, "BIM's sets"):
        record = begin(data_dir, num_train, num_val, seed)
        indices = [*range(num_train), *_validation(num_val)]
        entries, files = (
            {(name, index): one for name, found in sources.items() for index, one in zip(indices, found, strict=True)}
            for sources in (cutouts, scenes)
        )
        _write_sets(data_dir, record, files, entries, each)


def construct_drawn(data_dir: str, num_train: int, num_val: int, seed: int = 0, each: ParallelMap = serial_map) -> None:
    """Make all BIM sets of drawings below ``data_dir``; see ``construct``."""
    with locked_directory(data_dir, "BIM's sets"):
        record = begin(data_dir, num_train, num_val, seed)
        indices = [*range(num_train), *_validation(num_val)]
        files, entries = (
            _drawn(data_dir, kind, list(itertools.product(classes, indices)), seed, each)
            for kind, classes in (("scene", layout.SCENES), ("object", layout.OBJECTS))
        )
        _write_sets(data_dir, record, {scene: done["path"] for scene, done in files.items()}, entries, each)


def _drawn(data_dir: str, kind: str, wanted: Sequence[tuple[str, int]], seed: int, each: ParallelMap) -> dict:
    """Return the results of ``draw_source`` by class and index."""
    corpora = os.path.join(os.path.abspath(data_dir), CORPORA)  # another process has another working directory
    tasks = [(corpora, kind, *one, seed) for one in wanted]
    return dict(zip(wanted, each(f"drawn {kind}s", draw_source, tasks), strict=True))


def _write_sets(data_dir: str, record: dict, files: dict, entries: dict, each: ParallelMap) -> None:
    """Write all sets from files of scenes and ``load_cutout``'s entries of objects, by class and index."""
    _write_lists(data_dir, _validation(record["num_val"]), entries, record["seed"])
    alone, pasted = dict.fromkeys(files, layout.OBJECTS), dict.fromkeys(entries, layout.SCENES)
    _write_images(data_dir, alone, pasted, files, entries, record["seed"], each)
    _link_subsets(data_dir, sorted({index for _, index in files}), record["seed"])
    _finish(data_dir, record, True)


def _write_images(data_dir: str, alone: dict, pasted: dict, files: dict, entries: dict, seed: int, each) -> None:
    """Write the missing images of ``scene_only``, ``scene`` and ``obj``.

    ``alone`` are the objects' names under which a scene is needed, and ``pasted`` the scenes on which an object is
    needed, by class and index, as are ``files`` of scenes and ``entries`` of objects.
    """
    place = os.path.abspath(data_dir)  # another process has another working directory
    tasks: list[tuple] = [(place, *scene, files[scene], names) for scene, names in alone.items()]
    collections.deque(each("scenes alone", _write_scene, tasks), maxlen=0)
    tasks = [
        (place, *shown, entries[shown], {scene: files[scene, shown[1]] for scene in scenes}, seed)
        for shown, scenes in pasted.items()
    ]
    collections.deque(each("objects on scenes", _write_pairs, tasks), maxlen=0)


def _finish(data_dir: str, record: dict, complete: bool | str) -> None:
    """Write the record of finished sets, or of finished lists."""
    os.sync()  # after a power failure, the record must not exist without the files
    atomic_write(os.path.join(data_dir, RECORD), json.dumps({**record, "complete": complete}, indent=1))


def _validation(num_val: int) -> range:
    """Return the indices of the validation images of a pair."""
    return range(layout.FIRST_VALIDATION, layout.FIRST_VALIDATION + num_val)


def list_drawn(data_dir: str, num_val: int, seed: int = 0) -> None:
    """Write the lists and masks of sets of drawings; see ``construct``. ``draw_images`` makes the images."""
    with locked_directory(data_dir, "BIM's lists"):
        if completeness(data_dir):  # by another process, for which this one has waited
            return
        record = begin(data_dir, 0, num_val, seed)
        entries = {
            (name, index): draw_source(("", "object", name, index, seed), saved=False)
            for name, index in itertools.product(layout.OBJECTS, _validation(num_val))
        }
        _write_lists(data_dir, _validation(num_val), entries, seed)
        _finish(data_dir, record, LISTED)


def draw_images(data_dir: str, folder: str, names: Sequence[str]) -> None:
    """Draw validation images of the sets of ``list_drawn``, if they are missing, as ``construct`` does.

    ``folder`` is one of images, such as ``obj/val`` or ``tcav/random_0``; ``names`` are names of files in it, with
    suffix.
    """
    place = os.path.abspath(data_dir)
    directory = os.path.join(place, *folder.split("/"))
    origins = [_origin(folder.partition("/")[0], os.path.splitext(name)[0]) for name in names]
    # Processes for some hundred images only: each takes half a second to start.
    with locked_directory(place, "drawn images"), local_map(available_cores(), 8 * TOGETHER) as each:
        _draw(place, origins, each)
        for name, (source, original) in zip(names, origins, strict=True):
            link(os.path.join(place, source, "val", original + ".jpg"), os.path.join(directory, name))


def _draw(place: str, origins: Iterable[tuple[str, str]], each: ParallelMap) -> None:
    """Draw images of ``scene`` and ``scene_only``, given as pairs of set and name."""
    seed = read_json(os.path.join(place, RECORD))["seed"]
    alone, pasted = collections.defaultdict(list), collections.defaultdict(list)
    for source, name in origins:
        shown, scene, number = name.split("-")
        if source == "scene":
            pasted[shown, int(number)].append(scene)
        else:
            alone[scene, int(number)].append(shown)
    needed = sorted({*alone, *((scene, index) for (_, index), scenes in pasted.items() for scene in scenes)})
    files = {scene: done["path"] for scene, done in _drawn(place, "scene", needed, seed, each).items()}
    entries = _drawn(place, "object", list(pasted), seed, each)
    _write_images(place, alone, pasted, files, entries, seed, each)


def begin(data_dir: str, num_train: int, num_val: int, seed: int) -> dict:
    """Record, and return, the parameters of ``data_dir``, before its synthetic sources are made.

    Existing images are kept, so those of another seed or number must not get mixed with them: ``BadInput`` if
    ``data_dir`` was begun with other parameters.
    """
    if not (0 <= num_train <= layout.FIRST_VALIDATION and 1 <= num_val <= 100):
        raise BadInput(f"images per pair are 0 to 900 and 1 to 100, not {num_train} and {num_val}")
    record = {"num_train": num_train, "num_val": num_val, "seed": seed, "format": 1}
    check_directory("data_dir", data_dir)
    path = os.path.join(data_dir, RECORD)
    with locked_directory(data_dir, "BIM's sets"):
        if not os.path.lexists(path):
            atomic_write(path, json.dumps(record, indent=1))
        elif not isinstance(before := read_json(path), dict) or {**before, "complete": 0} != {**record, "complete": 0}:
            raise BadInput(f"{data_dir} was constructed with {before}, not {record}; give another --data_dir")
    return record


def _path(data_dir: str, set_name: str, label: str, name: str, index: int) -> str:
    """Return the path of an image of a set."""
    return os.path.join(data_dir, set_name, layout.part_folder(label, index), name + ".jpg")


def _write_scene(task) -> None:
    """Write one scene image under the names of some objects."""
    data_dir, scene, index, source, objects = task
    names = [layout.pair_name(name, scene, index) for name in objects]
    paths = [_path(data_dir, "scene_only", scene, name, index) for name in names]
    if not is_whole(paths[0]):
        save_picture(paths[0], load_scene(source))
    for path in paths[1:]:
        link(paths[0], path)


def _write_pairs(task) -> None:
    """Write one object on scenes of some classes."""
    data_dir, object_name, index, entry, sources, seed = task
    image, mask = load_cutout(entry)
    for scene, source in sources.items():
        name = layout.pair_name(object_name, scene, index)
        path = _path(data_dir, "scene", scene, name, index)
        if not is_whole(path):
            box = placement(name, mask.shape, layout.IMAGE_SIDE, seed)
            save_picture(path, paste(load_scene(source), image, mask, box))
        link(path, _path(data_dir, "obj", object_name, name, index))


def _write_lists(data_dir: str, validation: range, entries: dict, seed: int) -> None:
    """Write ``val.txt``, ``val_loc.txt`` and ``val_mask.npz`` of all sets.

    ``validation`` are the indices of the validation images of each pair, ``entries`` those of ``load_cutout`` by object
    and index.
    """
    shown = itertools.product(layout.OBJECTS, validation)
    masks = {layout.mask_key(*one): _cutout_mask(entries[one])[0] for one in shown}
    dogs = {key: mask for key, mask in masks.items() if key.startswith(f"{layout.COMMON_FEATURE}-")}
    triples = list(itertools.product(layout.OBJECTS, layout.SCENES, validation))
    boxes = {}
    for one, scene, index in triples:
        name = layout.pair_name(one, scene, index)
        boxes[name] = placement(name, masks[layout.mask_key(one, index)].shape, layout.IMAGE_SIDE, seed)
    for set_name in ("obj", "scene", "scene_only"):
        classes, position = (layout.OBJECTS, 0) if set_name == "obj" else (layout.SCENES, 1)
        labels = [classes.index(triple[position]) for triple in triples]
        write_lists(os.path.join(data_dir, set_name), boxes, labels, boxes.values())
        save_masks(os.path.join(data_dir, set_name, "val_mask.npz"), masks.values(), list(masks))
    for set_name in SUBSETS:
        folder = os.path.join(data_dir, set_name)
        names, scenes, _ = zip(*_images_of(set_name, validation), strict=True)
        write_lists(folder, names, map(layout.SCENES.index, scenes), [boxes.get(name, NO_BOX) for name in names])
        save_masks(os.path.join(folder, "val_mask.npz"), dogs.values(), list(dogs))


def write_lists(folder: str, names, labels, boxes, suffix: str = ".jpg") -> None:
    """Write ``val.txt`` and ``val_loc.txt`` of a set."""
    for file, column in (("val.txt", labels), ("val_loc.txt", (",".join(map(str, box)) for box in boxes))):
        lines = [f"{name}{suffix} {cell}\n" for name, cell in zip(names, column, strict=True)]
        atomic_write(os.path.join(folder, file), "".join(lines), durable=False)


def _origin(set_name: str, name: str) -> tuple[str, str]:
    """Return the set that an image was made for, ``scene`` or ``scene_only``, and the image's name there.

    Its name in the set that it is in, such as ``obj`` or ``scene3``, is ``dog-bedroom-0901``, without suffix, or
    ``bedroom-0901`` in the contrast sets.
    """
    if layout.object_and_number(name) is None:
        return "scene_only", f"{layout.COMMON_FEATURE}-{name}"
    return "scene_only" if set_name in ("scene_only", "bamboo_forest") else "scene", name


def _link_subsets(data_dir: str, indices, seed: int) -> None:
    """Make scene1 .. scene10, dog_bedroom, bamboo_forest and tcav of the images of scene and scene_only.

    ``indices`` are all of a pair, training and validation; ``seed`` is that of TCAV's choice of images.
    """
    for set_name in SUBSETS:
        for name, scene, index in _images_of(set_name, indices):
            source, original = _origin(set_name, name)
            part = layout.part_folder(scene, index)
            target = os.path.join(data_dir, set_name, part, name + ".jpg")
            link(os.path.join(data_dir, source, part, original + ".jpg"), target)
    for folder in TCAV_FOLDERS:
        for name, scene, index in tcav_images(folder, indices, seed):
            file = layout.pair_name(name, scene, index) + ".jpg"
            source = os.path.join(data_dir, "scene", layout.part_folder(scene, index), file)
            link(source, os.path.join(data_dir, "tcav", folder, file))


def _images_of(set_name: str, indices) -> list[tuple[str, str, int]]:
    """Return name, scene and index of each image of one of ``SUBSETS``.

    One of scene1 .. scene10 has a dog in the first i scene classes and no object in the others. The other subsets have
    validation images of one scene.
    """
    if set_name not in layout.CONTRAST_SETS:
        scene = set_name.removeprefix("dog_")
        validation = [index for index in indices if index >= layout.FIRST_VALIDATION]
        return [(layout.pair_name("dog", scene, index), scene, index) for index in validation]
    with_dog = layout.scenes_with_dog(set_name)
    return [
        (layout.pair_name("dog", scene, index) if scene in with_dog else f"{scene}-{index:04d}", scene, index)
        for scene in layout.SCENES
        for index in indices
    ]


def tcav_images(folder: str, indices, seed: int) -> list[tuple[str, str, int]]:
    """Choose images for TCAV: dogs on scenes as the concept, or a random set of other objects on scenes.

    The target is ``dog_bedroom``, so none of the images shows a bedroom. Training images are used if there are any.
    ``folder`` is one of ``TCAV_FOLDERS``. Returns object, scene and index of each image.
    """
    pool = [index for index in indices if index < layout.FIRST_VALIDATION] or list(indices)
    scenes = [scene for scene in layout.SCENES if scene != "bedroom"]
    others = [name for name in layout.OBJECTS if name != layout.COMMON_FEATURE]
    number = TCAV_FOLDERS.index(folder)
    rng = np.random.default_rng([seed, 1907, number])
    triples = list(itertools.product(others if number else [layout.COMMON_FEATURE], scenes, pool))
    chosen = rng.choice(len(triples), min(NUM_TCAV_IMAGES, len(triples)), replace=False)
    return [triples[position] for position in sorted(chosen)]
