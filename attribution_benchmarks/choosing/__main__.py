r"""Say which attribution method to use for a model, and whether inputs without ground truth speak against it.

    attribution-benchmarks choose --model=DIR --images=photos/
    attribution-benchmarks choose --model=DIR --images=signals.npy --groups=patients.txt
    attribution-benchmarks choose --model=DIR --images=photos/ --methods=lime,my_file.py:mine
    attribution-benchmarks choose --model=DIR --images=table.csv
    attribution-benchmarks choose --model=DIR --images=tokens.npy --background=0

The method is the best one where the truth is known, for this kind of model and input. It is checked on the inputs: by
the sums of its maps, and by how well they predict what the network does when positions are removed, compared with maps
without the network and with its own maps on shuffled weights and of another class. Others are scored beside it.

Cost: for each input 228 passes, and for each method the passes of four maps, five of the recommended
one (docs/methods.md).
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from absl import flags

from attribution import cli
from attribution.cli import define_loading_flags, load_flagged_model
from attribution.errors import BadInput, print_line, print_text
from attribution.inputs import (
    PREPROCESSINGS,
    explained_inputs,
    find_files,
    read_and_explained,
    reads_tokens,
    table_of,
)
from attribution.methods.registry import resolve_method
from attribution_benchmarks.core.progress import Bars

FLAGS = flags.FlagValues()
define_loading_flags(FLAGS)
flags.DEFINE_list(
    "images", [],
    "images, .npy files of arrays, signals, vectors or tokens, or folders of them, by comma; or a table of all inputs, "
    ".csv or .npz", flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list("methods", [], "further methods by comma, to score beside the recommended one", flag_values=FLAGS)
flags.DEFINE_string(
    "groups", "", "file with the group of each input, one a line, such as its object or patient; inputs of a group do "
    "not count as independent", flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list(
    "target", [], "class to explain: one for all or one per input; the predicted when empty", flag_values=FLAGS
)
flags.DEFINE_enum(
    "preprocessing", None, list(PREPROCESSINGS), "how pixels are scaled; when empty, as attribution.explain does",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_float(
    "background", None, "value of a removed position, as the model takes it; when empty, the input's mean color, and "
    "for vectors each feature's mean over the inputs; of tokens the number of padding, a mask or an unknown word",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("limit", 100, "largest number of inputs, the first ones", lower_bound=1, flag_values=FLAGS)
cli.define_common_flags(FLAGS, batch_size=None, seed=0)


def main(flag_values: flags.FlagValues) -> None:
    """Read the inputs, score, and print the answer."""
    _check_flags(flag_values)
    table = table_of(flag_values.images)
    targets = _targets(flag_values.target)
    model = load_flagged_model(flag_values)
    read, explain_input = _read_and_explained(model, flag_values.explain_input, table)
    found_inputs = explained_inputs(
        model, read, explain_input, table or flag_values.images, limit=flag_values.limit,
        scaling=flag_values.preprocessing or "", note=_note,
    )  # fmt: skip
    groups = pathlib.Path(flag_values.groups).read_text("utf-8").splitlines() if flag_values.groups else None

    from attribution_benchmarks.choosing import scoring  # slow, and invalid inputs do not need it

    with Bars() as bars:
        found = scoring.choose(
            model, found_inputs.feed, targets, flag_values.methods or None, groups=groups,
            background=flag_values.background, explain_input=explain_input or None,
            batch_size=flag_values.batch_size, seed=flag_values.seed, progress=bars, note=_note,
        )  # fmt: skip
    print_text(f"{found}\n")


def _check_flags(flag_values: flags.FlagValues) -> None:
    """Raise ``BadInput`` for what is wrong without the network, which takes long to load."""
    if not flag_values.images:
        raise BadInput("--images is empty; name images, .npy files or a folder of them")
    if flag_values.groups and not pathlib.Path(flag_values.groups).is_file():
        raise BadInput(f"there is no file --groups={flag_values.groups}; give one with a group a line")
    if not table_of(flag_values.images):
        find_files(flag_values.images)
    for method in flag_values.methods:
        resolve_method(method)


def _note(text: str) -> None:
    print_line(f"note: {text}", file=sys.stderr)


def _read_and_explained(model: Any, explain_input: str, table: pathlib.Path | None) -> tuple[str, str]:
    """Return the input that the files are for, and what is explained; empty for tokens, which lie before it."""
    if reads_tokens(model, explain_input):
        return next(iter(model.inputs)), ""
    return read_and_explained(model, explain_input, table, _note)


def _targets(wanted: list[str]) -> list[int] | int | None:
    """Return the classes that ``--target`` names, None for the predicted ones."""
    for entry in wanted:
        if not entry.strip().isdecimal():
            raise BadInput(f"--target={entry} is not a class; give a number")
    found = [int(entry) for entry in wanted]
    return found[0] if len(found) == 1 else found or None


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
