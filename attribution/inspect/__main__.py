"""Run ``python -m attribution.inspect``; see ``attribution.model.inspection``.

This folder has no ``__init__.py``: with one, Python started from within this package would take it for its own
``inspect``.
"""

from attribution import cli
from attribution.model import inspection

if __name__ == "__main__":
    cli.run(inspection.main, inspection.FLAGS, inspection.__doc__)
