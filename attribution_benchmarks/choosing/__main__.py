r"""Say which attribution method to use for a model, from pictures or arrays without ground truth.

    attribution-benchmarks choose --model=DIR --images=photos/
    attribution-benchmarks choose --model=DIR --images=signals.npy --output_dir=choice
    attribution-benchmarks choose --model=DIR --images=photos/ --methods=lime,my_file.py:mine
    attribution-benchmarks choose --model=DIR --images=table.csv
    attribution-benchmarks choose --model=DIR --images=tokens.npy --background=0

Every method that applies is scored by how well its maps predict what the network does when positions are removed, and
compared with maps without the network and with its own maps on shuffled weights and of another class. The answer is
printed with all scores, and choice/maps.png shows the maps of a few inputs.

Cost: for each input 228 passes, and for each method the passes of four maps (docs/methods.md).
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from absl import flags

from attribution import cli
from attribution.cli import define_loading_flags, load_flagged_model
from attribution.errors import BadInput, print_line, print_text
from attribution.files import check_directory
from attribution.inputs import (
    PREPROCESSINGS,
    check_class_names,
    explained_inputs,
    find_files,
    read_and_explained,
    read_class_names,
    reads_tokens,
    table_of,
    words_of,
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
flags.DEFINE_list("methods", [], "methods by comma; all that apply when empty", flag_values=FLAGS)
flags.DEFINE_list(
    "target", [], "class to explain: one for all or one per input; the predicted when empty", flag_values=FLAGS
)
flags.DEFINE_string("class_names", "", "file with the names of the classes: one a line, or JSON", flag_values=FLAGS)
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
flags.DEFINE_string("output_dir", "choice", "directory of the maps", flag_values=FLAGS)
cli.define_common_flags(FLAGS, tokens="", batch_size=8, seed=0)


def main(flag_values: flags.FlagValues) -> None:
    """Read the inputs, score, and print the answer."""
    _check_flags(flag_values)
    table = table_of(flag_values.images)
    targets = _targets(flag_values.target)
    names = read_class_names(flag_values.class_names) if flag_values.class_names else None
    model = load_flagged_model(flag_values)
    check_class_names(names, flag_values.class_names, model)
    read, explain_input = _read_and_explained(model, flag_values.explain_input, table)
    found_inputs = explained_inputs(
        model, read, explain_input, table or flag_values.images, limit=flag_values.limit,
        scaling=flag_values.preprocessing or "", note=_note,
    )  # fmt: skip
    words = None
    if flag_values.tokens:
        texts = words_of(found_inputs.feed[found_inputs.read], flag_values.tokens)
        words = dict(zip(found_inputs.labels, texts, strict=True))

    from attribution_benchmarks.choosing import scoring  # slow, and invalid inputs do not need it

    directory = pathlib.Path(flag_values.output_dir)
    with Bars() as bars:
        found = scoring.choose(
            model, found_inputs.feed, targets, flag_values.methods or None, names=found_inputs.labels,
            background=flag_values.background, explain_input=explain_input or None,
            feature_names=found_inputs.features, output_dir=directory,
            batch_size=flag_values.batch_size, seed=flag_values.seed, progress=bars,
        )  # fmt: skip
    print_text(f"{found}\n")
    found.draw(directory / "maps.png", found_inputs.preprocessing, words, names)


def _check_flags(flag_values: flags.FlagValues) -> None:
    """Raise ``BadInput`` for what is wrong without the network, which takes long to load."""
    if not flag_values.images:
        raise BadInput("--images is empty; name images, .npy files or a folder of them")
    check_directory("output_dir", flag_values.output_dir)
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
