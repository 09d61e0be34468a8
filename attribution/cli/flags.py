"""The flags that several commands share. A new one is one entry of ``_SHARED``.

Each command has its own ``flags.FlagValues`` instead of absl's global one, so that one process can import all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from absl import flags

from attribution.errors import BadInput


def _define_count(name: str, default: int | str, help: str, flag_values: flags.FlagValues) -> None:
    """Define a flag that is a positive number or "all"."""
    flags.DEFINE_string(name, str(default), help, flag_values=flag_values)
    flags.register_validator(
        name,
        lambda value: value == "all" or (value.isdecimal() and int(value) > 0),
        message="must be a positive number or 'all'",
        flag_values=flag_values,
    )


class _Shared(NamedTuple):
    help: str
    define: Callable = flags.DEFINE_string
    options: Mapping[str, Any] = {}
    old_name: str = ""


_SHARED = {
    "methods": _Shared(
        "attribution methods, separated by commas: names of the registry (docs/methods.md), module:function or "
        "file.py:function",
        flags.DEFINE_list,
    ),
    "model": _Shared("directory of the SavedModel to explain; a benchmark's default when empty"),
    "trust_model": _Shared(
        "load SavedModels even if they use operations that can do more than compute, such as write files",
        flags.DEFINE_bool,
    ),
    "check_model": _Shared(
        "only report whether the models fit this benchmark, and what is read of them; nothing is explained",
        flags.DEFINE_bool,
    ),
    "score": _Shared(
        "which score is explained", flags.DEFINE_enum, {"enum_values": ["logits", "probabilities"]}
    ),
    "signature": _Shared("signature to explain, if not the default one"),
    "input_tensors": _Shared("input tensors of a TensorFlow 1 file, such as input_tensor:0", flags.DEFINE_list),
    "output_tensor": _Shared(
        "output to explain, if the signature has several; with --input_tensors a tensor, such as dense:0"
    ),
    "position": _Shared(
        "position to explain, such as 10 or 10,20, if the output has axes between batch and classes", flags.DEFINE_list
    ),
    "explain_input": _Shared(
        "input to explain, if the model has several; attribution.explain takes several by comma, or 'all'",
        old_name="wrt",
    ),
    "keras_model": _Shared(
        "live Keras model of the SavedModel, for methods that need one: module:function or file.py:function that "
        "builds it, or a .keras file"
    ),
    "layer": _Shared(
        "layer of the class activation maps, as listed by python -m attribution.inspect; the model's default when empty"
    ),
    "data_dir": _Shared("directory of the data; the embedded default when empty"),
    "num_imgs": _Shared("number of images to score, or 'all'", _define_count),
    "num_questions": _Shared("number of questions to score, or 'all'", _define_count),
    "batch_size": _Shared(
        "inputs in one forward pass of the model; limits the memory", flags.DEFINE_integer, {"lower_bound": 1}
    ),
    "seed": _Shared("seed of all random numbers; results are reproducible", flags.DEFINE_integer, {"lower_bound": 0}),
    "output": _Shared("file to write the scores to: .json, .csv or .md"),
    "cache_dir": _Shared(
        "directory of data that can be regenerated, such as drawn images and scores; by default "
        "ATTRIBUTION_BENCHMARKS_CACHE, or attribution_benchmarks in the user's cache"
    ),
    "deadline": _Shared("seconds that one request to the server may take", flags.DEFINE_float),
    "retry_timeout": _Shared(
        "seconds to retry requests while the server is unavailable", flags.DEFINE_float, old_name="patience"
    ),
}  # fmt: skip


def define_common_flags(flag_values: flags.FlagValues, **defaults: Any) -> None:
    """Define some of the shared flags for a command; ``model`` brings ``trust_model`` with it.

    Parameters
    ----------
    flag_values
        The flag values of the command.
    **defaults
        Name of a shared flag and its default value.
    """
    if "model" in defaults:
        defaults["trust_model"] = False
    for name, default in defaults.items():
        shared = _SHARED[name]
        shared.define(name, default, help=shared.help, flag_values=flag_values, **shared.options)
        if shared.old_name:  # accepted for one release
            flags.DEFINE_alias(shared.old_name, name, flag_values=flag_values)


def define_loading_flags(flag_values: flags.FlagValues) -> None:
    """Define ``--model`` and the flags that select its score, signature, inputs and outputs."""
    define_common_flags(
        flag_values, model="", score="logits", signature="", input_tensors=[], output_tensor="", position=[],
        explain_input="", keras_model="",
    )  # fmt: skip


def loading_options(flag_values: flags.FlagValues) -> dict:
    """Return the options of ``attribution.load_model`` given by the flags, without defaults."""
    options = {
        "signature": flag_values.signature,
        "inputs": flag_values.input_tensors,
        "output": flag_values.output_tensor,
        "position": _position(flag_values.position),
        "keras_model": flag_values.keras_model,
    }
    return {"score": flag_values.score} | {name: value for name, value in options.items() if value}


def _position(parts: list[str]) -> tuple[int, ...]:
    try:
        return tuple(map(int, parts))
    except ValueError:
        raise BadInput(
            f"--position={','.join(parts)}: expected integers separated by commas, one for each axis between batch "
            "and classes"
        ) from None


def load_flagged_model(flag_values: flags.FlagValues) -> Any:
    """Load the model given by the flags.

    Returns
    -------
    attribution.model.model.Model

    Raises
    ------
    BadInput
        If no model is given, or it cannot be loaded; see ``attribution.load_model``.
    """
    import attribution

    if not flag_values.model:
        raise BadInput("--model is empty; name the directory of a SavedModel")
    return attribution.load_model(flag_values.model, **loading_options(flag_values))
