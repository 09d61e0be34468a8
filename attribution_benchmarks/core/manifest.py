"""The provenance of a table: versions, models, data, seed and command."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from importlib import metadata

from absl import flags

from attribution import __version__

_PACKAGES = (
    "keras",
    "numpy",
    "pillow",  # draws images
    "scikit-learn",
    "scipy",
    "tensorflow",
    "tf-explain",
    "tf-keras-vis",
)


def describe_run(
    benchmark: str, models: Mapping[str, str], data: Mapping[str, str], seed: int, command: str
) -> dict[str, object]:
    """Return the provenance of a table, without dates or machine names: equal runs have equal manifests.

    ``models`` and ``data`` are fingerprints by path or name; ``command`` is the result of ``command_of``. The keys of
    the result are the names of the arguments and ``versions``.
    """
    return {
        "benchmark": benchmark,
        "versions": versions(),
        "models": dict(models),
        "data": dict(data),
        "seed": int(seed),
        "command": command,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, this project and the installed packages that numbers depend on."""
    found = {"python": platform.python_version(), "attribution-benchmarks": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


HOW_RUN = ("runner", "workers", "block_size", "blocks_dir", "allow_failures", "runner_options")  # the same numbers
_FILES = (
    "cache_dir", "output", "plot_dir", "plot_format", "num_pictures", "scores_dir", "input_scores", "save_maps",
    "maps_pooling",
)  # fmt: skip


def command_of(program: str, flag_values: flags.FlagValues) -> str:
    """Return the command line of a program, such as "python -m module", that reproduces the numbers.

    Only flags that were given are repeated, aliases under their current name, without output paths and ``HOW_RUN``.
    """
    from attribution.remote_files import serialized

    skipped = {*_FILES, *HOW_RUN}
    given = [name for name in flag_values if flag_values[name].present and name not in skipped]
    given = [name for name in given if not (flag_values[name].help or "").startswith("Alias for ")]
    return " ".join([program, *(shlex.quote(serialized(flag_values[name])) for name in given)])
