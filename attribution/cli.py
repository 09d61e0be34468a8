"""What all commands share: flags, one-line errors and exit codes. Imports no TensorFlow.

Each command has its own ``flags.FlagValues`` instead of absl's global one, so that one process can import all of them.
A new shared flag is one table of ``flags.toml``.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from attribution import loading
from attribution.errors import BadInput, listed, printable
from attribution.files import cache_at, reason, refuse_address
from attribution.methods.libraries import read_toml
from attribution.methods.registry import ARRAYS, Method
from attribution.reading import read_array
from attribution.savedmodel.op_allowlist import trusted
from attribution.tensorflow_log import quiet_tensorflow as quiet_tensorflow

_Chosen = Mapping[str, tuple[Method, dict[str, Any]]]
_WITH_ADDRESSES = ("server", "runner_options")
# Errors of the machine or of access rights, not of the program.
_FILE_SYSTEM_ERRNOS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EIO,
    errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.EBADF,
}  # fmt: skip
_REMEDY = "make room, or name a place that can be used"


def inspect_hint(model: object) -> str:
    """Return a hint for messages about methods that do not apply to a model."""
    return f"python -m attribution.inspect --model={model} lists the methods that apply"


def run(main: Callable[[flags.FlagValues], None], flag_values: flags.FlagValues, description: str) -> None:
    """Run ``main(flag_values)`` as the program and exit with its code.

    Parameters
    ----------
    main
        The command; it raises ``BadInput`` for errors that the user can fix.
    flag_values
        The flags of this command.
    description
        The module's docstring, shown by ``--help`` above the flags.
    """
    if sys.stdout is None:  # closed by the caller
        sys.exit(_report("error: standard output is closed; redirect it, for example to /dev/null", 2))
    quiet_tensorflow()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # of characters that its encoding lacks
    try:
        code = execute(main, flag_values, description, sys.argv)
        if code == 130:  # another Ctrl-C at exit would only print a traceback
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = _flushed(code)
    except BrokenPipeError:  # the reader, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def _flushed(code: int) -> int:
    """Flush standard output; return the exit code, or 2 if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return code or _report(f"error: cannot write to standard output: {reason(error)}; {_REMEDY}", 2)
    return code


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
        0 for success, 2 for bad input, 130 for an interruption.
    """
    if any(argument in ("--help", "-help", "-h", "--helpshort", "--helpfull") for argument in argv[1:]):
        print(help_text(flag_values, description, main.__module__, full="--helpfull" in argv))
        return 0
    flag_values.unparse_flags()
    try:
        _parse_and_call(main, flag_values, argv)
    except KeyboardInterrupt:
        return _report("interrupted", 130)
    except BaseException as error:
        return _handle(error)
    return 0


# What --help shows of a command with more flags than fit on a screen.
FIRST_SCREEN = frozenset(
    "methods model models metrics image images preprocessing target top benchmarks quick time data_dir "
    "questions num_imgs num_questions random_networks precomputed_maps contrast_with output output_dir plot_dir "
    "check_model seed".split()
)
FLAGS_OF_A_SCREEN = 12


def help_text(flag_values: flags.FlagValues, description: str, module: str, full: bool = True) -> str:
    """Return the answer to ``--help``: first the flags that the command defines, then those it shares with others.

    Parameters
    ----------
    flag_values
        The flags of the command.
    description
        The docstring of the command's module; its last paragraph begins with "Cost:".
    module
        Name of this module.
    full
        Whether to show all flags (``--helpfull``), not only those in ``FIRST_SCREEN``, where there are more than
        ``FLAGS_OF_A_SCREEN``.
    """
    more = [] if full else _without_rare_flags(flag_values)
    own = sys.argv[0] if module == "__main__" else module  # as absl names it
    groups = sorted(
        filter(flag_values.get_flags_for_module, flag_values.flags_by_module_dict()),
        key=lambda name: (name != own, name),
    )
    return "\n\n".join([description.strip(), *(flag_values.module_help(name).strip() for name in groups), *more])


def _without_rare_flags(flag_values: flags.FlagValues) -> list[str]:
    """Take the flags that are not of the first screen away, and return the line that says so."""
    if len(list(flag_values)) <= FLAGS_OF_A_SCREEN:
        return []
    rare = [name for name in flag_values if name not in FIRST_SCREEN]
    for name in rare:
        delattr(flag_values, name)
    return [f"--helpfull shows {len(rare)} more flags."]


def _parse_and_call(
    main: Callable[[flags.FlagValues], None], flag_values: flags.FlagValues, argv: Sequence[str]
) -> None:
    try:
        if "runner_options" in flag_values and "--" in argv:  # those after -- are the runner's
            end = argv.index("--")
            argv = [*argv[:end], *(f"--runner_options={option}" for option in argv[end + 1 :])]
        rest = flag_values(argv)[1:]
    except ValueError as error:  # absl's for --noNAME=VALUE and for files of flags that are not text
        raise BadInput(f"{error}; see --help") from error
    if rest:
        raise BadInput(f"unexpected argument {rest[0]!r}; options are written --name=value, see --help")
    for name in flag_values:
        value = flag_values[name].value
        if isinstance(value, float) and not math.isfinite(value):  # absl's bounds accept it
            raise BadInput(f"--{name} is {value}; expected a finite number")
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and name not in _WITH_ADDRESSES:
                refuse_address(text, name)
    cache = cache_at(flag_values.cache_dir if "cache_dir" in flag_values else "")
    with cache, trusted("trust_model" in flag_values and flag_values.trust_model):
        main(flag_values)


def _handle(error: BaseException) -> int:
    """Print the line of an error that the user can fix and return exit code 2; raise any other error again."""
    if isinstance(error, (BadInput, flags.Error)):
        return _report(f"error: {printable(' '.join(str(error).split()))}", 2)
    if isinstance(error, OSError) and error.errno in _FILE_SYSTEM_ERRNOS:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _report(f"error: {printable(where + reason(error))}; {_REMEDY}", 2)
    if isinstance(error, SystemExit) and not (isinstance(error.code, int) and error.code):
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _report(
            f"error: {printable(place.filename)}, line {place.lineno} called sys.exit; a method must return its maps",
            2,
        )
    raise error


def given(flag_values: flags.FlagValues, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the values by name of the flags that were given, but for some."""
    return {name: flag_values[name].value for name in flag_values if flag_values[name].present and name not in without}


