"""Documentation, names and messages use the field's terms: the number of idioms that need decoding may only fall."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("attribution", "attribution_benchmarks", "bim", "svea", "clevr_xai", "scripts", "tools", "docs")
# Instead: query, report, is listed, again, correctly, baseline, available, compared with, N, skipped.
IDIOMS = re.compile(
    r"\b(ask|asks|asked|asking|told|tells|stands|anew|rightly|rivals?|at hand|held against|so many|left out)\b", re.I
)
MOST = 100


def test_idioms_become_fewer():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    counts = {path.relative_to(ROOT).as_posix(): len(IDIOMS.findall(path.read_text("utf-8"))) for path in files}
    counts |= {name: len(IDIOMS.findall((ROOT / name).read_text("utf-8"))) for name in ("README.md", "CONTRIBUTING.md")}
    total, worst = sum(counts.values()), sorted(counts, key=counts.get)[-5:]
    assert 0 < total <= MOST, f"{total} idioms; most in {worst}; lower MOST when they become fewer"


def test_notes_for_editors_are_comments():
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert "do not edit" not in " ".join(
            re.sub("<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL).split()
        ), page
