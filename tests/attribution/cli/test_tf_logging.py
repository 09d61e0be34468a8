"""TensorFlow starts silently, and whatever else it has to say is heard."""

import subprocess
import sys

import pytest

CHATTER = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1.2 3 port.cc:153] oneDNN custom operations are on. You may see slightly different numerical results",
    "I0000 00:00:1.2 3 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.",
]
AT_THE_GPU = "E0000 00:00:1.2 3 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error"
PROGRAM = """
import sys
from absl import flags
from attribution import cli
def main(flag_values):
    import tensorflow
    print("afterwards", file=sys.stderr)
    print("result")
cli.run(main, flags.FlagValues(), "What it does.")
"""


def started(directory, ending, program=PROGRAM):
    """Run a program with a package in TensorFlow's place that writes to standard error as its C++ parts do."""
    package = directory / "tensorflow"
    package.mkdir()
    said = "\n".join([*CHATTER, "E0000 a real error", ""])
    (package / "__init__.py").write_text(
        f"import os\nos.write(2, {said.encode()!r})\nfrom tensorflow import config\n{ending}\n"
    )
    (package / "config.py").write_text(
        f"import os\ndef list_physical_devices():\n    os.write(2, {AT_THE_GPU.encode() + b'!'!r}[:-1] + b'\\n')\n"
    )
    code = f"import sys; sys.path.insert(0, {str(directory)!r})\n{program}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_chatter_is_left_out_and_errors_are_kept(tmp_path):
    done = started(tmp_path, "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "result\n", "E0000 a real error\nafterwards\n")


@pytest.mark.parametrize(
    ("ending", "code", "last"),
    [
        ("os.write(2, b'no AVX here\\n'); os.abort()", -6, "no AVX here"),
        ("raise ImportError('a library is missing')", 1, "ImportError: a library is missing"),
    ],
)
def test_what_is_said_before_a_failed_start_is_heard(ending, code, last, tmp_path):
    done = started(tmp_path, ending)
    assert done.returncode == code
    lines = done.stderr.splitlines()
    assert lines[0] == "E0000 a real error" and lines[-1] == last


def test_without_command_line_nothing_is_left_out(tmp_path):
    done = started(tmp_path, "", "from attribution import cli; import tensorflow")
    assert done.stderr.splitlines() == [*CHATTER, "E0000 a real error"]


def test_a_closed_standard_error_is_no_obstacle(tmp_path):
    (tmp_path / "tensorflow.py").write_text("class config:\n    list_physical_devices = staticmethod(list)\n")
    code = PROGRAM.replace("import tensorflow", f"sys.path.insert(0, {str(tmp_path)!r}); import tensorflow")
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code], stdout=subprocess.PIPE, text=True
    )
    # With standard error closed, sys.stderr is None, and print takes that for standard output.
    assert (done.returncode, done.stdout) == (0, "afterwards\nresult\n")


def test_a_terminal_stays_one_for_progress_bars(tmp_path):
    import os
    import pty

    (tmp_path / "tensorflow.py").write_text("class config:\n    list_physical_devices = staticmethod(list)\n")
    code = PROGRAM.replace("import tensorflow", f"sys.path.insert(0, {str(tmp_path)!r}); import tensorflow")
    code = code.replace('print("result")', "print(sys.stderr.isatty())")
    terminal, other_end = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=other_end, text=True, timeout=60)
    os.close(other_end)
    os.close(terminal)
    assert (done.returncode, done.stdout) == (0, "True\n")


LOUD = """
import logging, os, sys
from absl import flags
from attribution import cli
def main(flag_values):
    import tensorflow as tf
    tf.transpose(tf.constant([[True]]))  # oneDNN does not know the type
    for number in range(8):
        tf.function(lambda x, number=number: x + number)(tf.constant(1.0))
        tf.function(lambda x: x).get_concrete_function(tf.TensorSpec(()))
    tf.get_logger().warning("From x: y is deprecated and will be removed in a future version")
    tf.get_logger().error("a real error")
cli.run(main, flags.FlagValues(), "What it does.")
"""


def test_tensorflow_itself_starts_and_computes_silently_and_its_errors_are_heard():
    done = subprocess.run([sys.executable, "-c", LOUD], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "ERROR:tensorflow:a real error\n")


LOOKING = """
import contextlib
for name in ("jax", "matplotlib", "csv"):
    with contextlib.suppress(ImportError):
        print(__import__(name).__name__)
"""


@pytest.mark.parametrize("first", ["import attribution", "from attribution import cli; cli.quiet_tensorflow()"])
def test_tensorflow_is_imported_without_jax_and_matplotlib_which_users_still_find(first, tmp_path):
    (tmp_path / "jax.py").write_text("")
    (tmp_path / "matplotlib.py").write_text("")
    done = started(tmp_path, LOOKING, f"{first}; import tensorflow; import jax, matplotlib")
    assert (done.returncode, done.stdout) == (0, "csv\n"), done.stderr


def test_parts_of_keras_with_further_packages_are_loaded_at_first_use(tmp_path):
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "__init__.py").write_text("from keras import wrappers\n")
    (tmp_path / "keras" / "wrappers.py").write_text("any = print('loaded')\n")
    done = started(
        tmp_path, "import keras", "import attribution, tensorflow as tf; print(1); tf.keras.wrappers.__file__"
    )
    assert (done.returncode, done.stdout) == (0, "1\nloaded\n"), done.stderr
