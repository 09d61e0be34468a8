"""docs/tutorials/jax_and_pytorch.md runs as it is printed, where its packages are, and the maps show the shapes."""

import importlib.util
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import attribution

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "jax_and_pytorch.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SCRIPTS = {name[1]: block for block in BLOCKS if (name := re.match(r"# (\w+\.py)\n", block))}
COMMANDS = re.findall(r"^python (-m attribution\.explain.*?[^\\])$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(arguments, folder):
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def share_on_shapes(maps, pictures):
    """Return the least share of a map's positive values on a shape or beside it; it is brighter than the noise."""
    shape = pictures.min(axis=-1) > 0.55
    near = np.any([np.roll(shape, shift, (1, 2)) for shift in np.ndindex(5, 5)], axis=0)
    near = np.roll(near, (-2, -2), (1, 2))
    maps = maps.clip(0)
    return min((one[where].sum() / one.sum()) for one, where in zip(maps, near, strict=True))


def explained(name, folder, command):
    """Store the page's scripts, run one and the command behind it; return the file of its maps."""
    for file, block in SCRIPTS.items():
        (folder / file).write_text(block, encoding="utf-8")
    assert re.search("right: [34] of 4", run([f"{name}.py"], folder))
    run([*shlex.split(command.replace("\\\n", "")), "--maps=maps.npz"], folder)
    return np.load(folder / "maps.npz")


def check_maps(maps, pictures):
    relevance = maps["lrp_epsilon_plus"]
    channels = relevance.shape.index(3, 1)
    assert share_on_shapes(relevance.sum(axis=channels), pictures) > 0.8
    assert share_on_shapes(maps["grad_cam"], pictures) > 0.25  # 8x8 positions


@pytest.fixture(scope="module")
def with_flax(tmp_path_factory):
    pytest.importorskip("flax")
    folder = tmp_path_factory.mktemp("flax")
    return folder, explained("flax_network", folder, COMMANDS[0])


def test_a_flax_network(with_flax):
    folder, maps = with_flax
    assert (folder / "flax.png").stat().st_size > 10_000
    check_maps(maps, np.load(folder / "pictures.npy"))


def test_orbax_export_writes_the_same_network(with_flax):
    pytest.importorskip("orbax.export")
    folder, _ = with_flax
    (block,) = [block for block in BLOCKS if "orbax.export" in block]
    (folder / "both.py").write_text(SCRIPTS["flax_network.py"].replace("range(4)", "range(0)") + block, "utf-8")
    pictures = np.load(folder / "pictures.npy")
    run(["both.py"], folder)  # writes both networks again, untrained, and the same pictures
    files = [attribution.load_model(folder / name) for name in ("flax_network", "orbax_network")]
    for method in ("lrp_epsilon_plus", "grad_cam"):
        first, second = (attribution.explain(method, model, pictures, 0) for model in files)
        np.testing.assert_allclose(second, first, atol=1e-5 * np.abs(first).max())


# Not imported to see whether it is there: after TensorFlow, that ends the process.
@pytest.mark.skipif(not importlib.util.find_spec("torch_xla"), reason="needs torch_xla")
def test_a_network_of_pytorch(tmp_path):
    maps = explained("torch_network", tmp_path, COMMANDS[1])
    assert (tmp_path / "torch.png").stat().st_size > 10_000
    check_maps(maps, np.moveaxis(np.load(tmp_path / "pictures_first.npy"), 1, -1))


def test_the_page_has_both_scripts_and_commands():
    assert list(SCRIPTS) == ["shapes.py", "flax_network.py", "torch_network.py"] and len(COMMANDS) == 2
    assert all(compile(block, "page", "exec") for block in BLOCKS)
    pictures, classes = {}, {}
    exec(SCRIPTS["shapes.py"], pictures)
    pictures, classes = pictures["shapes"](64, 3)
    assert pictures.shape == (64, 32, 32, 3) and set(classes) == {0, 1, 2}
    bright = (pictures.min(axis=-1) > 0.55).sum(axis=(1, 2))
    assert {kind: set(bright[classes == kind]) for kind in range(3)} == {0: {81}, 1: {81}, 2: {69}}
