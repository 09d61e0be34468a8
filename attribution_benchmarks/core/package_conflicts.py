"""Packages of other distributions that have the name of one of ours, as a benchmark's authors may have published."""

from __future__ import annotations

import importlib.util
import pathlib
from importlib import metadata

from attribution.errors import BadInput

HERE = pathlib.Path(__file__).resolve().parents[2]  # where our packages lie, in a checkout or in an installation


def check_own(package: str) -> None:
    """Refuse to go on if a package is not the one that came with this project.

    Parameters
    ----------
    package
        A top-level package of this project.

    Raises
    ------
    BadInput
        If Python finds another of that name, or another was installed over it.
    """
    found = importlib.util.find_spec(package)
    place = pathlib.Path(found.origin).resolve().parent if found and found.origin else None
    if place != HERE / package:
        raise BadInput(
            f"'import {package}' finds {place or 'nothing'}, not this project's {HERE / package}; another package of "
            f"that name stands before it: pip uninstall {package}, or mend PYTHONPATH"
        )
    try:
        other = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return
    if pathlib.Path(str(other.locate_file(package))).resolve() == place:
        raise BadInput(
            f"another distribution called '{package}' {other.version} is installed over this project's package; "
            f"pip uninstall {package}, then pip install --force-reinstall --no-deps attribution-benchmarks"
        )
