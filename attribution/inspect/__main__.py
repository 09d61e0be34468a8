"""The door of ``python -m attribution.inspect``; see ``attribution.inspection``.

This folder has no ``__init__.py``: with one, Python started from within this package would take it for its own
``inspect``.
"""

from attribution import inspection
from attribution_benchmarks import command_line

if __name__ == "__main__":
    command_line.run(inspection.main, inspection.FLAGS, inspection.__doc__)
