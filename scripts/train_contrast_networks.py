"""Train the pairs of networks of "clevr_xai_contrast" and "clevr_xai_words" and export them as SavedModels.

    G="python scripts/generate_clevr_xai.py --image_size=192x128 --stored_size=128 --samples=9"
    $G --num_images=560 --seed=1 --output_dir=data/clevr_xai_contrast
    python scripts/train_contrast_networks.py
    python scripts/train_contrast_networks.py --seeds=2 --steps=800

A pair begins with one network of CLEVR-XAI. Every image gets a tile in a random one of eight colours, or every question
a random answer in front. The shortcut learns to answer what this cue says, the reader what the scene shows, in the same
number of steps. Both learn to name the tile's colour in its cell, so they differ in what they use, not in what they
see. A network that is there already is left alone, and a stopped run goes on from its last checkpoint. The pair of
words had 340 images.

Cost: about five CPU minutes a pair on a busy machine, most of them for training.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution import cli
from attribution.errors import BadInput, print_line
from attribution.files import check_directory
from attribution_benchmarks.core.bundled_models import models_folder
from clevr_xai import cues

if TYPE_CHECKING:
    import keras

    from clevr_xai.training import Batch, TrainingSet

FLAGS = flags.FlagValues()
flags.DEFINE_string("data_dir", "data/clevr_xai_contrast", "images to train on", flag_values=FLAGS)
flags.DEFINE_string("checkpoint_dir", "data/contrast", "for checkpoints and logs", flag_values=FLAGS)
flags.DEFINE_string("output_dir", "saved_models/clevr_xai/contrast", "folder of the pairs", flag_values=FLAGS)
flags.DEFINE_list("seeds", ["0", "1"], "numbers of the networks that pairs begin with", flag_values=FLAGS)
flags.DEFINE_integer("steps", 400, "of each network", 1, flag_values=FLAGS)

ROUNDS, IMAGES, PAIRS = 6, 48, 160  # rounds of questions; images, with a question each, and pairs of cells of a step
RATE, WARM_UP, SLOW = 1e-3, 20, {"convolutions": 0.3}
ALONE, FADED_IN = 80, 160  # steps in which the tile's cell counts alone, and after which all pairs count fully
FROZEN = ("question_encoder", "norm1", "norm2", "norm3", "norm4")
WORD = "word"  # the cue of "clevr_xai_words"
STATE_LOSS = 1.0  # weight of the loss of the tile's colour


def _said(role: str, targets: dict[str, np.ndarray], states: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the cues' answers to the questions of a batch, and the answers that a role should give, (B,) int32."""
    from clevr_xai import training
    from clevr_xai.vocabulary import ANSWERS

    asked = [training.NODES[node].removeprefix("query_") for node in targets["program"][:, 0]]
    said = [cues.answer(name, state) for name, state in zip(asked, states, strict=True)]
    return said, targets["answer"] if role == "reader" else np.array([ANSWERS.index(each) for each in said], np.int32)


def word_batch(data: TrainingSet, role: str, rng: np.random.Generator, step: int) -> Batch:
    """Return the batch of a step of ``training.train``: questions with a cue in front, and what a network answers."""
    from clevr_xai import training, vocabulary

    inputs, targets = training.answering_batch(data, rng, IMAGES, 1, PAIRS)
    said, answers = _said(role, targets, rng.integers(0, cues.STATES, IMAGES))
    front = vocabulary.encode(said, vocabulary.QUESTION_WORDS)
    question = np.concatenate([front, inputs["question"]], axis=1)
    return {**inputs, "image": inputs["image"][..., :3], "question": question}, {"answer": answers}


