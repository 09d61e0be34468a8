"""TCAV: how a concept's direction in a layer's activations moves a class (Kim et al., ICML 2018).

A concept activation vector (CAV) is the normal of a linear classifier that tells a concept's activations
from those of random images, pointing to the concept. The TCAV score is the share of a class's images whose
score rises along it. Scores over several random counterparts are tested against those of CAVs between two
random sets, which carry no concept. This is written anew because PyPI's ``tcav`` wants TensorFlow 1 sessions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence

import numpy as np

from attribution.errors import BadInput, listed
from attribution.model import batching
from bim import layout
from bim.dataset import image_names, read_images
from bim.measure import input_side, network_inputs

LOGITS = "final_dense"
LAYERS = ("block_layer1", "block_layer2", "block_layer3", "block_layer4", LOGITS)
ALPHA = 0.1  # of the classifier's l2 penalty
HELD_OUT = 1 / 3  # of the images, to report the accuracy of a CAV


@dataclasses.dataclass(frozen=True)
class ConceptScores:
    """TCAV scores of a concept in one layer."""

    layer: str
    scores: np.ndarray  # (R,) one TCAV score per random counterpart, in [0, 1]
    random_scores: np.ndarray  # (R,) scores of CAVs between two random sets
    accuracies: np.ndarray  # (R,) share of held-out images that the concept's classifier gets right
    p_value: float  # of the two-sided t-test that both kinds of scores have the same mean


def concept_activation_vector(concept: np.ndarray, counterpart: np.ndarray, seed: int = 0) -> tuple[np.ndarray, float]:
    """Fit one CAV of (N, D) and (M, D) activations.

    Returns the vector, (D,) float64 of length 1, towards the concept, and the accuracy on the third of the images that
    was held out, in [0, 1]. ``seed`` is that of the classifier and of what it holds out.
    """
    from sklearn.linear_model import SGDClassifier

    rng = np.random.default_rng([seed, 41])
    fitted, tested = [], []
    for activations, label in ((concept, 1), (counterpart, 0)):
        order = rng.permutation(len(activations))
        cut = len(order) - max(1, round(HELD_OUT * len(order)))
        if cut < 1:
            raise BadInput(f"a CAV needs at least 2 images a side, not {len(activations)}")
        fitted.append((activations[order[:cut]], np.full(cut, label)))
        tested.append((activations[order[cut:]], np.full(len(order) - cut, label)))
    x, y = (np.concatenate(parts) for parts in zip(*fitted, strict=True))
    classifier = SGDClassifier(alpha=ALPHA, penalty="l2", random_state=seed, max_iter=1000, tol=1e-3)
    classifier.fit(x, y)
    held_x, held_y = (np.concatenate(parts) for parts in zip(*tested, strict=True))
    vector = classifier.coef_[0].astype(np.float64)
    length = np.linalg.norm(vector)
    return vector / (length if length > 0 else 1.0), float(classifier.score(held_x, held_y))


def tcav_score(gradients: np.ndarray, vector: np.ndarray) -> float:
    """Return the share of images whose directional derivative along a CAV, (D,), is positive.

    ``gradients`` are (N, D), of the class's logit with respect to the layer.
    """
    return float(np.mean(gradients @ vector > 0))


def two_sided_t_test(first: np.ndarray, second: np.ndarray) -> float:
    """Return the p-value of Student's t-test for two independent samples; 1 or 0 where neither varies."""
    from scipy import special

    count = len(first) + len(second)
    squares = np.square(first - np.mean(first)).sum() + np.square(second - np.mean(second)).sum()
    difference = np.mean(first) - np.mean(second)
    if squares == 0:
        return float(difference == 0)
    t = difference / np.sqrt(squares / (count - 2) * (1 / len(first) + 1 / len(second)))
    return float(2 * special.stdtr(count - 2, -abs(t)))


def score_concept(
    model, target: int, images: dict[str, np.ndarray], layers=LAYERS, seed: int = 0, batch_size: int = 32
) -> list[ConceptScores]:
    """Score a concept in several layers.

    Parameters
    ----------
    model, target
        From ``measure.load_classifier``, and the class whose logit is meant.
    images
        "target", "concept" and "random_0", "random_1", ...: (N, H, W, 3) uint8 each, at least two random sets.
    layers
        Names of layers; ``final_dense`` are the logits.
    seed, batch_size
        Of the classifiers, and of the passes through the model.
    """
    randoms = [name for name in images if name.startswith("random_")]
    if len(randoms) < 2:
        raise BadInput("TCAV needs at least 2 random counterparts")
    activations = {name: {} for name in layers}
    gradients = {}
    for name, pictures in images.items():
        values, slopes = layer_passes(model, pictures, target, layers, batch_size)
        for layer in layers:
            activations[layer][name] = values[layer]
        if name == "target":
            gradients = slopes
    found = []
    for layer in layers:
        scores, random_scores, accuracies = [], [], []
        for number, name in enumerate(randoms):
            known = activations[layer]
            vector, accuracy = concept_activation_vector(known["concept"], known[name], seed + number)
            scores.append(tcav_score(gradients[layer], vector))
            accuracies.append(accuracy)
            other = randoms[(number + 1) % len(randoms)]
            random_vector, _ = concept_activation_vector(known[name], known[other], seed + number)
            random_scores.append(tcav_score(gradients[layer], random_vector))
        arrays = [np.array(values) for values in (scores, random_scores, accuracies)]
        found.append(ConceptScores(layer, *arrays, two_sided_t_test(arrays[0], arrays[1])))
    return found


