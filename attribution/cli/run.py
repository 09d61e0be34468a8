"""Run a command: parse its flags, call it, and report errors of the user in one line with exit code 2."""

from __future__ import annotations

import _thread
import codecs
import contextlib
import errno
import io
import math
import os
import re
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence

from absl import flags

from attribution.cli.tf_logging import quiet_tensorflow
from attribution.errors import BadInput, printable
from attribution.file_io.paths import CACHE_VARIABLE, cache_at, environment, is_remote, reason

TRUST_VARIABLE = "ATTRIBUTION_BENCHMARKS_TRUST_MODELS"
_HELP_WIDTH = 100  # characters
_RESEND_AFTER = 0.05  # seconds after which an ignored interruption is sent again


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
        sys.stdout.reconfigure(errors=_register_fallback())
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
        print(help_text(flag_values, description, main.__module__))
        return 0
    flag_values.unparse_flags()
    with _interruptions() as interrupted:
        try:
            _parse_and_call(main, flag_values, argv)
        except KeyboardInterrupt:
            return _report("interrupted", 130)
        except BaseException as error:
            if not interrupted:
                return _handle(error)
        # An interruption can be lost: Python ignores exceptions in ``__del__`` and in callbacks of C code, and C++
        # libraries replace them.
        return _report("interrupted", 130) if interrupted else 0


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
        _HELP_WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_on_hyphens=False,
    )
    if default not in (None, ""):
        lines.append(f"      (default: {default})")
    return lines


def _parse_and_call(
    main: Callable[[flags.FlagValues], None], flag_values: flags.FlagValues, argv: Sequence[str]
) -> None:
    _check_working_directory()
    rest = flag_values(_with_runner_options(flag_values, argv))[1:]
    if rest:
        raise BadInput(f"unexpected argument {rest[0]!r}; options are written --name=value, see --help")
    _check_numbers(flag_values)
    cache = cache_at(flag_values.cache_dir if "cache_dir" in flag_values else "")
    # For attribution.model.op_allowlist.
    trust = environment(TRUST_VARIABLE, "1" if "trust_model" in flag_values and flag_values.trust_model else "")
    with cache, trust, _staged(flag_values):
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
    if (message := _tensorflow_file_error(error)) is not None:
        return _report(f"error: {printable(message)}; {_REMEDY}", 2)
    raise error


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise BadInput(f"the working directory cannot be used ({reason(error)}); change to another") from error


def _with_runner_options(flag_values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Return the arguments with those after ``--`` as ``--runner_options``, if the command has that flag."""
    argv = list(argv)
    if "runner_options" not in flag_values or "--" not in argv:
        return argv
    end = argv.index("--")
    return argv[:end] + [f"--runner_options={option}" for option in argv[end + 1 :]]


def _check_numbers(flag_values: flags.FlagValues) -> None:
    """Raise BadInput for NaN and infinity, which absl's bounds accept."""
    for name in flag_values:
        value = flag_values[name].value
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"--{name} is {value}; expected a finite number")


def _staged(flag_values: flags.FlagValues) -> contextlib.AbstractContextManager[None]:
    """Replace addresses in the flags by local copies, if there are any; see ``remote_files.staged``."""
    if not any(is_remote(str(flag_values[name].value)) for name in flag_values):
        return contextlib.nullcontext()
    from attribution.file_io.remote_files import staged

    return staged(flag_values)


def apply_settings(flag_values: flags.FlagValues) -> None:
    """Apply the settings of a command to this worker process, and stage its inputs, until it ends."""
    if "cache_dir" in flag_values and flag_values.cache_dir:
        os.environ[CACHE_VARIABLE] = os.path.abspath(flag_values.cache_dir)
    if "trust_model" in flag_values and flag_values.trust_model:
        os.environ[TRUST_VARIABLE] = "1"
    from attribution.file_io.remote_files import stage_inputs

    stage_inputs(flag_values)


# Errors of the machine or of access rights, not of the program.
_FILE_SYSTEM_ERRNOS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EIO,
    errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ESTALE,
}  # fmt: skip
_REMEDY = "make room, or name a place that can be used"


def _tensorflow_file_error(error: BaseException) -> str | None:
    """Return the file and the system's message of a TensorFlow error for a file; None for other errors.

    TensorFlow has no ``errno``: its messages end with the file's name and the system's message.
    """
    errors = sys.modules.get("tensorflow.python.framework.errors_impl")  # not imported for this
    if errors is None or not isinstance(error, errors.OpError):
        return None
    for number in _FILE_SYSTEM_ERRNOS:
        words = os.strerror(number)
        if found := re.search(rf"(\S+); {re.escape(words)}", error.message):
            return f"{found[1]}: {words}"
    return None


def _report(line: str, code: int) -> int:
    """Print how a command ended as the last line, after removing progress bars, and return its code."""
    if "tqdm" in sys.modules:
        for bar in list(getattr(sys.modules["tqdm"].tqdm, "_instances", ())):
            bar.leave = False
            bar.close()
    print(line, file=sys.stderr)
    return code


@contextlib.contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Yield a list that is not empty after an interruption by the keyboard.

    Python ignores a ``KeyboardInterrupt`` raised in ``__del__`` or in a callback of C code. It is then sent again a
    moment later.
    """
    # Only with Python's own handler: a shell starts background jobs with interruptions ignored.
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield []
        return
    interrupted: list[int] = []
    timers: list[threading.Timer] = []
    report = sys.unraisablehook

    def note(number, frame):
        interrupted.append(number)
        raise KeyboardInterrupt

    def send_again(ignored):
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            report(ignored)
            return
        delay, started = _RESEND_AFTER, False
        while not started:
            try:
                timers.append(threading.Timer(delay, _interrupt_main_thread))
                timers[-1].daemon = True
                timers[-1].start()
                started = True
            except KeyboardInterrupt:  # on a busy machine it comes before this function ends
                delay = max(2 * delay, 1e-3)

    sys.unraisablehook = send_again
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        for timer in timers:
            timer.cancel()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = report


def _interrupt_main_thread() -> None:
    """Send SIGINT to the main thread, even if it waits in a system call."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _register_fallback() -> str:
    """Register an error handler that replaces characters missing in the output's encoding, and return its name."""
    plain = {"–": "-", "−": "-", "×": "x", "±": "~", "α": "a", "β": "b", "ε": "e", "≥": ">", "≤": "<"}

    def replace(error):
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(plain.get(c, "?") for c in error.object[error.start : error.end]), error.end

    codecs.register_error("attribution.plain", replace)
    return "attribution.plain"
