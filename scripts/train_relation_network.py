"""Train CLEVR-XAI's Relation Network and export it as a SavedModel with its words and answers.

    G="python scripts/generate_clevr_xai.py --image_size=192x128 --stored_size=128 --samples=9 --noground_truth_files"
    $G --num_images=9000 --seed=1 --output_dir=data/clevr_xai_training
    $G --num_images=400 --seed=2 --output_dir=data/clevr_xai_validation
    $G --num_images=400 --seed=3 --output_dir=data/clevr_xai_test
    python scripts/train_relation_network.py --test_dir=data/clevr_xai_test

On two cores rendering takes about half an hour and the five stages two and a half hours, reckoned from the speed of
each; where the processor computes with bfloat16, ``--precision=bfloat16`` took an hour and three quarters. A run that
was stopped goes on from its last checkpoint. Stages that are done are not repeated: a second run with
``--final_questions=simple`` branches off before the last stage. One with
``--start_from=saved_models/clevr_xai/relation_network`` goes on from an exported network with its reading, its seeing
(0 steps leave each as it is) and the last stage. Training runs on any backend of Keras; with KERAS_BACKEND=jax it ends
with the weights, and the same command on TensorFlow exports them.

``--wording=plain,official`` trains on both wordings, with as many questions in each. To teach an exported network
another wording takes reading steps: no other stage changes the question encoder.

The committed network went on from the one before it with 40,000 scenes: ``--num_images=40000`` for the first of the
commands above (two hours) and ``--reading_steps=0 --seeing_steps=60000 --final_steps=20000 --rounds=1`` beside
``--start_from`` and ``--precision=bfloat16`` for the last (an hour and a quarter, 6 GB).

Cost: three hours on two cores, half an hour of which is rendering.
"""

import os
import sys

from absl import flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution import cli
from attribution.file_io.paths import check_directory

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_STAGES = ("reading", "seeing", "small", "following", "final")

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="data/clevr_xai_training", seed=0)
flags.DEFINE_string("validation_dir", "data/clevr_xai_validation", "data of another seed", flag_values=FLAGS)
flags.DEFINE_string(
    "test_dir", "", "data of a third seed for the card; the validation data when empty", flag_values=FLAGS
)
flags.DEFINE_integer("num_images", 0, "use the first so many images; 0 for all", 0, flag_values=FLAGS)
flags.DEFINE_integer(
    "rounds", 4, "times that questions of each kind are asked about the training scenes", 1, flag_values=FLAGS
)
flags.DEFINE_list(
    "wording", ["plain"],
    "sentences of the questions, see scripts/generate_clevr_xai.py: plain, official, or both separated by a comma, "
    "with --start_from first the wording that the exported network reads",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("checkpoint_dir", "data/relation_network", "for checkpoints and the log", flag_values=FLAGS)
flags.DEFINE_string(
    "output_dir",
    os.path.join(ROOT, "saved_models", "clevr_xai", "relation_network"),
    "where to export to",
    flag_values=FLAGS,
)
flags.DEFINE_list("final_questions", ["simple", "complex"], "kinds of questions of the last stage", flag_values=FLAGS)
flags.DEFINE_integer(
    "reading_steps", 19_000,
    "steps that teach the question's program; 0 with --start_from leaves its encoder as it is", 0, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "seeing_steps", 24_000,
    "steps that teach what is in each cell; 0 with --start_from leaves its convolutions as they are", 0,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("small_steps", 10_000, "steps with a g of three layers of 128", 1, flag_values=FLAGS)
flags.DEFINE_integer(
    "following_steps", 10_000, "steps that also teach the sets a question's program finds", 1, flag_values=FLAGS
)
flags.DEFINE_integer(
    "final_steps", 26_000, "steps with the paper's g, most of them at a falling rate", 1, flag_values=FLAGS
)
flags.DEFINE_string(
    "start_from", "", "exported network to go on from: only reading, seeing and the last stage are run",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("pairs", 128, "pairs of cells that a step sums over", 104, 2401, flag_values=FLAGS)
flags.DEFINE_enum(
    "precision", "float32", ["float32", "bfloat16"],
    "of g in training; bfloat16 takes processors that compute with it (AVX512_BF16) three quarters of the time",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("threads", 2, "threads of one operation", 1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing and export."""
    from attribution.file_io.files import locked_directory
    from clevr_xai.training import stages

    check_directory("checkpoint_dir", flag_values.checkpoint_dir)
    with locked_directory(flag_values.checkpoint_dir, "checkpoints"):
        stages.train(
            flag_values.data_dir,
            flag_values.validation_dir,
            flag_values.checkpoint_dir,
            flag_values.output_dir,
            tuple(flag_values.final_questions),
            {name: flag_values[f"{name}_steps"].value for name in _STAGES},
            num_pairs=flag_values.pairs,
            num_images=flag_values.num_images,
            seed=flag_values.seed,
            threads=flag_values.threads,
            start_from=flag_values.start_from,
            precision=flag_values.precision,
            test_dir=flag_values.test_dir,
            rounds=flag_values.rounds,
            wordings=tuple(flag_values.wording),
            command=" ".join(["python scripts/train_relation_network.py", *_given(flag_values)]),
        )


def _given(flag_values: flags.FlagValues) -> list[str]:
    """Return the flags that decide the network, as far as they are not left at their defaults."""
    names = [
        "num_images",
        "rounds",
        "wording",
        "final_questions",
        *(f"{name}_steps" for name in _STAGES),
        "pairs",
        "seed",
        "start_from",
        "precision",
    ]
    given = [flag_values[name] for name in names if flag_values[name].value != flag_values[name].default]
    return [flag.serialize() for flag in given]


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
