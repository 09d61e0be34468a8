"""Run BIM's command: python -m bim, or python bim/ in a checkout."""

from __future__ import annotations

import pathlib
import sys

if not __package__:  # of a folder that is run, Python knows no package
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from attribution import cli
from bim import metrics

if __name__ == "__main__":
    cli.run(metrics.main, metrics.FLAGS, metrics.__doc__ or "")
