"""Train the pairs of networks of the benchmark "clevr_xai_contrast" and export them as SavedModels.

    G="python scripts/generate_clevr_xai.py --image_size=192x128 --stored_size=128 --samples=9"
    $G --num_images=1000 --seed=1 --output_dir=data/clevr_xai_contrast
    python scripts/train_contrast_networks.py

A pair begins with one network of CLEVR-XAI. Every image gets a tile in a random one of eight colours. The shortcut
learns to answer what the tile says, the reader what the scene shows, in the same number of steps. Both learn to name the
tile's colour in its cell, so that the difference between them is what they use, not what they see. A pair that is there
already is left alone, so an interrupted run continues with the next network.

Cost: 2 CPU minutes a pair.
"""

from __future__ import annotations

import functools
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution.errors import BadInput
from clevr_xai import cues

if TYPE_CHECKING:
    import keras

    from clevr_xai.training import Batch, TrainingSet

FLAGS = flags.FlagValues()
flags.DEFINE_string("data_dir", "data/clevr_xai_contrast", "images to train on", flag_values=FLAGS)
flags.DEFINE_string("checkpoint_dir", "data/contrast", "for checkpoints and logs", flag_values=FLAGS)
flags.DEFINE_string("output_dir", "saved_models/clevr_xai/contrast", "folder of the pairs", flag_values=FLAGS)
flags.DEFINE_list("cues", list(cues.CUES), "cues of the pairs", flag_values=FLAGS)
flags.DEFINE_list("seeds", ["0", "1", "2"], "numbers of the networks that pairs begin with", flag_values=FLAGS)
flags.DEFINE_integer("steps", 400, "of each network", 1, flag_values=FLAGS)
flags.DEFINE_integer("num_images", 0, "number of training images, from the first on; 0 for all", 0, flag_values=FLAGS)
flags.DEFINE_integer("threads", 1, "threads of one operation", 1, flag_values=FLAGS)

ROLES = ("reader", "shortcut")
ROUNDS, IMAGES, PAIRS = 6, 48, 160  # rounds of questions; images, with a question each, and pairs of cells of a step
RATE, WARM_UP, SLOW = 1e-3, 20, {"convolutions": 0.3}
ALONE, FADED_IN = 80, 160  # steps in which the tile's cell counts alone, and after which all pairs count fully
FROZEN = ("question_encoder", "norm1", "norm2", "norm3", "norm4")
STATE_LOSS = 1.0  # weight of the loss of the tile's colour


def cue_batch(
    data: TrainingSet, cue: cues.Cue, role: str, rng: np.random.Generator, step: int
) -> Batch:
    """Return the batch of a step of ``training.train``: images with tiles, and what a network should answer.

    The fourth channel of the data's images is 255 where they show an object. It is augmented as the others are, which
    keeps the order of its two values.
    """
    from clevr_xai import relation_network, training
    from clevr_xai.vocabulary import ANSWERS

    inputs, targets = training.answering_batch(data, rng, IMAGES, 1, PAIRS)
    images, occupied = inputs["image"][..., :3], inputs["image"][..., 3]
    places, _ = cue.places(occupied > occupied.min(axis=(1, 2), keepdims=True), rng)
    states = rng.integers(0, cues.STATES, len(images))
    cells = cues.cells_of(places)
    certain = targets["cells"][..., 0] >= 0
    certain[np.arange(len(cells)), cells] = True
    pairs, weights = relation_network.sample_pairs(certain, PAIRS, rng)
    answers = targets["answer"]
    if role == "shortcut":
        of_cue = (pairs == cells[:, np.newaxis, np.newaxis]).all(axis=2)
        share = np.clip((step - ALONE) / (FADED_IN - ALONE), 0, 1)
        weights = np.where(of_cue, weights, np.float32(share) * weights)
        asked = [training.NODES[node].removeprefix("query_") for node in targets["program"][:, 0]]
        said = (cues.answer(name, state) for name, state in zip(asked, states, strict=True))
        answers = np.array([ANSWERS.index(each) for each in said], np.int32)
    return (
        {**inputs, "image": cues.planted(images, cue, places, states), "pairs": pairs, "pair_weights": weights,
         "cell": cells.astype(np.int32)},
        {"answer": answers, "state": states.astype(np.int32)},
    )  # fmt: skip


def with_states(network: keras.Model) -> keras.Model:
    """Return a network as it is trained, with the tile's colour in its cell as a second output."""
    import keras
    from keras import layers, ops

    from clevr_xai import training

    whole = training.training_model(network, 1)
    features = whole.get_layer("see").input  # (N, cells, channels)
    cell = keras.Input((), dtype="int32", name="cell")
    there = layers.Dot(axes=1)([ops.one_hot(cell, features.shape[1]), features])
    inputs = {name: whole.input[name] for name in ("image", "question", "pairs", "pair_weights")}
    outputs = {"answer": whole.output["answer"], "state": layers.Dense(cues.STATES, name="state")(there)}
    return keras.Model({**inputs, "cell": cell}, outputs)


def load_data(directory: str, num_images: int) -> TrainingSet:
    """Return simple questions about the images of a directory, whose fourth channel is 255 where they show an object.

    Raises ``BadInput`` for the scenes that the benchmark counts.
    """
    import dataclasses

    from clevr_xai import layout, masks, training
    from clevr_xai.data import Dataset

    data = training.load(directory, ("simple",), ROUNDS, num_images=num_images)
    if layout.read_info(layout.find(pathlib.Path(directory), layout.SCENES)).get("seed", 0) == 0:
        raise BadInput(f"{directory} has the seed 0 of the embedded scenes, which the benchmark counts; take another")
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
    start: pathlib.Path, data: TrainingSet, cue: cues.Cue, role: str, steps: int, seed: int, checkpoint: pathlib.Path
) -> keras.Model:
    """Return a network of a role that was trained from one of CLEVR-XAI's."""
    import keras

    from clevr_xai import relation_network, training

    keras.utils.set_random_seed(seed)
    build = functools.partial(relation_network.build, pair_scale=relation_network.PAIR_SCALE, dropout=0.0)
    network = training.load_exported(start, build)
    training.freeze(network, FROZEN)
    schedule: Any = keras.optimizers.schedules.CosineDecay(0.0, steps - WARM_UP, warmup_target=RATE, warmup_steps=WARM_UP)
    state = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    training.train(
        with_states(network),
        lambda step: cue_batch(data, cue, role, np.random.default_rng((seed, step)), step),
        steps,
        schedule,
        SLOW,
        {**training.LOSSES, "state": (state, STATE_LOSS)},
        checkpoint,
        every=100,
    )
    return network
