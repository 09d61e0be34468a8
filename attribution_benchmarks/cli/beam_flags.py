"""Flags of commands whose scores can be computed on processes and machines by Beam."""

from __future__ import annotations

import os

from absl import flags

from attribution.errors import BadInput
from attribution.files import cache_directory, check_directory
from attribution_benchmarks.beam.precompute import Precompute
from attribution_benchmarks.core.work import WorkFactory, import_beam

_PRECOMPUTED = ("precomputed_maps", "server")  # flags of commands that load no model
_HOW_RUN = ("workers", "block_size", "blocks_dir", "runner_options")
_LOCAL, _BEAM = "local", "beam"


def define_precompute_flags(flag_values: flags.FlagValues) -> None:
    """Define ``--runner`` and its options for a command that computes scores."""
    flags.DEFINE_enum(
        "runner", _LOCAL, [_LOCAL, _BEAM],
        "processes of this machine, or Apache Beam: in --workers processes here, or on the runner that the options "
        "after -- name, as in -- --runner=FlinkRunner; the scores are the same bytes (docs/scale.md)",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "workers", 1, "processes on this machine with --runner=beam", lower_bound=1, flag_values=flag_values
    )
    flags.DEFINE_integer(
        "block_size", 0, "inputs per block with --runner=beam, a multiple of --batch_size; eight batches if 0",
        lower_bound=0, flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_string(
        "blocks_dir", "",
        "directory of the blocks' results, which all workers must reach; "
        "below --scores_dir or the cache if empty", flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_multi_string("runner_options", [], "options of Beam, written after --", flag_values=flag_values)


def check_precompute_flags(flag_values: flags.FlagValues) -> bool:
    """Check, before any work, that the flags fit together; return whether Beam computes.

    Raises ``BadInput`` if Beam's options are invalid or given without it, it is not installed, or the directory of
    blocks cannot be used.
    """
    if flag_values.runner == _LOCAL:
        for name in _HOW_RUN:
            if name in flag_values and flag_values[name].present:
                option = "options after --" if name == "runner_options" else f"--{name}"
                raise BadInput(f"{option}: only with --runner=beam; add that, or omit them")
        return False
    for name in _PRECOMPUTED:
        if name in flag_values and flag_values[name].value:
            raise BadInput(f"--{name} computes nothing with a local model; omit --runner=beam")
    import_beam()  # with the line of an installation without it
    from attribution_benchmarks.beam import pipeline

    if flag_values.runner_options:
        pipeline.pipeline_of(flag_values.runner_options)
    check_directory("blocks_dir", flag_values.blocks_dir)
    return True


def precompute_from_flags(flag_values: flags.FlagValues, factory: WorkFactory, scores_dir: str = "") -> Precompute:
    """Return what computes the blocks of a command with ``--runner=beam``.

    Its flags are checked by ``check_precompute_flags``; ``scores_dir`` is its store of scores, empty for none.
    """
    directory = flag_values.blocks_dir
    if not directory:
        directory = os.path.join(scores_dir, "blocks") if scores_dir else str(cache_directory("blocks"))
    return Precompute(
        factory, directory, flag_values.workers, flag_values.block_size, tuple(flag_values.runner_options)
    )  # fmt: skip
