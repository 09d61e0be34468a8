"""Fingerprints of what scores depend on: the code that is reached, data files, and the libraries' versions.

>>> code_fingerprint("my_metric:sharpness")  # changes with each constant on the way, not with a comment or a figure
"""

from attribution.fingerprint import code_fingerprint, library_versions

__all__ = ["code_fingerprint", "library_versions"]
