"""Construct BIM's sets from MSCOCO and MiniPlaces, or from drawings in their place.

    python scripts/construct_bim_dataset.py --coco_dir=data/coco --miniplaces_dir=data/miniplaces --data_dir=data/bim
    python scripts/construct_bim_dataset.py --drawn --num_train=100 --data_dir=data/bim_drawn

An interrupted construction continues when the same command is given again.

Cost: 26 CPU seconds for 10,000 drawn images.
"""

import os
import sys

from absl import flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution import cli
from attribution.errors import print_line
from attribution.files import check_directory
from attribution_benchmarks.beam.parallel_map import local_map
from bim.construct import TOGETHER, construct, construct_drawn

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="data/bim", seed=0)
flags.DEFINE_string("coco_dir", "data/coco", "MSCOCO: annotations/ and train2017/ lie here", flag_values=FLAGS)
flags.DEFINE_string(
    "coco_annotations", "", "COCO annotation file, instead of the one below --coco_dir", flag_values=FLAGS
)
flags.DEFINE_string("miniplaces_dir", "data/miniplaces", "MiniPlaces: images/train/ lies here", flag_values=FLAGS)
flags.DEFINE_bool("drawn", False, "draw both corpora instead of reading them", flag_values=FLAGS)
flags.DEFINE_integer("num_train", 900, "training images of each object and scene", 0, 900, flag_values=FLAGS)
flags.DEFINE_integer("num_val", 100, "validation images of each object and scene", 1, 100, flag_values=FLAGS)
flags.DEFINE_integer("jobs", os.cpu_count() or 1, "processes", 1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Construct the sets that the flags describe."""
    data_dir, coco_dir = flag_values.data_dir, flag_values.coco_dir
    numbers = flag_values.num_train, flag_values.num_val, flag_values.seed
    check_directory("data_dir", data_dir)
    with local_map(flag_values.jobs, TOGETHER) as each:
        if flag_values.drawn:
            construct_drawn(data_dir, *numbers, each)
        else:
            annotations = os.path.join(coco_dir, "annotations", "instances_train2017.json")
            images = os.path.join(coco_dir, "train2017")
            chosen = flag_values.coco_annotations or annotations
            construct(data_dir, chosen, images, flag_values.miniplaces_dir, *numbers, each)
    print_line(f"BIM's sets are in {data_dir}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
