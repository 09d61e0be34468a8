"""Fixture of the tests of the statistics."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Compute small matrix products with one thread: threads that wait for each other cost most of the time."""
    with threadpool_limits(1, user_api="blas"):
        yield
