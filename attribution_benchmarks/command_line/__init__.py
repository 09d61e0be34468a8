"""The way every command of the house behaves: flags, one-line errors, exit codes.

This room imports nothing of the house and no TensorFlow, so that ``--help`` answers at once.
"""

from attribution_benchmarks.command_line.errors import BadInput, print_line, print_text, printable
from attribution_benchmarks.command_line.files import (
    cache_directory,
    check_directory,
    check_file,
    make_directory,
    write_whole,
    writing,
)
from attribution_benchmarks.command_line.flags import define_common_flags, define_trust, listed
from attribution_benchmarks.command_line.run import execute, run

__all__ = [
    "BadInput",
    "cache_directory",
    "check_directory",
    "check_file",
    "define_common_flags",
    "define_trust",
    "execute",
    "listed",
    "make_directory",
    "print_line",
    "print_text",
    "printable",
    "run",
    "write_whole",
    "writing",
]
