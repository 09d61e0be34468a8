r"""See maps of a SavedModel: explain pictures, arrays or signals, and draw what several methods point at.

    python -m attribution.explain --model=DIR --image=photo.jpg --output=maps.png
    python -m attribution.explain --model=DIR --image=photos/ --method=grad_cam,integrated_gradients \
        --preprocessing=-1..1 --class_names=names.txt --target=tench --maps=maps.npz
    python -m attribution.explain --model=DIR --list_layers

Pictures of 16 bits, and grey floating-point TIFF in [0, 1], are scaled to the range of 8-bit pictures.

The picture has a row for each input and a column for each method, each panel with its colour scale. Standard output has
the highest predictions and, of each method whose maps must add up to something, such as f(x) - f(baseline), by how much
they miss it; above 5 % a warning names the cause. `--list_methods` lists the methods; `python -m attribution.inspect
--model=DIR` says which of them a file allows, and why not the others.

Cost: an image of 224 pixels and the three default methods take 19 CPU seconds and 1.5 GB under EfficientNetB0, 23 and
1.3 GB under a ViT-Ti/16, most of it TensorFlow's start and the compilation; docs/methods.md gives the passes that each
method makes for an input.
"""

from __future__ import annotations

import io
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from attribution import cli, image_io, plotting
from attribution.cli.flags import define_loading_flags, load_flagged_model
from attribution.errors import BadInput, listed, print_line, printable
from attribution.explain import explain_many, with_parameters
from attribution.file_io.files import atomic_write
from attribution.file_io.paths import check_file
from attribution.methods.registry import METHODS
from attribution.model.input_validation import checked_targets
from attribution.preprocessing import PREPROCESSINGS, likely_preprocessing, preprocessing_named

MUCH = 0.05  # share of its sum by which a map may miss it without a warning
DEFAULT = ("integrated_gradients", "guided_backprop", "grad_cam")

