"""What kind of device computes, and how it says that its memory is full."""

from __future__ import annotations

import platform
import sys


def device_kind() -> str:
    """Return the kind of the first GPU that TensorFlow sees, else of the processor; imports nothing for it."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        for device in tensorflow.config.list_physical_devices("GPU"):
            details = tensorflow.config.experimental.get_device_details(device)
            return f"GPU {details.get('device_name', 'of unknown name')}"
    return f"CPU {platform.machine()}"


def is_out_of_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or what it was raised from, says that a device's memory is full."""
    while error is not None:
        if type(error).__name__ == "ResourceExhaustedError":  # TensorFlow's, which need not be imported here
            return True
        error = error.__cause__ or error.__context__
    return False
