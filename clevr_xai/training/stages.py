"""The Relation Network's training from its first stage to the SavedModel with its card."""

from __future__ import annotations

import contextlib
import pathlib
import sys

import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.file_io.paths import check_directory
from clevr_xai import blank_images
from clevr_xai.dataset import KINDS
from clevr_xai.generation.questions import WORDINGS
from clevr_xai.training import batches, cache, loading, presets
from clevr_xai.training.training_set import TrainingSet

# Questions and images to which the first layer of g is fitted when the reading and the seeing have gone on.
RETOLD, RESHOWN = 40_000, 1_000
CHECKED = 600  # validation questions of each kind looked at during training
LEARNT = 4000  # training questions of each kind that the card tells the accuracy on


def train(
    data_dir,
    validation_dir,
    checkpoint_dir,
    output_dir,
    final_questions: tuple[str, ...],
    steps: dict[str, int],
    num_pairs: int = 128,
    num_images: int = 0,
    seed: int = 0,
    threads: int = 2,
    command: str = "",
    start_from: str = "",
    precision: str = "float32",
    test_dir="",
    rounds: int = 4,
    wordings: tuple[str, ...] = ("plain",),
) -> None:
    """Train a network stage by stage and export it.

    Parameters
    ----------
    data_dir, validation_dir
        Output of ``scripts/generate_clevr_xai.py``, of two seeds, neither of them 0.
    checkpoint_dir
        For checkpoints and the log; stages found there are continued or, if they are done, used.
    output_dir
        Base path of the SavedModel; must not hold a version 1.
    final_questions
        Kinds of questions of the last stage; the others learn from both.
    steps
        Of each stage.
    num_pairs
        See ``pair_samples.draw``.
    num_images
        Use the first so many training images; 0 for all.
    seed
        Of the weights and the batches.
    threads
        TensorFlow's, for one operation.
    command
        That trains this network, for its card.
    start_from
        Base path of an exported network that takes the place of all stages before the last but the reading and the
        seeing, which go on from its question encoder and its convolutions; no steps of these leave them as they are.
    precision
        Of g in training, "float32" or "bfloat16".
    test_dir
        Data of a third seed that the card counts questions of; the validation data, which are looked at during the
        training, when empty.
    rounds
        Times that questions of each kind are asked about the training scenes, other ones each time.
    wordings
        Of the questions, see ``questions.generate``; with both, each has as many questions. The network of
        ``start_from`` must read the first.
    """
    checkpoint_dir, output_dir = pathlib.Path(checkpoint_dir), pathlib.Path(output_dir)
    if strangers := set(final_questions) - set(KINDS):
        raise BadInput(f"no questions {strangers.pop()!r}; there are {listed(KINDS)}")
    if not final_questions:
        raise BadInput(f"the last stage learns from no questions; name some of {listed(KINDS)}")
    if strangers := set(wordings) - set(WORDINGS):
        raise BadInput(f"no wording {strangers.pop()!r}; there are {listed(WORDINGS)}")
    if len(set(wordings)) < len(wordings) or not wordings:
        raise BadInput(f"wording {listed(wordings) or 'of no name'}; name each once, of {listed(WORDINGS)}")
    if (output_dir / "1").exists():
        raise BadInput(f"{str(output_dir / '1')!r} exists; remove it, or name another directory with --output_dir")
    if not (steps["reading"] or start_from):
        raise BadInput("--reading_steps=0 leaves a question encoder as it is, and only --start_from has one")
    if not (steps["seeing"] or start_from):
        raise BadInput("--seeing_steps=0 leaves convolutions as they are, and only --start_from has some")
    check_directory("checkpoint_dir", checkpoint_dir)
    check_directory("output_dir", output_dir)
    validation = loading.load(validation_dir, dict.fromkeys(KINDS, 1), wordings=wordings)
    counted = loading.load(test_dir, dict.fromkeys(KINDS, 1), wordings=wordings) if test_dir else validation
    data = cache.load(checkpoint_dir / "training_set.npz", data_dir, dict.fromkeys(KINDS, rounds), num_images, wordings)
    if data.seed == validation.seed:
        raise BadInput(f"training and validation data both have the seed {data.seed}; the scenes must differ")
    if test_dir and counted.seed in (data.seed, validation.seed):
        raise BadInput(f"--test_dir has the seed {counted.seed}, as other data here have; the scenes must differ")

    import keras

    from clevr_xai import relation_network
    from clevr_xai.training import accuracy, loop, net2net, warm_start
    from clevr_xai.training.learner import PAIR_SCALE, Learner
    from clevr_xai.training.model_card import model_card

    on_tensorflow = keras.backend.backend() == "tensorflow"
    if start_from and not on_tensorflow:
        raise BadInput("an exported network is read on TensorFlow only; leave out KERAS_BACKEND")
    if on_tensorflow:
        import tensorflow as tf

        with contextlib.suppress(RuntimeError):  # another command of this process may have begun already
            tf.config.threading.set_intra_op_parallelism_threads(threads)
    keras.utils.set_random_seed(seed)
    checked = np.concatenate([rows[:CHECKED] for rows in validation.rows_of_kind().values()])

    def run(name, model, make_batch, title="", **settings):
        rates = presets.LEARNING_RATES[name], presets.CONSTANT[name], presets.SLOW_SHARES.get(name, 1.0)
        stage = loop.Stage(title or name, steps[name], *rates)
        loop.run(model, stage, make_batch, checkpoint_dir, seed, **settings)

    def answer(name, used, **settings):
        def batch(rng):
            return batches.answering_batch(used, rng, presets.NUM_IMAGES[name], presets.NUM_QUESTIONS[name], num_pairs)

        def evaluate():
            return accuracy.cell_accuracy(learner.seeing, validation) | accuracy.accuracy_by_kind(
                network, validation, checked
            )

        model = learner.answering(presets.NUM_QUESTIONS[name], num_pairs, follow=name != "small", precision=precision)
        run(name, model, batch, evaluate=evaluate, **settings)

    def see():
        run(
            "seeing",
            learner.seeing,
            lambda rng: batches.seeing_batch(data, rng, presets.NUM_IMAGES["seeing"]),
            evaluate=lambda: accuracy.cell_accuracy(learner.seeing, validation),
        )

    def read():
        run(
            "reading",
            learner.reading,
            lambda rng: batches.reading_batch(data, rng, presets.READ),
            evaluate=lambda: {
                "programs": accuracy.program_accuracy(learner.reading, validation),
                "phrases": accuracy.phrase_accuracy(learner.reading, validation),
            },
        )

    if start_from:
        network = warm_start.unfolded(start_from)
        learner = Learner(network)
        encoder = pathlib.Path(start_from) / "1" / "variables" / "variables.index"
        if steps["reading"]:
            known = data.tokens[data.wordings == wordings[0]]  # fitting to misread questions would spoil the layer
            some = known[:: max(len(known) // RETOLD, 1)].astype(np.int32)
            before = warm_start.told(network, some)
            read()
            warm_start.retell(network, some, before)
            encoder = checkpoint_dir / "reading.npz"
        if steps["seeing"]:
            some = data.images[:: max(len(data.images) // RESHOWN, 1)]
            before = warm_start.shown(network, some)
            see()
            warm_start.show_again(network, some, before)
        data.codes = cache.codes(checkpoint_dir / "codes.npy", encoder, learner, data)
    else:
        network = relation_network.build(presets.SMALL_WIDTHS, pair_scale=PAIR_SCALE, dropout=0.0)
        learner = Learner(network)
        read()
        data.codes = cache.codes(checkpoint_dir / "codes.npy", checkpoint_dir / "reading.npz", learner, data)
        see()
        answer("small", data, every=2000)
        answer("following", data, every=2000)
        network = net2net.grown(network, dropout=0.0)
        learner = Learner(network, learner.aids)
    answer("final", data.only(final_questions), title="_".join(["final", *final_questions]))

    if not on_tensorflow:
        print_line(f"trained; run the same command on TensorFlow to export from {checkpoint_dir}", file=sys.stderr)
        return
    plain = relation_network.folded(network)
    right = accuracy.accuracy(plain, counted, np.arange(len(counted.answers)))
    settings = presets.told(data, final_questions, rounds, num_pairs, precision, seed, bool(start_from))
    taken = presets.stage_rows(steps, bool(start_from))
    card = model_card(
        right,
        counted.families,
        counted.answers,
        settings,
        taken,
        command,
        _blank(plain, counted),
        bool(test_dir),
        _missed(plain, data, counted, right),
        counted.wordings,
    )
    relation_network.export(plain, output_dir, card)
    for kind, rows in counted.rows_of_kind().items():
        print_line(f"{kind} questions: {100 * right[rows].mean():.1f} % of {len(rows):,} right")
    print_line(f"exported to {output_dir / '1'}")


def _blank(network, counted: TrainingSet) -> dict[str, blank_images.Facts]:
    """Return what a network says about blank images, for each kind of the questions counted."""
    return {
        kind: blank_images.facts(
            lambda images, questions: network.predict_on_batch([images, questions.astype(np.int32)]),
            counted.images[counted.image_of[rows]],
            counted.tokens[rows],
            counted.answers[rows],
        )
        for kind, rows in counted.rows_of_kind().items()
    }


def _missed(network, data: TrainingSet, counted: TrainingSet, right: np.ndarray) -> list[str]:
    """Return the card's lines on what a network gets wrong of the questions counted, and of those it learnt from."""
    from clevr_xai.training import accuracy, error_analysis

    simple = counted.rows_of_kind()["simple"]
    learnt = error_analysis.spread_rows(data, LEARNT)
    return error_analysis.card_lines(
        error_analysis.by_shown_pixels(counted, simple, right[simple]),
        error_analysis.by_kind(data, learnt, accuracy.accuracy(network, data, learnt)),
    )
