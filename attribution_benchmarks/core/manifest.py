"""The provenance of a table: versions, models, data, seed and command."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from attribution import __version__
from attribution.errors import print_line

# Pillow draws images.
_PACKAGES = ("keras", "numpy", "pillow", "scikit-learn", "scipy", "tensorflow", "tf-explain", "tf-keras-vis")
UNIDENTIFIED: dict[str, str] = {}  # custom code of this process that no fingerprint describes -> why


def note_unidentified(name: str, why: str, aloud: bool) -> None:
    """Note that numbers of custom code are not stored, and print it once if ``aloud``."""
    UNIDENTIFIED[name] = why
    if aloud:
        _print(f"scores of '{name}' are not stored: {why}")


@functools.cache
def _print(line: str) -> None:
    print_line(line, file=sys.stderr)


def describe_run(
    benchmark: str, models: Mapping[str, str], data: Mapping[str, str], seed: int, command: str
) -> dict[str, object]:
    """Return the provenance of a table, without dates or machine names: equal runs have equal manifests.

    ``models`` and ``data`` are fingerprints by path or name; ``command`` computes the same numbers. The keys of
    the result are the names of the arguments, ``versions``, and ``unidentified`` if there is anything in it.
    """
    found = {
        "benchmark": benchmark,
        "versions": versions(),
        "models": dict(models),
        "data": dict(data),
        "seed": int(seed),
        "command": command,
    }
    return {**found, "unidentified": dict(UNIDENTIFIED)} if UNIDENTIFIED else found


# Variables by which libraries choose how they compute. Terraform's begin with TF_ too, and may hold passwords.
_ARITHMETIC = re.compile(
    r"(XLA|ONEDNN|DNNL|MKL|OPENBLAS|NPY|CUDNN|CUBLAS)_\w+|KERAS_BACKEND|NVIDIA_TF32_OVERRIDE|TF_\w*(ENABLE|DISABLE|USE|ONEDNN|"
    r"MKL|XLA|JIT|CUDNN|CUBLAS|PRECISION|DETERMINISTIC|FP16|BF16|TF32|FPMATH|AUTOTUNE)\w*"
)
_HARMLESS = re.compile(r"\w+_(NUM_THREADS|VERBOSE)")
_OPTIMIZER = {"disable_meta_optimizer": False, "disable_model_pruning": False}  # TensorFlow's defaults


def _of_tensorflow(config: Any) -> dict[str, tuple[str, str]]:
    """Return the value and the default of TensorFlow's settings of arithmetic."""
    options = sorted(config.optimizer.get_experimental_options().items() - _OPTIMIZER.items())
    return {
        **{name: (str(value), "") for name, value in options},
        "jit": (str(config.optimizer.get_jit() or ""), ""),
        "tensor_float_32": (str(config.experimental.tensor_float_32_execution_enabled()), "True"),
    }


def _of_keras(config: Any) -> dict[str, tuple[str, str]]:
    """Return the value and the default of Keras's settings of arithmetic."""
    return {
        "floatx": (config.floatx(), "float32"),
        "dtype_policy": (config.dtype_policy().name, "float32"),
        "epsilon": (str(config.epsilon()), "1e-07"),
        "image_data_format": (config.image_data_format(), "channels_last"),
    }


def settings() -> dict[str, str]:
    """Return the settings of arithmetic that are not the default, of the environment and of loaded libraries."""
    found = {
        name: value
        for name, value in sorted(os.environ.items())
        if _ARITHMETIC.fullmatch(name) and not _HARMLESS.fullmatch(name)
    }
    for library, of_library in (("tensorflow", _of_tensorflow), ("keras", _of_keras)):
        if module := sys.modules.get(library):
            found |= {name: value for name, (value, default) in of_library(module.config).items() if value != default}
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python, this project and packages, and other than default settings of arithmetic."""
    found = {"python": platform.python_version(), "attribution-benchmarks": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found | settings()


def command_of(program: str, values: Mapping[str, Any]) -> str:
    """Return a command, such as "python -m module", with values of its flags.

    Values are text, numbers, truth values, or sequences of text.
    """
    return " ".join([program, *(shlex.quote(flag_of(name, value)) for name, value in values.items())])


def flag_of(name: str, value: Any) -> str:
    """Return a flag as it is written, such as ``--seed=1``."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return f"--{name}={value if isinstance(value, str | int | float) else ','.join(value)}"
