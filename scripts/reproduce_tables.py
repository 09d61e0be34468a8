"""Compute every table of the benchmarks, one matrix of all, and a report to read them in.

    python scripts/reproduce_tables.py --output_dir=report
    python scripts/reproduce_tables.py --output_dir=report --quick
    python scripts/reproduce_tables.py --output_dir=report --methods=my_method.py:my_function

The same as the console command attribution-benchmarks.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution_benchmarks.report import reproduce

if __name__ == "__main__":
    reproduce.command()
