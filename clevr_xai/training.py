"""Training of a network that answers CLEVR's questions: from nothing, or fine-tuning of an exported network.

``scripts/train_relation_network.py`` trains in three stages, each with checkpoints:

1. ``reading``: the question encoder learns to predict the question's program.
2. ``seeing``: the convolutions learn to predict the object in each cell of the last feature map.
3. ``answering``: the whole network learns to answer. Both losses above stay as auxiliary losses.

Without the first two stages a network stays near chance for a long time. Fine-tuning has the third stage alone. The
architecture is any Keras network from ``image`` and ``question`` to logits, see ``relation_network.build``. Its layers
``convolutions`` and ``question_encoder`` get the auxiliary losses. A Relation Network sums g over a sample of the pairs
of cells in each step, see ``relation_network.sample_pairs``; the exported network sums over all pairs.

``train`` is the loop alone. It takes any Keras model and any function from a step to a batch. So a batch may hold other
images, pairs or weights than ``answering_batch`` gives, and a model may have further outputs with their losses.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from PIL import Image

from attribution.errors import BadInput, listed, print_line
from attribution.files import atomic_write
from attribution.reading import inside, opened, read_pixels
from attribution_benchmarks.beam.workers import available_cores, processes
from attribution_benchmarks.core.tables import markdown_table
from clevr_xai import layout, masks, relation_network, vocabulary
from clevr_xai.generation import questions
from clevr_xai.generation.scenes import PIXELS_AT
from clevr_xai.network import variable_name
from clevr_xai.programs import node_type
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, FIRST_WORD, QUESTION_WORDS, answer_text

CARD = pathlib.Path(__file__).with_name("network_card.md")
SIZE = relation_network.IMAGE_SIZE
MAX_OBJECTS, MAX_WORDS = 10, 48
MAX_NODES = 24  # of a program, counted from its end; the auxiliary loss ignores further ones
NODES = (
    "", "scene", "unique", "union", "intersect", "count", "exist", "equal_integer", "less_than", "greater_than",
    *(f"{kind}_{name}" for kind in ("same", "query", "equal") for name in ATTRIBUTES),
    *(f"filter_{name} {value}" for name, values in ATTRIBUTES.items() for value in values),
    *(f"relate {name}" for name in ("left", "right", "front", "behind")),
)  # fmt: skip
LENGTHS = 8  # of questions in a batch are multiples of this: a graph is compiled for each length
MIRRORED, SHIFT = 0.5, 6  # share of mirrored images; largest translation along each axis in pixels
RECOLORED, GAIN = 0.5, 1.6  # share of the images whose exposure is divided or multiplied by up to this
FADED = 0.24  # share of these that are mixed with an even picture
GRADIENT_NORM = 5.0
LOG_STEPS = 100

Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


@dataclasses.dataclass
class TrainingSet:
    """Images with their objects, and the questions about each.

    Attributes
    ----------
    images : (N, 128, 128, 3) uint8
    centres : (N, 10, 2) float32
        Column and row, in pixels of the image, of each object's visible part, or of its middle where no masks are
        known; nan beyond the last object.
    attributes : (N, 10, 4) int64
        Position of each object's size, colour, material and shape in ``vocabulary.ATTRIBUTES``.
    tokens : (Q, L) int32
    answers : (Q,) int64
        Positions in ``vocabulary.ANSWERS``.
    programs : (Q, 24) int64
        Positions in ``NODES`` of the program's nodes, the last first; 0 beyond its first node.
    kinds : (Q,) of str
        "simple", "complex" or "CLEVR".
    image_of : (Q,) int64
        Image of each question, ascending.
    source
        Description of the data for the model card.
    """

    images: np.ndarray
    centres: np.ndarray
    attributes: np.ndarray
    tokens: np.ndarray
    answers: np.ndarray
    programs: np.ndarray
    kinds: np.ndarray
    image_of: np.ndarray
    source: str

    @functools.cached_property
    def first_question(self) -> np.ndarray:
        """Return (N + 1,) int64: questions about image i are ``first_question[i]`` to ``first_question[i + 1] - 1``."""
        return np.searchsorted(self.image_of, np.arange(len(self.images) + 1))

    @property
    def types(self) -> np.ndarray:
        """Return the type of each question, (Q,) of str: "query color", "count", "exist", "equal integer", ..."""
        return np.array([name.replace("_", " ") for name in NODES])[self.programs[:, 0]]


def load(
    data_dir: str | pathlib.Path,
    kinds: Sequence[str] = ("simple", "complex"),
    rounds: int = 1,
    wordings: Sequence[str] = ("official",),
    num_images: int = 0,
) -> TrainingSet:
    """Read images of CLEVR-XAI's layout, and generate questions about them; questions in its files are not read.

    Parameters
    ----------
    data_dir
        Output of ``scripts/generate_clevr_xai.py``, the official release, or ``data.EMBEDDED``.
    kinds, rounds
        "simple", "complex" or both; the number of rounds of each, with other questions in each round.
    wordings
        Of ``questions.WORDINGS``. Each wording gets all rounds.
    num_images
        Number of images, from the first on; 0 for all.

    Raises
    ------
    BadInput
        If the directory lacks images, masks or scenes, or one of them cannot be used.
    """
    data_dir = pathlib.Path(data_dir)
    found = [layout.find(data_dir, name) for name in (layout.SCENES, layout.IMAGES, layout.MASKS)]
    if None in found:
        raise BadInput(f"no scenes, images or masks in {data_dir}; make them with scripts/generate_clevr_xai.py")
    keys = {"image_index": int, "image_filename": str, "mask_filename": str, "objects": list, "relationships": dict}
    scenes = layout.read_entries(found[0], "scenes", keys)[: num_images or None]
    seed = layout.read_info(found[0]).get("seed", 0)
    asked = [(kind, seed + 1000 * again, wording) for kind in kinds for wording in wordings for again in range(rounds)]
    blocks = [(block, ()) for block in questions.in_blocks(scenes)]
    source = f"{len(scenes):,} scenes of seed {seed}; {rounds} round(s) of {' and '.join(kinds)} questions"
    return _read(functools.partial(_read_block, *found, asked), blocks, source)


def load_clevr(data_dir: str | pathlib.Path, split: str = "train", num_images: int = 0) -> TrainingSet:
    """Read CLEVR v1.0: its images, and its questions about them.

    Parameters
    ----------
    data_dir
        The unpacked ``CLEVR_v1.0``, with ``images/SPLIT``, ``scenes/CLEVR_SPLIT_scenes.json`` and
        ``questions/CLEVR_SPLIT_questions.json``.
    split
        "train" or "val". The test split has no answers.
    num_images
        Number of images, from the first on; 0 for all. An image takes 66 kB of memory.

    Raises
    ------
    BadInput
        If a file is missing or cannot be used.
    """
    scenes_file, questions_file = (
        pathlib.Path(data_dir) / name / f"CLEVR_{split}_{name}.json" for name in ("scenes", "questions")
    )
    keys = {"image_index": int, "image_filename": str, "objects": list}
    scenes = layout.read_entries(scenes_file, "scenes", keys)[: num_images or None]
    keys = {"image_index": int, "question": str, "answer": (str, int), "program": list}
    about: dict[int, list[dict]] = {scene["image_index"]: [] for scene in scenes}
    for question in layout.read_entries(questions_file, "questions", keys):
        if question["image_index"] in about:
            about[question["image_index"]].append(question)
    blocks = [
        (block, [question for scene in block for question in about[scene["image_index"]]])
        for block in questions.in_blocks(scenes)
    ]
    source = f"{len(scenes):,} images of CLEVR v1.0's split {split}"
    read = functools.partial(_read_block, scenes_file, pathlib.Path(data_dir) / "images" / split, None, ())
    return _read(read, blocks, source)


def _read(read: Callable[[tuple], dict], blocks: Sequence[tuple], source: str) -> TrainingSet:
    """Return the training set of blocks of scenes with their questions, read in several processes."""
    with processes(available_cores() if len(blocks) > 1 else 1) as mapped:
        parts = list(mapped(read, blocks, 1))
    for part, offset in zip(parts, np.cumsum([0, *(len(part["images"]) for part in parts[:-1])]), strict=True):
        part["image_of"] = part["image_of"] + offset
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if not len(joined["answers"]):
        raise BadInput(f"no question about {source}; training needs at least one")
    joined["tokens"] = joined["tokens"][:, : np.count_nonzero(joined["tokens"].any(axis=0))]
    return TrainingSet(**joined, source=source)


def _read_block(
    file: pathlib.Path, images: pathlib.Path, mask_folder: pathlib.Path | None, rounds: Sequence[tuple], block: tuple
) -> dict[str, np.ndarray]:
    """Return the arrays of scenes and of questions: those given, and those of rounds (kind, seed, wording)."""
    scenes, given = block
    number = len(scenes)
    found: dict[str, np.ndarray] = {
        "images": np.zeros((number, SIZE, SIZE, 3), np.uint8),
        "centres": np.full((number, MAX_OBJECTS, 2), np.nan, np.float32),
        "attributes": np.zeros((number, MAX_OBJECTS, len(ATTRIBUTES)), np.int64),
    }
    for row, scene in enumerate(scenes):
        picture = Image.fromarray(read_pixels(inside(images, scene["image_filename"], file)))
        found["images"][row] = np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        try:
            for place, item in enumerate(scene["objects"]):
                found["attributes"][row, place] = [values.index(item[name]) for name, values in ATTRIBUTES.items()]
                found["centres"][row, place] = np.multiply(item["pixel_coords"][:2], SIZE / np.array(PIXELS_AT)) - 0.5
        except (KeyError, ValueError, IndexError, TypeError):
            place = f"{file}: {scene['image_filename']}"
            raise BadInput(f"{place} has more than {MAX_OBJECTS} objects, or one that CLEVR does not have") from None
        if mask_folder:
            indices = masks.read_indices(inside(mask_folder, scene["mask_filename"], file), scene)
            centres = masks.visible_centres(indices, len(scene["objects"]), SIZE)
            found["centres"][row, : len(centres)] = centres
    given = [("CLEVR", question) for question in given]
    for kind, seed, wording in rounds:
        given += [(kind, question) for question in questions.generate_block(scenes, kind, seed, wording)]
    position = {scene["image_index"]: row for row, scene in enumerate(scenes)}
    given.sort(key=lambda one: position[one[1]["image_index"]])
    try:
        return found | {
            "tokens": vocabulary.encode([one["question"] for _, one in given], QUESTION_WORDS, MAX_WORDS),
            "answers": np.array([ANSWERS.index(answer_text(one["answer"])) for _, one in given], np.int64),
            "programs": np.array([program_nodes(one["program"]) for _, one in given], np.int64).reshape(-1, MAX_NODES),
            "kinds": np.array([kind for kind, _ in given], str),
            "image_of": np.array([position[one["image_index"]] for _, one in given], np.int64),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"a question about the images of {file} is not one of CLEVR: {error}") from None


def program_nodes(program: Sequence[dict]) -> list[int]:
    """Return the positions in ``NODES`` of a program's last 24 nodes, the last first, padded with 0."""
    last = program[::-1][:MAX_NODES]
    nodes = [NODES.index(" ".join([node_type(node), *node.get("value_inputs", ())])) for node in last]
    return nodes + [0] * (MAX_NODES - len(nodes))