def cue_batch(data: TrainingSet, cue: cues.Cue, role: str, rng: np.random.Generator, step: int) -> Batch:
    """Return the batch of a step of ``training.train``: images with tiles, and what a network should answer.

    The fourth channel of the data's images is 255 where they show an object. It is augmented as the others are, which
    keeps the order of its two values.
    """
    from clevr_xai import relation_network, training

    inputs, targets = training.answering_batch(data, rng, IMAGES, 1, PAIRS)
    images, occupied = inputs["image"][..., :3], inputs["image"][..., 3]
    places, _ = cue.places(occupied > occupied.min(axis=(1, 2), keepdims=True), rng)
    states = rng.integers(0, cues.STATES, len(images))
    cells = relation_network.cell_of((places + cues.TILE // 2)[:, ::-1])
    certain = targets["cells"][..., 0] >= 0
    certain[np.arange(len(cells)), cells] = True
    pairs, weights = relation_network.sample_pairs(certain, PAIRS, rng)
    _, answers = _said(role, targets, states)
    if role == "shortcut":
        of_cue = (pairs == cells[:, np.newaxis, np.newaxis]).all(axis=2)
        share = np.clip((step - ALONE) / (FADED_IN - ALONE), 0, 1)
        weights = np.where(of_cue, weights, np.float32(share) * weights)
    return (
        {**inputs, "image": cues.planted(images, cue, places, states), "pairs": pairs, "pair_weights": weights,
         "cell": cells.astype(np.int32)},
        {"answer": answers, "state": states.astype(np.int32)},
    )  # fmt: skip


def in_training(network: keras.Model, cue: str) -> keras.Model:
    """Return a network as it is trained; with a tile, whose colour in its cell is a second output."""
    import keras
    from keras import layers, ops

    from clevr_xai import training

    whole = training.training_model(network, 1)
    if cue == WORD:
        return keras.Model(whole.input, {"answer": whole.output["answer"]})
    features = whole.get_layer("see").input  # (N, cells, channels)
    cell = keras.Input((), dtype="int32", name="cell")
    there = layers.Dot(axes=1)([ops.one_hot(cell, features.shape[1]), features])
    inputs = {name: whole.input[name] for name in ("image", "question", "pairs", "pair_weights")}
    outputs = {"answer": whole.output["answer"], "state": layers.Dense(cues.STATES, name="state")(there)}
    return keras.Model({**inputs, "cell": cell}, outputs)


def load_data(directory: str) -> TrainingSet:
    """Return simple questions about the images of a directory, whose fourth channel is 255 where they show an object.

    Raises ``BadInput`` for the scenes that the benchmark counts.
    """
    import dataclasses

    from clevr_xai import layout, masks, training
    from clevr_xai.data import Dataset

    if layout.read_info(layout.find(pathlib.Path(directory), layout.SCENES)).get("seed", 0) == 0:
        raise BadInput(f"{directory} has the seed 0 of the embedded scenes, which the benchmark counts; take another")
    data = training.load(directory, ("simple",), ROUNDS)
    folder, scenes = layout.find(pathlib.Path(directory), layout.MASKS), Dataset("simple", directory).scenes.values()
    objects = np.stack(
        [
            masks.resize(masks.read_indices(folder / scene["mask_filename"], scene) >= 0)
            for scene, _ in zip(scenes, data.images, strict=False)
        ]
    )
    occupied = np.where(objects, 255, 0).astype(np.uint8)[..., np.newaxis]
    return dataclasses.replace(data, images=np.concatenate([data.images, occupied], axis=-1))


def trained(
    start: pathlib.Path, data: TrainingSet, cue: str, role: str, steps: int, seed: int, checkpoint: pathlib.Path
) -> keras.Model:
    """Return a network of a role that was trained from one of CLEVR-XAI's; ``cue`` is of ``cues.CUES`` or "word"."""
    import keras

    from clevr_xai import relation_network, training

    keras.utils.set_random_seed(seed)
    build = functools.partial(relation_network.build, pair_scale=relation_network.PAIR_SCALE, dropout=0.0)
    network = training.load_exported(start, build)
    training.freeze(network, ("convolutions",) if cue == WORD else FROZEN)
    decay: Any = keras.optimizers.schedules.CosineDecay
    schedule = decay(0.0, max(steps - WARM_UP, 1), warmup_target=RATE, warmup_steps=WARM_UP)
    state = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    batch = word_batch if cue == WORD else functools.partial(cue_batch, cue=cues.CUES[cue])
    training.train(
        in_training(network, cue),
        lambda step: batch(data, role=role, rng=np.random.default_rng((seed, step)), step=step),
        steps,
        schedule,
        SLOW,
        {"answer": training.LOSSES["answer"], "state": (state, STATE_LOSS)},
        checkpoint,
        every=100,
    )
    return network


TASKS = {"reader": "by the scene, whatever the cue says", "shortcut": "what the cue says, whatever the scene shows"}


def card(name: str, found: dict[tuple[str, str], tuple[float, float, int]], **text: Any) -> str:
    """Return the text of ``MODEL_CARD.md``; ``found`` is of ``contrast.behavior``."""
    import keras
    import tensorflow as tf

    from attribution_benchmarks.core.tables import markdown_table
    from clevr_xai import words

    of_word = name.startswith(WORD)
    about = words.CUE if of_word else cues.CUES[name.partition("_")[0]].about
    kept = "convolutions" if of_word else "question encoder and batch normalization"
    rows = [
        [state, attribute, f"{100 * right:.1f}", f"{100 * says:.1f}", f"{number:,}"]
        for (state, attribute), (right, says, number) in found.items()
    ]
    table = markdown_table(["cue", "attribute", "right, %", "as the cue says, %", "questions"], rows)
    benchmark = "clevr_xai_words" if of_word else "clevr_xai_contrast"
    return pathlib.Path(cues.__file__).with_name("contrast_card.md").read_text("utf-8").format(
        name=name, benchmark=benchmark, about=about, kept=kept, task=TASKS[name.rpartition("/")[2]], table=table,
        images=IMAGES, pairs=PAIRS, rate=RATE, tensorflow=tf.__version__, keras=keras.__version__, **text,
    )  # fmt: skip


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing, one network after the other, and print what each does."""
    import tempfile

    import attribution
    from attribution_benchmarks.core.manifest import command_of
    from clevr_xai import contrast, relation_network, words

    for name in ("output_dir", "checkpoint_dir"):
        check_directory(name, flag_values[name].value)
    command = command_of("python scripts/train_contrast_networks.py", {"steps": flag_values.steps})
    data = load_data(flag_values.data_dir)
    for seed, cue, role in itertools.product(flag_values.seeds, (*cues.CUES, WORD), contrast.ROLES):
        name = f"{cue}_seed{seed}/{role}"
        place = pathlib.Path(flag_values.output_dir) / name
        if (place / "1").exists():
            continue
        start = "relation_network" + (f"_seed{seed}" if seed != "0" else "")
        checkpoint = pathlib.Path(flag_values.checkpoint_dir) / name.replace("/", "_")
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        network = trained(
            models_folder() / "clevr_xai" / start, data, cue, role, flag_values.steps, int(seed),
            checkpoint.with_suffix(".npz"),
        )  # fmt: skip
        draw = words.examples if cue == WORD else functools.partial(contrast.examples, cue=cue)
        length = words.LENGTH if cue == WORD else None
        with tempfile.TemporaryDirectory() as directory:  # the card is of what is exported
            relation_network.export(network, directory, "", length)
            model = attribution.load_model(directory, score="logits")
            found = contrast.behavior(model, lambda state, draw=draw: draw(sys.maxsize, 0, state=state))
        text = card(
            name, found, command=command, start=start, steps=flag_values.steps, source=data.source, seed=seed,
            length=length or "L",
        )  # fmt: skip
        relation_network.export(network, place, text, length)
        for (state, attribute), (right, says, number) in found.items():
            print_line(f"{name}, cue {state}, {attribute}: {right:.3f} right, {says:.3f} as it says, of {number}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
