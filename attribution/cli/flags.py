"""The flags that mean the same in every command.

Each command owns a ``flags.FlagValues`` instead of absl's global one, so that all commands can be imported
into one process, by a test or by the script that runs them all.
"""

from __future__ import annotations

from typing import Any

from absl import flags

_HELP = {
    "methods": "attribution methods, separated by commas: names of the registry (docs/methods.md), or "
    "module:function of your own",
    "model": "directory of a SavedModel to explain instead of the default",
    "data_dir": "directory of the data; the embedded default when empty",
    "num_imgs": "how many images to score: a number, or 'all'",
    "num_questions": "how many questions to score: a number, or 'all'",
    "batch_size": "rows in one pass through the model; bounds the memory",
    "check_model": "only say whether the models fit this benchmark, and what is read of them; nothing is explained",
    "layer": "layer of the class activation maps, as python -m attribution.inspect lists them; the model's default "
    "when empty",
    "seed": "seed of everything drawn at random; same seed, same bytes",
    "output": "file to write the scores to; .json, .csv or .md by suffix",
    "cache_dir": "directory for what is made once and can be made again: drawn data, stored scores; else "
    "ATTRIBUTION_BENCHMARKS_CACHE, or attribution_benchmarks in the user's cache",
}


def define_common_flags(flag_values: flags.FlagValues, **defaults: Any) -> None:
    """Define some of the house's common flags on a command's own flag values.

    Parameters
    ----------
    flag_values
        The flag values of the command.
    **defaults
        Name of a common flag and its default: ``methods`` (list of str), ``model``, ``data_dir``,
        ``output``, ``cache_dir`` (str), ``num_imgs``, ``num_questions`` (int or "all"), ``batch_size``, ``seed`` (int).
    """
    for name, default in defaults.items():
        if name == "model":
            define_trust(flag_values)
        if name == "methods":
            flags.DEFINE_list(name, default, _HELP[name], flag_values=flag_values)
        elif name == "check_model":
            flags.DEFINE_bool(name, default, _HELP[name], flag_values=flag_values)
        elif name == "seed":
            flags.DEFINE_integer(name, default, _HELP[name], lower_bound=0, flag_values=flag_values)
        elif name == "batch_size":
            flags.DEFINE_integer(name, default, _HELP[name], lower_bound=1, flag_values=flag_values)
        elif name in ("num_imgs", "num_questions"):
            flags.DEFINE_string(name, str(default), _HELP[name], flag_values=flag_values)
            flags.register_validator(
                name,
                lambda value: value == "all" or (value.isdecimal() and int(value) > 0),
                message="must be a positive number or 'all'",
                flag_values=flag_values,
            )
        else:
            flags.DEFINE_string(name, default, _HELP[name], flag_values=flag_values)


def define_trust(flag_values: flags.FlagValues) -> None:
    """Define ``--trust_model`` on a command that loads SavedModels which the user names."""
    flags.DEFINE_bool(
        "trust_model",
        False,
        "load SavedModels even if they use operations that can do more than compute, such as write files",
        flag_values=flag_values,
    )
