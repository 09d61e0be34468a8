"""What all commands share: flags, one-line errors and exit codes. Imports no TensorFlow."""

from attribution.cli.flags import define_common_flags
from attribution.cli.run import execute, run

__all__ = ["define_common_flags", "execute", "run"]
