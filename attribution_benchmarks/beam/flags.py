"""Flags of commands whose work can be distributed over processes and machines."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from absl import flags

from attribution.errors import BadInput
from attribution.file_io.paths import check_directory, is_remote
from attribution_benchmarks.core.manifest import HOW_RUN

_LOCAL, _BEAM = "local", "beam"
_PRECOMPUTED = ("precomputed_maps", "from_maps", "server")  # flags of commands that load no model


def define_precompute_flags(flag_values: flags.FlagValues) -> None:
    """Define ``--runner`` and its options for a command that computes scores."""
    define_beam_flags(
        flag_values, "scores",
        "inputs per block with --runner=beam, a multiple of --batch_size; eight batches if 0",
        "below --scores_dir or the cache",
    )  # fmt: skip
    flags.DEFINE_integer(
        "allow_failures", 0, "number of blocks that may fail; their inputs are dropped from the tables",
        lower_bound=0, flag_values=flag_values,
    )  # fmt: skip


def define_beam_flags(
    flag_values: flags.FlagValues,
    what: str = "files",
    block_size: str = "files per block with --runner=beam; 64 if 0",
    blocks_dir: str = "in the cache",
) -> None:
    """Define ``--runner`` and its options.

    ``what`` are the results of the command, which do not depend on the runner; ``block_size`` is the help of this flag,
    and ``blocks_dir`` says where blocks are by default.
    """
    flags.DEFINE_enum(
        "runner", _LOCAL, [_LOCAL, _BEAM],
        "processes of this machine, or Apache Beam: in --workers processes here, or on the runner that the options "
        f"after -- name, as in -- --runner=FlinkRunner; the {what} are the same bytes (docs/scale.md)",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "workers", 1, "processes on this machine with --runner=beam", lower_bound=1, flag_values=flag_values
    )
    flags.DEFINE_integer("block_size", 0, block_size, lower_bound=0, flag_values=flag_values)
    flags.DEFINE_string(
        "blocks_dir", "",
        "directory of the blocks' results, which all workers must reach: a path, or gs://, s3://, hdfs://; "
        f"{blocks_dir} if empty", flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_multi_string("runner_options", [], "options of Beam, written after --", flag_values=flag_values)


def check_precompute_flags(flag_values: flags.FlagValues) -> bool:
    """Check, before any work, that the flags fit together; return whether Beam computes.

    Raises ``BadInput`` if Beam's options are invalid or given without it, it is not installed, or the directory of
    blocks cannot be used.
    """
    if flag_values.runner == _BEAM:
        for name in _PRECOMPUTED:
            if name in flag_values and flag_values[name].value:
                raise BadInput(f"--{name} computes nothing with a local model; omit --runner=beam")
    return check_beam_flags(flag_values)


def check_beam_flags(flag_values: flags.FlagValues, processes_flag: str = "") -> bool:
    """Check the flags of ``define_beam_flags``, as ``check_precompute_flags``; return whether Beam computes.

    ``processes_flag`` is the command's flag for the number of processes with ``--runner=local``; empty if there is
    none.
    """
    if flag_values.runner == _LOCAL:
        for name in HOW_RUN:
            if name != "runner" and name in flag_values and flag_values[name].present:
                option = "options after --" if name == "runner_options" else f"--{name}"
                raise BadInput(f"{option}: only with --runner=beam; add that, or omit them")
        return False
    if processes_flag and flag_values[processes_flag].present:
        raise BadInput(f"--{processes_flag}: only with --runner=local; use --workers with --runner=beam")
    import_beam()
    importlib.import_module("attribution_benchmarks.beam.pipeline").pipeline_of(flag_values.runner_options)
    if not is_remote(flag_values.blocks_dir):
        check_directory("blocks_dir", flag_values.blocks_dir)
    return True


def import_beam() -> Any:
    """Import Apache Beam without its warnings about missing clients of clouds, and return it."""
    logging.disable(logging.WARNING)
    try:
        return importlib.import_module("apache_beam")
    except ImportError as error:
        raise BadInput("--runner=beam needs Apache Beam: pip install 'attribution-benchmarks[beam]'") from error
    finally:
        logging.disable(logging.NOTSET)
