"""Make the patches of BIM's input independence rate: dogs in a bamboo forest that mean nothing to a model.

    python scripts/construct_delta_patch.py
    python scripts/construct_delta_patch.py --data_dir=data/bim --model=models/bim/scene_only

writes the set bamboo_forest_patch beside the others and prints how far each patch moves the model's logits,
before and after. Patches that change the class are refused.

Cost: 34 CPU seconds and 1.1 GB for the 100 patches of the default.
"""

import os
import sys

from absl import flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution import cli
from attribution.errors import print_line, print_text
from bim import delta_patch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS, data_dir="", model=os.path.join(ROOT, "saved_models", "bim", "scene_only"), batch_size=25, cache_dir=""
)
flags.DEFINE_enum(
    "compat", "default", ["default", "upstream"], "upstream: models by the authors' tensor names", flag_values=FLAGS
)
flags.DEFINE_integer("steps", delta_patch.STEPS, "steps of gradient descent", 1, flag_values=FLAGS)
flags.DEFINE_float(
    "step_size", delta_patch.STEP_SIZE, "first step in pixel values, root mean square", 0.0, flag_values=FLAGS
)


def main(flag_values: flags.FlagValues) -> None:
    """Make the patches and print their distances."""
    from bim.classifiers import classifier_at
    from bim.data import resolve_data_dir

    upstream = flag_values.compat == "upstream"
    model = classifier_at(flag_values.model, tensors=upstream)
    data_dir = resolve_data_dir(flag_values.data_dir)
    steps, step_size, batch_size = flag_values.steps, flag_values.step_size, flag_values.batch_size
    record = delta_patch.construct(data_dir, model, steps, step_size, batch_size, progress=True, tensors=upstream)
    print_line("image                          dog  patch  used")
    for image, before, after, used in zip(record.names, record.before, record.after, record.accepted, strict=True):
        print_line(f"{image:28s} {before:5.2f}  {after:5.2f}  {'yes' if used else 'no'}")
    print_text(record.summary() + "\n")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
