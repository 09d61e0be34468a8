"""Write docs/methods.md from the registry.

python scripts/document_methods.py

Cost: under 1 CPU second.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import fact_sheets  # noqa: E402
from attribution_benchmarks import command_line  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "methods.md"), "file to write", flag_values=FLAGS)


def main(values):
    """Write the page."""
    pathlib.Path(values.output).write_text(fact_sheets.page())


if __name__ == "__main__":
    command_line.run(main, FLAGS, __doc__)
