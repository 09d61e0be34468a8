#!/usr/bin/env bash
# Apache Beam: counting merges 1, 1.0 and True, grouping keeps them apart.
#
# Guess: keys are compared by their encoded bytes, so that 1, 1.0 and True are three keys, for counting and distinct
# elements as for grouping. Written before the run, as was: a NumPy integer is a key like any other. Seen with apache-
# beam 2.77.0 on its FnApiRunner: `GroupByKey` gives three groups; `Count.PerElement` gives (1, 3) and `Distinct` one
# element, since a bundle is counted first in a dictionary of Python, in which the three are equal. -0.0 and 0.0 are two
# groups, all NaN are one, dictionaries in another order are one, and numpy.int64(1) is a TypeError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet apache-beam==2.77.0
"$folder/venv/bin/python" - <<'PYTHON'
import logging
import tempfile

import apache_beam as beam

logging.disable(logging.CRITICAL)


def run(elements, transform):
    """Return what a pipeline of one transform gives, in words."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/seen"

        def write(element):
            with open(path, "a") as out:
                out.write(f"{element!r}\n")

        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            pipeline | beam.Create(elements) | transform | beam.Map(write)
        return open(path).read().splitlines()


print("apache-beam", beam.__version__)
keys = [1, 1.0, True]
counts, distinct = run(keys, beam.combiners.Count.PerElement()), run(keys, beam.Distinct())
print("counts:", counts, "distinct:", distinct)
assert counts == ["(1, 3)"] and distinct == ["1"]
groups = {
    str(pair): run([(key, 0) for key in pair], beam.GroupByKey())
    for pair in (keys, [0.0, -0.0], [float("nan"), float("nan")], [{"a": 1, "b": 2}, {"b": 2, "a": 1}])
}
print("groups:", groups)
assert [len(group) for group in groups.values()] == [3, 2, 1, 1]
PYTHON
