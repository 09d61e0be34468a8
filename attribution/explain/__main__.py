r"""Explain images, signals, vectors or tokens of a SavedModel by several methods, and plot the maps.

    python -m attribution.explain --model=DIR --image=photo.jpg --output=maps.png
    python -m attribution.explain --model=DIR --image=photos/ --methods=grad_cam,integrated_gradients \
        --parameters=points=300 --preprocessing=-1..1 --class_names=names.txt --target=tench --maps=maps.npz
    python -m attribution.explain --model=DIR --image=table.csv --explain_input=age,income

A table holds all inputs of a model with several: a .csv file with their names in its first line, or a .npz file of
arrays. Of a model with one vector, a .csv file holds exactly its features, in order, without a label.
`--explain_input=` names those to explain together, by comma, or `all` of floating point, which is the default
for a table. Of several, those of numbers and vectors are drawn as bars in one figure; --maps has the maps of all.

The figure has a row for each input and a column for each method, each panel with its color scale. Standard output has
the highest predictions. Of several methods, those that cannot explain the model are skipped with a note that says why;
the exit code is 2 if none is left. For each method whose maps have a known sum, such as f(x) - f(baseline), it has the
relative difference; above 5 % a warning names the cause. `python -m attribution.inspect --model=DIR`
lists the methods that apply to a file, why the others do not, and its layers.

Cost: an image of 224 pixels and the three default methods take 19 CPU seconds and 1.5 GB under EfficientNetB0, 23 and
1.3 GB under a ViT-Ti/16, most of it TensorFlow's start and the compilation; docs/methods.md gives the passes that each
method makes for an input.
"""

from __future__ import annotations

import functools
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from attribution import cli, plotting
from attribution.batching import checked_targets
from attribution.cli import define_loading_flags, load_flagged_model
from attribution.errors import BadInput, print_line, printable
from attribution.explain import BrokenContract, explain_many
from attribution.files import atomic_write, check_file
from attribution.inputs import (
    PREPROCESSINGS,
    ExplainedInputs,
    check_class_names,
    explained_inputs,
    find_files,
    preprocessing_named,
    read_and_explained,
    read_class_names,
    table_of,
)
from attribution.methods.registry import ARRAYS, METHODS, Method, Residuals, with_parameters

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.model import Model

_DEFAULT = ("integrated_gradients", "guided_backprop", "grad_cam")

_SCORES = {"logits": "logit", "probabilities": "probability", "output": "output"}
_Chosen = dict[str, tuple[Method, dict[str, Any]]]

FLAGS = flags.FlagValues()
define_loading_flags(FLAGS)
flags.DEFINE_list(
    "image",
    [],
    "images, .npy files of arrays or signals, or folders of them, by comma; or a table of all inputs, .csv or .npz",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "methods",
    [],
    f"methods by comma: names, METHOD@LIBRARY, module:function or file.py:function; those of {','.join(_DEFAULT)} that "
    "the model allows when empty",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "preprocessing",
    "",
    f"how pixels are scaled for the model: {'; '.join(f'{one.name} ({one.about})' for one in PREPROCESSINGS.values())}."
    " When empty, 0..255 for a file that scales by itself and 0..1 for others. Arrays are not changed",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "target",
    [],
    "class to explain, by number or name: one for all or one per input; the predicted when empty",
    flag_values=FLAGS,
)
flags.DEFINE_string("class_names", "", "file with the names of the classes: one a line, or JSON", flag_values=FLAGS)
flags.DEFINE_integer("top", 5, "how many predictions to print for each input", lower_bound=0, flag_values=FLAGS)
flags.DEFINE_integer(
    "limit", 16, "largest number of inputs that are explained, the first ones", lower_bound=1, flag_values=FLAGS
)
flags.DEFINE_string("output", "maps.png", "figure to write: .png, .pdf, .svg or .jpg by suffix", flag_values=FLAGS)
flags.DEFINE_string(
    "maps",
    "",
    "file .npz to write the maps to, by method, with inputs, targets and, as METHOD.residual, the sum of each map "
    "minus its expected value; of several inputs METHOD/INPUT and inputs/INPUT",
    flag_values=FLAGS,
)
cli.define_common_flags(FLAGS, parameters=[], layer="", batch_size=None, seed=0)


