"""Packaging of the attribution benchmarks; what is not listed here is not installed.

A wheel holds the SavedModels that the commands explain by default, so that it does its work without a checkout. The
further networks of BIM are a second distribution, attribution-benchmarks-models, with files in the same folder:

    python -m build
    PACKAGE=models python -m build --wheel
"""

import os
import pathlib
import re
import shutil

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

TOP = pathlib.Path(__file__).resolve().parent
PACKAGES = ("attribution", "attribution_benchmarks", "bim", "clevr_xai", "svea")
# Folders of saved_models; what is exported for servers stays behind.
SHIPPED_MODELS = ("svea", "bim", "clevr_xai", "exact", "parts")
FURTHER_MODELS = [  # for RMCS, more pairs of networks for means over networks, and those that attend
    *(f"bim/scene{number}" for number in range(1, 10)),
    *(f"bim/seed{number}" for number in range(1, 10)),
    "bim/vit",
    *(f"bim/vit_seed{number}" for number in range(1, 5)),
    *(f"clevr_xai/contrast/corner_seed{number}" for number in range(3)),
    *(f"clevr_xai/contrast/floor_seed{number}" for number in range(1, 3)),
    "clevr_xai/cross_attention",
    "clevr_xai/cross_attention_seed1",
]


class BuildWithModels(build_py):
    """Put the SavedModels, which lie at the top of the repository, into the package that looks for them."""

    def run(self) -> None:
        """Build as ever, and copy the models unless the checkout itself is what is installed."""
        super().run()
        if not self.editable_mode:
            for name in SHIPPED_MODELS:
                target = pathlib.Path(self.build_lib) / "attribution_benchmarks" / "saved_models" / name
                shutil.copytree(TOP / "saved_models" / name, target, ignore=_further, dirs_exist_ok=True)
            shutil.copy(TOP / "saved_models/live_networks.json", target.parent)


def _further(folder: str, names: list[str]) -> list[str]:
    """Return those of the names in a folder that belong to the second distribution."""
    inside = pathlib.Path(folder).relative_to(TOP / "saved_models")
    return [name for name in names if (inside / name).as_posix() in FURTHER_MODELS]


THIRD_PARTY = ["tf-explain>=0.3.1,<0.4", "tf-keras-vis>=0.8.7,<0.9"]  # their methods are scored beside this project's
RENDER = ["mitsuba>=3.9,<4", "oidn>=0.2.1,<0.3"]  # also for the tests: they render a few images
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.29,<2"]  # the documentation as a site
BEAM = ["apache-beam>=2.68,<3"]  # many processes and machines; also for the tests, which run it for real
KERAS_2 = ["tf_keras>=2.20,<2.22"]  # reads files of Keras 2 exactly; also for the tests, which write such files
SUPERPIXELS = ["scikit-image>=0.22,<1"]  # segments of images, for XRAI and groups="superpixels"
SERVING = ["tensorflow-serving-api>=2.20,<2.22"]  # stubs of gRPC; also for the tests

VERSION = re.search(r'^__version__ = "(.+?)"', (TOP / "attribution/__init__.py").read_text("utf-8"), re.MULTILINE)[1]
# A package page shows no pictures of the repository, and no links into it.
README = re.sub(r"(?ms)^!\[.*?\]\(docs/.*?\)\n\n(\*.*?\*\n\n)?", "", (TOP / "README.md").read_text("utf-8"))
README = re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", README)


def set_up_models() -> None:
    """Package the further networks."""
    setup(
        name="attribution-benchmarks-models",
        version=VERSION,
        description="Further networks of attribution-benchmarks: those of BIM's relative MCS, and more pairs",
        long_description="Installed next to the package's own.\n",
        long_description_content_type="text/markdown",
        author="The authors of attribution-benchmarks",
        license="Apache-2.0",
        python_requires=">=3.10,<3.14",
        packages=["attribution_benchmarks.saved_models"],
        package_dir={"attribution_benchmarks.saved_models": "saved_models"},
        package_data={"attribution_benchmarks.saved_models": [f"{name}/**/*" for name in FURTHER_MODELS]},
        include_package_data=False,
        options={"build": {"build_base": "build/models"}},  # build/ may hold the files of the other wheel
    )


