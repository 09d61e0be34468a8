"""``--compat``: this project's models, or those of BIM's authors, alike in every command that loads them."""

from __future__ import annotations

from absl import flags


def define_compat(flag_values: flags.FlagValues, also: str = "") -> None:
    """Define ``--compat`` on a command.

    Parameters
    ----------
    flag_values
        The flag values of the command.
    also
        What "upstream" changes besides.
    """
    flags.DEFINE_enum(
        "compat",
        "default",
        ["default", "upstream"],
        f"upstream: models by the authors' tensor names{also and ', '}{also}",
        flag_values=flag_values,
    )
