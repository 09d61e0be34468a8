"""Generation: the release's layout, resumed runs, refusals."""

import hashlib
import importlib.util
import io
import pathlib
import shutil

import numpy as np
import pytest
from PIL import Image

from attribution.cli import execute
from attribution.errors import BadInput
from attribution.reading import read_json
from clevr_xai import layout
from clevr_xai.data import KINDS, Dataset
from clevr_xai.generation import generate

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "generate_clevr_xai.py"
TINY = generate.Settings(seed=4, num_images=3, width=48, height=32, samples=1)
DEAD = 4_194_305  # no process has this number


def content(directory):
    """Return each file's digest; a difference then shows in a few lines which files it is in."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def script_module():
    specification = importlib.util.spec_from_file_location("generate_clevr_xai", SCRIPT)
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)
    return script


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made") / "data"
    generate.generate(directory, TINY)
    return directory


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_what_was_made_can_be_read(kind, made):
    data = Dataset(kind, made)
    assert len(data.scenes) == 3 and len(data) == {"simple": 12, "complex": 30}[kind]
    (batch,) = data.batches(100)
    assert batch.images.shape == (len(data), 128, 128, 3) and batch.masks["all_objects"].any(axis=(1, 2)).all()


def test_a_larger_dataset_begins_with_the_smaller_one(made, tmp_path):
    generate.generate(tmp_path / "one", TINY.__class__(**{**vars(TINY), "num_images": 2}))
    small = content(tmp_path / "one")
    for name, data in content(made).items():
        if name in small and not name.endswith(".json"):
            assert small[name] == data, name
    generate.generate(tmp_path / "one", TINY)
    assert content(tmp_path / "one") == content(made)


@pytest.mark.parametrize("writes", [0, 1, 2, 3, 8, 9])
def test_a_run_that_stops_at_any_file_ends_with_the_same_bytes(writes, made, tmp_path, monkeypatch):
    """The file at which it stops is left half-written under its unfinished name."""
    left = iter(range(writes))
    write = layout.write

    def stop(path, data):
        if next(left, None) is None:
            unfinished = path.with_name(f".{path.name}.{DEAD}-0a.unfinished")
            path.parent.mkdir(exist_ok=True)
            whole = io.BytesIO()
            data(whole) if callable(data) else whole.write(data)
            unfinished.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
            raise KeyboardInterrupt
        write(path, data)

    monkeypatch.setattr(layout, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        generate.generate(tmp_path, TINY)
    assert list(tmp_path.rglob("*.unfinished"))
    monkeypatch.undo()
    generate.generate(tmp_path, TINY)
    assert content(tmp_path) == content(made)


def test_stored_images_are_the_resized_renders(made, tmp_path):
    generate.generate(tmp_path, TINY.__class__(**{**vars(TINY), "num_images": 1, "stored_size": 16}))
    name = "CLEVR_unique_000000.png"
    small = np.asarray(Image.open(tmp_path / "images" / name))
    expected = Image.open(made / "images" / name).resize((16, 16), Image.BILINEAR)
    np.testing.assert_array_equal(small, np.asarray(expected))
    assert (tmp_path / "masks" / name).read_bytes() == (made / "masks" / name).read_bytes()


def test_the_other_wording_rewrites_the_questions_alone(made, tmp_path):
    directory = shutil.copytree(made, tmp_path / "data")
    generate.generate(directory, TINY, wording="plain")
    before, after = content(made), content(directory)
    files = {layout.QUESTIONS.format(kind=kind) for kind in KINDS}
    assert {name for name in before if before[name] != after[name]} == files and set(before) == set(after)
    for file in files:
        one, other = (read_json(place / file) for place in (made, directory))
        assert other["info"] == {**one["info"], "wording": "plain"}
        assert one["questions"] != other["questions"]
        for question, reworded in zip(one["questions"], other["questions"], strict=True):
            assert {**question, "question": ""} == {**reworded, "question": ""}
    generate.generate(directory, TINY)
    assert content(directory) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "holds images with seed 4, not 5"),
        ({"samples": 4}, "holds images with samples 1, not 4"),
        ({"num_images": 2}, "holds images with num_images 3, not 2"),
    ],
)
def test_other_data_are_not_mixed_in(change, message, made):
    before = content(made)
    with pytest.raises(BadInput, match=message):
        generate.generate(made, TINY.__class__(**{**vars(TINY), **change}))
    assert content(made) == before


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(BadInput, match="is not empty and was not made by this command"):
        generate.generate(tmp_path, TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("settings", ["{", '{"num_images": "many"}'])
def test_damaged_settings_are_refused(settings, tmp_path):
    (tmp_path / layout.SETTINGS).write_text(settings)
    with pytest.raises(BadInput, match=layout.SETTINGS):
        generate.generate(tmp_path, TINY)
    assert (tmp_path / layout.SETTINGS).read_text() == settings


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--image_size=128x128", "width to height must be 3 to 2"),
        ("--image_size=large", "write WIDTHxHEIGHT, as 480x320"),
        ("--samples=10", "do not form a square"),
        ("--questions=simple,odd", "choose of 'simple', 'complex'"),
        ("--questions=", "no questions of no kind"),
        ("--renderer=blender", "--assets=: no base_scene.blend"),
    ],
)
def test_bad_flags_are_one_line_and_leave_nothing(flag, message, tmp_path, capsys):
    script = script_module()
    directory = tmp_path / "data"
    assert execute(script.main, script.FLAGS, script.__doc__, ["x", flag, f"--output_dir={directory}"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
    assert not directory.exists()
