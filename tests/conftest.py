"""What tests of several rooms need."""

import signal

import pytest


@pytest.fixture
def interruptible():
    """Let what a test starts be interrupted, even where the tests themselves ignore that.

    A shell starts what runs in its background with interrupts ignored, and every process hands that on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
