"""Curriculum training of the Relation Network, from its first stage to the SavedModel with its card.

1. ``reading``: the question encoder learns to predict the question's program and its noun phrases. No later stage
   changes it.
2. ``seeing``: the convolutions learn to predict the object in each cell of the last feature map.
3. ``small``: a g of three narrow layers learns to answer, from a sample of the pairs of cells.
4. ``following``: as ``small``, with auxiliary losses on g: the sets of objects that the program finds, the pairs that
   show the two compared objects, and the two compared values.
5. ``final``: g is widened and deepened to the paper's size by Net2Net and trained further.

A training that starts from an exported network has ``seeing`` and ``final``, and before them ``rewording``, in which
the question encoder learns further wordings, see ``warm_start``.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Callable, Sequence

import keras
import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.files import check_directory
from attribution.reading import read_json
from clevr_xai import relation_network
from clevr_xai.dataset import KINDS
from clevr_xai.generation.questions import WORDINGS
from clevr_xai.layout import write_json
from clevr_xai.training import batches, loop, model_card, training_set, warm_start
from clevr_xai.training.learner import PAIR_SCALE, Learner
from clevr_xai.training.settings import TrainingSettings
from clevr_xai.training.training_set import TrainingSet

STAGES = ("reading", "seeing", "small", "following", "final")
WARM_STAGES = ("rewording", "seeing", "final")  # of a training that starts from an exported network
SMALL_WIDTHS = (128, 128, 128)
QUESTIONS_READ = 128  # in a step of the reading and of the rewording
# The reading and the seeing end at a rate of zero, since no stage continues them. In the stages after the seeing the
# convolutions have a lower rate than g: at the full rate of the final stage, cells whose shape had been predicted
# correctly in 94.9 % fell to 93.1 % within 1,000 steps.
SETTINGS = {
    "reading": {"learning_rate": 2e-3, "constant": 0.6},
    "rewording": {"learning_rate": 2e-3, "constant": 0.4},
    "seeing": {"learning_rate": 2e-3, "constant": 0.6},
    "small": {"learning_rate": 2e-3, "num_questions": 8},
    "following": {"learning_rate": 1e-3, "slow_share": 0.3, "num_questions": 8},
    "final": {"learning_rate": 8e-4, "constant": 0.25, "slow_share": 0.1, "num_questions": 4},
}
REFIT_IMAGES = 1_000  # to which the first layer of g is fitted in a warm start
# Of the rewording: the seed of its scenes, how many blocks of 250 train and how many are counted in the log, and how
# often each scene has questions.
SENTENCES = {"seed": 1, "blocks": 24, "counted": 1, "rounds": 8}
NUM_VALIDATION = 600  # validation questions of each kind for the log
NUM_TRAINING = 4000  # training questions of each kind whose accuracy the card gives
NUM_BLANK = 1000  # questions of each kind about blank images
# What a training keeps when it is resumed; it may get more steps, and other kinds of questions in its last stage.
_KEPT = ("seed", "start_from", "num_images", "rounds", "wording", "images_per_step", "pairs", "precision")


def _check(options: TrainingSettings) -> None:
    """Raise ``BadInput`` for settings that do not fit together."""
    _check_names("questions", options.final_questions, KINDS)
    _check_names("wording", options.wording, WORDINGS)
    version = pathlib.Path(options.output_dir) / "1"
    if version.exists():
        raise BadInput(f"{str(version)!r} exists; name another directory with --output_dir, or remove it")
    if not options.start_from:
        for stage in STAGES:
            if not options.steps(stage):
                raise BadInput(f"--{stage}_steps=0 keeps a part of a trained network; name it with --start_from")
    elif not any(options.steps(stage) for stage in WARM_STAGES):
        raise BadInput(f"no steps of {listed(WARM_STAGES)}; a training needs one of these stages")
    check_directory("output_dir", options.output_dir)


def _check_resumed(options: TrainingSettings, file: pathlib.Path) -> None:
    """Raise ``BadInput`` if there are checkpoints of a training with other settings."""
    stages = {*STAGES, *WARM_STAGES}
    if not file.exists() or not any(path.stem.partition("_")[0] in stages for path in file.parent.glob("*.npz")):
        return
    known, given = read_json(file), options.flags(_KEPT)
    other = [kept for kept in known if kept not in given] if isinstance(known, list) else [known]
    if other:
        raise BadInput(
            f"{options.checkpoint_dir} has checkpoints of a training with {listed(other)}; continue it so, or name "
            "another --checkpoint_dir"
        )


def _check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := set(names) - set(known):
        raise BadInput(f"no {what} {unknown.pop()!r}; there are {listed(known)}")
    if len(set(names)) < len(names) or not names:
        raise BadInput(f"{what}: {listed(names) or 'none given'}; name each once, of {listed(known)}")


def train(options: TrainingSettings, command: str) -> None:
    """Train a network stage by stage and export it.

    Parameters
    ----------
    options
        Stages whose checkpoints are found are resumed or, if they are done,
        used.
    command
        That trains this network, for its card.

    Raises
    ------
    BadInput
        For a value that is not allowed, data that cannot be used, or a checkpoint of another network or training.
    """
    _check(options)
    settings_file = pathlib.Path(options.checkpoint_dir) / "settings.json"
    _check_resumed(options, settings_file)
    earlier = model_card.earlier_training(options.start_from) if options.start_from else []
    data, validation, counted = _load_data(options)
    write_json(settings_file, options.flags(_KEPT))

    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow:
        import tensorflow as tf

        with contextlib.suppress(RuntimeError):  # another command of this process may have begun already
            tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    keras.utils.set_random_seed(options.seed)
    network = _Trainer(options, data, validation).train()
    if not on_tensorflow:
        print_line(
            f"trained; run the same command on TensorFlow to export from {options.checkpoint_dir}", file=sys.stderr
        )
        return
    plain = relation_network.fold_pair_scale(network)
    correct = model_card.correct_answers(plain, counted, np.arange(len(counted.answers)))
    if data is None:
        settings = model_card.describe_rewording(options, SENTENCES)
    else:
        small = f"{len(SMALL_WIDTHS)} layers of {SMALL_WIDTHS[0]}, then widened"
        settings = model_card.describe_settings(options, data, "an exported network" if options.start_from else small)
    sections = [*error_section(plain, data, counted, correct), *blank_section(plain, counted)]
    card = model_card.model_card(
        counted, correct, settings, _stage_rows(options), command, bool(options.test_dir), sections, earlier
    )
    relation_network.export(plain, options.output_dir, card)
    for kind, rows in counted.rows_of_kind().items():
        print_line(f"{kind} questions: {100 * correct[rows].mean():.1f} % of {len(rows):,} correct")
    print_line(f"exported to {pathlib.Path(options.output_dir) / '1'}")


def _load_data(options: TrainingSettings) -> tuple[TrainingSet | None, TrainingSet, TrainingSet]:
    """Return the training data, None where no image is trained on, the validation data, and those the card counts."""
    one_round = dict.fromkeys(KINDS, 1)
    validation = training_set.load(options.validation_dir, one_round, wordings=options.wording)
    counted = validation
    if options.test_dir:
        counted = training_set.load(options.test_dir, one_round, wordings=options.wording)
    data = None
    seeds = [validation.seed, SENTENCES["seed"]]
    if not options.start_from or options.seeing_steps or options.final_steps:
        file = pathlib.Path(options.checkpoint_dir) / "training_set.npz"
        rounds = dict.fromkeys(KINDS, options.rounds)
        data = training_set.load_cached(file, options.data_dir, rounds, options.num_images, options.wording)
        seeds[1] = data.seed
    if seeds[0] == seeds[1]:
        raise BadInput(f"training and validation data both have the seed {seeds[0]}; the scenes must differ")
    if options.test_dir and counted.seed in seeds:
        raise BadInput(f"--test_dir has the seed {counted.seed}, as other data here have; the scenes must differ")
    return data, validation, counted


class _Trainer:
    """Runs the stages; ``network`` and ``learner`` are those of the stage that runs."""

    def __init__(self, options: TrainingSettings, data: TrainingSet | None, validation: TrainingSet):
        self.options, self.data, self.validation = options, data, validation
        self.directory = pathlib.Path(options.checkpoint_dir)
        self.validation_rows = np.concatenate([rows[:NUM_VALIDATION] for rows in validation.rows_of_kind().values()])

    def train(self) -> keras.Model:
        """Run all stages and return the network."""
        if self.options.start_from:
            self._start_warm()
        else:
            self._start_cold()
        if self.options.final_steps:
            self._answer("final", self.options.final_questions)
        return self.network

    def _start_cold(self) -> None:
        self.network = relation_network.build(SMALL_WIDTHS, pair_scale=PAIR_SCALE, dropout=0.0)
        self.learner = Learner(self.network)
        self._read()
        self.encoder = self.directory / "reading.npz"
        self._see()
        self._answer("small")
        self._answer("following")
        self.network = warm_start.net2net(self.network, dropout=0.0)
        self.learner = Learner(self.network, self.learner.heads)

    def _start_warm(self) -> None:
        self.network = warm_start.load_exported(self.options.start_from)
        self.learner = Learner(self.network)
        self.encoder = pathlib.Path(self.options.start_from) / "1" / "variables" / "variables.index"
        if self.options.rewording_steps:
            self._reword()
            self.encoder = self.directory / "rewording.npz"
        if self.options.seeing_steps:
            some = self.data.images[:: max(len(self.data.images) // REFIT_IMAGES, 1)]
            before = warm_start.encode_cells(self.network, some)
            self._see()
            warm_start.refit_cells(self.network, some, before)

    def _reword(self) -> None:
        seed, blocks, counted, rounds = SENTENCES.values()

        def load(name: str, numbers: range) -> warm_start.Rewording:
            file = self.directory / f"{name}.npz"
            sentences = warm_start.cached_sentences(file, self.options.wording, seed, numbers, rounds)
            return warm_start.Rewording(self.network, sentences, QUESTIONS_READ)

        trained, held_out = load("sentences", range(blocks)), load("held_out", range(blocks, blocks + counted))
        self._run(
            "rewording",
            self.learner.rewording(trained.scale),
            trained.batch,
            lambda: {"unexplained": held_out.unexplained(self.network)},
        )

    def _encode(self) -> None:
        """Compute the codes of the training questions; ``encoder`` is the file of the encoder's weights."""
        described = f"{self.encoder} {self.encoder.stat().st_mtime_ns} {len(self.data.tokens)}"
        file = self.directory / "codes.npz"
        codes = training_set.cached_arrays(file, described, lambda: {"codes": self.learner.codes(self.data)})
        self.data.codes = codes["codes"]

    def _read(self) -> None:
        model = self.learner.reading
        self._run(
            "reading",
            model,
            lambda rng: batches.reading_batch(self.data, rng, QUESTIONS_READ),
            lambda: model_card.reading_accuracy(model, self.validation),
        )

    def _see(self) -> None:
        model = self.learner.seeing
        self._run(
            "seeing",
            model,
            lambda rng: batches.seeing_batch(self.data, rng, self.options.images_per_step),
            lambda: model_card.cell_accuracy(model, self.validation),
        )

    def _answer(self, name: str, kinds: Sequence[str] = KINDS) -> None:
        number, pairs = SETTINGS[name]["num_questions"], self.options.pairs
        images = self.options.images_per_step
        if not loop.is_done(self._stage(name), self.directory):
            self._encode()
        data = self.data.only(kinds)
        self._run(
            name,
            self.learner.answering(number, pairs, auxiliary=name != "small", precision=self.options.precision),
            lambda rng: batches.answering_batch(data, rng, images, number, pairs),
            lambda: (
                model_card.cell_accuracy(self.learner.seeing, self.validation)
                | model_card.accuracy_by_kind(self.network, self.validation, self.validation_rows)
            ),
        )

    def _stage(self, name: str) -> loop.Stage:
        title = "_".join(["final", *self.options.final_questions]) if name == "final" else name
        return loop.Stage(title, steps=self.options.steps(name), **SETTINGS[name])

    def _run(self, name: str, model: keras.Model, make_batch: Callable, evaluate: Callable[[], dict]) -> None:
        options = self.options
        every = options.checkpoint_steps * (2 if name in ("small", "following") else 1)
        loop.run(
            model, self._stage(name), make_batch, self.directory, options.seed, evaluate, every, options.workers
        )  # fmt: skip


