"""Run a function in a process of its own, and record each file, socket and process that it opens or starts.

The kernel stops such a system call, and this process decides on it (Linux's seccomp user notification, which needs no
rights where the process gives up gaining new ones). What is not allowed fails with EACCES and is recorded.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable

# Number on x86_64: name, and which argument is a path, or None.
CALLS = {
    2: ("open", 0), 257: ("openat", 1), 437: ("openat2", 1), 85: ("creat", 0), 41: ("socket", None),
    53: ("socketpair", None), 59: ("execve", 0), 322: ("execveat", 1), 56: ("clone", None), 57: ("fork", None),
    58: ("vfork", None), 435: ("clone3", None), 82: ("rename", 0), 264: ("renameat", 1), 316: ("renameat2", 1),
    87: ("unlink", 0), 263: ("unlinkat", 1), 83: ("mkdir", 0), 258: ("mkdirat", 1), 133: ("mknod", 0),
    259: ("mknodat", 1), 86: ("link", 0), 265: ("linkat", 1), 88: ("symlink", 0), 266: ("symlinkat", 0),
    76: ("truncate", 0), 90: ("chmod", 0), 268: ("fchmodat", 1), 425: ("io_uring_setup", None), 101: ("ptrace", None),
}  # fmt: skip
_THREAD = 0x10000  # CLONE_THREAD
_WRITING = {"open": 1, "openat": 2}  # which argument has the flags
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1


class Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction)))


def install(program: list[Instruction], listen: bool = False) -> int:
    """Let a program decide on the system calls of all threads of this process, for good.

    Parameters
    ----------
    program
        Of seccomp.
    listen
        Whether calls are reported to the descriptor that is returned.
    """
    array = (Instruction * len(program))(*program)
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    # SECCOMP_SET_MODE_FILTER for all threads
    descriptor = library.syscall(317, 1, 1 | (8 | 16 if listen else 0), ctypes.byref(_Program(len(program), array)))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return descriptor


def _install() -> int:
    """Stop the calls of all threads of this process and return the descriptor that they are reported to."""
    program = [Instruction(0x20, 0, 0, 0)]  # load the number of the call
    for number in CALLS:
        program += [Instruction(0x15, 0, 1, number), Instruction(0x06, 0, 0, 0x7FC00000)]  # notify
    program.append(Instruction(0x06, 0, 0, 0x7FFF0000))  # allow
    return install(program, listen=True)


def _text(process: int, address: int) -> str:
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        content = memory.read(4096 - address % 4096)
        if b"\0" not in content:
            with contextlib.suppress(OSError):
                content += memory.read(4096)
    return os.fsdecode(content.partition(b"\0")[0])


def _described(process: int, number: int, arguments: tuple[int, ...]) -> str | None:
    """Return a call as text, such as ``"openat /etc/hosts"``; None for a new thread. ``w`` marks writing."""
    name, path = CALLS[number]
    if name == "clone" and arguments[0] & _THREAD:
        return None
    if name == "clone3":
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            memory.seek(arguments[0])
            if struct.unpack("Q", memory.read(8))[0] & _THREAD:
                return None
    writes = name in _WRITING and arguments[_WRITING[name]] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return f"{name}{' w' if writes else ''}{'' if path is None else ' ' + _text(process, arguments[path])}"


def run(
    prepare: Callable[[], object], work: Callable[[Callable[[str], None]], object],
    allowed: Callable[[str], bool], seconds: float,
) -> tuple[int, list[str], list[tuple[str, str]]]:  # fmt: skip
    """Run ``prepare()`` and ``work(step)`` in a copy of this process, in which the calls are stopped after ``prepare``.

    Parameters
    ----------
    prepare, work
        Work calls ``step(name)`` before each of its parts.
    allowed
        Whether a call, such as ``"openat /etc/hosts"``, may go on.
    seconds
        After which a part without an end is killed.

    Returns
    -------
    code : int
        As ``subprocess`` has it: negative for a signal.
    steps : list of str
        In their order, the last one empty if all work was done.
    calls : list of (str, str)
        Step and call of each that was not allowed.
    """
    ours, theirs = socket.socketpair()
    process = os.fork()
    if not process:
        code = 1
        try:
            ours.close()
            prepare()
            socket.send_fds(theirs, [b"\n"], [_install()])
            work(lambda name: theirs.sendall(name.encode() + b"\n"))
            theirs.sendall(b"\n")
            code = 0
        except BaseException as error:
            print(type(error), str(error)[:1000], file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    theirs.close()
    with ours:
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        if not descriptors:
            raise RuntimeError("the process ended while it was prepared")
        steps, calls = _watch(process, ours, descriptors[0], allowed, seconds)
    _, ended = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(ended), steps, calls


def _watch(process, ours, listener, allowed, seconds):
    """Return the steps of a process, and the calls that were refused, when it has ended."""
    calls, steps, said, last = [], [""], b"", time.monotonic()
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    poll.register(listener, select.POLLIN)
    while True:
        ready = poll.poll(500)
        if time.monotonic() - last > seconds:
            os.kill(process, signal.SIGKILL)
        for descriptor, event in ready:
            if descriptor == listener and event & select.POLLIN:
                if refused := _decide(listener, allowed):
                    calls.append((steps[-1], refused))
            elif descriptor == listener:
                poll.unregister(listener)
                os.close(listener)
            elif content := ours.recv(1 << 16):
                said += content
                *names, said = said.split(b"\n")
                steps += [name.decode() for name in names]
                last = time.monotonic()
            else:
                return steps, calls


def _decide(listener: int, allowed: Callable[[str], bool]) -> str | None:
    """Let the next call go on, or fail; return it if it fails."""
    request = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
    except OSError:  # the process was killed meanwhile
        return None
    number, process, _, call, _, _, *arguments = struct.unpack("QIIiIQ6Q", request)
    try:
        described = _described(process, call, arguments)
    except OSError:
        described = f"{CALLS[call][0]} of an unknown path"
    goes_on = described is None or allowed(described)
    reply = struct.pack("QqiI", number, 0, *((0, _CONTINUE) if goes_on else (-errno.EACCES, 0)))
    with contextlib.suppress(OSError):
        fcntl.ioctl(listener, _SEND, reply)
    return None if goes_on else described
