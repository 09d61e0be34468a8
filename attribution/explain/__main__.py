"""Run ``python -m attribution.explain``; see ``attribution.explain.command``."""

from attribution import cli
from attribution.explain import command

if __name__ == "__main__":
    cli.run(command.main, command.FLAGS, command.__doc__)
