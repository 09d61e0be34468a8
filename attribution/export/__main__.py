"""Run ``python -m attribution.export``; see ``attribution.export.command``."""

from attribution import cli
from attribution.export import command

if __name__ == "__main__":
    cli.run(command.main, command.FLAGS, command.__doc__)
