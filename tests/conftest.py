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


@pytest.fixture
def object_store():
    """A store of objects in this process, toy://..., that knows no renaming; as Beam's users may add one."""
    pytest.importorskip("apache_beam")
    import io

    from apache_beam.io import filesystem

    class Kept(io.BytesIO):
        def __init__(self, path):
            super().__init__()
            self.path = path

        def close(self):
            if not self.closed:
                ToyStore.objects[self.path] = self.getvalue()
            super().close()

    class ToyStore(filesystem.FileSystem):
        objects, created, times = {}, [], {}

        @classmethod
        def scheme(cls):
            return "toy"

        def join(self, base, *paths):
            return "/".join([base.rstrip("/"), *paths])

        def split(self, path):
            return tuple(path.rpartition("/")[::2])

        def mkdirs(self, path):
            pass

        def has_dirs(self):
            return False

        def _list(self, path):
            for name, content in sorted(self.objects.items()):
                if name.startswith(path):
                    yield filesystem.FileMetadata(name, len(content), self.times.get(name, 0.0))

        def create(self, path, mime_type="", compression_type=None):
            self.created.append(path)
            return Kept(path)

        def open(self, path, mime_type="", compression_type=None):
            return io.BytesIO(self.objects[path])

        def copy(self, sources, targets):
            raise AssertionError("nothing is copied")

        def rename(self, sources, targets):
            raise AssertionError("nothing is renamed")

        def exists(self, path):
            return path in self.objects

        def size(self, path):
            return len(self.objects[path])

        def last_updated(self, path):
            return 0.0

        def checksum(self, path):
            return ""

        def metadata(self, path):
            return filesystem.FileMetadata(path, len(self.objects[path]))

        def delete(self, paths):
            for path in paths:
                del self.objects[path]

    yield ToyStore
    ToyStore.scheme = classmethod(lambda cls: "gone-toy")
