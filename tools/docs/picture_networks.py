"""Explain networks from the command line, one picture each, and write docs/network_pictures.md.

python tools/docs/picture_networks.py

A stopped run goes on where it stood: what is drawn is kept in the work folder; remove a file there to draw it again.

Cost: --seconds of training, 60 by default, for each network that is trained, and 19 CPU seconds for a picture of one
like EfficientNetB0.
"""

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_list("networks", [], "names of networks; all by default", flag_values=FLAGS)
flags.DEFINE_string("work_dir", str(ROOT / "data" / "pictures"), "folder of what is drawn", flag_values=FLAGS)
flags.DEFINE_string("output_dir", str(ROOT / "docs"), "where the page and its pictures go", flag_values=FLAGS)
flags.DEFINE_float("seconds", 60.0, "of training, for the networks that are trained", flag_values=FLAGS)


def main(values):
    """Draw what is missing and write the page of what is there."""
    from tools.model_zoo import pictures

    work, output = pathlib.Path(values.work_dir), pathlib.Path(values.output_dir)
    pictures.make(values.networks or pictures.NETWORKS, work, lambda name: print(name, file=sys.stderr), values.seconds)
    text, names = pictures.page(work)
    shown = output / "pictures" / "networks"
    shown.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(work / f"{name}.png", shown / f"{name}.png")
    (output / "network_pictures.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
