"""Patches that look like a dog and hardly change the model's logits, for the input independence rate.

Yang and Kim, section 4.3: for an image x of a scene alone, find a change d of the dog's pixels that minimises
||f(x + d) - f(x)|| - 0.01 ||d||, f being the logits, within the range of pixels. The search starts from the dog. A
patch is used only if the predicted class stays the same; its logit distance measures its quality.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution.files import atomic_directory, atomic_write, check_directory, locked_directory
from attribution.reading import read_json
from bim import layout
from bim.classifiers import TENSORS, input_side, load_classifier, network_inputs
from bim.construct import write_lists
from bim.data import BimSet, load_set, read_images
from bim.layout import save_masks
from bim.members import PATCH_SET
from bim.models import network_input
from bim.scores import place_mask
from bim.served import local_twin
from bim.synthetic.drawings import save_picture

# The authors take 300 steps of 500 times the raw gradient. These are the best of four settings by the logit distance,
# not by IIR, of the first 12 images of bamboo_forest, which are also among those that IIR is reported on.
STEPS, STEP_SIZE = 100, 2.0
DISTANCE_WEIGHT = 0.01  # of ||d||, which keeps the patch from vanishing
RECORD = "patches.json"


@dataclasses.dataclass(frozen=True)
class _PatchRecord:
    """The results for each patch."""

    model: str  # fingerprint of the model the patches were made for
    names: list[str]  # of images, without suffix
    before: list[float]  # logit distance from the scene alone: of the dog as it was pasted
    after: list[float]  # and of the finished patch as it was saved, in whole pixel values
    change: list[float]  # root mean square change of the patch's pixels against the scene, in pixel values
    accepted: list[bool]  # whether the class is that of the scene alone

    def summary(self) -> str:
        """Return a sentence about all patches."""
        before, after, change = (np.median(values) for values in (self.before, self.after, self.change))
        return (
            f"Patches: median logit distance from the scene alone {after:.2f}, of the dog itself {before:.2f}; "
            f"their pixels differ from the scene's by {change:.0f} of 255 (root mean square); "
            f"{sum(self.accepted)} of {len(self.accepted)} keep the class and are used."
        )


def construct(
    data_dir: str,
    model,
    steps: int = STEPS,
    step_size: float = STEP_SIZE,
    batch_size: int = 25,
    progress: bool = False,
    tensors: bool = False,
) -> _PatchRecord:
    """Make ``bamboo_forest_patch`` of ``bamboo_forest`` and the dogs that were pasted on the same images.

    The set has the layout of the others: ``val/`` with lossless PNG files, ``val.txt``, ``val_loc.txt``,
    ``val_mask.npz``; and ``patches.json`` with the distances. Rejected patches are not in the lists.

    Parameters
    ----------
    data_dir
        Folder of the constructed sets.
    model
        The model whose logits the patches should not change: ``scene_only``, from ``evaluate.load_classifier``.
    steps, step_size, batch_size
        Of the search: the number of steps, their length in pixel values, and images at a time.
    progress
        Whether to show a progress bar.
    tensors
        Address the model by the authors' tensor names instead of its signature.

    Raises
    ------
    BadInput
        If the sets are missing or no patch keeps the class.
    """
    import tqdm

    final = os.path.join(data_dir, "bamboo_forest_patch")
    check_directory("data_dir", final)
    plain = load_set(data_dir, "bamboo_forest")
    side = input_side(model)
    stems = [os.path.splitext(name)[0] for name in plain.names]
    columns = {"before": [], "after": [], "change": [], "accepted": []}
    blocks = range(0, len(plain), batch_size)
    # An existing set is replaced as a whole at the end, since a mixture would be scored as one set.
    with locked_directory(data_dir, "patches"), atomic_directory(final, replace=True) as directory:
        for start in tqdm.tqdm(blocks, "patches", leave=False, disable=not progress):
            rows = range(start, min(len(plain), start + batch_size))
            scenes, pasted, masks = _load_images(data_dir, plain, rows)
            images = optimise(model, scenes, pasted, masks, steps, step_size, side, tensors)
            logits = [model.scores(network_inputs(shown, side), batch_size) for shown in (scenes, pasted, images)]
            change = np.square(images.astype(float) - scenes).sum(axis=(1, 2, 3))
            columns["before"] += np.linalg.norm(logits[1] - logits[0], axis=1).tolist()
            columns["after"] += np.linalg.norm(logits[2] - logits[0], axis=1).tolist()
            columns["change"] += np.sqrt(change / np.maximum(1, 3 * masks.sum(axis=(1, 2)))).tolist()
            columns["accepted"] += (logits[2].argmax(axis=1) == logits[0].argmax(axis=1)).tolist()
            for row, image in zip(rows, images, strict=True):
                save_picture(os.path.join(directory, "val", stems[row] + ".png"), image)
        record = _PatchRecord(model.fingerprint, stems, **columns)
        _write_lists(str(directory), plain, record)
        atomic_write(os.path.join(directory, RECORD), json.dumps(dataclasses.asdict(record), indent=1), durable=False)
    return record


def _load_images(data_dir: str, plain: BimSet, rows: range) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scenes alone, the same with dogs, (N, H, W, 3) uint8, and the masks of the dogs, (N, H, W) bool."""
    pasted = read_images(data_dir, "scene/val", [plain.names[row] for row in rows])
    masks = np.stack([place_mask(plain.mask(row), plain.boxes[row], layout.IMAGE_SIDE) for row in rows])
    return plain.images(rows), pasted, masks


