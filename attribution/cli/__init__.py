"""The way every command of the house behaves: flags, one-line errors, exit codes.

This room imports nothing of the house and no TensorFlow, so that ``--help`` answers at once.
"""

from attribution.cli.flags import define_common_flags, define_trust
from attribution.cli.run import execute, run
from attribution.errors import BadInput, listed, print_line, print_text, printable
from attribution.file_io.files import atomic_write
from attribution.file_io.paths import cache_directory, check_directory, check_file, make_directory, writing

__all__ = [
    "BadInput",
    "atomic_write",
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
    "writing",
]
