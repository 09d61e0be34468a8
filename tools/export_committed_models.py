"""Write every committed model with its explanations to saved_models/served, for a server; what is there is kept.

    python tools/export_committed_models.py

One process for all: most of the time of a single export is TensorFlow's start. ``scripts/serve.sh`` runs it.

Cost: 57 to 75 CPU seconds and 1.2 GB on a fresh clone; nothing for what is there.
"""

import os
import pathlib
import sys

from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line

FLAGS = flags.FlagValues()
flags.DEFINE_string("root", "saved_models", "directory of the models, <benchmark>/<model>/<version>", flag_values=FLAGS)
flags.DEFINE_list(
    "methods",
    ["gradient", "integrated_gradients", "guided_backprop", "grad_cam"],
    "explanations to put into each",
    flag_values=FLAGS,
)
OTHERS = ("served", "exact")  # what is made here, and hand-set networks without a layer that Grad-CAM could take
SCORES = {"svea": "probabilities"}  # what a benchmark explains, where it is not the logit


def main(flag_values: flags.FlagValues) -> None:
    """Export what is not there yet, and name what could not be."""
    root = pathlib.Path(flag_values.root)
    waiting = [
        (directory, root / "served" / f"{directory.parent.name}_{directory.name}")
        for directory in sorted(root.glob("*/*/"))
        if directory.parent.name not in OTHERS and directory.is_dir()
    ]
    if not waiting:
        raise BadInput(f"there is no <benchmark>/<model> in '{root}'")
    failed = []
    for directory, served in waiting:
        if (served / "1" / "saved_model.pb").exists():
            continue
        from attribution.export import command

        print_line(f"exporting {served}", file=sys.stderr)
        left_out: dict[str, str] = {}
        try:
            score = SCORES.get(directory.parent.name, "logits")
            command.export(os.fspath(directory), served, flag_values.methods, score=score, left_out=left_out)
        except BadInput as error:
            failed.append(served.name)
            print_line(f"{served.name}: {error}", file=sys.stderr)
        for reason in left_out.values():
            print_line(f"{served.name}: {reason}", file=sys.stderr)
    if failed:
        raise BadInput(f"{len(failed)} of {len(waiting)} models could not be exported: {', '.join(failed)}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