def cell_targets(centres: np.ndarray, attributes: np.ndarray) -> np.ndarray:
    """Return the attributes of the object with its centre in each cell, (B, 49, 4) int32; -1 where there is none.

    Of two centres in one cell that of the first object counts. The arrays are rows of a ``TrainingSet``.
    """
    found = np.full((len(centres), relation_network.CELLS**2, attributes.shape[-1]), -1, np.int32)
    cells = relation_network.cell_of(centres)
    for position in reversed(range(cells.shape[1])):
        rows = np.flatnonzero(cells[:, position] >= 0)
        found[rows, cells[rows, position]] = attributes[rows, position]
    return found


def answering_batch(
    data: TrainingSet, rng: np.random.Generator, num_images: int, num_questions: int, num_pairs: int
) -> Batch:
    """Sample augmented images, ``num_questions`` about each, and pairs of cells.

    Returns
    -------
    inputs : dict
        ``image`` (B, 128, 128, 3) uint8, ``question`` (B x num_questions, L) int32, ``pairs`` (B, num_pairs, 2) int32,
        ``pair_weights`` (B, num_pairs) float32.
    targets : dict
        ``answer`` (B x num_questions,), ``cells`` (B, 49, 4) and ``program`` (B x num_questions, 24), int32.
    """
    known = np.flatnonzero(np.diff(data.first_question))
    chosen = rng.choice(known, num_images)
    images, cells, mirrored = augmented(data, rng, chosen)
    pairs, weights = relation_network.sample_pairs(cells[..., 0] >= 0, num_pairs, rng)
    rows = []
    for image in chosen:
        first, after = data.first_question[image : image + 2]
        rows.append(first + np.resize(rng.permutation(after - first), num_questions))
    rows = np.concatenate(rows)
    words, programs = _questions(data, rows, np.repeat(mirrored, num_questions))
    inputs = {"image": images, "question": words, "pairs": pairs, "pair_weights": weights}
    return inputs, {"answer": data.answers[rows].astype(np.int32), "cells": cells, "program": programs}


