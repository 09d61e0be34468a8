"""TCAV: how often moving along the direction of a concept in a layer raises a class's score; see ``bim.run_tcav``."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution import batching
from attribution.errors import BadInput, listed, print_line
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import Evaluation, Run
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.stats import statistics
from bim import layout
from bim.classifiers import classifier_at, input_side, load_classifier, network_inputs
from bim.data import image_names, read_images, resolve_data_dir
from bim.layout import MODEL_NAMES
from bim.settings import TcavSettings

LOGITS = "final_dense"
LAYERS = ("block_layer1", "block_layer2", "block_layer3", "block_layer4", LOGITS)
ALPHA = 0.1  # of the classifier's l2 penalty
HELD_OUT = 1 / 3  # of the images, to report the accuracy of a CAV
LEFT_OUT = (
    "95 % and p are over the random counterparts alone: the concept's images are the same for each of them, and other\n"
    "images of the concept can move a score further than its interval says.\n"
)


class _Tcav(Benchmark):
    """TCAV scores a concept: there are no methods and no metrics to choose."""

    def select_metrics(self, names: Sequence[str]) -> dict[str, Metric]:
        """Return no metrics of maps."""
        return {}

    def check(self, settings: TcavSettings, metrics: Mapping[str, Metric], names: Sequence[str]) -> None:
        """Refuse models whose class is unknown."""
        _targets(settings)

    def with_parameters(self, methods: Mapping[str, Any], settings: TcavSettings) -> dict[str, Any]:
        """Return no methods."""
        return {}


class TcavEvaluation(Evaluation):
    """One or two models, and images of the concept, of the class and of random counterparts."""

    settings: TcavSettings

    def __init__(self, run: Run, models: Mapping[str, Any], images: dict[str, np.ndarray]):
        super().__init__(run, models)
        self.images = images

    @classmethod
    def load(cls, run: Run) -> TcavEvaluation:
        """Load the models and the images."""
        settings: Any = run.settings
        upstream = settings.compat == "upstream"
        models = {
            name: classifier_at(name, tensors=upstream)
            if os.path.basename(name) != name or name not in MODEL_NAMES
            else load_classifier(settings.models_dir, name, tensors=upstream)
            for name in _targets(settings)
        }
        data_dir = resolve_data_dir(settings.data_dir)
        return cls(run, models, load_images(data_dir, settings.num_random))

    def describe_models(self) -> list[str]:
        """Return the layers in which the concept is scored."""
        layers = ", ".join(layers_of(self.models, self.settings.layers))
        return [f"{name} fits TCAV; scored in {layers}" for name in self.models]

    def groups(self) -> Iterator[Any]:
        """Yield nothing: scores are of concepts, not of inputs."""
        return iter(())

    def tables(self) -> Iterator[Scores]:
        """Yield a table for each model, and one for their contrast."""
        settings, found = self.settings, {}
        layers = layers_of(self.models, settings.layers)
        if not settings.layers and layers != LAYERS:
            print_line(
                f"no block_layer1 to block_layer4 here; scored in {', '.join(layers)} (--layers)", file=sys.stderr
            )
        for name, target in _targets(settings).items():
            found[name] = score_concept(
                self.models[name], target, self.images, layers, seed=settings.seed, batch_size=settings.batch_size
            )
            yield _section(name, found[name], settings.level)
        if len(found) == 2:
            yield _contrast(*found, *found.values())

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of the images."""
        return {"tcav": fingerprint(self.images)}


def _scores(rows: list[dict[str, Any]], text: str) -> Scores:
    rows = [tables.plain({"benchmark": "bim", **row}) for row in rows]
    return Scores(rows, text=text, markdown=f"```text\n{text}```\n")


def _targets(settings: TcavSettings) -> dict[str, int]:
    """Return the class of the images of dogs in bedrooms for each model."""
    targets = {settings.model: target_class(settings.model, settings.target)}
    if settings.contrast_with and settings.contrast_with != settings.model:
        targets[settings.contrast_with] = target_class(
            settings.contrast_with, settings.contrast_target, flag="contrast_target"
        )
    return targets


TCAV = _Tcav("bim", "BIM: TCAV", settings=TcavSettings, command="bim.run_tcav", evaluation=TcavEvaluation.load)


