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
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence

import keras
import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.file_io.paths import check_directory
from clevr_xai import relation_network
from clevr_xai.dataset import KINDS
from clevr_xai.generation.questions import WORDINGS
from clevr_xai.training import batches, evaluation, loop, model_card, training_set, warm_start
from clevr_xai.training.learner import PAIR_SCALE, Learner
from clevr_xai.training.training_set import TrainingSet

STAGES = ("reading", "seeing", "small", "following", "final")
WARM_STAGES = ("rewording", "seeing", "final")  # of a training that starts from an exported network
SMALL_WIDTHS = (128, 128, 128)
QUESTIONS_READ = 128  # in a step of the reading and of the rewording
NUM_IMAGES = 32  # in a step of the other stages
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
# often each scene is asked about.
SENTENCES = {"seed": 1, "blocks": 24, "counted": 1, "rounds": 8}
NUM_VALIDATION = 600  # validation questions of each kind for the log
NUM_TRAINING = 4000  # training questions of each kind whose accuracy the card gives
NUM_BLANK = 1000  # questions of each kind that are asked about blank images


@dataclasses.dataclass(frozen=True)
class Config:
    """A training.

    Attributes
    ----------
    data_dir, validation_dir
        Output of ``scripts/generate_clevr_xai.py``, of two seeds other than 0.
    checkpoint_dir
        For checkpoints and the log; stages found there are resumed or, if they are done, used.
    output_dir
        Base path of the SavedModel; must not hold a version 1.
    final_questions
        Kinds of questions of the last stage; the others use both.
    steps
        Of each stage.
    num_pairs
        See ``batches.sample_pairs``.
    num_images
        Number of training images, from the first on; 0 for all.
    seed
        Of the weights and the batches.
    threads
        TensorFlow's, for one operation.
    command
        That trains this network, for its card.
    start_from
        Base path of an exported network to start from. 0 steps of seeing keep its convolutions, 0 steps of final its g.
    precision
        Of g in training, "float32" or "bfloat16".
    test_dir
        Data of a third seed for the accuracies of the card; the validation data when empty.
    rounds
        Rounds of questions of each kind about the training scenes.
    wordings
        Of the questions, see ``questions.generate``; each has as many. The network of ``start_from`` reads the first.

    Raises
    ------
    BadInput
        For a value that is not allowed.
    """

    data_dir: str | pathlib.Path
    validation_dir: str | pathlib.Path
    checkpoint_dir: str | pathlib.Path
    output_dir: str | pathlib.Path
    final_questions: tuple[str, ...]
    steps: dict[str, int]
    num_pairs: int = 128
    num_images: int = 0
    seed: int = 0
    threads: int = 2
    command: str = ""
    start_from: str = ""
    precision: str = "float32"
    test_dir: str | pathlib.Path = ""
    rounds: int = 4
    wordings: tuple[str, ...] = ("plain",)

    def __post_init__(self):
        _check_names("questions", self.final_questions, KINDS)
        _check_names("wording", self.wordings, WORDINGS)
        version = pathlib.Path(self.output_dir) / "1"
        if version.exists():
            raise BadInput(f"{str(version)!r} exists; remove it, or name another directory with --output_dir")
        if not self.start_from:
            for stage in STAGES:
                if not self.steps[stage]:
                    raise BadInput(f"--{stage}_steps=0 keeps a part of a trained network; name it with --start_from")
        elif not any(self.steps[stage] for stage in WARM_STAGES):
            raise BadInput(f"no steps of {listed(WARM_STAGES)}; a training needs one of these stages")
        check_directory("checkpoint_dir", self.checkpoint_dir)
        check_directory("output_dir", self.output_dir)


def _check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := set(names) - set(known):
        raise BadInput(f"no {what} {unknown.pop()!r}; there are {listed(known)}")
    if len(set(names)) < len(names) or not names:
        raise BadInput(f"{what}: {listed(names) or 'none given'}; name each once, of {listed(known)}")