def _exchanged(names: Sequence[str]) -> np.ndarray:
    """Return the positions of names with left and right exchanged."""
    other = {"left": "right", "right": "left", "relate left": "relate right", "relate right": "relate left"}
    return np.array([names.index(other.get(name, name)) for name in names])


MIRRORED_NODES = _exchanged(NODES)
MIRRORED_TOKENS = np.array([*range(FIRST_WORD), *(FIRST_WORD + _exchanged(QUESTION_WORDS))])


def _questions(data: TrainingSet, rows: np.ndarray, mirrored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and programs of some questions, int32, some with left and right exchanged, without much padding."""
    words, programs = data.tokens[rows], data.programs[rows]
    words[mirrored], programs[mirrored] = MIRRORED_TOKENS[words[mirrored]], MIRRORED_NODES[programs[mirrored]]
    length = -(-int((words > 0).any(axis=0).sum()) // LENGTHS) * LENGTHS
    words = np.pad(words, ((0, 0), (0, LENGTHS)))[:, :length]
    return words.astype(np.int32), programs.astype(np.int32)


def augmented(
    data: TrainingSet, rng: np.random.Generator, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the images ``chosen``, moved, mirrored and recolored, their ``cell_targets``, and which are mirrored.

    Outside an image its border is repeated.
    """
    mirrored, moves = rng.random(len(chosen)) < MIRRORED, rng.integers(0, 2 * SHIFT + 1, (len(chosen), 2))
    border = ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0))
    padded = np.pad(data.images[chosen], border, mode="edge")
    images = np.stack(
        [one[down : down + SIZE, right : right + SIZE] for one, (down, right) in zip(padded, moves, strict=True)]
    )
    images[mirrored] = images[mirrored, :, ::-1]
    centres = data.centres[chosen] + (SHIFT - moves[:, None, ::-1])
    centres[mirrored, :, 0] = SIZE - 1 - centres[mirrored, :, 0]
    altered = rng.random(len(images)) < RECOLORED
    images[altered] = _recolored(images[altered], rng)
    return images, cell_targets(centres, data.attributes[chosen]), mirrored


