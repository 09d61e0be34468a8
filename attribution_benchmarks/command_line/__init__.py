"""The way every command of the house behaves: flags, one-line errors, exit codes.

This room imports nothing of the house and no TensorFlow, so that ``--help`` answers at once.
"""

from attribution_benchmarks.command_line.errors import BadInput
from attribution_benchmarks.command_line.flags import define_common_flags, listed
from attribution_benchmarks.command_line.run import execute, run
from attribution_benchmarks.command_line.whole_file import write_whole

__all__ = ["BadInput", "define_common_flags", "execute", "listed", "run", "write_whole"]
