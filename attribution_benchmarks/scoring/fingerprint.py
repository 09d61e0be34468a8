"""Fingerprints of the code that scores depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from attribution.fingerprint import fingerprint


def code_fingerprint(*functions: Callable) -> str:
    """Return the SHA-256 of the modules of functions, without what changes no result."""
    return hashlib.sha256("".join(map(fingerprint, functions)).encode()).hexdigest()
