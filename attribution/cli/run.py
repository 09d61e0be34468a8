"""Run a command: parse its flags, call it, turn what the user did wrong into one line and exit code 2."""

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
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence

from absl import flags

from attribution.cli.help import help_text
from attribution.cli.tf_logging import quiet_tensorflow
from attribution.errors import BadInput, printable
from attribution.file_io.paths import CACHE_VARIABLE, cache_at, reason
from attribution.file_io.remote_files import stage_inputs, staged

TRUST_VARIABLE = "ATTRIBUTION_BENCHMARKS_TRUST_MODELS"
_SENT_AGAIN = 0.05  # seconds after which an interruption that Python ignored is sent again


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
    if sys.stdout is None:  # closed by whoever started the command
        sys.exit(_said("error: standard output is closed; redirect it, for example to /dev/null", 2))
    quiet_tensorflow()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_plainly())
    try:
        code = execute(main, flag_values, description, sys.argv)
        if code == 130:  # the program ends now; another Ctrl-C would only end it with a traceback
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = _flushed(code)
    except BrokenPipeError:  # whoever read the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def _flushed(code: int) -> int:
    """Write what standard output still holds; return the exit code, 2 where that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return code or _said(f"error: cannot write to standard output: {reason(error)}; {_ROOM}", 2)
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
        0 when the command ended, 2 for bad input, 130 when interrupted.
    """
    if any(argument in ("--help", "-help", "-h", "--helpshort", "--helpfull") for argument in argv[1:]):
        print(help_text(flag_values, description, main.__module__))
        return 0
    flag_values.unparse_flags()
    with _interruptions() as interrupted:
        try:
            _parse_and_call(main, flag_values, argv)
        except KeyboardInterrupt:
            return _said("interrupted", 130)
        except BaseException as error:
            if not interrupted:
                return _refused(error)
        # An interruption can be lost: Python ignores what is raised in ``__del__`` and in callbacks of C code, and
        # libraries in C++ replace it with an error of theirs.
        return _said("interrupted", 130) if interrupted else 0


def _parse_and_call(
    main: Callable[[flags.FlagValues], None], flag_values: flags.FlagValues, argv: Sequence[str]
) -> None:
    _check_working_directory()
    rest = flag_values(_with_runner_options(flag_values, argv))[1:]
    if rest:
        raise BadInput(f"unexpected argument {rest[0]!r}; options are written --name=value, see --help")
    _check_numbers(flag_values)
    cache = cache_at(flag_values.cache_dir if "cache_dir" in flag_values else "")
    with cache, _trust(flag_values), staged(flag_values):
        main(flag_values)


def _refused(error: BaseException) -> int:
    """Print the line of an error that the user can fix and return exit code 2; raise any other error again."""
    if isinstance(error, (BadInput, flags.Error)):
        return _said(f"error: {printable(' '.join(str(error).split()))}", 2)
    if isinstance(error, OSError) and error.errno in _OF_THE_FILE_SYSTEM:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _said(f"error: {printable(where + reason(error))}; {_ROOM}", 2)
    if isinstance(error, SystemExit) and not (isinstance(error.code, int) and error.code):
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _said(
            f"error: {printable(place.filename)}, line {place.lineno} ended the program before the command was "
            "done; a method returns its maps and does not call sys.exit",
            2,
        )
    if (told := _of_a_file_of_tensorflow(error)) is not None:
        return _said(f"error: {printable(told)}; {_ROOM}", 2)
    raise error


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise BadInput(f"the working directory cannot be used ({reason(error)}); change to another") from error


def _with_runner_options(flag_values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Return the arguments with those after ``--`` as ``--runner_options``, where a command has that flag."""
    argv = list(argv)
    if "runner_options" not in flag_values or "--" not in argv:
        return argv
    end = argv.index("--")
    return argv[:end] + [f"--runner_options={option}" for option in argv[end + 1 :]]


def _check_numbers(flag_values: flags.FlagValues) -> None:
    """Refuse NaN and infinity, which are on the right side of every bound, or of none."""
    for name in flag_values:
        value = flag_values[name].value
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"--{name} is {value}; a finite number is needed")


@contextlib.contextmanager
def _trust(flag_values: flags.FlagValues):
    """Pass ``--trust_model`` on to ``attribution.model.op_allowlist``, also in child processes."""
    before = os.environ.get(TRUST_VARIABLE)
    if "trust_model" in flag_values and flag_values.trust_model:
        os.environ[TRUST_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(TRUST_VARIABLE, None)


def settings_of(flag_values: flags.FlagValues) -> None:
    """Let this process, which is not the command's own, work under the command's settings and on copies for good."""
    if "cache_dir" in flag_values and flag_values.cache_dir:
        os.environ[CACHE_VARIABLE] = os.path.abspath(flag_values.cache_dir)
    if "trust_model" in flag_values and flag_values.trust_model:
        os.environ[TRUST_VARIABLE] = "1"
    stage_inputs(flag_values)


# What is wrong with the machine or the rights on it, and not with the program.
_OF_THE_FILE_SYSTEM = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EIO,
    errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ESTALE,
}  # fmt: skip
_ROOM = "make room, or name a place that can be used"


def _of_a_file_of_tensorflow(error: BaseException) -> str | None:
    """Return what was wrong with a file that TensorFlow wrote or read; None where the error says nothing of the kind.

    TensorFlow opens the files of SavedModels itself and has no ``errno``: it ends its message with the file's name and
    the system's words.
    """
    errors = sys.modules.get("tensorflow.python.framework.errors_impl")  # not imported here for the sake of this
    if errors is None or not isinstance(error, errors.OpError):
        return None
    for number in _OF_THE_FILE_SYSTEM:
        words = os.strerror(number)
        if found := re.search(rf"(\S+); {re.escape(words)}", error.message):
            return f"{found[1]}: {words}"
    return None


def _said(line: str, code: int) -> int:
    """Say how a command ended, as the last line and without what is left of a progress bar, and return its code."""
    if "tqdm" in sys.modules:
        for bar in list(getattr(sys.modules["tqdm"].tqdm, "_instances", ())):
            bar.leave = False
            bar.close()
    print(line, file=sys.stderr)
    return code


@contextlib.contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Yield a list that is no longer empty once the keyboard has interrupted the command.

    Python ignores a ``KeyboardInterrupt`` raised in ``__del__`` or in a callback of C code. It is then sent again a
    moment later, so that it stops the command wherever that is.
    """
    # Only where Python's own handler is at work: a shell starts what runs in the background deaf to the keyboard.
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
        timers.append(threading.Timer(_SENT_AGAIN, _interrupt_main_thread))
        timers[-1].daemon = True
        timers[-1].start()

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
    """Send SIGINT to the main thread, also where it waits in a system call."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _plainly() -> str:
    """Return the name of a way to write what an output's encoding lacks: a table keeps its width, and its meaning."""
    plain = {"–": "-", "−": "-", "×": "x", "±": "~", "α": "a", "β": "b", "ε": "e", "≥": ">", "≤": "<"}

    def replaced(error):
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(plain.get(c, "?") for c in error.object[error.start : error.end]), error.end

    codecs.register_error("attribution_benchmarks.plainly", replaced)
    return "attribution_benchmarks.plainly"
