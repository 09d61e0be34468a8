"""Two small benchmarks of known scores, as their commands would write them."""

import numpy as np
import pytest

from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import BOUND, Benchmark, Column
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report import matrix, significance
from attribution_benchmarks.stats import statistics

COLUMNS = (
    Column("svea", "roe_test", "ROE test %", "SVEA", percent=True, aside={"template_position": BOUND}),
    Column("svea", "drop", "Drop %", "SVEA", False, percent=True, aside={"template_position": BOUND}),
    Column("bim", "mcs", "MCS", "BIM"),
    Column(
        "clevr_xai", "mass", "mass, simple", "CLEVR-XAI",
        where={"questions": "simple", "ground_truth": "single_object", "pooling": "l2-norm,sq", "subset": "all"},
    ),
)  # fmt: skip
SHIFTS = {"best": 0.3, "good": 0.2, "twin": 0.2, "bad": -0.2}
CONTROLS = {"random": 0.0, "template_position": 0.6}


def values(n, seed, without=()):
    """Values of all methods on n inputs: a common part, the method's shift, and a little of its own."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0.5, 0.2, n)
    drawn = {name: shared + shift + generator.normal(0, 0.05, n) for name, shift in (SHIFTS | CONTROLS).items()}
    return {name: column for name, column in drawn.items() if name not in without}


def rows(groups):
    """Rows of a document from groups of values."""
    return [
        {
            "method": name,
            **group.where,
            **statistics.mean_interval(column)._asdict(),
            "paper": None,
            "kind": "control" if name in CONTROLS else "method",
        }
        for group in groups
        for name, column in group.values.items()
    ]


@pytest.fixture(scope="session")
def groups():
    names = [f"input {i}" for i in range(200)]
    clevr = {"questions": "simple", "ground_truth": "single_object", "subset": "all", "pooling": "l2-norm,sq"}
    drops = {name: -column for name, column in values(200, 2).items()}
    return {
        "svea": [
            InputScores({"metric": "roe_test"}, names, values(200, 1)),
            InputScores({"metric": "drop"}, names, drops),
        ],
        "bim": [InputScores({"metric": "mcs"}, names[:60], values(60, 3, ("twin", "template_position")))],
        "clevr_xai": [
            InputScores(
                {"metric": "mass", **clevr},
                names,
                values(200, 4, ("template_position",)),
                [str(i // 4) for i in range(200)],
            )
        ],
    }


@pytest.fixture(scope="session")
def documents(groups):
    manifest = {
        "versions": {"python": "3"},
        "models": {"nets/a": "ab" * 32},
        "data": {"set": "cd" * 32},
        "seed": 0,
        "command": "python -m benchmark",
    }
    return [{"benchmark": name, "rows": rows(found), "manifest": manifest} for name, found in groups.items()]


@pytest.fixture(scope="session")
def columns():
    return COLUMNS


@pytest.fixture(scope="session")
def definitions():
    titles = {column.benchmark: column.group for column in COLUMNS}
    controls = tuple(Control(name, f"Control {name}", "what it is") for name in CONTROLS)
    return [Benchmark(name, title, f"About {title}.", "A paper", controls=controls) for name, title in titles.items()]


@pytest.fixture(scope="session")
def built(documents):
    return matrix.build(documents, COLUMNS, {("twin", "bim"): "too slow"})


@pytest.fixture(scope="session")
def judged(built, groups):
    return significance.judge(built, groups)


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
