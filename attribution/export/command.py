r"""Put explanations into a SavedModel, so that any TensorFlow Serving answers them with nothing installed beside it.

    python -m attribution.export --model=saved_models/bim/obj --output=served/bim_obj \
        --methods=gradient,integrated_gradients,guided_backprop,grad_cam

The new file has the model's own signatures and, for each method, ``explain_<method>``. Into it go the model's own
inputs and ``targets``, one whole number per row: the class to explain, or -1 for the predicted one (a signature's
input cannot be left out). Out come ``map``, of the shape that attribution.explain gives, ``target``, the class that
was explained, and ``score``, the model's score of it. Maps equal the local ones to 1e-5 of their largest value, or to
what rounding the inputs another way changes in the local map where that is more; this is tried on two random inputs
before anything is written. A method that misses it is left out, which is said; the others are written.

Three more signatures let a client compute other methods from the model's answers: ``explanation_scores`` (the scores
that are explained, of all classes), ``explanation_layer`` (values and gradients that class activation maps are made
of, where one was exported) and ``explanation_sheet`` (which methods with which parameters, as JSON).

Methods that draw random numbers cannot be part of a graph, because a request carries neither seed nor keys of inputs.
A client computes them instead: RISE from scores, SmoothGrad and VarGrad from served gradients.

Cost: 13 CPU seconds and 1 GB for a network of BIM with four methods.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line, renamed_arguments
from attribution.explain import explain_many, with_layer, with_parameters
from attribution.export import names as names
from attribution.files import atomic_directory, writing
from attribution.methods.method import Method

if TYPE_CHECKING:
    from attribution.model.model import Model


TOLERANCE = 1e-5  # of a map's largest value
_Chosen = Mapping[str, tuple[Method, dict[str, Any]]]
ROUNDINGS = 4  # copies of the inputs, rounded differently, from which the precision of a map is estimated

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS,
    methods=["gradient", "integrated_gradients", "guided_backprop", "grad_cam"],
    model="",
    output="",
    score="logits",
    signature="",
    explain_input="",
)
FLAGS["output"].help = "directory to write to, a served model's base path: the file becomes version 1 in it, or the "
FLAGS["output"].help += "directory itself where that has a number for a name, as in served/obj/2"
flags.DEFINE_string(
    "layer",
    "",
    "layer of the class activation maps; the last one before pooling and head when empty",
    flag_values=FLAGS,
)


def main(flag_values: flags.FlagValues) -> None:
    """Write the file and print how far each served map is from the local one."""
    for name in ("model", "output"):
        if not flag_values[name].value:
            raise BadInput(f"--{name} is empty; name a directory")
    chosen = with_layer(with_parameters(flag_values.methods), flag_values.layer)
    methods = {name.rpartition(":")[2]: entry for name, entry in chosen.items()}  # of module:function, the function
    left_out: dict[str, str] = {}
    differences = export(
        flag_values.model,
        flag_values.output,
        methods,
        score=flag_values.score,
        signature=flag_values.signature or None,
        explain_input=flag_values.explain_input or None,
        left_out=left_out,
    )
    for reason in left_out.values():
        print_line(reason, file=sys.stderr)
    width = max(len(label) for label in differences)
    for label, difference in differences.items():
        print_line(
            f"{names.EXPLAIN}{label.ljust(width)}  differs from the local map by {difference:.1e} of its largest value"
        )
    print_line(f"written to {_version_directory(flag_values.output)}")


@renamed_arguments(wrt="explain_input")
def export(
    model_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    methods: Any,
    *,
    score: str = "logits",
    signature: str | None = None,
    explain_input: str | None = None,
    inputs: Mapping[str, str] | Sequence[str] | None = None,
    output_tensor: str | None = None,
    left_out: dict[str, str] | None = None,
) -> dict[str, float]:
    """Write a SavedModel with signatures of explanations.

    Parameters
    ----------
    model_path
        Directory of the SavedModel.
    output
        Where to write; see ``_version_directory``.
    methods
        As ``attribution.explain_many`` takes them: names, or a mapping from label to (method, overrides). A custom
        method works if it uses only its queries and TensorFlow.
    score
        ``"logits"`` or ``"probabilities"``.
    signature, inputs, output_tensor
        Which signature, or tensors of a TensorFlow 1 file, to explain; see ``attribution.load_model``.
    explain_input
        Name of the input to explain, where the model has several.
    left_out
        A dictionary that is filled with the label of each method whose map differs from the local one, and the reason.
        Without one such a method is an error.

    Returns
    -------
    dict[str, float]
        Label of each method written to the largest difference from the local map, relative to the map's largest value.

    Raises
    ------
    BadInput
        If a method cannot be part of a graph, no method's map is the local one, or the output exists.
    """
    from attribution.export import graph
    from attribution.model import model as models

    target = _version_directory(output)
    if os.path.exists(target):
        raise BadInput(f"'{target}' exists; a served version is never changed, write to '{_next_version(target)}'")
    chosen = with_parameters(methods)
    if not chosen:
        raise BadInput("no method to export; name at least one")
    for label, (method, _) in chosen.items():
        _refuse_what_no_graph_holds(label, method)

    def write(chosen: _Chosen, directory: pathlib.Path) -> tuple[Model, str]:
        """Write a file of these methods; return the model, of which each file needs one of its own, and its input."""
        model = models.load_model(model_path, score=score, signature=signature, inputs=inputs, output=output_tensor)
        name = model.explained_input(explain_input)
        if names.TARGETS in model.inputs:
            raise BadInput(f"'{model_path}' has an input called '{names.TARGETS}', which would be taken twice")
        graph.write(model, name, chosen, str(directory), _sheet_of(model, name, chosen))
        return model, name

    with writing(target), atomic_directory(target) as unfinished:
        differences, missed = _differences(*write(chosen, unfinished), chosen, str(unfinished))
        if missed:
            if left_out is None or not differences:
                raise BadInput(next(iter(missed.values())))
            left_out.update(missed)
            for child in unfinished.iterdir():
                shutil.rmtree(child) if child.is_dir() else child.unlink()
            write({label: chosen[label] for label in differences}, unfinished)
    return differences


def _version_directory(output: str | os.PathLike[str]) -> str:
    """Return where the file goes: to ``output`` itself if its name is a number, else to version 1 in it."""
    output = os.path.normpath(output)
    return output if os.path.basename(output).isdecimal() else os.path.join(output, "1")


def _next_version(directory: str) -> str:
    """Return the first version beside a directory that does not exist."""
    base, number = os.path.split(directory)
    versions = (os.path.join(base, str(later)) for later in itertools.count(int(number)))
    return next(version for version in versions if not os.path.exists(version))


def _sheet_of(model: Any, explain_input: str, chosen: _Chosen) -> str:
    """Return the description of an exported model, as JSON.

    Parameters
    ----------
    model : attribution.model.model.Model
        The model.
    explain_input
        Name of the explained input.
    chosen
        Label to method and parameters.
    """
    layers = {parameters["layer"] for method, parameters in chosen.values() if method.query == "layer gradient"}
    if len(layers) > 1:
        raise BadInput(f"one layer serves all class activation maps of a file, not {listed(sorted(map(str, layers)))}")
    layer = layers.pop() if layers else None
    return json.dumps(
        {
            "sheet": names.SHEET_VERSION,
            "source": model.fingerprint,
            "score": model.score,
            "wrt": explain_input,
            "layer": model.layer(layer, explain_input)
            if any(m.query == "layer gradient" for m, _ in chosen.values())
            else None,
            "layer_is_default": layer is None,
            "methods": {
                label: {"method": method.name, "parameters": plain(parameters)}
                for label, (method, parameters) in chosen.items()
            },
        },
        sort_keys=True,
    )


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON has them; arrays become lists."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in parameters.items()}


def _refuse_what_no_graph_holds(label: str, method: Method) -> None:
    """Raise BadInput for a method that needs more than a request carries."""
    if method.library:
        raise BadInput(f"method '{label}' cannot be part of a graph: it is {method.library}'s own Python code")
    if not label.isidentifier():
        raise BadInput(f"'{label}' cannot be part of a signature's name; use letters, digits and underscores")
    if method.is_random:
        raise BadInput(
            f"method '{label}' cannot be part of a graph: it draws random numbers from the run's seed and the inputs' "
            "keys, which a request does not carry; clients compute it from served scores and gradients"
        )


def _differences(
    model: Model, explain_input: str, chosen: _Chosen, directory: str
) -> tuple[dict[str, float], dict[str, str]]:
    """Return how far the maps of a written file are from the local ones on two random inputs, and which are too far."""
    import tensorflow as tf

    signatures = tf.saved_model.load(directory).signatures
    feed = _random_inputs(model)
    rows = len(feed[explain_input])
    targets = np.full(rows, names.PREDICTED, np.int32)
    found = explain_many(chosen, model, feed, explain_input=explain_input, batch_size=rows)
    differences, missed = {}, {}
    for label, entry in chosen.items():
        served = signatures[names.EXPLAIN + label](
            **{name: tf.constant(array) for name, array in feed.items()}, **{names.TARGETS: tf.constant(targets)}
        )["map"].numpy()
        difference, allowed = relative_difference(served, found[label]), TOLERANCE
        if difference > allowed:
            allowed = max(allowed, _changed_by_rounding(model, explain_input, entry, feed, found[label]))
        if difference > allowed:
            missed[label] = (
                f"'{label}' is skipped: its map would differ from the local one by {difference:.1e} of its largest "
                f"value, more than the {allowed:.1e} that rounding explains"
            )
        else:
            differences[label] = difference
    return differences, missed


def _random_inputs(model: Model) -> dict[str, np.ndarray]:
    """Return two random inputs, or as many as the file prescribes."""
    rows = model.batch_size(2)
    generator = np.random.default_rng(0)
    feed = {}
    for name, spec in model.inputs.items():
        shape = rows, *(size or 32 for size in spec.shape[1:])
        is_float, dtype = spec.dtype.is_floating, spec.dtype.as_numpy_dtype
        feed[name] = generator.standard_normal(shape).astype(np.float32) if is_float else np.zeros(shape, dtype)
    return model.feed(feed)


def _changed_by_rounding(
    model: Model,
    explain_input: str,
    entry: tuple[Method, dict[str, Any]],
    feed: Mapping[str, np.ndarray],
    local: np.ndarray,
) -> float:
    """Return the precision of a local map: twice its largest change when the inputs are rounded differently.

    Each value goes up or down by its last digit, at random. A map that cancels large terms, as a class activation map
    of a nearly indifferent layer does, is known no better than that, wherever it is computed; and a pass rounds at
    every layer, not its inputs alone.
    """
    rows, worst = len(feed[explain_input]), 0.0
    targets = model.predict(feed, rows)
    for draw in range(ROUNDINGS):
        up = np.random.default_rng(draw).random(feed[explain_input].shape) < 0.5
        rounded = np.nextafter(feed[explain_input], np.where(up, np.inf, -np.inf).astype(feed[explain_input].dtype))
        (maps,) = explain_many(
            {"": entry}, model, {**feed, explain_input: rounded}, targets, explain_input=explain_input, batch_size=rows
        ).values()
        worst = max(worst, relative_difference(maps, local))
    return 2 * worst


def relative_difference(served: np.ndarray, local: np.ndarray) -> float:
    """Return the largest difference of two arrays of maps, each relative to the local map's largest absolute value.

    Where a local map is all zero, the difference itself counts.
    """
    if served.shape != local.shape:
        return float("inf")
    axes = tuple(range(1, local.ndim))
    scale = np.abs(local).max(axis=axes, initial=0)
    worst = np.abs(served.astype(np.float64) - local).max(axis=axes, initial=0) / np.where(scale > 0, scale, 1)
    return float(worst.max(initial=0))
