r"""Train CLEVR-XAI's Relation Network and export it as a SavedModel with its words and answers.

    G="python scripts/generate_clevr_xai.py --image_size=192x128 --stored_size=128 --samples=9 --noground_truth_files"
    $G --num_images=9000 --seed=1 --output_dir=data/clevr_xai_training
    $G --num_images=400 --seed=2 --output_dir=data/clevr_xai_validation
    $G --num_images=400 --seed=3 --output_dir=data/clevr_xai_test
    python scripts/train_relation_network.py --test_dir=data/clevr_xai_test

A stopped run resumes from its last checkpoint, and finished stages are not repeated: a second run with
``--final_questions=simple`` repeats only the last stage. ``--start_from=saved_models/clevr_xai/relation_network``
starts from an exported network, with the stages rewording (0 steps keep its question encoder), seeing (0 steps keep
its convolutions) and final. Training runs on any backend of Keras. With KERAS_BACKEND=jax it ends with the weights,
and the same command on TensorFlow exports them.

``--wording=plain,official`` trains on both wordings, with as many questions in each. An exported network learns another
wording from sentences alone, which are of 6,000 scenes, whatever --data_dir holds, and take 13 CPU minutes to write;
on JAX in less than an hour on one core, with 2.5 GB:

    KERAS_BACKEND=jax python scripts/train_relation_network.py --start_from=DIRECTORY --wording=plain,official \
        --rewording_steps=20000 --seeing_steps=0 --final_steps=0 --test_dir=data/clevr_xai_test --output_dir=NEW

Two of the committed networks learned the plain wording first, each from the network before it, with 40,000 scenes:
``--num_images=40000`` for the first of the commands above (two hours) and ``--wording=plain --precision=bfloat16
--rounds=1 --seeing_steps=60000 --final_steps=20000`` with ``--start_from`` for the last (an hour and a quarter, 6 GB).
The third was last trained on a GPU, where JAX has room for more images and pairs in a step: ``--images_per_step=64
--pairs=256 --workers=14``. An H200 and 16 cores took 200 steps of seeing or 130 of final a second.

Cost: three hours on two cores, half an hour of which is rendering; with ``--precision=bfloat16``, on a processor that
computes with it, an hour less.
"""

import os
import sys

from absl import flags

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from attribution import cli  # noqa: E402
from attribution.files import check_directory, check_file  # noqa: E402

_STAGES = ("reading", "rewording", "seeing", "small", "following", "final")

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="data/clevr_xai_training", seed=0)
flags.DEFINE_string("validation_dir", "data/clevr_xai_validation", "data of another seed", flag_values=FLAGS)
flags.DEFINE_string(
    "test_dir", "", "data of a third seed for the card; the validation data when empty", flag_values=FLAGS
)
flags.DEFINE_integer("num_images", 0, "number of images, from the first on; 0 for all", 0, flag_values=FLAGS)
flags.DEFINE_integer("rounds", 4, "rounds of questions about the training scenes", 1, flag_values=FLAGS)
flags.DEFINE_list(
    "wording", ["official"],
    "sentences of the questions, see scripts/generate_clevr_xai.py: official, plain, or both separated by a comma, "
    "with --start_from first the wording that the exported network reads",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("checkpoint_dir", "data/relation_network", "for checkpoints and the log", flag_values=FLAGS)
flags.DEFINE_string("output_dir", "data/trained/relation_network", "where to export to", flag_values=FLAGS)
flags.DEFINE_list("final_questions", ["simple", "complex"], "kinds of questions of the last stage", flag_values=FLAGS)
for _name, _steps, _at_least, _help in (
    ("reading", 19_000, 0, "train the question encoder; not with --start_from"),
    ("rewording", 0, 0, "teach the question encoder of --start_from the further wordings of --wording"),
    ("seeing", 24_000, 0, "train the convolutions; 0 with --start_from keeps them"),
    ("small", 10_000, 1, "train a g of three layers of 128"),
    ("following", 10_000, 1, "add the losses on the program's sets, compared pairs and operands"),
    ("final", 26_000, 0, "train the paper's g, most of them at a falling rate; 0 with --start_from keeps it"),
):
    flags.DEFINE_integer(f"{_name}_steps", _steps, f"steps that {_help}", _at_least, flag_values=FLAGS)
flags.DEFINE_string(
    "start_from", "", "exported network to start from, with the stages rewording, seeing and final", flag_values=FLAGS
)
flags.DEFINE_integer("images_per_step", 32, "images of a step", 1, flag_values=FLAGS)
flags.DEFINE_integer("pairs", 128, "pairs of cells that a step sums over", 104, 2401, flag_values=FLAGS)
flags.DEFINE_enum(
    "precision", "float32", ["float32", "bfloat16"],
    "of g in training; bfloat16 takes processors that compute with it (AVX512_BF16) three quarters of the time",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "checkpoint_steps", 1000, "steps between checkpoints; twice as many in small and following", 1, flag_values=FLAGS
)
flags.DEFINE_integer(
    "workers", 1, "processes that make batches, on Linux; 1 is a thread, enough beside two cores that compute", 1,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("threads", 2, "threads of one operation", 1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing and export."""
    from attribution.files import locked_directory
    from clevr_xai.training import stages

    check_directory("checkpoint_dir", flag_values.checkpoint_dir)
    check_file("checkpoint_dir", os.path.join(flag_values.checkpoint_dir, "log.jsonl"))
    with locked_directory(flag_values.checkpoint_dir, "checkpoints"):
        stages.train(flag_values, " ".join(["python scripts/train_relation_network.py", *_changed_flags(flag_values)]))


def _changed_flags(flag_values: flags.FlagValues) -> list[str]:
    """Return the flags that determine the network and differ from their defaults."""
    names = [
        "num_images", "rounds", "wording", "final_questions", *(f"{name}_steps" for name in _STAGES), "images_per_step",
        "pairs", "seed", "start_from", "precision",
    ]  # fmt: skip
    return [flag_values[name].serialize() for name in names if flag_values[name].value != flag_values[name].default]


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