def main(flag_values: flags.FlagValues) -> None:
    """Check the flags, then explain."""
    if not flag_values.image:
        raise BadInput("--image is empty; name an image, a .npy file, a folder of them, or a table (.csv, .npz)")
    if not flag_values.output:
        raise BadInput("--output is empty; name a picture, as in --output=maps.png")
    check_file("output", flag_values.output, (".png", ".pdf", ".svg", ".jpg"))
    if flag_values.maps:
        check_file("maps", flag_values.maps, (".npz",))
    methods = cli.with_flags(with_parameters(flag_values.methods or _DEFAULT), flag_values)
    table, written = table_of(flag_values.image), pathlib.Path(flag_values.output).resolve()
    # A folder may have the figure of an earlier run.
    files = [] if table else [path for path in find_files(flag_values.image) if path.resolve() != written]
    if flag_values.preprocessing:
        preprocessing_named(flag_values.preprocessing)
    names = read_class_names(flag_values.class_names) if flag_values.class_names else None
    classes = _classes(flag_values.target, names)
    model = load_flagged_model(flag_values)
    read, explain_input = read_and_explained(model, flag_values.explain_input, table, _note)
    check_class_names(names, flag_values.class_names, model)
    if not model.together(explain_input):
        for method, parameters in methods.values():
            if method.name in METHODS and not method.library and parameters.get("layer"):
                model.layer(parameters["layer"], explain_input)
    inputs = explained_inputs(
        model, read, explain_input, table or files, limit=flag_values.limit,
        scaling=flag_values.preprocessing, note=_note,
    )  # fmt: skip
    _explain(flag_values, methods, model, inputs, names, classes)


def _explain(
    flag_values: flags.FlagValues,
    methods: _Chosen,
    model: Model,
    inputs: ExplainedInputs,
    names: Sequence[str] | None,
    classes: Sequence[int],
) -> None:
    """Print predictions, write the figures and, on request, the maps."""
    together = model.together(inputs.explain_input)
    shown = inputs.feed | inputs.shown
    drawn = {name: shown[name] for name in together or [inputs.read] if name in shown}
    axes = range(1, 3) if together else plotting.PLOTTED_AXES
    drawn = {name: array for name, array in drawn.items() if array.ndim in axes}
    if not drawn and not flag_values.maps:
        raise BadInput("the inputs' shape cannot be plotted; name a file for the values, --maps=maps.npz")
    targets = _targets(classes, len(inputs.labels), model.num_classes)
    scores = model.scores(inputs.feed, flag_values.batch_size)
    if targets is None:
        targets = np.asarray(np.argmax(scores, axis=1), np.int32)
    for label, row in zip(inputs.labels, scores, strict=True) if flag_values.top else ():
        best = np.argsort(-row, kind="stable")[: flag_values.top]
        predicted = ", ".join(f"{_class(names, number)}: {row[number]:.4g}" for number in best)
        print_line(f"{label}: {predicted} ({model.score})")
    methods, maps, residuals = _explained(flag_values, methods, model, inputs, targets)
    _print_residuals(residuals, methods)
    _note_zero_maps(maps, len(targets))
    if flag_values.maps:
        arrays: dict[str, Any] = {"targets": targets, **_arrays_by_name(inputs, maps, residuals, together)}
        atomic_write(flag_values.maps, lambda stream: np.savez_compressed(stream, **arrays))
    titles = [
        f"{printable(label)}\n{printable(_class(names, target))}, {_SCORES[model.score]} {row[target]:.3g}"
        for label, target, row in zip(inputs.labels, targets, scores, strict=True)
    ]
    given = inputs.feed[inputs.read]
    if not together and model.has_channels_first(inputs.read):
        maps = {label: np.moveaxis(one, 1, -1) if one.shape == given.shape else one for label, one in maps.items()}
        if shown[inputs.read].shape == given.shape:  # pixels have them last already
            shown[inputs.read] = np.moveaxis(given, 1, -1)
    if drawn and not together:
        maps = _drawable(maps, shown[inputs.read].shape, flag_values.maps)
        if not maps:
            drawn = {}
    if drawn:
        figure = plotting.plot(
            maps, drawn if together else shown[inputs.read], titles=titles,
            preprocessing=inputs.preprocessing, feature_names=inputs.features,
        )  # fmt: skip
        suffix = pathlib.Path(flag_values.output).suffix[1:].lower()
        atomic_write(flag_values.output, functools.partial(figure.savefig, format=suffix))
    written = [*[flag_values.output] * bool(drawn), *[flag_values.maps] * bool(flag_values.maps)]
    print_line(f"written to {' and '.join(written)}")


def _explained(
    flag_values: flags.FlagValues, methods: _Chosen, model: Model, inputs: ExplainedInputs, targets: np.ndarray
) -> tuple[_Chosen, dict[str, Any], dict[str, Residuals]]:
    """Return the methods that apply to the model, their maps and their residuals."""
    if not flag_values.methods:
        if model.together(inputs.explain_input):  # no note: without --methods, nobody chose these
            methods = {label: chosen for label, chosen in methods.items() if not chosen[0].needs_positions}
        methods = _applicable(methods, model, inputs, cli.inspect_hint(flag_values.model))
    explain = functools.partial(
        explain_many, model=model, inputs=inputs.feed, targets=targets, explain_input=inputs.explain_input,
        batch_size=flag_values.batch_size, seed=flag_values.seed, keys=inputs.labels, return_residuals=True,
    )  # fmt: skip
    try:
        return methods, *explain(methods)
    except BrokenContract:
        raise
    except BadInput:
        kept = _applicable(methods, model, inputs, cli.inspect_hint(flag_values.model))
        if len(kept) == len(methods):  # an input or a parameter is wrong
            raise
        _note(cli.inspect_hint(flag_values.model))
        return kept, *explain(kept)


