"""Measure families one after another; what is known already is read."""

from __future__ import annotations

import functools
import json
import pathlib
import sys
import time

from attribution.errors import BadInput, listed
from attribution_benchmarks.core.fingerprint import code_fingerprint
from tools.model_zoo.families import FAMILIES
from tools.model_zoo.measure import METHODS, measure


def results(names, folder: pathlib.Path) -> dict[str, dict]:
    """Return every family's results (``measure.measure``) that there are, after those asked for were measured.

    Parameters
    ----------
    names
        Families to measure; all if there are none.
    folder
        Where results are kept, a file a family.

    Raises
    ------
    BadInput
        If there is no such family.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise BadInput(f"no family '{unknown[0]}'; the families are {listed(FAMILIES)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or FAMILIES:
        if known(folder / f"{name}.json") is None:
            _say(f"{name}:", end="")
            started = time.monotonic()
            found = measure(FAMILIES[name], told=lambda method: _say(f" {method}", end=""))
            _say(f" ({time.monotonic() - started:.0f} s)")
            whole = folder / f".{name}.part"
            whole.write_text(json.dumps({"code": code(), **found}, indent=1, ensure_ascii=False), encoding="utf-8")
            whole.replace(folder / f"{name}.json")
    kept = {name: known(folder / f"{name}.json") for name in FAMILIES}
    return {name: found for name, found in kept.items() if found is not None}


def known(path: pathlib.Path) -> dict | None:
    """Return the results in a file, unless the code has changed since or methods have been added."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.get("code") == code() and set(found["methods"]) >= set(METHODS) else None


@functools.cache
def code() -> str:
    """Return the SHA-256 of what results depend on: the package's code and the zoo's."""
    here = pathlib.Path(__file__).parent
    return code_fingerprint(
        "attribution", files=[path for path in sorted(here.glob("*.py")) if path.stem not in ("page", "run")]
    )


def _say(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)
