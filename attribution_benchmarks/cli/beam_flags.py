"""Flags of commands whose work can be distributed over processes and machines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from attribution.errors import BadInput
from attribution.files import cache_directory, check_directory
from attribution_benchmarks.beam.precompute import Precompute
from attribution_benchmarks.beam.work import WorkFactory, import_beam
from attribution_benchmarks.beam.workers import available_cores

if TYPE_CHECKING:
    from attribution_benchmarks.beam.parallel_map import ParallelMap

_PRECOMPUTED = ("precomputed_maps", "server")  # flags of commands that load no model
_HOW_RUN = ("workers", "block_size", "blocks_dir", "allow_failures", "runner_options")
_LOCAL, _BEAM = "local", "beam"


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
        "directory of the blocks' results, which all workers must reach; "
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
    return _check_beam_flags(flag_values)


def _check_beam_flags(flag_values: flags.FlagValues, processes_flag: str = "") -> bool:
    """Check the flags of ``define_beam_flags``, as ``check_precompute_flags``; return whether Beam computes.

    ``processes_flag`` is the command's flag for the number of processes with ``--runner=local``; empty if there is
    none.
    """
    if flag_values.runner == _LOCAL:
        for name in _HOW_RUN:
            if name in flag_values and flag_values[name].present:
                option = "options after --" if name == "runner_options" else f"--{name}"
                raise BadInput(f"{option}: only with --runner=beam; add that, or omit them")
        return False
    if processes_flag and flag_values[processes_flag].present:
        raise BadInput(f"--{processes_flag}: only with --runner=local; use --workers with --runner=beam")
    import_beam()  # with the line of an installation without it
    from attribution_benchmarks.beam import pipeline

    pipeline.pipeline_of(flag_values.runner_options)
    check_directory("blocks_dir", flag_values.blocks_dir)
    return True


def parallel_map_from_flags(
    flag_values: flags.FlagValues, processes_flag: str, chunk: int, code: Callable[[Callable], str], claim: str
) -> contextlib.AbstractContextManager[ParallelMap]:
    """Return a context with the ``ParallelMap`` that a command's flags describe.

    ``processes_flag`` is its flag for the number of processes with ``--runner=local``; 0 is one per core. ``chunk`` is
    as for ``local_map``, ``code`` and ``claim`` as for ``BeamMap``. Raises ``BadInput`` if they contradict each other.
    """
    from attribution_benchmarks.beam.parallel_map import BeamMap, local_map

    if not _check_beam_flags(flag_values, processes_flag):
        return local_map(flag_values[processes_flag].value or available_cores(), chunk)
    options = tuple(flag_values.runner_options)
    directory = flag_values.blocks_dir or str(cache_directory("blocks"))
    beam = BeamMap(code, os.path.abspath(claim), directory, flag_values.workers, flag_values.block_size, options)
    return contextlib.nullcontext(beam)


def precompute_from_flags(flag_values: flags.FlagValues, factory: WorkFactory, scores_dir: str = "") -> Precompute:
    """Return what computes the blocks of a command with ``--runner=beam``.

    Its flags are checked by ``check_precompute_flags``; ``scores_dir`` is its store of scores, empty for none.
    """
    directory = flag_values.blocks_dir
    if not directory:
        directory = os.path.join(scores_dir, "blocks") if scores_dir else str(cache_directory("blocks"))
    return Precompute(
        factory, directory, flag_values.workers, flag_values.block_size, flag_values.allow_failures,
        tuple(flag_values.runner_options),
    )  # fmt: skip
