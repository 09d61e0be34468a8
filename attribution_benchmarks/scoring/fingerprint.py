"""Fingerprints of what scores depend on: the code that is reached, data files, and the libraries' versions.

>>> code_fingerprint("my_metric:sharpness")  # changes with each constant on the way, not with a comment or a figure
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from attribution.fingerprint import code_fingerprint, library_versions

__all__ = ["code_and_libraries", "code_fingerprint", "followed", "library_versions"]


@functools.lru_cache(maxsize=512)
def followed(*code: Callable | str) -> str:
    """Return ``code_fingerprint`` of some code, followed once in a process: that costs more than many a score."""
    return code_fingerprint(*code)


def code_and_libraries(code: Callable) -> str:
    """Return ``followed`` of some code, and the versions of the libraries that it uses, as one text."""
    return json.dumps([followed(code), library_versions(code)], sort_keys=True)
