"""The door of ``python -m attribution.explain``; see ``attribution.explain.command``."""

from attribution.explain import command
from attribution_benchmarks import command_line

if __name__ == "__main__":
    command_line.run(command.main, command.FLAGS, command.__doc__)