def _applicable(methods: _Chosen, model: Model, inputs: ExplainedInputs, hint: str) -> _Chosen:
    """Return the methods that apply to the model, and print why others are skipped; ``hint`` ends an error."""
    from attribution.trial import try_method  # it loads more, and few runs need it

    refused = {}
    for label, (method, _) in methods.items():
        trial = try_method(method, model, None, inputs.explain_input)
        if not trial.applies:
            refused[label] = trial.reason
    if len(refused) == len(methods):
        raise BadInput(f"{'; '.join(f'{label}: {reason}' for label, reason in refused.items())}; {hint}")
    for label, reason in refused.items():
        _note(f"'{label}' is skipped: {reason}")
    return {label: chosen for label, chosen in methods.items() if label not in refused}


def _arrays_by_name(
    inputs: ExplainedInputs, maps: Mapping[str, Any], residuals: Mapping[str, Residuals], together: Sequence[str]
) -> dict[str, Any]:
    """Return the explained inputs, their maps and the residuals, by their names in the file of ``--maps``."""
    differences = {f"{label}.residual": residual.absolute for label, residual in residuals.items()}
    if not together:
        return {"inputs": inputs.feed[inputs.read], **maps, **differences}
    explained = {f"inputs/{name}": inputs.feed[name] for name in together if name in inputs.feed}
    by_input = {f"{label}/{name}": array for label, found in maps.items() for name, array in found.items()}
    return explained | by_input | differences


def _drawable(maps: Mapping[str, Any], shape: tuple[int, ...], file: str) -> dict[str, Any]:
    """Return the maps that lie on the positions of inputs of a shape, and note which do not."""
    kept = {label: found for label, found in maps.items() if plotting.belong(found.shape, shape)}
    for label in (one for one in maps if one not in kept):
        text = f"'{label}' has maps on axes that the network makes, which are not plotted"
        if not kept and not file:
            raise BadInput(f"{text}; name a file for the values, --maps=maps.npz")
        _note(text)
    return kept


def _note(text: str) -> None:
    """Print on standard error what was chosen for the user."""
    print_line(f"note: {text}", file=sys.stderr)


def _classes(wanted: Sequence[str], names: Sequence[str] | None) -> list[int]:
    """Return the numbers of the classes that ``--target`` names."""
    found = []
    for entry in wanted:
        entry = entry.strip()
        if names and entry in names:
            found.append(names.index(entry))
        elif entry.isdecimal():
            found.append(int(entry))
            if names and found[-1] >= len(names):
                raise BadInput(f"--target={entry} is outside the classes 0 to {len(names) - 1} of --class_names")
        else:
            raise BadInput(f"--target={entry} is not a class; give a number, or a name in the file of --class_names")
    return found


def _targets(classes: Sequence[int], total: int, num_classes: int) -> np.ndarray | None:
    """Return the class to explain of each input, int32; None for the predicted ones."""
    if not classes:
        return None
    if len(classes) not in (1, total):
        raise BadInput(f"--target has {len(classes)} classes for {total} inputs; give one, or one for each")
    return checked_targets(classes[0] if len(classes) == 1 else classes, total, num_classes)


def _class(names: Sequence[str] | None, number: int) -> str:
    return names[number] if names else f"class {number}"


def _print_residuals(residuals: Mapping[str, Residuals], methods: _Chosen) -> None:
    """Print the relative difference of maps' sums from their expected values; warn where it is large."""
    for label, residual in residuals.items():
        method, parameters = methods[label]
        law, shares = method.law(parameters), residual.relative[np.isfinite(residual.relative)]
        if law is None or not len(shares):
            continue
        several = f" (median of {len(shares)} inputs; largest: {_percent(shares.max())})" if len(shares) > 1 else ""
        starts = {name: parameters[name] for name in ARRAYS if name in parameters}
        start = "".join(f" with {name}={one if np.ndim(one) == 0 else 'an array'}" for name, one in starts.items())
        missed = f"the sum of the map misses {law.formula} by {_percent(np.median(shares))}"
        print_line(f"{label}{start}: {missed}{several}")
        if warning := residual.warning(label, law):
            print_line("warning: " + re.sub(r" by (?=\w+=)", " by --parameters=", warning), file=sys.stderr)


def _note_zero_maps(maps: Mapping[str, Any], total: int) -> None:
    for label, found in maps.items():
        arrays = list(found.values()) if isinstance(found, Mapping) else [found]
        zero = sum(not any(np.any(array[row]) for array in arrays) for row in range(total))
        if zero:
            _note(f"'{label}' is zero everywhere" + f" on {zero} of {total} inputs" * (total > 1))


def _percent(share: float) -> str:
    if share < 1e-4:
        return "less than 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
