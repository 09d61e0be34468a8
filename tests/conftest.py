"""Fixtures of several folders of tests."""

import json
import signal

import pytest

from attribution_benchmarks.core.store import FILE, ScoreStore


@pytest.fixture
def interruptible():
    """Let what a test starts be interrupted, even where the tests themselves ignore that.

    A shell starts what runs in its background with interrupts ignored, and every process hands that on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rewrite_scores():
    """Return a function that replaces records of a store by others, which have a valid checksum.

    It takes the store's directory and a function from (key of a series, record) to the new record.
    """

    def rewrite(directory, change):
        contents = ScoreStore(directory).contents()
        for file in directory.glob(f"{FILE}*"):
            file.unlink()
        for header, records in contents.items():
            key = json.loads(header)
            changed = {name: change(key, record) for name, record in records.items()}
            ScoreStore(directory).series(**key).append(changed)

    return rewrite
