"""Run the scripts of ``findings/``, all or those named, and print which of them still see what they say.

Each installs its packages in a folder of its own, which takes up to minutes, so that they run one after another. A
script whose assertion fails has changed. One that ends for another reason could not run: without a network, for
example, or on another processor. The exit code is 1 if one has changed, and 0 otherwise.

::

    python tools/findings.py
    python tools/findings.py torch_argsort_of_ties
"""

import argparse
import subprocess
import sys
from pathlib import Path

FINDINGS = Path(__file__).resolve().parents[1] / "findings"


def _verdict(script):
    """Run a script and return ``passed``, ``changed`` or ``could not run``, the last two with its last line."""
    done = subprocess.run(["bash", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return "passed"
    last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return f"{'changed' if 'AssertionError' in done.stderr else 'could not run'} ({last})"


def main(arguments=None, folder=FINDINGS):
    """Run the scripts of a folder and return the exit code."""
    scripts = {script.stem: script for script in sorted(folder.glob("*.sh"))}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(scripts)}; all by default")
    names = [Path(name).stem for name in parser.parse_args(arguments).names] or list(scripts)
    if unknown := [name for name in names if name not in scripts]:
        parser.error(f"no such script: {', '.join(unknown)}; there are {', '.join(scripts)}")
    found = []
    for name in names:
        found.append(_verdict(scripts[name]))
        print(f"{name}: {found[-1]}", flush=True)
    return int(any(one.startswith("changed") for one in found))


if __name__ == "__main__":
    sys.exit(main())
