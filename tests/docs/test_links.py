"""Links between pages lead somewhere, on the site that mkdocs builds and where the repository's files are read."""

import importlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = sorted(DOCS.rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *SITE, *sorted((ROOT / "saved_models").rglob("*.md"))]


def without_code(text):
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """Return the anchors of a page's headings, which GitHub and mkdocs derive alike, and those written as HTML."""
    text = page.read_text("utf-8")
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading) for heading in headings]
    slugs = {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", one).strip().lower()) for one in plain}
    return slugs | set(re.findall(r"""(?:id|name)=["']([^"']+)""", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if page in SITE:
            assert target.is_relative_to(DOCS), f"{link}: the site has no such page"
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2].partition("\nplugins:")[0]
    listed = re.findall(r"[\w/]+\.md", navigation)
    notebooks = [page.with_suffix(".md") for page in DOCS.rglob("*.ipynb")]
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in (*SITE, *notebooks))


def test_the_architecture_names_files_that_exist():
    text = (DOCS / "architecture.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+\.py)`", text)
    folders = [ROOT, ROOT / "attribution", ROOT / "attribution_benchmarks"]
    assert len(named) > 10
    assert [name for name in named if not any((folder / name).exists() for folder in folders)] == []


def test_the_reference_lists_what_there_is():
    for page in (DOCS / "reference").glob("*.md"):
        for name, options in re.findall(r"^::: (\S+)((?:\n .*)*)", page.read_text("utf-8"), re.MULTILINE):
            module = importlib.import_module(name)
            members = re.search(r"members: \[(.*)\]", options)
            for member in members[1].split(", ") if members else []:
                assert hasattr(module, member), f"{name} has no {member}"
