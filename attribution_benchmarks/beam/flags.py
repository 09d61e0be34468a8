"""The flags of commands whose work can be spread over processes and machines."""

from __future__ import annotations

from absl import flags

from attribution.errors import BadInput
from attribution.file_io.paths import check_directory
from attribution.file_io.remote_files import serialized
from attribution_benchmarks.beam.file_systems import check_beam, is_elsewhere
from attribution_benchmarks.core.manifest import HOW_RUN

LOCAL, BEAM = "local", "beam"


def define_scale_flags(flag_values: flags.FlagValues) -> None:
    """Define ``--runner`` and what belongs to it on the flag values of a command that scores."""
    define_beam_flags(
        flag_values, "scores",
        "inputs of one file of --runner=beam, a multiple of --batch_size; eight batches when 0",
        "directory of these files, which all workers must reach: a path, or gs://, s3://, hdfs://; below --scores_dir "
        "or the cache when empty",
    )  # fmt: skip
    flags.DEFINE_integer(
        "allow_failures", 0, "blocks that may fail; their inputs are left out of the tables",
        lower_bound=0, flag_values=flag_values,
    )  # fmt: skip


def define_beam_flags(
    flag_values: flags.FlagValues,
    what: str = "files",
    of_a_block: str = "pictures of one block of --runner=beam; 64 when 0",
    blocks: str = "directory of what workers report, which all of them must reach: a path, or gs://, s3://, hdfs://; "
    "in the cache when empty",
) -> None:
    """Define ``--runner`` and what belongs to it on the flag values of a command that makes something.

    Parameters
    ----------
    flag_values
        Of the command.
    what
        It makes, the same bytes whoever computes.
    of_a_block, blocks
        Help of ``--block_size`` and ``--blocks_dir``.
    """
    flags.DEFINE_enum(
        "runner", LOCAL, [LOCAL, BEAM],
        "who computes: this machine's own processes, or Apache Beam in --workers processes here or wherever the "
        f"options after -- say, such as -- --runner=FlinkRunner; the {what} are the same bytes (docs/scale.md)",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "workers", 1, "processes on this machine with --runner=beam", lower_bound=1, flag_values=flag_values
    )
    flags.DEFINE_integer("block_size", 0, of_a_block, lower_bound=0, flag_values=flag_values)
    flags.DEFINE_string("blocks_dir", "", blocks, flag_values=flag_values)
    flags.DEFINE_multi_string("runner_options", [], "options of Beam, written after --", flag_values=flag_values)


def check_scale_flags(flag_values: flags.FlagValues) -> bool:
    """Refuse, before any work, what does not go together; return whether Beam computes.

    Raises
    ------
    BadInput
        If options of Beam come without it, it is not installed, or the blocks' directory cannot be used.
    """
    if flag_values.runner == BEAM:
        for name in ("from_maps", "server"):
            if name in flag_values and flag_values[name].value:
                raise BadInput(f"--{name} asks no network of a file; leave out --runner=beam")
    return check_beam_flags(flag_values)


def check_beam_flags(flag_values: flags.FlagValues, processes: str = "") -> bool:
    """Refuse what does not go together in a command with ``define_beam_flags``; return whether Beam computes.

    Parameters
    ----------
    flag_values
        Of the command.
    processes
        Its flag for processes with ``--runner=local``; empty for none.

    Raises
    ------
    BadInput
        As ``check_scale_flags``.
    """
    if flag_values.runner == LOCAL:
        for name in HOW_RUN:
            if name != "runner" and name in flag_values and flag_values[name].present:
                said = "the options after -- are" if name == "runner_options" else f"--{name} is"
                raise BadInput(f"{said} of --runner=beam; give that too, or leave them out")
        return False
    if processes and flag_values[processes].present:
        raise BadInput(f"--{processes} is of --runner=local; with --runner=beam give --workers")
    check_beam()
    if not is_elsewhere(flag_values.blocks_dir):
        check_directory("blocks_dir", flag_values.blocks_dir)
    return True


def arguments_of(flag_values: flags.FlagValues) -> tuple[str, ...]:
    """Return all flags of a command with their values, written out, but those that say how it is run."""
    kept = [flag_values[name] for name in flag_values if name not in HOW_RUN]
    return tuple(serialized(flag) for flag in kept if flag.value not in (None, ""))