def _section(name: str, found: list[_ConceptScores], level: float) -> Scores:
    """Return one row a layer in long form, and their table; the interval is over the random counterparts."""
    rows, body = [], []
    corrected = statistics.holm([scores.p_value for scores in found])
    for scores, p_value in zip(found, corrected, strict=True):
        estimate = statistics.mean_interval(scores.scores, bounds=(0.0, 1.0))
        random, accuracy = float(scores.random_scores.mean()), float(scores.accuracies.mean())
        rows.append(
            {
                "method": "tcav", "metric": "tcav", "value": estimate.value, "low": estimate.low,
                "high": estimate.high, "n": estimate.n, "paper": None, "kind": "method", "model": name,
                "layer": scores.layer, "random": random, "accuracy": accuracy, "p_value": scores.p_value,
                "p_corrected": float(p_value),
            }
        )  # fmt: skip
        body.append(
            [
                scores.layer, f"{estimate.value:.3f}", f"{estimate.low:.3f}, {estimate.high:.3f}", f"{random:.3f}",
                f"{accuracy:.2f}", f"{scores.p_value:.2g}", f"{p_value:.2g}", "yes" if p_value < level else "no",
            ]
        )  # fmt: skip
    header = ["layer", "TCAV", "95 %", "random CAVs", "CAV accuracy", "p", "p (Holm)", "significant"]
    count = len(found[0].scores)
    heading = f"TCAV of the concept 'dog' for the model '{name}', {count} random counterparts"
    return _scores(rows, f"{heading}\n{tables.text_table(header, body)}{LEFT_OUT}\n")


def _contrast(name: str, other: str, found: list[_ConceptScores], others: list[_ConceptScores]) -> Scores:
    """Return the contrast of two models, layer by layer, paired over the random counterparts."""
    rows, body = [], []
    for first, second in zip(found, others, strict=True):
        both = {"first": first.scores, "second": second.scores}
        (paired,) = statistics.compare_pairs(both, [("first", "second")])
        rows.append(
            {
                "method": "tcav", "metric": "tcav_contrast", "value": paired.difference, "low": paired.low,
                "high": paired.high, "n": paired.n, "paper": None, "kind": "method", "model": f"{name} - {other}",
                "layer": first.layer, "p_value": paired.p_value,
            }
        )  # fmt: skip
        interval = f"{paired.low:.3f}, {paired.high:.3f}"
        body.append([first.layer, f"{paired.difference:.3f}", interval, f"{paired.p_value:.2g}"])
    mean = np.mean([row["value"] for row in rows])
    heading = f"TCAV of '{name}' minus '{other}'; more is better; mean over the layers {mean:.3f}"
    return _scores(rows, f"{heading}\n{tables.text_table(['layer', 'difference', '95 %', 'p'], body)}{LEFT_OUT}\n")


@dataclasses.dataclass(frozen=True)
class _ConceptScores:
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

    ``gradients`` are (N, D), of the class's logit with respect to the layer. Raises ``BadInput`` if all derivatives are
    0, so that none has a sign: the layer's gradients vanish, or the classifier found no direction.
    """
    derivatives = gradients @ vector
    if not derivatives.any():
        raise BadInput("TCAV is undefined: all directional derivatives are 0; choose another layer or concept")
    return float(np.mean(derivatives > 0))


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
) -> list[_ConceptScores]:
    """Score a concept in several layers.

    Parameters
    ----------
    model, target
        From ``evaluate.load_classifier``, and the class whose logit is meant.
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
    _, gradients = layer_passes(model, images["target"], target, layers, batch_size)
    activations = {
        name: layer_passes(model, images[name], target, layers, batch_size)[0] for name in ("concept", *randoms)
    }
    found = []
    for layer in layers:
        known = {name: values[layer] for name, values in activations.items()}
        scores, random_scores, accuracies = [], [], []
        for number, name in enumerate(randoms):
            vector, accuracy = concept_activation_vector(known["concept"], known[name], seed + number)
            scores.append(tcav_score(gradients[layer], vector))
            accuracies.append(accuracy)
            other = randoms[(number + 1) % len(randoms)]
            random_vector, _ = concept_activation_vector(known[name], known[other], seed + number)
            random_scores.append(tcav_score(gradients[layer], random_vector))
        arrays = [np.array(values) for values in (scores, random_scores, accuracies)]
        found.append(_ConceptScores(layer, *arrays, two_sided_t_test(arrays[0], arrays[1])))
    return found


def layers_of(models: Mapping[str, object], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the layers in which concepts are scored, the same in all models.

    ``wanted`` are the user's, ``final_dense`` being the logits; empty for the authors' five. Of models without these,
    the default layer of class activation maps is taken, if it has one name in all. Raises ``BadInput`` if a
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


def load_images(data_dir: str, num_random: int) -> dict[str, np.ndarray]:
    """Read TCAV's images: the concept, its random counterparts and the class's images, ``dog_bedroom``.

    The counterparts are other objects on scenes without bedrooms, which differ from the concept in the dog alone. The
    authors' are scenes alone, which lets a CAV point to any object. Returns "concept", "target", "random_0", ...
    -> (N, H, W, 3) uint8; raises ``BadInput`` if the constructed sets in ``data_dir`` have none.
    """
    folders = {"concept": "tcav/dog_scene", "target": "dog_bedroom/val"}
    folders |= {f"random_{number}": f"tcav/random_{number}" for number in range(num_random)}
    images = {}
    for name, folder in folders.items():
        files = image_names(data_dir, folder)
        if not files:
            raise BadInput(
                f"no images in {data_dir}/{folder}; scripts/construct_bim_dataset.py makes ten random counterparts"
            )
        images[name] = read_images(data_dir, folder, files)
    return images


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
