"""Run a command: parse its flags, call it, turn what the user did wrong into one line and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from absl import flags

from attribution_benchmarks.command_line.chatter import import_tensorflow_quietly
from attribution_benchmarks.command_line.errors import BadInput
from attribution_benchmarks.command_line.files import cache_at


def run(main: Callable[[flags.FlagValues], None], flag_values: flags.FlagValues, description: str) -> None:
    """Run ``main(flag_values)`` as the program and exit with its code.

    Parameters
    ----------
    main
        The command; it raises ``BadInput`` for what the user can mend.
    flag_values
        The flags of this command.
    description
        The module's docstring, shown by ``--help`` above the flags.
    """
    import_tensorflow_quietly()
    try:
        code = execute(main, flag_values, description, sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def execute(
    main: Callable[[flags.FlagValues], None], flag_values: flags.FlagValues, description: str, argv: Sequence[str]
) -> int:
    """Run a command in this process and return its exit code.

    Parameters
    ----------
    main, flag_values, description
        As for ``run``.
    argv
        Program name and arguments.

    Returns
    -------
    int
        0 when the command ended, 2 for bad input, 130 when interrupted.
    """
    if any(argument in ("--help", "-help", "-h", "--helpshort", "--helpfull") for argument in argv[1:]):
        print(f"{description.strip()}\n\nFlags:\n{_help(flag_values)}")
        return 0
    flag_values.unparse_flags()
    try:
        rest = flag_values(argv)[1:]
        if rest:
            raise BadInput(f"unexpected argument {rest[0]!r}; options are written --name=value, see --help")
        with cache_at(flag_values.cache_dir if "cache_dir" in flag_values else ""):
            main(flag_values)
    except (BadInput, flags.Error) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _help(flag_values: flags.FlagValues) -> str:
    """Return one paragraph a flag, in the order of definition, defaults included."""
    lines = []
    for name in flag_values:
        flag = flag_values[name]
        if flag.value is None and flag.help in (None, ""):
            continue
        shown = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
        lines.append(f"  --{name}: {flag.help}")
        if shown not in (None, ""):
            lines.append(f"      (default: {shown})")
    return "\n".join(lines)
