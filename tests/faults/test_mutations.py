"""Each mechanism of reliability has a test that notices when it is broken."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_mutation_changes_one_place(mutations):
    for one in mutations.MUTATIONS:
        assert (ROOT / one.file).read_text(encoding="utf-8").count(one.before) == 1, one.name
        assert one.before != one.after and one.tests, one.name
        for file, _, test in (name.partition("::") for name in one.tests):
            assert f"def {test.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8"), one.name
    assert len({one.name for one in mutations.MUTATIONS}) == len(mutations.MUTATIONS)


@pytest.fixture
def mutations(monkeypatch):
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent)
    import mutations

    return mutations


@pytest.mark.mutations
def test_every_mutation_is_noticed():
    done = subprocess.run([sys.executable, ROOT / "tests/faults/mutations.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    noticed, every = re.search(r"(\d+) of (\d+) mutations noticed", done.stdout).groups()
    assert noticed == every and int(every) > 100