FLAGS = flags.FlagValues()
define_loading_flags(FLAGS)
flags.DEFINE_list(
    "image", [], "pictures, .npy files of arrays or signals, or folders of them, by comma", flag_values=FLAGS
)
flags.DEFINE_alias("images", "image", flag_values=FLAGS)
flags.DEFINE_list(
    "method",
    [],
    f"methods by comma: names, module:function or file.py:function; those of {','.join(DEFAULT)} that the model "
    "allows when empty",
    flag_values=FLAGS,
)
flags.DEFINE_alias("methods", "method", flag_values=FLAGS)
flags.DEFINE_string(
    "preprocessing",
    "",
    f"what the model takes for pixels: {'; '.join(f'{way.name} ({way.about})' for way in PREPROCESSINGS.values())}. "
    "When empty, 0..255 for a file that scales by itself and 0..1 for others. Arrays are taken as they are",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "fit", "crop", image_io.FITS, "cut the middle out of a picture of another shape, or squash it", flag_values=FLAGS
)
flags.DEFINE_list(
    "other_inputs", [], "of a model with several inputs: NAME=FILE.npy for each of the others", flag_values=FLAGS
)
flags.DEFINE_list(
    "target",
    [],
    "class to explain, by number or name: one for all or one per input; the predicted when empty",
    flag_values=FLAGS,
)
flags.DEFINE_string("class_names", "", "file with the names of the classes: one a line, or JSON", flag_values=FLAGS)
flags.DEFINE_string(
    "layer", "", "layer of the class activation maps, see --list_layers; a late one when empty", flag_values=FLAGS
)
flags.DEFINE_integer("top", 5, "how many predictions to print for each input", lower_bound=0, flag_values=FLAGS)
flags.DEFINE_integer("limit", 16, "how many inputs to take from folders at most", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("output", "maps.png", "picture to draw: .png, .pdf, .svg or .jpg by suffix", flag_values=FLAGS)
flags.DEFINE_string(
    "maps",
    "",
    "file .npz to write the maps to, by method, with inputs, targets and, as METHOD.residual, what the sum of a map is "
    "minus what it must be",
    flag_values=FLAGS,
)
flags.DEFINE_boolean("overlay", True, "lay maps over the picture in grey", flag_values=FLAGS)
flags.DEFINE_enum(
    "channels", "sum", list(plotting.REDUCTIONS), "what is drawn of a map with channels", flag_values=FLAGS
)
flags.DEFINE_float(
    "percentile", 99.5, "of a map's absolute values at which the colours end; 100 clips nothing", flag_values=FLAGS
)
flags.DEFINE_enum(
    "scale", "map", plotting.SCALES, "a colour scale for each map, or one for all of a method", flag_values=FLAGS
)
cli.define_common_flags(FLAGS, batch_size=8, seed=0)
flags.DEFINE_boolean("list_methods", False, "list the methods and stop", flag_values=FLAGS)
flags.DEFINE_boolean("list_layers", False, "list the layers that maps can stand on and stop", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Explain, print predictions, draw."""
    if flag_values.list_methods:
        width = max(map(len, METHODS))
        for name, method in METHODS.items():
            print_line(f"{name.ljust(width)}  {method.title}; {method.card.cost}")
        return
    if not flag_values.list_layers and not flag_values.image:
        raise BadInput("--image is empty; name a picture, a .npy file or a folder of them")
    suffix = _suffix("output", flag_values.output, (".png", ".pdf", ".svg", ".jpg"))
    if flag_values.maps:
        _suffix("maps", flag_values.maps, (".npz",))
    methods = _with_layer(with_parameters(flag_values.method or DEFAULT), flag_values.layer)
    model = load_flagged_model(flag_values)
    explain_input = model.explained_input(flag_values.explain_input or None)
    if flag_values.list_layers:
        default = model.layer(None, explain_input) if model.layers(explain_input) else None
        for name in model.layers(explain_input):
            shape = model.graph.shape(name).as_list()[1:]
            print_line(
                f"{name}  ({', '.join('any' if s is None else str(s) for s in shape)}){'  default' * (name == default)}"
            )
        return
    names = image_io.read_class_names(flag_values.class_names) if flag_values.class_names else None
    if names and len(names) != model.num_classes:
        raise BadInput(f"'{flag_values.class_names}' has {len(names)} names, the model {model.num_classes} classes")
    files, inputs, seen, way = _read(flag_values, model, explain_input)
    feed = (
        inputs
        if len(model.inputs) == 1
        else {explain_input: inputs} | _others(flag_values, model, explain_input, len(inputs))
    )
    scores = model.scores(feed, flag_values.batch_size)
    targets = _targets(flag_values.target, names, scores)
    _print_predictions(files, scores, names, flag_values.top, model.score)
    chosen = methods if flag_values.method else _applicable(methods, model, feed, targets, explain_input)
    maps, residuals = explain_many(
        chosen,
        model,
        feed,
        targets,
        explain_input=explain_input,
        batch_size=flag_values.batch_size,
        seed=flag_values.seed,
        keys=[str(label) for label in files],
        return_residuals=True,
    )
    for label, residual in residuals.items():
        _print_residual(label, residual.relative, chosen[label][0].sum_law)
    titles = [
        f"{printable(label)}\n{printable(_class(names, target))}, {_kind(model.score)} {scores[row, target]:.3g}"
        for row, (label, target) in enumerate(zip(files, targets, strict=True))
    ]
    figure = plotting.plot(
        maps, seen, titles=titles, preprocessing=way, overlay=flag_values.overlay, channels=flag_values.channels,
        percentile=flag_values.percentile, scale=flag_values.scale,
    )  # fmt: skip
    _write(flag_values.output, lambda stream: figure.savefig(stream, format=suffix.lstrip(".")))
    if flag_values.maps:
        arrays: dict[str, Any] = {"inputs": inputs, "targets": targets, **maps}
        arrays |= {f"{label}.residual": residual.absolute for label, residual in residuals.items()}
        _write(flag_values.maps, lambda stream: np.savez_compressed(stream, **arrays))
    print_line(f"written to {flag_values.output}" + (f" and {flag_values.maps}" if flag_values.maps else ""))


def _suffix(flag: str, path: str, allowed: Sequence[str]) -> str:
    """Return the suffix of a file to write, in lower case; refuse a file that could not be written."""
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in allowed:
        raise BadInput(f"--{flag}={path}: the name must end in {listed(allowed)}")
    check_file(flag, path)
    return suffix


def _read(flag_values, model, explain_input):
    """Return labels of the inputs, the inputs, what is shown of them, and how pixels became inputs."""
    drawn_before = pathlib.Path(flag_values.output).resolve()
    paths = image_io.find_files(flag_values.image, flag_values.limit, without=drawn_before)
    shape = model.inputs[explain_input].shape[1:].as_list()
    pictures = [path for path in paths if path.suffix.lower() in image_io.PICTURES]
    if pictures and len(pictures) < len(paths):
        raise BadInput("pictures and arrays cannot be explained together; give the ones or the others")
    if not pictures:
        arrays = [image_io.read_array(path, shape) for path in paths]
        labels = [
            path.stem if len(array) == 1 else f"{path.stem} {row}"
            for path, array in zip(paths, arrays, strict=True)
            for row in range(len(array))
        ][: flag_values.limit]
        if len({array.shape[1:] for array in arrays}) > 1:
            raise BadInput(f"the arrays have different shapes: {listed(sorted({str(a.shape[1:]) for a in arrays}))}")
        inputs = np.concatenate(arrays)[: flag_values.limit]
        way = preprocessing_named(flag_values.preprocessing) if flag_values.preprocessing else None
        return labels, inputs if way is None else way.apply(inputs), inputs, way
    pixels = image_io.read_pictures(pictures, shape, flag_values.fit)
    if flag_values.preprocessing:
        way = preprocessing_named(flag_values.preprocessing)
    else:
        way, reason = likely_preprocessing(model, explain_input)
        _note(f"pixels are given as {way.name}, because {reason}; --preprocessing= chooses another way")
    return [path.stem for path in pictures], way.apply(pixels), np.rint(pixels).astype(np.uint8), way


def _note(text: str) -> None:
    """Say on standard error what was chosen for the user."""
    print_line(f"note: {text}", file=sys.stderr)


def _others(flag_values, model, explain_input, total):
    """Return the arrays of the inputs that are not explained."""
    needed = {name for name in model.inputs if name != explain_input}
    given = dict(entry.partition("=")[::2] for entry in flag_values.other_inputs)
    if set(given) != needed:
        raise BadInput(
            f"the model also has the inputs {listed(sorted(needed))}; give each by --other_inputs=NAME=FILE.npy"
        )
    arrays = {}
    for name, path in given.items():
        array = image_io.read_array(pathlib.Path(path), model.inputs[name].shape[1:].as_list())
        arrays[name] = np.repeat(array, total, axis=0) if len(array) == 1 else array
    return arrays


def _targets(wanted, names, scores):
    """Return the class to explain of each input, int32."""
    if not wanted:
        return scores.argmax(axis=1).astype(np.int32)
    found = []
    for entry in wanted:
        entry = entry.strip()
        if names and entry in names:
            found.append(names.index(entry))
        elif entry.isdecimal():
            found.append(int(entry))
        else:
            known = "a number" if not names else "a number or a name of --class_names"
            raise BadInput(f"--target={entry} is no class; give {known}")
    if len(found) not in (1, len(scores)):
        raise BadInput(f"--target has {len(found)} classes for {len(scores)} inputs; give one, or one for each")
    return checked_targets(found[0] if len(found) == 1 else found, *scores.shape)


def _kind(score: str) -> str:
    return {"logits": "logit", "probabilities": "probability"}[score]


def _class(names, number: int) -> str:
    return names[number] if names else f"class {number}"


def _print_predictions(files, scores, names, top, score):
    if not top:
        return
    for label, row in zip(files, scores, strict=True):
        best = np.argsort(-row, kind="stable")[:top]
        print_line(
            f"{label}: " + ", ".join(f"{_class(names, number)} {row[number]:.4g}" for number in best) + f" ({score})"
        )


def _print_residual(label, relative, law):
    """Print by how much maps miss their sum; warn where that is much of it."""
    shares = relative[np.isfinite(relative)]
    if not len(shares):
        return
    several = f" (median of {len(shares)} inputs; largest: {_percent(shares.max())})" if len(shares) > 1 else ""
    print_line(f"{label}: the sum of the map misses {law.formula} by {_percent(np.median(shares))}{several}")
    if shares.max() > MUCH:
        often = f" on {(shares > MUCH).sum()} of {len(shares)} inputs" if len(shares) > 1 else ""
        print_line(
            f"warning: {label} misses {law.formula} by more than {_percent(MUCH)}{often}: {law.cause}", file=sys.stderr
        )


def _percent(share: float) -> str:
    if share < 1e-4:
        return "less than 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _with_layer(methods, layer):
    """Return methods with the layer asked for in those that stand on one."""
    if not layer:
        return methods
    if not any("layer" in method.defaults for method, _ in methods.values()):
        raise BadInput(f"--layer={layer}: none of {listed(methods)} stands on a layer")
    return {
        label: (method, {**parameters, **({"layer": layer} if "layer" in method.defaults else {})})
        for label, (method, parameters) in methods.items()
    }


def _applicable(methods, model, feed, targets, explain_input):
    """Return those of the default methods that the model allows, and say why others are left out."""
    first = {name: array[:1] for name, array in model.feed(feed).items()}
    kept, reasons = {}, {}
    for label, chosen in methods.items():
        method, parameters = chosen
        quick = {**parameters, "points": 2} if "points" in parameters else parameters
        try:
            explain_many({label: (method, quick)}, model, first, targets[:1], explain_input=explain_input)
            kept[label] = chosen
        except BadInput as error:
            reasons[label] = error
            _note(f"'{label}' is left out: {error}")
    if not kept:
        raise BadInput(f"none of {listed(methods)} can explain this model; the last said: {reasons[label]}")
    return kept


def _write(path, save) -> None:
    """Write a file whole or not at all."""
    stream = io.BytesIO()
    save(stream)
    try:
        atomic_write(path, stream.getvalue())
    except OSError as error:
        raise BadInput(f"cannot write '{os.fspath(path)}': {error.strerror or error}") from error