def _write_lists(directory: str, plain: BimSet, record: _PatchRecord) -> None:
    """Write the lists and the masks of the accepted patches."""
    used = [row for row, accepted in enumerate(record.accepted) if accepted]
    if not used:
        raise BadInput("every patch changes the class of its image; more --steps or another --step_size may help")
    names = [record.names[row] for row in used]
    write_lists(directory, names, plain.labels[used], plain.boxes[used].tolist(), ".png")
    keys = [layout.mask_key(*layout.object_and_number(name)) for name in names]
    save_masks(os.path.join(directory, "val_mask.npz"), [plain.mask(row) for row in used], keys)


def optimise(model, scenes, pasted, masks, steps=STEPS, step_size=STEP_SIZE, side=None, tensors=False) -> np.ndarray:
    """Search for patches by gradient descent on the pixels of the dogs; return (N, H, W, 3) uint8.

    Each step moves every image by ``step_size`` pixel values (root mean square over its patch) against the
    gradient, less and less along half a cosine; the patch with the smallest logit distance is kept. The
    authors take steps of 500 times the raw gradient, which suits the logits of their ResNet-50 only. The paper's
    penalty for leaving the range of pixels is not needed: pixels are clipped to it after each step.

    ``scenes`` and ``pasted`` are (N, H, W, 3) uint8, the scenes alone and with the dogs, whose pixels are ``masks``,
    (N, H, W) bool. Images are resized to ``side``, that of the model's input.
    """
    import tensorflow as tf

    logits = logit_function(model, tensors)
    check_gives_logits(model, logits)
    side = side or scenes.shape[1]
    scenes_float = tf.constant(scenes, tf.float32)
    mask = tf.constant(masks[..., None], tf.float32)
    size = tf.maximum(3 * tf.reduce_sum(mask, (1, 2, 3)), 1)

    def forward(images):
        """Return the logits of RGB images of 0 to 255."""
        return logits(network_input(images, side))

    target = forward(scenes_float)

    @tf.function
    def descend(images, size_of_step):
        with tf.GradientTape() as tape:
            tape.watch(images)
            distance = tf.norm(forward(images) - target + 1e-12, axis=1)
            change = tf.sqrt(tf.reduce_sum(mask * tf.square(images - scenes_float), (1, 2, 3)) + 1e-6)
            loss = distance - DISTANCE_WEIGHT * change
        gradient = tape.gradient(loss, images) * mask
        scale = tf.sqrt(tf.reduce_sum(tf.square(gradient), (1, 2, 3)) / size) + 1e-12
        return images - size_of_step * gradient / scale[:, None, None, None], distance

    images = scenes_float + mask * (tf.constant(pasted, tf.float32) - scenes_float)
    best, best_distance = images.numpy(), np.full(len(scenes), np.inf)
    for step in range(steps):
        moved, distance = descend(images, tf.constant(step_size * 0.5 * (1 + np.cos(np.pi * step / steps)), tf.float32))
        better = distance.numpy() < best_distance
        best[better], best_distance[better] = images.numpy()[better], distance.numpy()[better]
        images = tf.where(mask > 0, tf.clip_by_value(moved, 0, 255), scenes_float)
    return np.rint(np.clip(best, 0, 255)).astype(np.uint8)


