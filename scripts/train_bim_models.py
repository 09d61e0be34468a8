r"""Train BIM's thirteen classifiers and export them as SavedModels.

    python scripts/construct_bim_dataset.py --drawn --num_train=200 --data_dir=data/bim_drawn
    python scripts/train_bim_models.py --data_dir=data/bim_drawn

trains the small networks that come with the repository, in about 40 CPU minutes. The further pairs, seed1 to seed9, are

    python scripts/train_bim_models.py --data_dir=data/bim_drawn --models=obj,scene --seed=1 --output_dir=models/seed1

and so on, in 6 CPU minutes each. The vision transformers, vit and vit_seed1 to vit_seed4, need more images:

    python scripts/construct_bim_dataset.py --drawn --num_train=450 --data_dir=data/bim_drawn_450
    python scripts/train_bim_models.py --data_dir=data/bim_drawn_450 --models=obj,scene --architecture=small_vit \
        --output_dir=models/vit

For the real data

    python scripts/train_bim_models.py --data_dir=data/bim --architecture=resnet50 --epochs=30 --output_dir=models/bim

trains ResNet-50. A model that is there already is left alone, so an interrupted run continues with the next.

Cost: 40 CPU minutes for the thirteen small networks.
"""

import os
import sys

from absl import flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution import cli
from bim.layout import MODEL_NAMES
from bim.models import train_models

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="data/bim_drawn", batch_size=64, seed=0)
flags.DEFINE_list("models", list(MODEL_NAMES), "which sets to train on", flag_values=FLAGS)
flags.DEFINE_string("architecture", "small_resnet", "small_resnet, resnet50 or small_vit", flag_values=FLAGS)
flags.DEFINE_float("epochs", 0.0, "passes over a set's images; 0: as the committed models", 0.0, flag_values=FLAGS)
flags.DEFINE_float("learning_rate", 2e-3, "Adam's first learning rate", 0.0, flag_values=FLAGS)
flags.DEFINE_integer("threads", 2, "threads of one operation; changes the last digits", 1, flag_values=FLAGS)
flags.DEFINE_string("output_dir", os.path.join(ROOT, "saved_models", "bim"), "where to export to", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Train what is missing."""
    names = ("data_dir", "output_dir", "architecture", "epochs", "batch_size", "learning_rate", "seed", "threads")
    train_models(names=flag_values.models, **{name: flag_values[name].value for name in names})


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
