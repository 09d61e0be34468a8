"""Compare the tables of ``scripts/reproduce_tables.py --quick`` with the golden values of version 0.2.0.

    python scripts/reproduce_tables.py --quick --output_dir=quick
    python tools/golden.py quick                     # lists values that differ by more than 1e-9; exit code 1 if any do
    python tools/golden.py quick --tables svea bim   # compares only these tables
    python tools/golden.py quick --reference=other   # compares with another report instead
    python tools/golden.py quick --write             # replaces the golden values, after an intended correction;
                                                     # with --tables those of these tables only

A refactoring must not change a number. The golden values are every ``value`` of every table, without its interval.
Most were computed on a processor with AVX-512, where TensorFlow uses oneDNN by default; others round differently (by up
to 1.3e-4 of a value). There, compare with a report of the previous version, computed on the same machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import pathlib
import sys

GOLDEN = pathlib.Path(__file__).parent / "golden_quick.json.gz"
TOLERANCE = 1e-9  # relative to the larger of 1 and the value
_IDENTITY = (  # fields that identify a row of a table
    "method", "metric", "control", "questions", "subset", "ground_truth", "pooling", "scene_model", "model", "layer",
    "concept", "target",
)  # fmt: skip


def table_values(report: pathlib.Path) -> dict[str, float]:
    """Return the value of each row of a report's tables by its key, ``"table method=... metric=..."``."""
    found = {}
    for path in sorted((report / "tables").glob("*.json")):
        if path.stem in ("matrix", "agreement"):  # derived from the other tables
            continue
        for row in json.loads(path.read_text())["rows"]:
            if row["value"] is None:
                continue
            key = " ".join([path.stem, *(f"{name}={row[name]}" for name in _IDENTITY if name in row)])
            if key in found:
                raise ValueError(f"two rows of {path} are {key!r}; add to _IDENTITY what distinguishes them")
            found[key] = row["value"]
    return found


def differences(golden: dict[str, float], values: dict[str, float]) -> list[str]:
    """Return one line for each value that is missing, new, or off by more than ``TOLERANCE``."""
    lines = [f"missing: {key}" for key in golden if key not in values]
    lines += [f"new: {key} = {values[key]}" for key in values if key not in golden]
    for key in golden.keys() & values.keys():
        if not math.isclose(golden[key], values[key], rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            lines.append(f"changed: {key}: {golden[key]} -> {values[key]}")
    return sorted(lines)


def main() -> int:
    """Compare or replace; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="output directory of a quick report")
    parser.add_argument("--write", action="store_true", help="replace the golden values")
    parser.add_argument("--reference", type=pathlib.Path, help="report to compare with, instead of the golden values")
    parser.add_argument("--tables", nargs="+", default=[], help="tables to compare; all by default")
    arguments = parser.parse_args()
    values = table_values(arguments.report)
    if not values:
        parser.error(f"no tables in {arguments.report}/tables")
    golden = json.loads(gzip.decompress(GOLDEN.read_bytes()))

    def chosen(found: dict[str, float]) -> dict[str, float]:
        return {key: found[key] for key in found if not arguments.tables or key.split()[0] in arguments.tables}

    if arguments.write:
        written = {key: golden[key] for key in golden.keys() - chosen(golden).keys()} | chosen(values)
        GOLDEN.write_bytes(gzip.compress(json.dumps(written, indent=0, sort_keys=True).encode(), mtime=0))
        print(f"{len(written)} golden values written")
        return 0
    reference = table_values(arguments.reference) if arguments.reference else golden
    reference, values = chosen(reference), chosen(values)
    lines = differences(reference, values)
    print("\n".join([*lines, f"{len(values)} values compared, {len(lines)} differ"]))
    return 1 if lines or not values else 0


if __name__ == "__main__":
    sys.exit(main())
