"""Count the lines of Python and the words of documentation, and exit with 1 where a limit is exceeded.

A limit is lowered when a count falls. It is raised only in a commit that adds a capability.
"""

import subprocess
import sys
from pathlib import Path

BUDGETS = {  # name: (limit, files, files not counted)
    "attribution": (19_500, "attribution/*.py", []),
    "attribution_benchmarks": (15_935, "attribution_benchmarks/*.py", []),
    "bim, clevr_xai, svea": (11_910, "bim/*.py clevr_xai/*.py svea/*.py", []),
    "scripts, tools, docs, setup.py": (3_930, "scripts/*.py tools/*.py docs/*.py setup.py", []),
    "tests": (33_690, "tests/*.py", ["tests/zoo", "tests/libraries"]),
    "tests/zoo, tests/libraries": (3_470, "tests/zoo/*.py tests/libraries/*.py", []),
    "words of Markdown": (55_500, "*.md", ["saved_models"]),
}
TOP = Path(__file__).resolve().parents[1]
exceeded = False
for name, (limit, files, without) in BUDGETS.items():
    command = ["git", "ls-files", "--", *files.split(), *(f":!{folder}" for folder in without)]
    listed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
    texts = [(TOP / file).read_text("utf-8") for file in listed if (TOP / file).is_file()]
    count = sum(len(text.split() if "words" in name else text.splitlines()) for text in texts)
    exceeded |= count > limit
    print(f"{name:32} {count:>8,} of {limit:>7,}{'  EXCEEDED' if count > limit else ''}")
sys.exit(exceeded)