def layers_of(models: Mapping[str, object], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the layers in which concepts are scored, the same in all models.

    ``wanted`` are the user's, ``final_dense`` being the logits; empty for the authors' five. Of models without these,
    the default layer of class activation maps stands for them, if it has one name in all. Raises ``BadInput`` if a
    model has no layer of a name that the user gave.
    """
    if wanted:
        for model in models.values():
            for layer in wanted:
                if layer != LOGITS:
                    model.layer(layer)
        return tuple(wanted)
    try:
        for model in models.values():
            for layer in LAYERS[:-1]:
                model.layer(layer)
        return LAYERS
    except BadInput:
        defaults = {model.layer(None) for model in models.values()}
        return (*(defaults if len(defaults) == 1 else ()), LOGITS)


def layer_passes(model, images: np.ndarray, target: int, layers, batch_size: int = 32):
    """Return layers' activations, and the gradients of a logit with respect to them, as layer -> (N, D) float32."""
    inputs = network_inputs(images, input_side(model))
    inner = [layer for layer in layers if layer != LOGITS]
    nodes = {layer: model.layer(layer) for layer in inner}
    values, gradients = ({layer: [] for layer in layers} for _ in range(2))
    name = model.explained_input()
    for rows, real in model.chunks(len(inputs), batch_size):
        targets = np.full(len(rows), target, np.int32)
        result = model.backward({name: inputs[rows]}, targets, name, tuple(nodes.values()), of_input=not nodes)
        for layer, node in nodes.items():
            for found, arrays in ((values, result.values), (gradients, result.gradients)):
                own = batching.real_rows(arrays[node], len(rows), real, f"layer '{layer}'")
                found[layer].append(own.reshape(real, -1))
        if LOGITS in layers:
            values[LOGITS].append(result.scores[:real])
            one_hot = np.zeros_like(result.scores[:real])
            one_hot[:, target] = 1
            gradients[LOGITS].append(one_hot)
    return tuple({layer: np.concatenate(parts) for layer, parts in found.items()} for found in (values, gradients))


def load_images(data_dir: str, num_random: int, counterparts: str = "objects", seed: int = 0) -> dict[str, np.ndarray]:
    """Read TCAV's images: the concept, its random counterparts and the class's images, ``dog_bedroom``.

    Returns "concept", "target", "random_0", ... -> (N, H, W, 3) uint8; raises ``BadInput`` if there are none.

    Parameters
    ----------
    data_dir, num_random
        Folder of the constructed sets, and number of counterparts.
    counterparts
        ``"objects"``: other objects on scenes without bedrooms, which differ from the concept in the dog alone;
        ``"scenes"``: such scenes with nothing on them, as the authors have it, which lets a CAV point to any object.
    seed
        Of the scenes drawn for each counterpart.
    """
    folders = {"concept": "tcav/dog_scene", "target": "dog_bedroom/val"}
    if counterparts == "objects":
        folders |= {f"random_{number}": f"tcav/random_{number}" for number in range(num_random)}
    images = {}
    for name, folder in folders.items():
        files = image_names(data_dir, folder)
        if not files:
            raise BadInput(
                f"no images in {data_dir}/{folder}; scripts/construct_bim_dataset.py makes ten random counterparts"
            )
        images[name] = read_images(data_dir, folder, files)
    if counterparts == "scenes":
        images |= _scenes_alone(data_dir, num_random, len(images["concept"]), seed)
    return images


def _scenes_alone(data_dir: str, num_random: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Draw counterparts of scenes without bedrooms on which nothing was pasted."""
    # A scene is there once for every object's name.
    files = [file for file in image_names(data_dir, "scene_only/val") if file.startswith(f"{layout.OBJECTS[0]}-")]
    files = [file for file in files if file.split("-")[1] != "bedroom"]
    if len(files) < 2:
        raise BadInput(f"no scenes in {data_dir}/scene_only/val; scripts/construct_bim_dataset.py makes the set")
    found = {}
    for number in range(num_random):
        drawn = np.random.default_rng([seed, 47, number]).permutation(len(files))[:count]
        chosen = [files[place] for place in sorted(drawn)]
        found[f"random_{number}"] = read_images(data_dir, "scene_only/val", chosen)
    return found


def fingerprint(images: dict[str, np.ndarray]) -> str:
    """Return a hash of the pixels and names of the result of ``load_images``, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, pictures in images.items():
        digest.update(f"{name} {pictures.shape}".encode())
        digest.update(np.ascontiguousarray(pictures).tobytes())
    return digest.hexdigest()


def target_class(model: str, target: str = "", flag: str = "target") -> int:
    """Return the class of ``dog_bedroom`` for a model: the dog for object models, the bedroom for scene models.

    ``target`` is ``dog`` or ``bedroom``; when empty, what the model's name or directory says. ``flag`` is its flag, for
    the message. Raises ``BadInput`` if the target is another, or the name is none of BIM's.
    """
    classes = {"dog": layout.OBJECTS.index("dog"), "bedroom": layout.SCENES.index("bedroom")}
    if target:
        if target not in classes:
            raise BadInput(f"--{flag}={target}: the images are dogs in bedrooms; choose one of {listed(classes)}")
        return classes[target]
    parts = [part for part in os.path.normpath(model).split(os.sep) if not part.isdecimal()]  # 1 is a version
    if not parts or parts[-1] not in layout.MODEL_NAMES:
        raise BadInput(
            f"the name of the model '{model}' does not say whether it knows objects or scenes; give --{flag}=dog or "
            f"--{flag}=bedroom, or a model of {listed(layout.MODEL_NAMES)}"
        )
    return classes["dog" if parts[-1] == "obj" else "bedroom"]
