r"""Say which attribution method to use for a model, from pictures or arrays without ground truth.

    attribution-benchmarks choose --model=DIR --images=photos/
    attribution-benchmarks choose --model=DIR --images=signals.npy --output_dir=choice
    attribution-benchmarks choose --model=DIR --images=photos/ --masks=masks/ --methods=lime,my_file.py:mine
    attribution-benchmarks choose --model=DIR --images=table.csv
    attribution-benchmarks choose --model=DIR --images=tokens.npy --background=0

Every method that applies is scored by how well its maps predict what the network does when positions are removed, and
compared with maps without the network and with its own maps on shuffled weights and of another class. The run goes in
rounds of more and more inputs and writes choice/index.html after each. Ctrl-C stops it and prints what is known.

Cost: for each input 228 passes, and for each method the passes of four maps (docs/methods.md) and up to two more to
check their sum. The first page of a network of SVEA takes 14 CPU seconds.
"""

from __future__ import annotations

import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from attribution import cli
from attribution.cli import define_loading_flags, load_flagged_model
from attribution.errors import BadInput, print_line
from attribution.files import check_directory
from attribution.inputs import (
    PREPROCESSINGS,
    ExplainedInputs,
    check_class_names,
    explained_inputs,
    find_files,
    read_and_explained,
    read_class_names,
    read_pictures,
    reads_tokens,
    table_of,
    words_of,
)
from attribution.methods.registry import resolve_method
from attribution.reading import read_array
from attribution_benchmarks.core.progress import Bars

FLAGS = flags.FlagValues()
define_loading_flags(FLAGS)
flags.DEFINE_list(
    "images", [],
    "images, .npy files of arrays, signals, vectors or tokens, or folders of them, by comma; or a table of all inputs, "
    ".csv or .npz", flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list(
    "masks", [], "images that are bright where a map should be, in the order of --images, or one .npy file of them",
    flag_values=FLAGS,
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
flags.DEFINE_string("output_dir", "choice", "directory of the page and the maps", flag_values=FLAGS)
cli.define_common_flags(FLAGS, tokens="", batch_size=8, seed=0)


def main(flag_values: flags.FlagValues) -> None:
    """Read the inputs, score, and write the page after each round."""
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
    labels = found_inputs.labels
    masks = _masks(flag_values, found_inputs)
    words = _words(flag_values.tokens, found_inputs)

    from attribution_benchmarks.choosing import page, scoring  # slow, and invalid inputs need neither

    directory = pathlib.Path(flag_values.output_dir)

    def write(found: Any) -> None:
        to_come = _to_come(found, len(labels))
        if not to_come:
            commands.extend(_commands(flag_values, found, directory))
        page.write(found, directory, to_come, found_inputs.preprocessing, words, names, commands)
        if to_come:
            methods = len(found.verdict.standings)
            of_all = f" and {methods} of {methods + len(found.missing)} methods" if found.missing else ""
            _note(f"{directory / 'index.html'} has {len(found.names)} of {len(labels)} inputs{of_all}")

    last, commands = None, []
    try:
        with Bars() as bars:
            for found in scoring.rounds(
                model, found_inputs.feed, targets, masks, flag_values.methods or None, names=labels,
                background=flag_values.background, explain_input=explain_input or None,
                feature_names=found_inputs.features, output_dir=directory,
                batch_size=flag_values.batch_size, seed=flag_values.seed, progress=bars,
            ):  # fmt: skip
                last = found
                write(found)
    except BaseException as error:  # native code can turn an interrupt into another exception
        page.stop(directory)
        if isinstance(error, KeyboardInterrupt):
            _note(page.STOPPED)
        raise
    finally:
        _print_answer(last, directory, commands)


_OTHERS = ("model", "images", "masks", "methods", "target", "background", "limit", "output_dir")  # written otherwise


def _commands(flag_values: flags.FlagValues, found: Any, directory: pathlib.Path) -> list[str]:
    """Return what computes the map of the first input by the method that the answer names: a command, and Python."""
    from attribution_benchmarks.choosing import page

    if not found.taken:
        return []
    arguments = [
        f"--model={flag_values.model}",
        f"--image={','.join(flag_values.images)}",
        "--limit=1",
        f"--methods={found.taken}",
    ]
    if parameter := found.started.get(found.taken):
        arguments.append(f"--parameters={parameter}={directory / page.BASELINE}")
    arguments += [f"--target={found.targets[0]}"] * bool(flag_values.target)
    for name in flag_values:
        if name not in _OTHERS and flag_values[name].present:
            arguments.append(flag_values[name].serialize())
    given = "".join(f", {name}={value!r}" for name, value in cli.loading_options(flag_values).items())
    line = page.in_python(found, f"attribution.load_model({flag_values.model!r}{given})", directory)
    return [shlex.join(["attribution-benchmarks", "explain", *arguments, "--maps=map.npz"]), *filter(None, [line])]


def _print_answer(found: Any, directory: pathlib.Path, commands: Sequence[str]) -> None:
    """Print what is known after the last round, if there was one."""
    if found is not None:
        for text in [*found.answer(), *found.start(), *commands]:
            print_line(text)
        print_line(f"open {directory / 'index.html'}", file=sys.stderr)


def _check_flags(flag_values: flags.FlagValues) -> None:
    """Raise ``BadInput`` for what is wrong without the network, which takes long to load."""
    if not flag_values.images:
        raise BadInput("--images is empty; name images, .npy files or a folder of them")
    check_directory("output_dir", flag_values.output_dir)
    images = [] if table_of(flag_values.images) else flag_values.images
    if files := [*images, *flag_values.masks]:
        find_files(files)
    for method in flag_values.methods:
        resolve_method(method)


def _words(tokens: str, inputs: ExplainedInputs) -> dict[str, np.ndarray] | None:
    """Return the words of each input by its name; None without ``--tokens``."""
    return dict(zip(inputs.labels, words_of(inputs.feed[inputs.read], tokens), strict=True)) if tokens else None


def _note(text: str) -> None:
    print_line(f"note: {text}", file=sys.stderr)


def _to_come(found, total: int) -> str:
    """Return what later rounds add, in words; empty at the end."""
    if len(found.names) == total and not found.missing:
        return ""
    more = f" and {len(found.missing)} more methods" if found.missing else ""
    return f"{len(found.names)} of {total} inputs are scored; more inputs{more} follow."


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


def _masks(flag_values: flags.FlagValues, inputs: ExplainedInputs) -> np.ndarray | None:
    """Return the masks, (N, positions...) bool; None without ``--masks``."""
    if not flag_values.masks:
        return None
    shape = inputs.shown.get(inputs.read, inputs.feed[inputs.read]).shape  # of pictures, with channels last
    files = find_files(flag_values.masks)
    if files[0].suffix == ".npy":
        found = np.concatenate([np.atleast_1d(read_array(file)) for file in files]) > 0
    else:
        found = read_pictures(files, [*shape[1:-1], 1])[..., 0] > 127
    if len(found) < shape[0]:
        raise BadInput(f"--masks has {len(found)} masks for {shape[0]} inputs")
    return found[: shape[0]]


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