def _recolored(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return uint8 images with another exposure, some of them faded to black or to an even gray.

    Integrated Gradients starts from such an image, where a network that saw one exposure alone extrapolates.
    """
    shape = (len(images), 1, 1, 1)
    gain = GAIN ** rng.uniform(-1, 1, shape)
    even = rng.choice([0, 1], shape) * rng.uniform(0, 255, shape)
    share = np.where(rng.random(shape) < FADED, rng.random(shape), 0)
    return np.clip(np.rint(images * (gain * (1 - share)) + even * share), 0, 255).astype(np.uint8)


def training_model(network: keras.Model, num_questions: int) -> keras.Model:
    """Return a network as it is trained, with the linear heads of its auxiliary losses, which are not exported.

    Its inputs and outputs are those of ``answering_batch``. ``cells`` and ``program`` are outputs of networks with the
    layers ``convolutions`` and ``question_encoder``. A Relation Network alone takes ``pairs``. A network with a layer
    ``answering`` behind these two, see ``cross_attention``, sees each image once, any other ``num_questions`` times.
    A ``keras.Model`` of some of the inputs and outputs trains a part alone.
    """
    parts = {layer.name: layer for layer in network.layers}
    image = keras.Input(network.inputs[0].shape[1:], dtype="uint8", name="image")
    question = keras.Input((None,), dtype="int32", name="question")
    scaled = layers.Rescaling(1 / 255)(image)
    inputs, outputs = {"image": image, "question": question}, {}
    if "convolutions" in parts:
        features = parts["convolutions"](scaled)
        seen = layers.Dense(1 + sum(map(len, ATTRIBUTES.values())), name="see")
        outputs["cells"] = seen(layers.Reshape((-1, features.shape[-1]))(features))
    if "question_encoder" in parts:
        code = parts["question_encoder"](question)
        nodes = layers.Dense(MAX_NODES * len(NODES), name="read")(code)
        outputs["program"] = layers.Reshape((MAX_NODES, len(NODES)))(nodes)
    if "relations" in parts:
        inputs |= {"pairs": keras.Input((None, 2), dtype="int32", name="pairs")}
        inputs |= {"pair_weights": keras.Input((None,), name="pair_weights")}
        sampled = relation_network.SampledRelations(parts["relations"])
        sums = sampled(parts["coordinates"](features), code, inputs["pairs"], inputs["pair_weights"])
        outputs["answer"] = parts["f"](sums)
    elif "answering" in parts:
        logits = parts["answering"]([features, ops.reshape(code, (-1, num_questions, code.shape[-1]))])
        outputs["answer"] = ops.reshape(logits, (-1, logits.shape[-1]))
    else:
        outputs["answer"] = network([ops.repeat(scaled, num_questions, axis=0), question])
    return keras.Model(inputs, outputs)


def freeze(network: keras.Model, names: Sequence[str]) -> None:
    """Keep the weights of layers at any depth; batch normalization is then in inference mode.

    Raises ``BadInput`` for a name that no layer has.
    """
    models = [network, *network.layers]
    found = {layer.name: layer for model in models for layer in getattr(model, "layers", ())}
    if unknown := [name for name in names if name not in found]:
        raise BadInput(f"no layer {unknown[0]!r} to freeze; there are {listed(found)}")
    for name in names:
        found[name].trainable = False


def cell_loss(targets, logits):
    """Return the mean loss of an image's cells: whether one shows an object and, where one does, its attributes."""
    present = ops.cast(targets[..., 0] >= 0, logits.dtype)
    presence = ops.binary_crossentropy(present, logits[..., 0], from_logits=True)
    parts = ops.split(logits[..., 1:], np.cumsum([len(values) for values in ATTRIBUTES.values()])[:-1], axis=-1)
    attributes = sum(
        ops.sparse_categorical_crossentropy(ops.maximum(targets[..., place], 0), part, from_logits=True)
        for place, part in enumerate(parts)
    )
    number = ops.maximum(ops.sum(present, axis=-1), 1.0)
    return ops.mean(presence, axis=-1) + ops.sum(attributes * present, axis=-1) / number


def program_loss(targets, logits):
    """Return the mean loss of a question over the nodes of its program."""
    return ops.mean(ops.sparse_categorical_crossentropy(targets, logits, from_logits=True), axis=-1) * 4.0


LOSSES: Mapping[str, tuple[Any, float]] = {  # output -> loss and its weight
    "answer": (keras.losses.SparseCategoricalCrossentropy(from_logits=True), 1.0),
    "cells": (cell_loss, 0.5),
    "program": (program_loss, 0.3),
}


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate: a linear warm-up to ``rate``, then constant, from 60 % of the steps on a linear fall to zero."""

    def __init__(self, rate: float, steps: int, warm_up: int = 200):
        self._rate, self._steps, self._warm_up = rate, steps, warm_up

    def __call__(self, step):
        """Return the rate of a step."""
        step = ops.cast(step, "float32")
        left = ops.clip((self._steps - step) / max(self._steps * 0.4, 1), 0.0, 1.0)
        return self._rate * ops.minimum((step + 1) / max(self._warm_up, 1), 1.0) * left


class LayerwiseAdam(keras.optimizers.Adam):
    """Adam with factors of the learning rate for variables that have a name in their path."""

    def __init__(self, *arguments, factors: Mapping[str, float], **settings):
        super().__init__(*arguments, **settings)
        self._factors = factors

    def build(self, variables):
        """Create the moments, and the factor of each variable."""
        super().build(variables)
        paths = [variable.path.split("/") for variable in variables]
        self._of_variables = [
            float(np.prod([factor for name, factor in self._factors.items() if name in path])) for path in paths
        ]

    def update_step(self, gradient, variable, learning_rate):
        """Take a step for one variable."""
        factor = self._of_variables[self._get_variable_index(variable)]
        super().update_step(gradient, variable, learning_rate * factor)


def train(
    model: keras.Model,
    make_batch: Callable[[int], Batch],
    steps: int,
    schedule: Schedule,
    factors: Mapping[str, float] | None = None,
    losses: Mapping[str, tuple[Any, float]] = LOSSES,
    checkpoint: pathlib.Path | None = None,
    every: int = 1000,
    evaluate: Callable[[], dict] = dict,
) -> list[dict]:
    """Train a model with Adam, gradient norm at most 5, from its checkpoint if there is one.

    Parameters
    ----------
    model
        With named inputs and outputs. Layers whose ``trainable`` is False stay as they are; batch normalization is
        then in inference mode.
    make_batch
        Returns the inputs and targets of a step, by name; those that the model lacks are ignored. It must depend on
        the step alone: so a resumed training has the same batches.
    steps
        In all, those before a checkpoint included.
    schedule, factors
        Learning rate, and its factors for variables that have a name in their path, such as "convolutions".
    losses
        By output: the loss and its weight. Outputs without a loss are not trained.
    checkpoint
        File ``.npz``; the log is beside it, with the ending ``.jsonl``. Neither is written when None.
    every
        Steps between checkpoints and evaluations.
    evaluate
        Called at the end and every ``every`` steps; its result goes to the log.

    Returns
    -------
    list of dict
        The log of these steps: step, mean losses since the entry before, what ``evaluate`` returned.

    Raises
    ------
    BadInput
        If the checkpoint is of another network or a later step, or the loss is not finite.
    """
    outputs = {name: losses[name] for name in model.output if name in losses}
    optimizer = LayerwiseAdam(schedule, global_clipnorm=GRADIENT_NORM, factors=factors or {})
    model.compile(
        optimizer,
        {name: loss for name, (loss, _) in outputs.items()},
        loss_weights={name: weight for name, (_, weight) in outputs.items()},
        metrics={"answer": ["accuracy"]} if "answer" in outputs else None,
    )
    optimizer.build(model.trainable_variables)
    state = {str(number): variable for number, variable in enumerate((*model.variables, *optimizer.variables))}
    first = _restored(checkpoint, state, steps)
    log, results, started = [], [], time.monotonic()
    for step in range(first + 1, steps + 1):
        inputs, targets = make_batch(step - 1)
        inputs, targets = {name: inputs[name] for name in model.input}, {name: targets[name] for name in outputs}
        results.append(model.train_on_batch(inputs, targets, return_dict=True))
        if step % LOG_STEPS and step % every and step < steps:
            continue
        entry = {"step": step, "steps_per_second": round(len(results) / (time.monotonic() - started), 2)}
        entry |= {name: round(float(np.mean([one[name] for one in results])), 4) for name in results[0]}
        if not np.isfinite(entry["loss"]):
            raise BadInput(f"the loss became {entry['loss']} before step {step}; lower the learning rate")
        if step % every == 0 or step == steps:
            if checkpoint:
                arrays = {name: np.asarray(variable) for name, variable in state.items()}
                atomic_write(checkpoint, lambda stream, arrays=arrays, step=step: np.savez(stream, step=step, **arrays))
            entry |= evaluate()
        log.append(entry)
        print_line(", ".join(f"{name} {value}" for name, value in entry.items()), file=sys.stderr)
        if checkpoint:
            with open(checkpoint.with_suffix(".jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        results, started = [], time.monotonic()
    return log


def _restored(checkpoint: pathlib.Path | None, state: Mapping[str, Any], steps: int) -> int:
    """Read a checkpoint if there is one, and return its step; 0 without one."""
    if checkpoint is None or not checkpoint.exists():
        return 0
    with opened(checkpoint, "checkpoint") as stream, np.load(stream, allow_pickle=False) as stored:
        shapes = {name: tuple(variable.shape) for name, variable in state.items()}
        if {name: stored[name].shape for name in stored.files} != {**shapes, "step": ()}:
            raise BadInput(f"{checkpoint} is of another network; remove it or name another directory")
        if not 0 <= (step := int(stored["step"])) <= steps:
            raise BadInput(f"{checkpoint} is of step {step:,}, the last is {steps:,}; add steps or remove it")
        for name, variable in state.items():
            variable.assign(stored[name])
    return step


def load_exported(
    directory: str | pathlib.Path, build: Callable[[], keras.Model], parts: Sequence[str] = ()
) -> keras.Model:
    """Return the network of a SavedModel that ``relation_network.export`` wrote, to be trained further.

    Parameters
    ----------
    directory
        Base path, with a version 1.
    build
        Returns the architecture. A ``pair_scale`` may differ from the file's 1: the scores stay the same.
    parts
        Names of layers; where given, these alone have the file's weights, which may be of another architecture.

    Raises
    ------
    BadInput
        If there is no such SavedModel, or it is of another architecture.
    """
    from attribution.savedmodel.file import SavedFile

    network = build()
    try:
        loaded = SavedFile(pathlib.Path(directory) / "1").load()
        variables = loaded.signatures["serving_default"].variables
        values = {variable_name(variable.name.split(":")[0]): variable.numpy() for variable in variables}
        for layer in map(network.get_layer, parts) if parts else [network]:
            layer.set_weights([values[variable_name(weight.path)] for weight in layer.weights])
    except (BadInput, KeyError, ValueError) as error:
        raise BadInput(f"{str(directory)!r} holds no exported network of this architecture: {error}") from None
    if any(layer.name == "relations" for layer in network.layers):
        kernel = network.get_layer("f").layers[0].kernel
        kernel.assign(kernel / network.get_layer("relations").pair_scale)
    return network


def is_correct(network: keras.Model, data: TrainingSet, rows: np.ndarray, batch_size: int = 64) -> np.ndarray:
    """Return whether a network answers some questions correctly, (len(rows),) bool."""
    found = []
    for start in range(0, len(rows), batch_size):
        chosen = np.resize(rows[start : start + batch_size], min(batch_size, len(rows)))  # one shape, one graph
        images = data.images[data.image_of[chosen]].astype(np.float32) / 255
        logits = np.asarray(network.predict_on_batch([images, data.tokens[chosen]]))
        found.append(logits.argmax(axis=-1) == data.answers[chosen])
    return np.concatenate(found)[: len(rows)]


def accuracies(data: TrainingSet, rows: np.ndarray, correct: np.ndarray) -> dict[str, tuple[float, int]]:
    """Return the share of correct answers, in [0, 1], and the number of questions, of each kind and of each type."""
    found = {}
    for groups in (data.kinds[rows], data.types[rows]):
        for name in np.unique(groups).tolist():
            found[name] = (float(correct[groups == name].mean()), int((groups == name).sum()))
    return found


def model_card(found: Mapping[str, tuple[float, int]], **text: str) -> str:
    """Return the text of ``MODEL_CARD.md`` from ``accuracies`` and the other fields of ``network_card.md``."""
    rows = [[name, f"{100 * share:.1f}", f"{number:,}"] for name, (share, number) in found.items()]
    table = markdown_table(["questions", "%", "number"], rows)
    return CARD.read_text("utf-8").format(table=table, **text)