def train(config: Config) -> None:
    """Train a network stage by stage and export it.

    Raises
    ------
    BadInput
        For data that cannot be used, or a checkpoint of another network.
    """
    data, validation, counted = _load_data(config)

    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow:
        import tensorflow as tf

        with contextlib.suppress(RuntimeError):  # another command of this process may have begun already
            tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    keras.utils.set_random_seed(config.seed)
    network = _Trainer(config, data, validation).train()
    if not on_tensorflow:
        print_line(
            f"trained; run the same command on TensorFlow to export from {config.checkpoint_dir}", file=sys.stderr
        )
        return
    plain = relation_network.fold_pair_scale(network)
    correct = evaluation.correct_answers(plain, counted, np.arange(len(counted.answers)))
    if data is None:
        settings = model_card.describe_rewording(config.wordings, SENTENCES, config.seed)
    else:
        settings = model_card.describe_settings(
            data,
            "an exported network"
            if config.start_from
            else f"{len(SMALL_WIDTHS)} layers of {SMALL_WIDTHS[0]}, then widened",
            config.final_questions,
            config.rounds,
            config.num_pairs,
            config.precision,
            config.seed,
        )
    sections = [*_error_section(plain, data, counted, correct), *_blank_section(plain, counted)]
    card = model_card.model_card(
        counted,
        correct,
        settings,
        _stage_rows(config),
        config.command,
        bool(config.test_dir),
        sections,
        model_card.earlier_training(config.start_from) if config.start_from else [],
    )
    relation_network.export(plain, config.output_dir, card)
    for kind, rows in counted.rows_of_kind().items():
        print_line(f"{kind} questions: {100 * correct[rows].mean():.1f} % of {len(rows):,} correct")
    print_line(f"exported to {pathlib.Path(config.output_dir) / '1'}")


def _load_data(config: Config) -> tuple[TrainingSet | None, TrainingSet, TrainingSet]:
    """Return the training data, None where no image is trained on, the validation data, and those the card counts."""
    one_round = dict.fromkeys(KINDS, 1)
    validation = training_set.load(config.validation_dir, one_round, wordings=config.wordings)
    counted = validation
    if config.test_dir:
        counted = training_set.load(config.test_dir, one_round, wordings=config.wordings)
    data = None
    seeds = [validation.seed, SENTENCES["seed"]]
    if not config.start_from or config.steps["seeing"] or config.steps["final"]:
        data = training_set.load_cached(
            pathlib.Path(config.checkpoint_dir) / "training_set.npz",
            config.data_dir,
            dict.fromkeys(KINDS, config.rounds),
            config.num_images,
            config.wordings,
        )
        seeds[1] = data.seed
    if seeds[0] == seeds[1]:
        raise BadInput(f"training and validation data both have the seed {seeds[0]}; the scenes must differ")
    if config.test_dir and counted.seed in seeds:
        raise BadInput(f"--test_dir has the seed {counted.seed}, as other data here have; the scenes must differ")
    return data, validation, counted


