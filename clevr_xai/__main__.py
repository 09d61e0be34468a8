"""Run CLEVR-XAI's command: python -m clevr_xai, or python clevr_xai/ in a checkout."""

from __future__ import annotations

import pathlib
import sys

if not __package__:  # of a folder that is run, Python knows no package
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from attribution import cli
from clevr_xai import evaluate

if __name__ == "__main__":
    cli.run(evaluate.main, evaluate.FLAGS, evaluate.__doc__ or "")
