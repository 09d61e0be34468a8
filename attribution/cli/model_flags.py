"""The flags that say which SavedModel is meant and what of it, alike in every command that loads one."""

from __future__ import annotations

from typing import Any

from absl import flags

from attribution.errors import BadInput


def define_loading_flags(flag_values: flags.FlagValues, score: str = "logits") -> None:
    """Define ``--model`` and what may have to be said beside it.

    Parameters
    ----------
    flag_values
        The flag values of the command.
    score
        Default of ``--score``.
    """
    flags.DEFINE_string("model", "", "directory of the SavedModel", flag_values=flag_values)
    flags.DEFINE_enum("score", score, ["logits", "probabilities"], "which score is explained", flag_values=flag_values)
    flags.DEFINE_string(
        "signature", "", "signature to explain, where the default is not meant", flag_values=flag_values
    )
    flags.DEFINE_list(
        "input_tensors", [], "of a TensorFlow 1 file: its input tensors, as in input_tensor:0", flag_values=flag_values
    )
    flags.DEFINE_string(
        "output_tensor",
        "",
        "the output to explain where the signature has several; with --input_tensors a tensor, such as dense:0",
        flag_values=flag_values,
    )
    flags.DEFINE_list(
        "position",
        [],
        "for an output with axes between batch and classes: the position to explain, such as 10 or 10,20",
        flag_values=flag_values,
    )
    flags.DEFINE_string("explain_input", "", "input to explain, where the model has several", flag_values=flag_values)
    flags.DEFINE_alias("wrt", "explain_input", flag_values=flag_values)  # the old name, for one release
    flags.DEFINE_string(
        "keras_model",
        "",
        "the live Keras network behind the SavedModel, for methods that need one: module:function or "
        "file.py:function that builds it, or a .keras file",
        flag_values=flag_values,
    )


def loading_options(flag_values: flags.FlagValues) -> dict:
    """Return the options of ``attribution.load_model`` that the flags ask for, defaults left out."""
    options = {
        "signature": flag_values.signature or None,
        "inputs": flag_values.input_tensors or None,
        "output": flag_values.output_tensor or None,
        "position": _position(flag_values.position),
        "keras_model": flag_values.keras_model or None,
    }
    return {"score": flag_values.score} | {name: value for name, value in options.items() if value is not None}


def _position(parts: list[str]) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in parts) or None
    except ValueError:
        raise BadInput(
            f"--position is '{','.join(parts)}'; whole numbers separated by commas are needed, one for each axis "
            "between batch and classes"
        ) from None


def load_flagged_model(flag_values: flags.FlagValues) -> Any:
    """Load the model that the flags name.

    Returns
    -------
    attribution.model.model.Model

    Raises
    ------
    BadInput
        If no model is named, or it does not load; see ``attribution.load_model``.
    """
    import attribution

    if not flag_values.model:
        raise BadInput("--model is empty; name the directory of a SavedModel")
    return attribution.load_model(flag_values.model, **loading_options(flag_values))
