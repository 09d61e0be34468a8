"""The text of ``--help``: description and cost of a command, then its flags."""

from __future__ import annotations

import sys
import textwrap

from absl import flags

_WIDTH = 100


def help_text(flag_values: flags.FlagValues, description: str, module: str) -> str:
    """Return the answer to ``--help``: first the flags that the command defines, then those it shares with others.

    Parameters
    ----------
    flag_values
        The flags of the command.
    description
        The docstring of the command's module; its last paragraph begins with "Cost:".
    module
        Name of this module.
    """
    groups = flag_values.flags_by_module_dict()
    own = sys.argv[0] if module == "__main__" else module  # as absl names it
    parts = [description.strip()]
    for name in sorted(groups, key=lambda name: (name != own, name)):
        lines = [line for flag in groups[name] for line in _flag_lines(flag)]
        if lines:
            parts.append("\n".join(["Flags:" if name == own else f"Shared flags ({name}):", *lines]))
    return "\n\n".join(parts)


def _flag_lines(flag: flags.Flag) -> list[str]:
    """Return the name, help and default of a flag; nothing for an alias."""
    if (flag.help or "").startswith("Alias for "):
        return []
    default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
    lines = textwrap.wrap(
        f"--{flag.name}: {flag.help}",
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_on_hyphens=False,
    )
    if default not in (None, ""):
        lines.append(f"      (default: {default})")
    return lines
