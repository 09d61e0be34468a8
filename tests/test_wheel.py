"""What a user installs: a wheel that holds the packages, their data and the default networks, and needs no checkout."""

import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

import attribution
from attribution_benchmarks.core.fingerprint import code_fingerprint

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("attribution", "attribution_benchmarks", "bim", "clevr_xai", "svea")
MODELS = (
    "svea/baseline",
    "bim/obj",
    "bim/scene",
    "bim/scene_only",
    "bim/scene10",
    *(f"clevr_xai/relation_network{seed}" for seed in ("", "_seed1", "_seed2")),
    "exact/problems",
    "exact/tetrominoes",
    "exact/units",
    *(f"exact/sequences/{name}" for name in ("transformer", "transformer_rotary", "transformer_plain", "lstm", "cnn")),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return a wheel built from a copy: building in a checkout leaves files there, which the next wheel would hold."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in (*PACKAGES, "saved_models"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(copy),
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(folder),
    ]
    subprocess.run(build, check=True, cwd=copy)
    (found,) = folder.glob("attribution_benchmarks-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a new virtual environment with the wheel; the libraries that it requires are those of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    found = site_packages(folder)
    (found / "libraries.pth").write_text("\n".join(one for one in sys.path if one.endswith("-packages")))
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps", "-q"]
    subprocess.run([*install, "--no-compile", str(wheel)], check=True)
    return folder


def site_packages(folder):
    """Return where an environment has its packages."""
    (found,) = folder.glob("lib/python*/site-packages")
    return found


def run(installed, cwd, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(installed / "bin" / "python"), *arguments], cwd=cwd, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_it_describes_itself(wheel, installed, tmp_path):
    assert wheel.name == f"attribution_benchmarks-{attribution.__version__}-py3-none-any.whl"
    (information,) = site_packages(installed).glob("attribution_benchmarks-*.dist-info")
    described = importlib.metadata.Distribution.at(information).metadata
    assert "SavedModel" in described["Keywords"]
    assert "Programming Language :: Python :: 3.13" in described.get_all("Classifier")
    assert not re.findall(r"\]\((?!https?:)", described["Description"] or described.get_payload()), "a relative link"
    done = run(installed, tmp_path, str(installed / "bin" / "attribution-benchmarks"), "--version")
    assert done.stdout == f"{attribution.__version__}\n"


def test_it_holds_the_packages_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    for package in PACKAGES:
        assert {f"{package}/__init__.py", f"{package}/py.typed"} <= set(names)
        for ending in (".py", ".toml", "_card.md"):
            on_disk = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob(f"*{ending}")}
            assert {name for name in names if name.endswith(ending) and name.startswith(f"{package}/")} == on_disk
    assert "clevr_xai/generation/families/zero_hop.json" in names
    assert not [name for name in names if "saved_models/served" in name]


def test_it_holds_the_default_networks_byte_for_byte(wheel):
    with zipfile.ZipFile(wheel) as content:
        for model in MODELS:
            file = f"saved_models/{model}/1/saved_model.pb"
            assert content.read(f"attribution_benchmarks/{file}") == (ROOT / file).read_bytes()


def test_the_further_networks_are_another_distribution(wheel):
    """PyPI's users download less; the report and RMCS do without them or name what installs them."""
    assert wheel.stat().st_size <= 31e6
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[3] for name in names if name.startswith("attribution_benchmarks/saved_models/bim/")} == {
        "obj", "scene", "scene10", "scene_only"
    }  # fmt: skip


@pytest.mark.parametrize("module", ["svea.benchmark", "bim.metrics", "clevr_xai.evaluate", "attribution.export"])
def test_commands_answer_without_a_checkout(installed, tmp_path, module):
    done = run(installed, tmp_path, "-m", module, "--help")
    assert done.returncode == 0, done.stderr
    assert "--methods" in done.stdout
    assert str(ROOT) not in done.stdout


def test_an_installation_scores_a_custom_benchmark_and_writes_the_report(installed, tmp_path):
    text = (ROOT / "docs" / "extend.md").read_text("utf-8")
    (source,) = re.findall(r"```python\n((?:(?!```).)*?BRIGHT_HALF = .*?)```", text, flags=re.DOTALL)
    (tmp_path / "bright_half.py").write_text(source)
    done = run(installed, tmp_path, "bright_half.py")
    assert done.returncode == 0, done.stderr
    command = str(installed / "bin" / "attribution-benchmarks")
    done = run(installed, tmp_path, command, "report", "--quick", "--benchmarks=bright_half.py:BRIGHT_HALF")
    assert done.returncode == 0, done.stderr
    pages = {path.name for path in (tmp_path / "report").glob("*.html")}
    assert pages == {"index.html", "methods.html"}
    assert str(ROOT) not in "".join((tmp_path / "report" / name).read_text() for name in pages)


