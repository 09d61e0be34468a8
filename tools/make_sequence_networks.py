"""Train the networks of the benchmark ``sequences``: transformers, an LSTM and a CNN, each with several seeds.

    python tools/make_sequence_networks.py --output_dir=saved_models/exact/sequences

Half of the training sequences have tokens replaced by the mask token, each with a probability that is uniform over
sequences, so that every number of masked tokens is in the domain. Networks that are in the folder are skipped, so a
stopped run resumes with the one that it was training.

Cost: three minutes a network on one core. The weights differ in the last digits from one processor to another.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from attribution import cli
from attribution.files import atomic_write, check_directory
from attribution_benchmarks.exact.sequences import (
    LENGTH,
    MASK,
    NETWORKS,
    PAD,
    SEEDS,
    TASKS,
    WORDS,
    draw,
    folder_of,
    store_values,
)
from attribution_benchmarks.exact.xai_tris import two_classes

FLAGS = flags.FlagValues()
flags.DEFINE_string("output_dir", "saved_models/exact/sequences", "folder of the networks", flag_values=FLAGS)

WIDTH, HEADS, LAYERS = 32, 4, 2
EXAMPLES, HELD_OUT, EPOCHS, BATCH, RATE = 10_000, 1000, 10, 128, 3e-3  # examples of each task
SMOOTHING = 0.02  # of labels, so that logits stay bounded


def embedding_of(tokens):
    """Return the embeddings of tokens, (N, 12, WIDTH); those of padding and of the mask token are zero."""
    import keras

    class Embedding(keras.layers.Layer):
        def build(self, shape):
            self.table = self.add_weight(
                shape=(len(WORDS) - 2, WIDTH), initializer=keras.initializers.RandomNormal(0, 0.5)
            )

        def call(self, tokens):
            zeros = keras.ops.zeros((2, WIDTH))
            return keras.ops.take(keras.ops.concatenate([zeros, self.table]), tokens, axis=0)

    return Embedding(name="embedding")(tokens)


def transformer(tokens, *, normalized: bool, rotary: bool, cls: bool):
    """Return what a transformer reads: the first token, or the mean over tokens that are not padding."""
    import keras
    from keras import layers, ops

    length, each = LENGTH + cls, WIDTH // HEADS

    class Start(layers.Layer):
        """Adds learned positions, and before them the token whose last state is read."""

        def build(self, shape):
            self.positions = self.add_weight(shape=(length, WIDTH), initializer=keras.initializers.RandomNormal(0, 0.5))

        def call(self, x):
            if cls:
                x = ops.concatenate([ops.zeros_like(x[:, :1]), x], axis=1)
            return x + self.positions

    def heads(x):
        return ops.transpose(ops.reshape(layers.Dense(WIDTH)(x), (-1, length, HEADS, each)), (0, 2, 1, 3))

    def attention(x, hidden):
        queries, keys, values = heads(x), heads(x), heads(x)
        if rotary:
            queries, keys = turned(queries), turned(keys)
        weights = ops.softmax(ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2))) / np.sqrt(each) + hidden)
        joined = ops.reshape(ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3)), (-1, length, WIDTH))
        return layers.Dense(WIDTH)(joined)

    def norm(x):
        return layers.LayerNormalization()(x) if normalized else x

    is_real = ops.not_equal(tokens, PAD)
    if cls:
        is_real = ops.concatenate([ops.ones_like(is_real[:, :1]), is_real], axis=1)
    hidden = -1e9 * (1 - ops.cast(is_real, "float32"))[:, None, None, :]
    x = embedding_of(tokens)
    x = x if rotary else Start()(x)
    for _ in range(LAYERS):
        x = x + attention(norm(x), hidden)
        x = x + layers.Dense(WIDTH)(layers.Dense(2 * WIDTH, "relu")(norm(x)))
    x = norm(x)
    return x[:, 0] if cls else mean_of_real(x, tokens)


def turned(x):
    """Return queries or keys turned by angles in proportion to their positions (Su et al., RoFormer, 2021)."""
    from keras import ops

    size = WIDTH // HEADS
    angles = np.outer(np.arange(LENGTH), 100.0 ** (-np.arange(size // 2) / (size // 2)))
    cos, sin = (np.tile(part(angles), 2).astype(np.float32) for part in (np.cos, np.sin))
    left, right = ops.split(x, 2, axis=-1)
    return x * cos + ops.concatenate([-right, left], axis=-1) * sin


def mean_of_real(x, tokens):
    """Return the mean over the tokens that are not padding."""
    from keras import ops

    real = ops.cast(ops.not_equal(tokens, PAD), "float32")[:, :, None]
    return ops.sum(x * real, axis=1) / ops.sum(real, axis=1)


def lstm(tokens):
    """Return the last state of an LSTM, which padding does not change."""
    from keras import layers, ops

    return layers.LSTM(WIDTH)(embedding_of(tokens), mask=ops.not_equal(tokens, PAD))


def cnn(tokens):
    """Return the maxima over positions of three convolutions."""
    from keras import layers, ops

    real = ops.cast(ops.not_equal(tokens, PAD), "float32")[:, :, None]
    x = embedding_of(tokens)
    for _ in range(3):
        x = layers.Conv1D(WIDTH, 5, padding="same", activation="relu")(x) * real  # as if no padding followed
    return layers.GlobalMaxPooling1D()(x)


BODIES = {
    "transformer": lambda tokens: transformer(tokens, normalized=True, rotary=False, cls=True),
    "transformer_rotary": lambda tokens: transformer(tokens, normalized=True, rotary=True, cls=False),
    "transformer_plain": lambda tokens: transformer(tokens, normalized=False, rotary=False, cls=False),
    "lstm": lstm,
    "cnn": cnn,
}
assert tuple(BODIES) == NETWORKS


def examples(count: int, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens, and labels of all tasks, (N, tasks) float32, -1 for those that a sequence does not pose."""
    drawn = [draw(task, count, np.random.default_rng([*seed, place])) for place, task in enumerate(TASKS)]
    labels = np.full((len(TASKS) * count, len(TASKS)), -1, np.float32)
    for place, (_, of_task, _) in enumerate(drawn):
        labels[place * count : (place + 1) * count, place] = of_task
    return np.concatenate([tokens for tokens, _, _ in drawn]), labels


