"""The report in a browser: every page opens and is accessible, names are text, and the matrix sorts.

The browser is the system's (Debian: apt-get install chromium) or Playwright's own (python -m playwright install
chromium). Without one these tests are skipped, and the summary says so; .ci/run installs one.
"""

import json
import os
import shutil
from dataclasses import replace

import pytest
from playwright.sync_api import sync_playwright

from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.report.page import PAGES
from attribution_benchmarks.report.page import pages as render_pages

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 375, "height": 812}


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
        if not found and not os.path.exists(playwright.chromium.executable_path):
            pytest.skip(
                "the report was NOT tried in a browser: apt-get install chromium, or playwright install chromium"
            )
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def address(results, report, tmp_path):
    """Return the address of the first page of a report."""
    wide = [replace(one, scores=replace(one.scores, text="a line that is wider than a phone " * 8)) for one in results]
    command = "python scripts/reproduce_tables.py " + "--methods=a.py:b " * 20
    for name, text in render_pages(report(wide, command=command, custom=["twin"])).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return (tmp_path / "index.html").as_uri()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("viewport", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_every_page_fits_its_screen_and_is_accessible(browser, address, viewport, scheme, name):
    page, said = browser.new_page(viewport=viewport, color_scheme=scheme), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address.replace("index.html", f"{name}.html"))
    assert "Attribution methods" in page.title()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe was NOT run: pip install axe-playwright-python"
    )
    # Only colours and sizes differ on the other screen.
    only = None if scheme == "light" else {"runOnly": ["color-contrast", "target-size", "meta-viewport"]}
    found = axe.Axe().run(page, options=only).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [] and said == []
    page.close()


ATTACK = "\"'><img src=x onerror=\"attacked = 1\"><script>attacked = 1</script></script><svg onload='attacked = 1'>"


def test_names_are_shown_and_not_run(browser, documents, results, report, tmp_path):
    renamed = json.loads(json.dumps(documents).replace('"twin"', json.dumps(ATTACK)))
    named = [
        replace(
            one,
            task=replace(one.task, title=ATTACK, note=ATTACK),
            scores=Scores(document["rows"], text=ATTACK, manifest=document["manifest"]),
        )
        for one, document in zip(results, renamed, strict=True)
    ]
    texts = {"command": ATTACK, "lead": ATTACK}
    data = report(named, titles={"best": ATTACK}, custom=[ATTACK], notes=[ATTACK], **texts)
    for name, text in render_pages(data).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        page, said, requests = browser.new_page(), [], []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, requests=requests: requests.append(request.url))
        page.goto((tmp_path / name).as_uri())
        page.wait_for_timeout(200)
        assert page.evaluate("typeof attacked") == "undefined" and said == []
        assert ATTACK in page.evaluate("document.body.textContent")
        assert [url for url in requests if not url.startswith("data:")] == [page.url.partition("#")[0]]
        page.close()


def column(page, place):
    cells = page.locator(f"#matrix-table tbody:first-of-type tr td:nth-of-type({place})")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.value)")


def test_the_matrix_sorts_by_any_column_with_blanks_last(browser, address):
    page = browser.new_page()
    page.goto(address)
    heads = page.locator("#matrix-table thead th[scope=col]")
    names = page.locator("#matrix-table tbody:first-of-type th").all_inner_texts()
    assert heads.nth(1).get_attribute("aria-sort") == "descending"
    for place in (*range(2, heads.count()), 1):
        values = column(page, place)
        heads.nth(place).locator("button").click()
        numbers = [float(value) for value in column(page, place) if value]
        assert numbers == sorted(numbers, reverse=True) and heads.nth(place).get_attribute("aria-sort") == "descending"
        heads.nth(place).locator("button").press("Enter")
        found = column(page, place)
        assert [float(value) for value in found if value] == sorted(numbers)
        assert sorted(found) == sorted(values) and all(found[: len(numbers)])
        assert page.locator("#matrix-table th[aria-sort]").count() == 1
    heads.first.locator("button").click()
    assert page.locator("#matrix-table tbody:first-of-type th").all_inner_texts() == sorted(names, key=str.lower)
    page.close()
