"""Describe a SavedModel: its inputs and outputs, its score, and the methods that can explain it.

    python -m attribution.inspect --model=DIR

Every method is tried on one random input, as far as the first of its passes; a method that refuses the file is listed
with its reason. The last lines are the Python that loads the file. Nothing is written.

Cost: 13 CPU seconds and 1 GB for a network of BIM, most of it the trial of every method (--notry_methods).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from attribution import cli, loading
from attribution.batching import random_feed
from attribution.cli import define_loading_flags, loading_options
from attribution.errors import BadInput, print_line, print_text
from attribution.files import origin
from attribution.inputs import likely_preprocessing, shape_text
from attribution.methods.registry import METHODS
from attribution.savedmodel.paths import find_saved_model
from attribution.trial import Trial, try_method

if TYPE_CHECKING:
    from attribution.model.model import Model
    from attribution.savedmodel.file import SavedFile

FLAGS = flags.FlagValues()
define_loading_flags(FLAGS)
flags.DEFINE_boolean("try_methods", True, "try every method on one random input", flag_values=FLAGS)
flags.DEFINE_boolean("libraries", False, "try the methods of tf-keras-vis and tf-explain too", flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Print the description of the file."""
    if not flag_values.model:
        raise BadInput("--model is empty; name a SavedModel, or a .keras or .h5 file")
    directory = find_saved_model(flag_values.model)
    from attribution.savedmodel.file import SavedFile

    file = SavedFile(directory)
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    _print([f"{origin(directory)}  ({size / 1e6:.1f} MB)", "", *_described_signatures(file)])
    options = loading_options(flag_values)
    model = loading.load_model(flag_values.model, **options)
    explain_input = _explained(model, flag_values.explain_input)
    _print(_described_model(model, explain_input))
    example = "integrated_gradients"
    feed = random_feed(model)
    if untried := flag_values.try_methods and _why_not_computed(model, feed, explain_input):
        _print(["", f"no method is tried, because the model does not take random inputs: {untried}"])
    elif flag_values.try_methods:
        names = [name for name, method in METHODS.items() if flag_values.libraries or not method.library]
        trials = {name: try_method(name, model, feed, explain_input) for name in names}
        _print(["", *_described_methods(trials)])
        apply = [name for name in names if trials[name].applies]
        example = apply[0] if apply and example not in apply else example
    print_text("\nto load it:\n\n")
    written = "".join(f", {name}={value!r}" for name, value in options.items())
    print_line(f"model = attribution.load_model({flag_values.model!r}{written})")
    given = f", explain_input={explain_input!r}" if list(model.inputs) != [explain_input] else ""
    print_line(f'maps = attribution.explain("{example}", model, inputs{given})')


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(line)


def _explained(model: Model, explain_input: str = "") -> str:
    """Return what is explained: by default all inputs of floating point where there are several."""
    name = explain_input or ("all" if len(model.together("all")) > 1 else None)
    return ", ".join(model.together(name)) or model.at(name).input


def _why_not_computed(model: Model, feed: Mapping[str, np.ndarray], explain_input: str) -> str:
    """Return why what is explained cannot be computed from a feed, such as from text that is no serialized example."""
    try:
        given = model.feed(feed)
        model.at(explain_input, like=given).feed_of(given)
    except BadInput as error:
        return str(error)
    return ""


def _described_signatures(file: SavedFile) -> list[str]:
    """Return a paragraph of a file's signatures, or of its placeholders and ends where it has none."""
    lines = []
    for name, signature in file.signatures.items():
        lines.append(f"signature '{name}'")
        lines += [f"  in   {_spec(key, spec)}" for key, spec in signature.inputs.items()]
        lines += [f"  out  {_spec(key, spec)}" for key, spec in signature.outputs.items()]
    if not lines and not file.has_objects:
        lines.append("no signature; a TensorFlow 1 file, whose tensors are named")
        lines += [f"  in   {_spec(name, spec)}" for name, spec in file.placeholders().items()]
        lines += [f"  out  {_spec(name, spec)}" for name, spec in file.ends().items()]
    return lines or ["no signature"]


def _spec(name: str, spec: Any) -> str:
    shape = "any shape" if spec.shape.rank is None else shape_text(spec.shape.as_list())
    return f"{name}: {spec.dtype.name} {shape}"


def _described_model(model: Model, explain_input: str) -> list[str]:
    """Return lines on what is explained, the score, the scale of pixels and the layers."""
    together = model.together(explain_input)
    lines = ["", f"explained input{'s' * bool(together)}: {explain_input}", f"classes: {model.num_classes}"]
    lines += [*_described_module(model), *_described_score(model)]
    if explain_input in model.inputs and model.inputs[explain_input].shape.rank == 4:
        preprocessing, reason = likely_preprocessing(model, explain_input)
        lines.append(
            f"pixels: {preprocessing.name} is assumed, because {reason}; --preprocessing= of attribution.explain "
            "chooses another scale"
        )
    return lines if together else lines + _described_layers(model, explain_input)


def _described_module(model: Model) -> list[str]:
    """Return what became of a module of StableHLO, as JAX and PyTorch write them."""
    frozen = model._frozen
    if frozen.kept:
        return [f"module of StableHLO: kept as one operation; {frozen.kept}"]
    if frozen.compared is None:
        return []
    compared = frozen.compared or "their gradient, too"
    return [f"module of StableHLO: translated; scores of random inputs are those of the file; {compared}"]


def _described_score(model: Model) -> list[str]:
    from attribution.graph.view import node_of

    names, logits = model.score_names, model.logits
    operation, output = model.graph.nodes[node_of(logits)].op, model._frozen.output
    if names == ("output",):
        return [f"output: {logits} ({operation}); not known to be logits or probabilities"]
    gives_probabilities = model._frozen.head.gives_probabilities
    probabilities = output if gives_probabilities else "not in the file; softmax of the logits"
    lines = {"logits": f"logits: {logits} ({operation})", "probabilities": f"probabilities: {probabilities}"}
    return [line for name, line in lines.items() if name in names]


def _described_layers(model: Model, explain_input: str) -> list[str]:
    try:
        layers = model.layers(explain_input)
    except BadInput as error:
        return [f"layers for class activation maps: none; {error}"]
    lines = [f"layers for class activation maps: {len(layers)}" + (", the last of them" if len(layers) > 8 else "")]
    shown, default = layers[-8:], None
    try:
        default = model.layer(None, explain_input)
        shown += [default] if default not in shown else []
    except BadInput as error:
        lines.append(f"  no default: {error}")
    for name in shown:
        shape = shape_text(model.graph.shape(name).as_list()[1:])
        lines.append(f"  {name}  {shape}{'  default' if name == default else ''}")
    return lines


def _described_methods(trials: Mapping[str, Trial]) -> list[str]:
    apply = [name for name, trial in trials.items() if trial.applies]
    refused = {name: trial.reason for name, trial in trials.items() if not trial.applies}
    lines = [f"methods that apply: {', '.join(apply) or 'none'}"]
    if ranged := list(filter(lambda name: {"low", "high"} <= {*METHODS[name].defaults}, apply)):
        lines.append(f"  only to inputs in a range, 0 to 1 unless --parameters=low=0,high=255: {', '.join(ranged)}")
    if refused:
        lines.append("methods that do not:")
        width = max(map(len, refused))
        lines += [f"  {name.ljust(width)}  {reason}" for name, reason in refused.items()]
    return lines


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
