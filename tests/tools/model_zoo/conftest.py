"""The check of families of the zoo, whose files are written once a process."""

import functools
import pathlib
import re
import shutil

import pytest

from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES
from tools.model_zoo.family import Exported
from tools.model_zoo.relevance_oracle import DEFINITIONS

# Families of which nothing can be explained, and the reason in the message.
REFUSED = {
    "examples": "is of type string and has no gradient; name a tensor",
    "live_dropout": "other scores at every call",
}
# As docs/networks.md says of these cells: TensorFlow cannot differentiate the frozen graph of these files, and one
# map is the definition's in float64 alone.
NO_ORACLE = {("keras_int8", method) for method in ("grad_cam", "ablation_cam", "gradient_rollout")}
NO_ORACLE |= {("vit_gated", "grad_cam"), ("compiled_inside", "grad_cam")}
ROUNDED = {("softplus", "lrp_attn")}


def check(name, methods):
    found = measure.measure(FAMILIES[name], methods)["methods"]
    for method, cell in found.items():
        assert cell["status"] != "crashes", (method, cell["note"])
        if name in REFUSED:
            assert cell["status"] == "refused" and re.search(REFUSED[name], cell["note"]), (method, cell)
        else:
            assert cell["status"] != "differs", (method, cell)
            assert cell["status"] != "rounding" or (name, method) in ROUNDED, (method, cell)
            known = cell["status"] in ("exact", "limit", "refused", "rounding")
            has_oracle = method in (*measure.BY_ORACLE, *DEFINITIONS) and (name, method) not in NO_ORACLE
            assert known or not has_oracle, (method, cell)


@pytest.fixture
def known_or_refused():
    """Return a check that a family's every map, by some methods, is what an oracle says, or refused by name."""
    return check


@pytest.fixture(scope="session", autouse=True)
def written_once(tmp_path_factory):
    """Copy the file of a family that was written before: to build, settle and export it is most of a small check."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("__call__", "in_double"):
            patch.setattr(Exported, name, once(getattr(Exported, name), tmp_path_factory))
        yield


def once(write, folders):
    """Return a writer of families' files that writes each once."""

    @functools.cache
    def first(family):
        write(family, folder := folders.mktemp("family") / "file")
        return folder

    def copied(family, path):
        for file in first(family).parent.iterdir():  # some have a second one beside them
            shutil.copytree(file, pathlib.Path(str(path) + file.name.removeprefix("file")))

    return copied