def logit_function(model, tensors: bool = False):
    """Return a model's logits as a function that ``tf.GradientTape`` can follow, (N, side, side, 3) -> (N, K).

    With ``tensors`` it goes from the authors' input tensor to theirs of the logits, whatever signatures there are.
    """
    import tensorflow as tf

    loaded = model.load_file(tensors=[*TENSORS["inputs"], TENSORS["output"]])
    if loaded.signatures and not tensors:
        name = next((n for n in ("serving_default", "serve") if n in loaded.signatures), next(iter(loaded.signatures)))
        signature = loaded.signatures[name]
        (name,) = signature.structured_input_signature[1]
        return lambda inputs, owner=loaded: next(iter(signature(**{name: inputs}).values()))
    pruned = loaded.prune(TENSORS["inputs"], TENSORS["output"])
    name = TENSORS["inputs"][0].partition(":")[0]
    return lambda inputs, owner=loaded: pruned(**{name: tf.convert_to_tensor(inputs, tf.float32)})


def check_gives_logits(model, logits) -> None:
    """Refuse a model whose file does not output logits, but for example probabilities.

    ``logits`` is its ``logit_function``; ``evaluate.load_classifier`` finds the logits before a softmax.
    """
    shape = (2, *model.inputs[model.explained_input()].shape[1:])
    sample = np.random.default_rng(0).normal(0, 50, shape).astype(np.float32)
    scores, given = model.scores(sample), np.asarray(logits(sample))
    if given.shape != scores.shape or np.abs(given - scores).max() > 1e-3 * max(1.0, np.abs(scores).max()):
        raise BadInput(f"'{model.path}' does not give logits; the patches need them, export it without its softmax")


def read_record(directory: str) -> _PatchRecord | None:
    """Return the record of a folder's patches; None if there is none, as in the authors' data."""
    path = os.path.join(directory, RECORD)
    if not os.path.isfile(path):
        return None
    try:
        return _PatchRecord(**read_json(path))
    except (BadInput, TypeError) as error:
        raise BadInput(f"{path} is damaged; make the patches again with scripts/construct_delta_patch.py") from error


def patches_for(data_dir: str, model: Any, models_dir: str, made_here: bool):
    """Return the record of the delta patches of a model; None where there is none, as in the authors' data.

    With ``made_here``, patches are made when there are none for this model; of a served model, if its file is in
    ``models_dir``. Raises ``BadInput`` if they were made for another model than the one to be scored and are not made
    here.
    """
    directory = os.path.join(data_dir, PATCH_SET)
    path, served = str(model.path), getattr(model, "client", None) is not None
    if served:  # patches are made with gradients of all logits, hence from the file
        twin = local_twin(models_dir, "scene_only", model)
        path = twin or f"DIR, the file behind {path}"
        made_here = made_here and twin is not None
    hint = f"scripts/construct_delta_patch.py --data_dir={data_dir} --model={path}"
    if not made_here and not os.path.isdir(directory):
        raise BadInput(f"no patches in {directory}; make them with {hint}")
    record = read_record(directory)
    if made_here and not _fits(record, model):
        with locked_directory(data_dir, "patches"):
            record = read_record(directory)  # another process may have made them meanwhile
            if not _fits(record, model):
                maker = load_classifier(models_dir, "scene_only") if served else model
                record = construct(data_dir, maker, progress=True)
    elif record is not None and not _fits(record, model):
        raise BadInput(
            f"the patches in {directory} were made for another model, to this one they may mean something; make its "
            f"own with {hint}"
        )
    return record


def _fits(record: _PatchRecord | None, model) -> bool:
    """Return whether patches were made for a model."""
    return record is not None and record.model == model.fingerprint
