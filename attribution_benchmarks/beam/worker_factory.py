"""A command's own module as what makes its works again in a worker."""

from __future__ import annotations

import copy
import dataclasses
import importlib

from attribution.cli.run import settings_of
from attribution_benchmarks.beam.work import WorksMaker


@dataclasses.dataclass(frozen=True)
class Door:
    """A ``scale.work.Maker``.

    Attributes
    ----------
    name
        Of a module with ``FLAGS`` and ``works(flag_values)``, which returns a function from a work's name to the work.
    arguments
        The command's flags, written out.
    """

    name: str
    arguments: tuple[str, ...]

    def __call__(self) -> WorksMaker:
        """Return what makes the works of the command that has these flags."""
        module = importlib.import_module(self.name)
        flag_values = copy.deepcopy(module.FLAGS)
        flag_values.unparse_flags()
        flag_values([self.name, *self.arguments])
        settings_of(flag_values)
        return module.works(flag_values)
