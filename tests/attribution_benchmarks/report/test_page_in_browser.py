"""The report in a real browser: Chromium without a window, on a screen of a desk and of a phone.

The browser is the system's (Debian: apt-get install chromium) or Playwright's own (python -m playwright install
chromium). Where there is none these tests are left out, and the summary says so; .ci/run installs one.
"""

import os
import pathlib
import shutil

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

from attribution_benchmarks.report import matrix
from attribution_benchmarks.report.page import Result
from attribution_benchmarks.report.page import page as render_page

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
OWN = "twin"  # scored in two of three benchmarks, as a user's own method may be


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


@pytest.fixture(scope="module")
def address(built, judged, documents, tmp_path_factory, definitions):
    directory = tmp_path_factory.mktemp("report")
    picture = directory / "examples.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (600, 2000, 3), np.uint8)).save(picture)
    results = [
        Result(document["benchmark"], document["benchmark"], f"Table of {document['benchmark']}", "A note.", document,
               "a line that is long enough to be wider than a phone " * 8, [picture])
        for document in documents
    ]  # fmt: skip
    settings = {"command": "python scripts/reproduce_tables.py " + "--methods=a.py:b " * 20, "lead": "", "footer": ""}
    text = render_page(
        built,
        matrix.agreement(built),
        judged,
        results,
        definitions,
        {},
        settings,
        own=[OWN],
        notes=["/a/long/path/without/any/space/" * 4],
    )
    page = directory / "index.html"
    page.write_text(text, encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def opened(browser, address):
    """Open the page; on leaving, nothing may have been said on the console or asked from outside."""
    contexts = []

    def open_page(viewport, scheme="light"):
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        contexts.append((context, said, asked))
        return page

    yield open_page
    for context, said, asked in contexts:
        context.close()
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [address]


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_page_fits_its_screen_and_its_pictures_load(opened, viewport):
    page = opened(viewport)
    assert page.title().startswith("Attribution methods")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    images = page.evaluate("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
    assert len(images) == 3 and min(images) > 0
    # What is wider than the screen scrolls by itself, and can be reached with the keyboard.
    boxes = page.locator(".scroll, .picture")
    for index in range(boxes.count()):
        assert boxes.nth(index).get_attribute("tabindex") == "0" and boxes.nth(index).get_attribute("aria-label")
    left = page.locator("#matrix-table tbody th").first
    before = left.bounding_box()["x"]
    page.evaluate("document.querySelector('#matrix .scroll, #matrix-table').parentElement.scrollLeft = 200")
    assert left.bounding_box()["x"] == pytest.approx(before, abs=1)  # names stay while figures scroll


def column(page, place):
    return page.locator(f"#matrix-table tbody:first-of-type tr td:nth-of-type({place})").evaluate_all(
        "cells => cells.map(cell => cell.dataset.value)"
    )


def test_tables_sort_by_any_column_with_blanks_last(opened):
    page = opened(WIDE)
    heads = page.locator("#matrix-table thead th[scope=col]")
    names = page.locator("#matrix-table tbody:first-of-type th").all_inner_texts()
    for place in range(1, heads.count()):
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
    # The controls below the line stay where they are.
    assert page.locator("#matrix-table tbody.controls tr").count() == 2


def test_the_table_of_a_metric_sorts_its_bars_with_it(opened):
    page = opened(WIDE)
    table = page.locator("#svea-drop ~ .scroll table").first
    table.locator("thead button", has_text="Score").click()
    shown = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [Number(row.cells[1].dataset.value),"
        " row.querySelector('svg.bar rect').getBoundingClientRect().width])"
    )
    values, widths = zip(*shown, strict=True)
    assert list(values) == sorted(values, reverse=True)
    assert len(set(np.sign(values))) == 1 and np.argmax(np.abs(values)) == np.argmax(widths)


def luminance(colour):
    channels = [float(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(opened, scheme):
    page = opened(NARROW, scheme)
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (scheme == "light")
    for selector, least in (("body", 7), ("figcaption", 4.5), ("nav a", 4.5), (".badge", 3), ("caption", 4.5)):
        ink = luminance(page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).color"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= least, selector


def test_a_method_of_ones_own_is_marked(opened):
    page = opened(WIDE)
    marked = page.locator("#matrix-table tr", has=page.locator(".badge"))
    assert marked.count() == 1 and OWN in marked.first.inner_text()
    assert page.locator("svg.bar .own").count() == 3  # the columns it was scored in


def test_in_print_everything_is_open_and_nothing_is_cut_off(opened):
    page = opened(WIDE)
    assert page.locator("details[open]").count() == 0
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF") and len(printed) > 20_000
    assert page.locator("details:not([open])").count() == 0
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})  # the text's width on A4
    assert page.evaluate("document.documentElement.scrollWidth") <= 760
    assert not page.locator("nav").first.is_visible()


def test_without_scripts_the_page_says_the_same(browser, address):
    context = browser.new_context(viewport=WIDE, java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("#matrix-table tbody:first-of-type tr").count() == 4
    context.close()


def test_the_page_is_one_file(address):
    folder = pathlib.Path(address.removeprefix("file://")).parent
    assert sorted(path.suffix for path in folder.iterdir()) == [".html", ".png"]