def _report(line: str, code: int) -> int:
    """Print how a command ended as the last line, after removing progress bars, and return its code."""
    if "tqdm" in sys.modules:
        for bar in list(getattr(sys.modules["tqdm"].tqdm, "_instances", ())):
            bar.leave = False
            bar.close()
    print(line, file=sys.stderr)
    return code


def _define_count(name: str, default: int | str, help: str, flag_values: flags.FlagValues) -> None:
    """Define a flag that is a positive number or "all"."""
    flags.DEFINE_string(name, str(default), help, flag_values=flag_values)
    flags.register_validator(
        name,
        lambda value: value == "all" or (value.isdecimal() and int(value) > 0),
        message="must be a positive number or 'all'",
        flag_values=flag_values,
    )


_KINDS: dict[str, Callable[..., Any]] = {
    "string": flags.DEFINE_string,
    "list": flags.DEFINE_list,
    "bool": flags.DEFINE_bool,
    "enum": flags.DEFINE_enum,
    "integer": flags.DEFINE_integer,
    "float": flags.DEFINE_float,
    "count": _define_count,
}


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
    shared = read_toml(pathlib.Path(__file__).with_name("flags.toml"))
    for name, default in defaults.items():
        define = _KINDS[shared[name].pop("kind", "string")]
        define(name, default, flag_values=flag_values, **shared[name])


def define_loading_flags(flag_values: flags.FlagValues) -> None:
    """Define ``--model`` and the flags that select its score, signature, inputs and outputs."""
    define_common_flags(
        flag_values, model="", score=None, signature="", input_tensors=[], output_tensor="", position=[],
        given=[], explain_input="",
    )  # fmt: skip


def loading_options(flag_values: flags.FlagValues) -> dict[str, Any]:
    """Return the options of ``attribution.load_model`` given by the flags, without defaults."""
    options = {
        "signature": flag_values.signature,
        "inputs": flag_values.input_tensors,
        "output": flag_values.output_tensor,
        "position": _position(flag_values.position),
        "given": dict(map(_given, flag_values.given)),
        "score": flag_values.score,
    }
    return {name: value for name, value in options.items() if value}


def _position(parts: list[str]) -> tuple[int, ...]:
    try:
        return tuple(map(int, parts))
    except ValueError:
        raise BadInput(
            f"--position={','.join(parts)}: expected integers separated by commas, one for each axis between batch "
            "and classes"
        ) from None


def _given(text: str) -> tuple[str, Any]:
    """Return a name and a number, a truth value or text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--given={text}: expected NAME=VALUE, such as training=False")
    with contextlib.suppress(ValueError, RecursionError):
        return name, json.loads(value.lower())
    return name, value


def with_flags(chosen: _Chosen, flag_values: flags.FlagValues) -> dict[str, tuple[Method, dict[str, Any]]]:
    """Return methods with the values of ``--parameters`` and ``--layer``, each in the methods that have it.

    Raises
    ------
    BadInput
        If no method has a parameter of that name, or its value is invalid.
    """
    given = _parameter_texts([*flag_values.parameters, *[f"layer={flag_values.layer}"] * bool(flag_values.layer)])
    known = sorted({name for method, _ in chosen.values() for name in method.defaults})
    if unknown := [name for name in given if name not in known]:
        theirs = f"their parameters are {listed(known)}" if known else "they have none"
        raise BadInput(f"none of {listed(chosen)} has a parameter '{unknown[0]}'; {theirs}")
    with_values = {}
    for label, (method, parameters) in chosen.items():
        values = {
            name: _parameter_value(given[name], name, method.defaults[name])
            for name in given
            if name in method.defaults
        }
        with_values[label] = method, method.parameters(parameters | values)
    return with_values


def _parameter_texts(entries: Iterable[str]) -> dict[str, str]:
    """Return the texts of ``--parameters`` by name."""
    given: dict[str, str] = {}
    for entry in entries:
        name, _, text = (part.strip() for part in entry.partition("="))
        if not (name and text):
            raise BadInput(f"--parameters={entry}: expected NAME=VALUE, such as points=300")
        if name in given:
            raise BadInput(f"parameter '{name}' is given twice, {given[name]} and {text}; give it once")
        given[name] = text
    return given


def _parameter_value(text: str, name: str, default: Any) -> Any:
    """Return the number, truth value, text or array of a file that a parameter's text means."""
    if name in ARRAYS and text.endswith(".npy"):
        return read_array(text)
    if isinstance(default, str) or (name == "layer" and default is None):
        return text
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text.lower(), text)


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
    if not flag_values.model:
        raise BadInput("--model is empty; name a SavedModel, or a .keras or .h5 file")
    return loading.load_model(flag_values.model, **loading_options(flag_values))