def set_up_code() -> None:
    """Package the code and the default networks."""
    setup(
        name="attribution-benchmarks",
        version=VERSION,
        description="Attribution methods for SavedModels, scored against known ground truth: SVEA, BIM and CLEVR-XAI",
        long_description=README,
        long_description_content_type="text/markdown",
        author="The authors of attribution-benchmarks",
        license="Apache-2.0",
        keywords="attribution saliency explainability interpretability benchmark TensorFlow Keras SavedModel LRP "
        "Shapley",
        classifiers=[
            "Intended Audience :: Science/Research",
            "Programming Language :: Python :: 3",
            *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
            "Topic :: Scientific/Engineering :: Artificial Intelligence",
        ],
        python_requires=">=3.10,<3.14",
        packages=find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")])
        + ["attribution.inspect"],
        cmdclass={"build_py": BuildWithModels},
        entry_points={"console_scripts": ["attribution-benchmarks = attribution_benchmarks.__main__:command"]},
        package_data={
            "": ["py.typed", "*_card.md"],
            "attribution_benchmarks": ["published/*"],
            "attribution": ["*.toml"],
            "attribution.methods": ["presets/*.toml", "registry.toml"],
            "attribution_benchmarks.choosing": ["known_truth.csv"],
            "attribution_benchmarks.report": ["templates/*"],
            "attribution_benchmarks.exact": ["*.toml"],
            "attribution_benchmarks.parts": ["*.toml"],
            "attribution_benchmarks.metrics": ["*.json", "*.toml", "presets/*.toml"],
            "bim": ["report.toml"],
            "svea": ["report.toml", "paper.json"],
            "clevr_xai.generation": ["families/*.json"],
            "clevr_xai": [
                "report.toml",
                "contrast_report.toml",
                "paper.json",
                "embedded/*.json.gz",
                "embedded/images/*.png",
                "embedded/masks/*.png",
            ],
        },
        install_requires=[
            "absl-py>=2.1,<3",
            "filelock>=3.32,<4",
            "importlib_resources>=6",  # tensorflow-datasets imports it and declares it for Python 3.8 only
            "jinja2>=3.1,<4",
            "keras>=3.12,<4",
            "matplotlib>=3.8,<4",
            "mnist1d>=0.0.2,<0.1",
            "numpy>=1.26,<3",
            "opencv-python-headless>=4.9,<6",  # outlines of BIM's drawings; tf-explain imports it undeclared
            "pandas>=2.2,<4",
            "pillow>=10.3",
            "pycocotools>=2.0.8,<3",
            "requests>=2.31,<3",  # REST interface of TensorFlow Serving
            "scikit-learn>=1.5,<2",
            "scipy>=1.12,<2",
            "tensorflow>=2.20,<2.22",
            "tensorflow-datasets>=4.9.7,<5",
            "threadpoolctl>=3.1,<4",
            "tomli>=2,<3; python_version < '3.11'",  # the standard library has it from 3.11 on
            "tqdm>=4.66,<5",
        ],
        extras_require={
            "test": [
                "dill>=0.3.8,<0.5",  # tfds.testing imports it and does not declare it
                "hypothesis>=6.100,<7",
                "import-linter>=2.17,<3",
                "ipykernel>=6.29,<8",  # the notebook runs in it
                "mypy>=1.18,<3",
                "nbclient>=0.10,<1",
                "nbformat>=5.10,<6",
                "axe-playwright-python>=0.1.4,<0.2",  # axe-core: accessibility of the report
                "playwright>=1.45,<2",  # the report is tested in Chromium
                "jax>=0.5",  # writes files that are explained
                "pytest>=8,<10",
                "pytest-xdist>=3.6,<4",  # two processes: the tests of one file stay together
                "ruff>=0.17,<0.18",
                "saliency>=0.2.1,<0.3",
                "setuptools>=77",  # a test builds the wheel
                *BEAM,
                *KERAS_2,
                *THIRD_PARTY,
                *RENDER,
                *SERVING,
                *SUPERPIXELS,
            ],
            "beam": BEAM,
            "keras2": KERAS_2,
            "models": [f"attribution-benchmarks-models=={VERSION}"],
            "blender": ["bpy>=4.2,<4.3; python_version == '3.11'"],  # GPL; runs in a process of its own
            "third-party": THIRD_PARTY,
            "docs": DOCS,
            "render": RENDER,
            "superpixels": SUPERPIXELS,
            "serving": SERVING,
            "torch": ["torch>=2.2", "safetensors>=0.4,<1"],  # methods in PyTorch; CPU wheels: docs/pytorch.md
        },
    )


(set_up_models if os.environ.get("PACKAGE") == "models" else set_up_code)()
