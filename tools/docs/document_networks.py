"""Explain every family of the zoo by every method, compare with oracles, and write docs/networks.md.

python tools/docs/document_networks.py

A stopped run resumes: each family's results are stored in a file of the work folder, and are reused while neither the
package's code nor the zoo's changes.

Cost: 16 CPU seconds for a small family such as `residual`.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_list("families", [], "names of families; all by default", flag_values=FLAGS)
flags.DEFINE_string("work_dir", str(ROOT / "data" / "zoo"), "folder of the results", flag_values=FLAGS)
flags.DEFINE_string("output", str(ROOT / "docs" / "networks.md"), "file to write", flag_values=FLAGS)


def main(values):
    """Measure what is missing and write the page of what is there."""
    from tools.model_zoo import page

    results = page.results(values.families, pathlib.Path(values.work_dir))
    pathlib.Path(values.output).write_text(page.page(results), encoding="utf-8")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
