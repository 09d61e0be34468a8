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
from attribution_benchmarks.cli.settings_flags import define_settings, settings_of  # noqa: E402
from clevr_xai.training.settings import TrainingSettings  # noqa: E402

FLAGS = flags.FlagValues()
define_settings(FLAGS, TrainingSettings)


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing and export."""
    from attribution.files import locked_directory
    from clevr_xai.training import stages

    settings = settings_of(flag_values, TrainingSettings)
    check_directory("checkpoint_dir", settings.checkpoint_dir)
    check_file("checkpoint_dir", os.path.join(settings.checkpoint_dir, "log.jsonl"))
    with locked_directory(settings.checkpoint_dir, "checkpoints"):
        stages.train(settings, " ".join(["python scripts/train_relation_network.py", *_changed_flags(settings)]))


def _changed_flags(settings: TrainingSettings) -> list[str]:
    """Return the flags that determine the network and differ from their defaults."""
    names = (
        "num_images", "rounds", "wording", "final_questions", "reading_steps", "rewording_steps", "seeing_steps",
        "small_steps", "following_steps", "final_steps", "images_per_step", "pairs", "seed", "start_from", "precision",
    )  # fmt: skip
    changed = settings.changed()
    return settings.flags(tuple(name for name in names if name in changed))


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
