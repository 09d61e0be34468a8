"""Run a program in a process forked from one that has imported TensorFlow: that is the most of a short command's time.

    python tests/quick_python.py serve SOCKET               # until its standard input ends
    python tests/quick_python.py run SOCKET -m module ...   # or -c, or a file, as python takes them

The program has the directory, variables, standard streams and exit code of ``run``. Tests of what a command does use it
through the fixture ``quick_python``. One of how a process starts or ends (imports, signals) needs its own process.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys


def run(address, arguments):
    """Have a program run and return its exit code; end by the signal that it ended by."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        wanted = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [len(wanted).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(wanted)
        code = int(server.recv(16) or -signal.SIGKILL)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


def serve(address):
    """Fork for each program, from a process that never does anything but import."""
    import gc

    hidden = dict.fromkeys(["jax", "matplotlib"])  # as attribution.tensorflow_log imports TensorFlow
    sys.modules.update(hidden)
    import tensorflow  # noqa: F401

    for name in hidden:
        del sys.modules[name]
    gc.freeze()  # else each child copies the pages of all these objects
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        children = []
        while listener in select.select([listener, 0], [], [])[0]:
            client = listener.accept()[0]
            children = [child for child in children if os.waitpid(child, os.WNOHANG) == (0, 0)]
            children.append(os.fork())
            if not children[-1]:
                listener.close()
                return wait_for_program(client)
            client.close()
    for child in children:
        os.waitpid(child, 0)


def wait_for_program(client):
    """Fork the program and send its exit code, or end it when ``run`` has ended; in its process, run it."""
    length, streams, *_ = socket.recv_fds(client, 4, 3)
    wanted = json.loads(client.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
    if not (child := os.fork()):
        client.close()
        return become(*wanted, streams)
    for stream in streams:
        os.close(stream)
    if client in select.select([client, os.pidfd_open(child)], [], [])[0]:
        os.kill(child, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        client.sendall(str(code).encode())
    os._exit(0)


def become(arguments, directory, variables, streams):
    """Run a program in this process as ``python`` does."""
    import runpy
    import types

    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    kind, *rest = arguments
    if kind == "-m":
        sys.path.insert(0, directory)
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(kind)))
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    verb, address, *arguments = sys.argv[1:]
    sys.exit(run(address, arguments) if verb == "run" else serve(address))
