"""Write docs/methods.md from the registry.

python tools/docs/document_methods.py

Cost: under 1 CPU second.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.methods import method_cards  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "methods.md"), "file to write", flag_values=FLAGS)


def main(values):
    """Write the page."""
    pathlib.Path(values.output).write_text(method_cards.page())


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