class _Trainer:
    """Runs the stages; ``network`` and ``learner`` are those of the stage that runs."""

    def __init__(self, config: Config, data: TrainingSet | None, validation: TrainingSet):
        self.config, self.data, self.validation = config, data, validation
        self.directory = pathlib.Path(config.checkpoint_dir)
        self.validation_rows = np.concatenate([rows[:NUM_VALIDATION] for rows in validation.rows_of_kind().values()])

    def train(self) -> keras.Model:
        """Run all stages and return the network."""
        if self.config.start_from:
            self._start_warm()
        else:
            self._start_cold()
        if self.config.steps["final"]:
            self._answer("final", self.data.only(self.config.final_questions))
        return self.network

    def _start_cold(self) -> None:
        self.network = relation_network.build(SMALL_WIDTHS, pair_scale=PAIR_SCALE, dropout=0.0)
        self.learner = Learner(self.network)
        self._read()
        self._encode(self.directory / "reading.npz")
        self._see()
        self._answer("small", self.data)
        self._answer("following", self.data)
        self.network = warm_start.net2net(self.network, dropout=0.0)
        self.learner = Learner(self.network, self.learner.heads)

    def _start_warm(self) -> None:
        steps = self.config.steps
        self.network = warm_start.load_exported(self.config.start_from)
        self.learner = Learner(self.network)
        encoder = pathlib.Path(self.config.start_from) / "1" / "variables" / "variables.index"
        if steps["rewording"]:
            self._reword()
            encoder = self.directory / "rewording.npz"
        if steps["seeing"]:
            some = self.data.images[:: max(len(self.data.images) // REFIT_IMAGES, 1)]
            before = warm_start.encode_cells(self.network, some)
            self._see()
            warm_start.refit_cells(self.network, some, before)
        if steps["final"]:
            self._encode(encoder)

    def _reword(self) -> None:
        seed, blocks, counted, rounds = SENTENCES.values()

        def load(name: str, numbers: range) -> warm_start.Rewording:
            file = self.directory / f"{name}.npz"
            sentences = warm_start.cached_sentences(file, self.config.wordings, seed, numbers, rounds)
            return warm_start.Rewording(self.network, sentences, QUESTIONS_READ)

        trained, held_out = load("sentences", range(blocks)), load("held_out", range(blocks, blocks + counted))
        self._run(
            "rewording",
            self.learner.rewording(trained.scale),
            trained.batch,
            lambda: {"unexplained": held_out.unexplained(self.network)},
        )

    def _encode(self, encoder: pathlib.Path) -> None:
        """Compute the codes of the training questions; ``encoder`` is the file of the encoder's weights."""
        file = self.directory / "codes.npy"
        self.data.codes = training_set.cached_codes(file, encoder, self.learner, self.data)

    def _read(self) -> None:
        model = self.learner.reading
        self._run(
            "reading",
            model,
            lambda rng: batches.reading_batch(self.data, rng, QUESTIONS_READ),
            lambda: {
                "programs": evaluation.program_accuracy(model, self.validation),
                "phrases": evaluation.phrase_accuracy(model, self.validation),
            },
        )

    def _see(self) -> None:
        model = self.learner.seeing
        self._run(
            "seeing",
            model,
            lambda rng: batches.seeing_batch(self.data, rng, NUM_IMAGES),
            lambda: evaluation.cell_accuracy(model, self.validation),
        )

    def _answer(self, name: str, data: TrainingSet) -> None:
        number, pairs = SETTINGS[name]["num_questions"], self.config.num_pairs
        self._run(
            name,
            self.learner.answering(number, pairs, auxiliary=name != "small", precision=self.config.precision),
            lambda rng: batches.answering_batch(data, rng, NUM_IMAGES, number, pairs),
            lambda: (
                evaluation.cell_accuracy(self.learner.seeing, self.validation)
                | evaluation.accuracy_by_kind(self.network, self.validation, self.validation_rows)
            ),
        )

    def _run(self, name: str, model: keras.Model, make_batch: Callable, evaluate: Callable[[], dict]) -> None:
        title = "_".join(["final", *self.config.final_questions]) if name == "final" else name
        stage = loop.Stage(title, steps=self.config.steps[name], **SETTINGS[name])
        every = 2000 if name in ("small", "following") else 1000
        loop.run(model, stage, make_batch, self.directory, self.config.seed, evaluate, every)


def _stage_rows(config: Config) -> list[dict[str, object]]:
    """Return the rows of the card's table of stages, without those of 0 steps."""
    names = WARM_STAGES if config.start_from else STAGES
    return [
        {
            "stage": name,
            "steps": f"{config.steps[name]:,}",
            "images a step": f"{QUESTIONS_READ} questions" if name in ("reading", "rewording") else NUM_IMAGES,
            "questions an image": SETTINGS[name].get("num_questions", "–"),
            "learning rate": SETTINGS[name]["learning_rate"],
            "share of the convolutions": SETTINGS[name].get("slow_share", 1.0),
            "share of it constant": SETTINGS[name].get("constant", 1.0),
        }
        for name in names
        if config.steps[name]
    ]


def _error_section(
    network: keras.Model, data: TrainingSet | None, counted: TrainingSet, correct: np.ndarray
) -> list[str]:
    simple = counted.rows_of_kind()["simple"]
    trained = {}
    if data is not None:
        rows = evaluation.spread_rows(data, NUM_TRAINING)
        answered = evaluation.correct_answers(network, data, rows)
        trained = {kind: answered[np.isin(rows, of_kind)] for kind, of_kind in data.rows_of_kind().items()}
    return model_card.error_section(evaluation.by_visible_pixels(counted, simple, correct[simple]), trained)


def _blank_section(network: keras.Model, counted: TrainingSet) -> list[str]:
    some = evaluation.spread_rows(counted, NUM_BLANK)
    by_kind = {kind: rows[np.isin(rows, some)] for kind, rows in counted.rows_of_kind().items()}
    return model_card.blank_section(
        {kind: evaluation.blank_logits(network, counted, rows) for kind, rows in by_kind.items()}
    )