def _stage_rows(options: TrainingSettings) -> list[dict[str, object]]:
    """Return the rows of the card's table of stages, without those of 0 steps."""
    return [
        {
            "stage": name,
            "steps": f"{options.steps(name):,}",
            "images a step": f"{QUESTIONS_READ} questions"
            if name in ("reading", "rewording")
            else options.images_per_step,
            "questions an image": SETTINGS[name].get("num_questions", "–"),
            "learning rate": SETTINGS[name]["learning_rate"],
            "share of the convolutions": "–" if name == "rewording" else SETTINGS[name].get("slow_share", 1.0),
            "share of it constant": SETTINGS[name].get("constant", 1.0),
        }
        for name in (WARM_STAGES if options.start_from else STAGES)
        if options.steps(name)
    ]


def error_section(
    network: keras.Model, data: TrainingSet | None, counted: TrainingSet, correct: np.ndarray
) -> list[str]:
    """Return the card's section on errors; with ``data`` also the accuracy on questions about training scenes."""
    simple = counted.rows_of_kind()["simple"]
    some = {} if data is None else model_card.spread_rows(data, NUM_TRAINING)
    trained = {kind: model_card.correct_answers(network, data, rows) for kind, rows in some.items()}
    return model_card.error_section(model_card.by_visible_pixels(counted, simple, correct[simple]), trained)


def blank_section(network: keras.Model, counted: TrainingSet) -> list[str]:
    """Return the card's section on blank images and confidence."""
    some = model_card.spread_rows(counted, NUM_BLANK)
    return model_card.blank_section(
        {kind: model_card.blank_logits(network, counted, rows) for kind, rows in some.items()}
    )
