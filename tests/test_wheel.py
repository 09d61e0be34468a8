"""What a user installs: a wheel that holds the packages, their data and the default networks, and needs no checkout."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import attribution
from attribution_benchmarks.core.fingerprint import method_fingerprint

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("attribution", "attribution_benchmarks", "bim", "clevr_xai", "svea")
MODELS = (
    "svea/baseline",
    "bim/obj",
    "bim/scene",
    "bim/scene_only",
    "bim/scene10",
    "clevr_xai/relation_network",
    "clevr_xai/relation_network_seed1",
    "exact/problems",
    "exact/tetrominoes",
    "exact/units",
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
    """Return the folder that the wheel was installed into, beside the libraries of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "-q", "--target", str(folder)]
    subprocess.run([*install, str(wheel)], check=True)
    return folder


def run(installed, cwd, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_it_describes_itself(wheel, installed, tmp_path):
    assert wheel.name == f"attribution_benchmarks-{attribution.__version__}-py3-none-any.whl"
    (information,) = installed.glob("attribution_benchmarks-*.dist-info")
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
        on_disk = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py")}
        assert {name for name in names if name.endswith(".py") and name.startswith(f"{package}/")} == on_disk
    assert not [name for name in names if "saved_models/served" in name]


def test_it_holds_the_default_networks_byte_for_byte(wheel):
    with zipfile.ZipFile(wheel) as content:
        for model in MODELS:
            file = f"saved_models/{model}/1/saved_model.pb"
            assert content.read(f"attribution_benchmarks/{file}") == (ROOT / file).read_bytes()


@pytest.mark.parametrize("module", ["svea.benchmark", "bim.metrics", "clevr_xai.evaluate", "attribution.export"])
def test_commands_answer_without_a_checkout(installed, tmp_path, module):
    done = run(installed, tmp_path, "-m", module, "--help")
    assert done.returncode == 0, done.stderr
    assert "--methods" in done.stdout
    assert str(ROOT) not in done.stdout


def test_the_console_command_makes_the_report(installed, tmp_path):
    done = run(installed, tmp_path, str(installed / "bin" / "attribution-benchmarks"), "report", "--help")
    assert done.returncode == 0, done.stderr
    assert "--output_dir" in done.stdout


WHAT_IS_FOUND = """
import pathlib, attribution
from attribution_benchmarks.cli.bundled_models import default_model, shown_model
from attribution_benchmarks.core.fingerprint import method_fingerprint
print(pathlib.Path(attribution.__file__).parent.parent)
print(method_fingerprint(attribution.METHODS["grad_cam"]))
for name in {models}:
    assert (default_model(name) / "1" / "saved_model.pb").is_file(), name
    print(shown_model(default_model(name)))
"""


def test_an_installation_finds_its_networks_and_has_the_fingerprints_of_the_checkout(installed, tmp_path):
    done = run(installed, tmp_path, "-c", WHAT_IS_FOUND.format(models=MODELS))
    assert done.returncode == 0, done.stderr
    folder, fingerprint, *shown = done.stdout.split("\n")[:-1]
    assert pathlib.Path(folder) == installed
    assert fingerprint == method_fingerprint(attribution.METHODS["grad_cam"])
    assert shown == [f"saved_models/{name}" for name in MODELS]


def test_peers_are_an_extra_and_tensorflow_is_not(wheel, installed):
    (information,) = installed.glob("attribution_benchmarks-*.dist-info")
    requires = importlib.metadata.Distribution.at(information).requires
    plain = [each for each in requires if "extra ==" not in each]
    assert any(each.startswith("tensorflow<") or each.startswith("tensorflow>") for each in plain)
    assert not [each for each in plain if each.startswith(("tf-explain", "tf-keras-vis"))]
    peers = [each for each in requires if 'extra == "third-party"' in each.replace("'", '"')]
    assert {each.split("<")[0].split(">")[0].strip() for each in peers} == {"tf-explain", "tf-keras-vis"}
