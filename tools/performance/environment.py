"""Make the virtual environment of the benchmarks: this project and the libraries it is timed against.

    python tools/performance/environment.py

writes .venv-benchmarks: 8 GB on Linux, where the package index's PyTorch brings CUDA. xplique pins an older TensorFlow
and captum an older NumPy than they run on, so that they are installed without their pins.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-benchmarks"
WITHOUT_PINS = ["xplique==2.0.2", "captum>=0.8,<0.10", "tf-keras>=2.20,<2.22"]
BESIDE = ["saliency>=0.2.1,<0.3", "tensorflow-probability>=0.25,<0.26", "deprecated", "torch>=2.4"]


def main():
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet"]
    subprocess.run([*pip, "-e", str(ROOT), *BESIDE], check=True)
    subprocess.run([*pip, "--no-deps", *WITHOUT_PINS], check=True)


if __name__ == "__main__":
    main()