def masked(tokens: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return sequences of which half have masked tokens."""
    rate = np.maximum(generator.uniform(-1, 1, (len(tokens), 1)), 0)
    return np.where((generator.random(tokens.shape) < rate) & (tokens != PAD), MASK, tokens)


def trained(name: str, seed: int):
    """Train a network; return it and its accuracy on held-out sequences by task."""
    import keras

    keras.utils.set_random_seed(seed)
    tokens, labels = examples(EXAMPLES, [seed, 0])
    given = keras.Input((LENGTH,), dtype="int32", name="tokens")
    network = keras.Model(given, keras.layers.Dense(len(TASKS))(BODIES[name](given)))

    def loss(labels, log_odds):
        soft = keras.ops.clip(labels, SMOOTHING, 1 - SMOOTHING)
        each = keras.ops.softplus(log_odds) - soft * log_odds
        return keras.ops.sum(keras.ops.where(labels < 0, 0.0, each), axis=-1)

    steps = EPOCHS * -(-len(tokens) // BATCH)
    schedule = keras.optimizers.schedules.CosineDecay(0.0, steps, warmup_target=RATE, warmup_steps=steps // 20)
    network.compile(keras.optimizers.Adam(schedule, global_clipnorm=1.0), loss)
    generator = np.random.default_rng([seed, 1])
    for epoch in range(EPOCHS):
        history = network.fit(masked(tokens, generator), labels, batch_size=BATCH, verbose=0)
        print(
            f"{name} seed {seed} epoch {epoch + 1}: loss {history.history['loss'][0]:.4f}", file=sys.stderr, flush=True
        )
    tokens, labels = examples(HELD_OUT, [seed, 2])
    right = (network.predict(tokens, batch_size=1024, verbose=0) > 0) == (labels > 0)
    return network, {task: float(right[labels[:, place] >= 0, place].mean()) for place, task in enumerate(TASKS)}


def save(network, directory: pathlib.Path) -> None:
    """Write a network as a SavedModel with one signature, tokens to two logits a task."""
    import tensorflow as tf

    by_class = two_classes(np.eye(len(TASKS), dtype=np.float32))

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = [weight.value for weight in network.trainable_weights]

        @tf.function(input_signature=[tf.TensorSpec([None, LENGTH], tf.int32, name="tokens")], autograph=False)
        def serve(self, tokens):
            return {"logits": tf.matmul(network(tokens, training=False), by_class)}

    module = Network()
    tf.saved_model.save(module, str(directory), signatures=module.serve)


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing, save it, and print the accuracies on held-out sequences."""
    import keras

    check_directory("output_dir", flag_values.output_dir)
    folder = pathlib.Path(flag_values.output_dir)
    for seed in range(SEEDS):
        for name in NETWORKS:
            directory = folder / folder_of(name, seed)
            if not (directory / "accuracy.json").exists():
                keras.backend.clear_session()
                network, accuracies = trained(name, seed)
                save(network, directory / "1")
                store_values(directory)
                atomic_write(directory / "accuracy.json", json.dumps(accuracies, indent=1) + "\n")
            accuracies = json.loads((directory / "accuracy.json").read_text())
            print(
                directory.name,
                " ".join(f"{task} {100 * right:.1f} %" for task, right in accuracies.items()),
                flush=True,
            )


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