WHAT_IS_FOUND = """
import pathlib, attribution
from attribution_benchmarks.core.bundled_models import default_model, shown_model
from attribution_benchmarks.core.fingerprint import code_fingerprint
print(pathlib.Path(attribution.__file__).parent.parent)
print(code_fingerprint(attribution.METHODS["grad_cam"].function))
for name in {models}:
    assert (default_model(name) / "1" / "saved_model.pb").is_file(), name
    print(shown_model(default_model(name)))
"""


def test_an_installation_finds_its_networks_and_has_the_fingerprints_of_the_checkout(installed, tmp_path):
    done = run(installed, tmp_path, "-c", WHAT_IS_FOUND.format(models=MODELS))
    assert done.returncode == 0, done.stderr
    folder, fingerprint, *shown = done.stdout.split("\n")[:-1]
    assert pathlib.Path(folder) == site_packages(installed)
    assert fingerprint == code_fingerprint(attribution.METHODS["grad_cam"].function)
    assert shown == [f"saved_models/{name}" for name in MODELS]


def test_peers_are_an_extra_and_tensorflow_is_not(wheel, installed):
    (information,) = site_packages(installed).glob("attribution_benchmarks-*.dist-info")
    requires = importlib.metadata.Distribution.at(information).requires
    plain = [each for each in requires if "extra ==" not in each]
    assert any(each.startswith("tensorflow<") or each.startswith("tensorflow>") for each in plain)
    assert not [each for each in plain if each.startswith(("tf-explain", "tf-keras-vis"))]
    peers = [each for each in requires if 'extra == "third-party"' in each.replace("'", '"')]
    assert {each.split("<")[0].split(">")[0].strip() for each in peers} == {"tf-explain", "tf-keras-vis"}


# A benchmark and its smallest run of one method.
SMALLEST = {
    "svea.benchmark": ("--metrics=roe_test",),
    "bim.metrics": ("--metrics=MCS", "--num_imgs=1"),
    "clevr_xai.evaluate": ("--num_questions=1", "--random_networks=0"),
    "attribution_benchmarks": ("exact", "--num_imgs=2", "--random_networks=0"),
}


def interpreter(version):
    """Return the path of a version of Python, on PATH or of pyenv, or None."""
    of_pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"), "versions")
    found = [*of_pyenv.glob(f"{version}.*/bin/python"), shutil.which(f"python{version}")]
    return next((one for one in found if one and subprocess.run([one, "-c", ""]).returncode == 0), None)


def numbers(content, path=()):
    """Yield the path and value of every number in the content of a JSON file."""
    if isinstance(content, int | float):
        yield path, content
    inside = enumerate(content) if isinstance(content, list) else content.items() if isinstance(content, dict) else ()
    for key, value in inside:
        yield from numbers(value, (*path, key))


@pytest.mark.versions
@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_every_benchmark_gives_the_same_numbers_on_other_pythons(wheel, version, tmp_path):
    """With the libraries that pip chooses there, in a new environment."""
    if not (python := interpreter(version)):
        pytest.skip(f"there is no Python {version} here, on PATH or of pyenv")
    there = tmp_path / "there/bin/python"
    subprocess.run([python, "-m", "venv", tmp_path / "there"], check=True)
    for wanted in ("pip", wheel):  # the pip that comes with Python 3.10 is slow
        subprocess.run([there, "-m", "pip", "install", "--quiet", "--upgrade", wanted], check=True)
    for module, flags in SMALLEST.items():
        expected = run_smallest(sys.executable, module, flags, tmp_path / "of_here", PYTHONPATH=str(ROOT))
        found = run_smallest(there, module, flags, tmp_path / "of_there")
        assert len(found) > 3 and found == pytest.approx(expected, rel=1e-3, nan_ok=True), module


def run_smallest(python, module, flags, folder, **variables):
    """Run a benchmark in a folder, with a cache of its own, and return the numbers that it writes."""
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"XDG_CACHE_HOME": str(folder), **variables}
    command = [python, "-m", module, *flags, "--methods=gradient", "--output=scores.json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and re.search(r"\d", done.stdout), (module, done.stderr[-3000:])
    return dict(numbers(json.loads((folder / "scores.json").read_text())))
