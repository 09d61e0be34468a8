"""Archives are checked before anything of them is taken; curl reads them from files here."""

import io
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("curl", "tar", "unzip"))), reason="needs curl, tar and unzip"
)


def tar(path, files, link=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "../../outside"
            archive.addfile(member)


def download(script, directory, **variables):
    command = ["bash", SCRIPTS / script, directory]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **variables})
    return done.returncode, done.stderr.splitlines()[-1]


def datasets(tmp_path, **variables):
    """Download MiniPlaces; MSCOCO is said to be there."""
    (tmp_path / "data" / "coco").mkdir(parents=True, exist_ok=True)
    for name in ("annotations_trainval2017.zip", "train2017.zip"):
        (tmp_path / "data" / "coco" / f".{name}.done").touch()
    return download("download_datasets.sh", tmp_path / "data", MINIPLACES_URL=f"file://{tmp_path}", **variables)


def left(directory):
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if not path.is_dir()}


def test_data_are_taken_whole_and_once(tmp_path):
    tar(tmp_path / "data.tar.gz", {"images/a.jpg": b"a", "images/b.jpg": b"b"})
    (tmp_path / "data" / "miniplaces" / "images").mkdir(parents=True)
    (tmp_path / "data" / "miniplaces" / "images" / "half.jpg").touch()  # of a run that was killed
    assert datasets(tmp_path)[0] == 0
    taken = {"images/a.jpg", "images/b.jpg", ".miniplaces.tar.gz.done"}
    assert left(tmp_path / "data" / "miniplaces") == taken
    (tmp_path / "data.tar.gz").unlink()
    assert datasets(tmp_path)[0] == 0


@pytest.mark.parametrize("wrong", ["link", "checksum", "no archive"])
def test_nothing_of_a_wrong_archive_is_taken(tmp_path, wrong):
    tar(tmp_path / "data.tar.gz", {"images/a.jpg": b"a"}, link="images/b.jpg" if wrong == "link" else None)
    if wrong == "no archive":
        (tmp_path / "data.tar.gz").write_bytes(b"not found")
    code, last = datasets(tmp_path, **({"MINIPLACES_SHA256": "0" * 64} if wrong == "checksum" else {}))
    words = {"link": "holds a link", "checksum": "has another SHA-256", "no archive": "cannot be unpacked"}
    assert code == 2 and last.startswith("error: ") and words[wrong] in last
    assert not left(tmp_path / "data" / "miniplaces")


def test_other_annotations_of_coco_are_refused(tmp_path):
    (tmp_path / "annotations").mkdir()
    with zipfile.ZipFile(tmp_path / "annotations" / "annotations_trainval2017.zip", "w") as archive:
        archive.writestr("annotations/instances_train2017.json", "{}")
    code, last = download("download_datasets.sh", tmp_path / "data", COCO_URL=f"file://{tmp_path}")
    assert code == 2 and "has another SHA-256" in last and not left(tmp_path / "data" / "coco")


def models(tmp_path):
    """Run the script where all archives but those of ``tmp_path`` are missing."""
    return download("download_models.sh", tmp_path / "models", MODELS_URL=f"file://{tmp_path}")


@pytest.mark.parametrize("link", [None, "obj/variables"])
def test_a_model_with_a_link_is_refused(tmp_path, link):
    files = {"obj/saved_model.pb": b"x", "obj/variables.index": b"y"}
    tar(tmp_path / "models" / "obj.tar.gz", files, link)
    code, last = models(tmp_path)
    assert code == 2 and ("holds a link" if link else "cannot download") in last  # the next archive is missing
    assert left(tmp_path / "models") == {"obj.tar.gz", *(() if link else files)}


def test_only_the_archives_of_the_authors_are_downloaded(tmp_path):
    tar(tmp_path / "obj.tar.gz", {"obj/saved_model.pb": b"x"})
    code, last = models(tmp_path)
    assert code == 2 and "is not the authors' archive" in last and left(tmp_path / "models") == {"obj.tar.gz.part"}


def test_an_archive_is_compared_as_git_does(tmp_path):
    """The object id of a file, by the script's own function; the expected one is that of ``git hash-object``."""
    (tmp_path / "file").write_bytes(b"abc")
    text = (SCRIPTS / "download_models.sh").read_text()
    function = text[text.index("object_id()") : text.index("mkdir -p")]
    printed = subprocess.run(["bash", "-c", f"{function} object_id {tmp_path}/file"], capture_output=True, text=True)
    assert printed.stdout.strip() == "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"
